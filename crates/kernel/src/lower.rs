//! Puts kernels into a program for a TPU.

/// To be written.
pub fn lower() {}
