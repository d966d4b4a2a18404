//! What the compiled program is made of: routines over raw memory, each chosen for the machine at run time.
//!
//! Every routine works on dense row-major buffers or on explicit element strides, and never allocates in steady state:
//! scratch comes from the caller or from the worker's own arena.
// Indices run over several arrays at once, and callbacks are plain closures.
#![allow(clippy::needless_range_loop, clippy::type_complexity)]

pub(crate) mod attention;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod fourier;
pub(crate) mod gather;
pub(crate) mod isa;
pub(crate) mod loops;
pub(crate) mod machine;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod random;
pub(crate) mod scalar;
pub(crate) mod scatter;
pub(crate) mod select_and_scatter;
pub(crate) mod sort;
pub(crate) mod variadic_reduce;
pub(crate) mod wide;
pub(crate) mod window;

/// What a kernel runs on: the instruction sets of this machine and the threads it may use.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) machine: machine::Machine,
    pub(crate) pool: pool::Pool,
}
