//! Kernels of this crate, each with its plain decomposition.

pub mod flash;
