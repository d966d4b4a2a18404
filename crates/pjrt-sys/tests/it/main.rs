//! Holds the declarations to the C header.

mod offsets;
mod short_table;
mod sizes;
