//! Host values: element types, shapes, literals and their comparison.
