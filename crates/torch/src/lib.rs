//! PyTorch programs: archives of `torch.export`, read and translated to our traced graph, without Python.
//!
//! [`Archive::open`] reads a `.pt2` file of PyTorch 2.5 to 2.15; tensors stay in the file until [`Archive::tensor`].
//! [`graph::ExportedProgram::apply`] runs the program over traced tensors: it can be differentiated, sharded and compiled like a
//! model written in Rust. [`graph::ExportedProgram::trace`] gives its StableHLO.
//!
//! ```
//! use torch::graph::SymExpr;
//!
//! let size = SymExpr::parse("Mul(Integer(2), Symbol('s77', positive=True, integer=True))")?;
//! assert_eq!(size.value(&[("s77".to_string(), 4)].into())?, 8);
//! # Ok::<(), torch::Error>(())
//! ```

pub mod archive;
mod error;
pub mod graph;
pub mod translate;

pub use archive::Archive;
pub use error::Error;
pub use translate::{ApplyOptions, LayerLoop, ProgramInputs, ProgramMode, ProgramOutputs, StackedTensor};
