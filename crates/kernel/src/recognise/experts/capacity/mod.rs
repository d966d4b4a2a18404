//! Finds experts with a capacity: tokens go to numbered slots of the experts they chose, by a matmul with a mask, and come back by
//! another one. Where no two tokens share a slot, rows sorted by expert take the place of slots.

mod proof;
mod rows;
mod symbols;
mod walk;
mod write;

pub(super) use walk::capacities;
