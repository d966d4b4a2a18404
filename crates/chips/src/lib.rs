//! Facts about TPUs: generations, slices, hosts, memory, rates, prices.
