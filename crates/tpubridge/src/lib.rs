//! Run, train and plan models on Google TPUs from Rust: everything under one name.
//!
//! `use tpubridge::prelude::*` is enough to write a model, differentiate it, run it on any device, train it, and ask what a
//! slice makes of it.
//!
//! ```
//! use tpubridge::prelude::*;
//!
//! #[derive(Clone, Tree)]
//! struct Line {
//!     slope: Tensor,
//!     offset: Tensor,
//! }
//!
//! // Any device: a TPU, a GPU, or the CPU, which is always there.
//! let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu))?;
//! let mut step = backend.jit(|(line, x, y): &(Line, Tensor, Tensor)| {
//!     let loss = |line: &Line| (&(x * &line.slope) + &line.offset - y).square().mean_all();
//!     let (loss, gradient) = value_and_grad(loss, line);
//!     (line.zip(&gradient, |value, slope| value - &(slope * 0.1)), loss)
//! });
//! let mut line = Line { slope: Tensor::from(0.0f32), offset: Tensor::from(0.0f32) };
//! let (x, y) = (Tensor::from([0.0f32, 1.0, 2.0]), Tensor::from([1.0f32, 3.0, 5.0]));
//! let mut loss = Tensor::from(0.0f32);
//! for _ in 0..200 {
//!     (line, loss) = step.call((line, x.clone(), y.clone()))?;
//! }
//! assert!(loss.item::<f32>()? < 1e-4);
//! assert!((line.slope.item::<f32>()? - 2.0).abs() < 0.05);
//! # Ok::<(), Error>(())
//! ```
//!
//! Each crate of the project is a module here. The folder `examples` has eight programs to begin with.

mod error;
pub mod prelude;
mod slices;

pub use ::plan;
pub use chips;
pub use compile;
pub use data;
pub use fleet;
pub use hlo;
pub use infer;
pub use kernel;
pub use nn;
pub use pjrt;
pub use runtime;
pub use tensor;
pub use trace;
pub use train;
pub use weights;
pub use xla;

pub use error::{Error, NoCompiler, Result};
pub use slices::{compile_worker, fit, lower, plan, slice_compiler};

/// The guides, whose examples are tests.
#[cfg(doctest)]
mod guides {
    macro_rules! guides {
        ($($name:ident $file:literal)*) => {$(
            #[doc = include_str!(concat!("../../../docs/", $file))]
            struct $name;
        )*};
    }
    guides! {
        Buckets "howto/buckets.md"
        Checkpoints "howto/checkpoints.md"
        Processes "howto/processes.md"
        BackendPage "reference/backend.md"
        Data "reference/data.md"
        Kernels "reference/kernels.md"
        Models "reference/models.md"
        Optimize "reference/optimize.md"
    }
}
