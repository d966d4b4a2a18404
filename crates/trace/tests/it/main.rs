//! Tests of the crate: against JAX, against finite differences, and of what users see when they err.
// Cases are tables of tuples and functions; naming each shape of row would say less.
#![allow(clippy::type_complexity)]

mod errors;
mod gradients;
mod random;
mod run;
mod sharding;
mod tree;
mod vmap;
