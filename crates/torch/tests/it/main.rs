//! Tests of the crate as its users see it.

mod archives;
mod damaged;
mod docs;
mod layers;
