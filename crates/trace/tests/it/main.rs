//! Tests of the crate: against JAX, against finite differences, and of what users see when they err.

mod errors;
mod gradients;
mod random;
mod run;
mod tree;
mod vmap;
