//! The whole table against the lists it was made from.

mod figures;
mod hostile;
mod names;
mod overrides;
mod slices;
