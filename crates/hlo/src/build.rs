//! Builder: writes ops into a function with inferred result types.
