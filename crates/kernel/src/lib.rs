//! Mosaic TPU kernels written in Rust: a typed builder, the text the TPU compiler takes, an interpreter, and kernels.
//!
//! A kernel is data ([`Kernel`]): [`KernelBuilder`] writes and checks it, [`Kernel::text`] is what the compiler reads,
//! [`interpret`] runs it on host arrays, [`call`] puts it into a program, [`lower`] does so wherever one of [`composites`]
//! names one of [`kernels`].
//!
//! ```
//! use chips::Generation;
//! use kernel::{KernelBuilder, Semantics, interpret};
//! use tensor::{DType, Literal, Spec};
//!
//! let array = Spec::new(DType::F32, [16, 128]);
//! let mut builder = KernelBuilder::new("twice", Generation::V5e);
//! let steps = builder.grid(2, Semantics::Parallel);
//! let x = builder.input("x", array.clone(), [8, 128], |map| vec![map.program_id(steps), map.i32(0)]);
//! let y = builder.output("y", array, [8, 128], |map| vec![map.program_id(steps), map.i32(0)]);
//! let twice = builder.body(|body| body.store(y, body.load(x) * 2.0))?;
//! let results = interpret(&twice, &[Literal::from([[1.5f32; 128]; 16])])?;
//! assert_eq!(results[0], Literal::from([[3.0f32; 128]; 16]));
//! # Ok::<(), kernel::Error>(())
//! ```

mod builder;
mod call;
pub mod composites;
mod config;
mod cost;
mod error;
mod expression;
mod interpret;
pub mod ir;
mod kernel;
pub mod kernels;
mod lower;
mod recognise;
mod sparse_core;
mod text;
mod vmem;
mod writer;

/// Version of what [`lower`] puts into programs; answers remembered for a program depend on it. It changes with every kernel.
pub const VERSION: u32 = 11;

pub use builder::KernelBuilder;
pub use call::{TARGET, call};
pub use cost::LEAST_PASS;
pub use error::Error;
pub use expression::Operand;
pub use interpret::interpret;
pub use ir::{MatMulForm, MatmulPrecision};
pub use kernel::{
    AxisId, BlockSpec, Buffers, CostEstimate, GridAxis, Kernel, KernelCore, KernelMemory, Reference, ReferenceRole,
    Semantics,
};
pub use lower::{KernelTarget, Lowered, lower};
pub use recognise::{
    FoundAttention, FoundNorm, LossForm, Recognised, RecognisedExperts, RecognisedLookups, RecognisedLosses,
    RecognisedNorms, recognise, recognise_experts, recognise_lookups, recognise_losses, recognise_norms,
};
pub use sparse_core::SparseCores;
pub use writer::{Copying, MemorySlice, Val, Writer};
