//! Programs written in Rust: ordinary functions over [`Tensor`]s become StableHLO, with gradients, loops and recomputation.
//!
//! ```
//! use tensor::DType;
//! use trace::{Donate, Spec, Tensor, grad};
//!
//! let x = Tensor::of(Spec::new(DType::F32, [4]));
//! let (function, _) = trace::trace("step", &x, Donate::Nothing, |x| grad(|x| (x * x).sum_all(), x))?;
//! assert_eq!(function.outputs[0].spec, Spec::new(DType::F32, [4]));
//! # Ok::<(), trace::Error>(())
//! ```
//!
//! A shape that does not fit stops the traced function; [`trace()`] returns the error with the user's line.

// The derive macro writes `::trace::…`, also in this crate's own tests.
extern crate self as trace;

mod control;
mod dtype_policy;
mod emit;
mod error;
mod function;
mod graph;
mod line;
mod ops;
pub mod random;
mod region;
mod sharding;
mod stack;
mod target;
mod tensor;
mod transform;
mod tree;

pub use ::tensor::Spec;
pub use control::{
    Branch, checkpoint, composite, cond, custom_call, custom_vjp, optimization_barrier, scan, scan_reversed, shard_map,
    switch, while_loop,
};
pub use dtype_policy::{DTypePolicy, ParseDTypePolicyError};
pub use error::{At, Error, refuse};
pub use function::{Donate, Function, Leaf, LeafShardings, Role, shapes_of, trace, trace_on};
pub use graph::{Direction, MemoryKind, RematPolicy};
pub use ops::collective::{Exchange, Over, Reduction, axis_index, sync_gradients};
pub use ops::contract::{Contraction, Precision};
pub use ops::convolve::Convolution;
pub use ops::index::Update;
pub use ops::linear::{Fourier, Side, Triangle, Triangular};
pub use ops::order::{Order, sort_together};
pub use ops::window::Window;
pub use random::{Key, Rows};
pub use sharding::{Axis, Dialect, LogicalAxisRules, Mesh, Network, PartitionSpec, Site, Torus, current_rules};
pub use stack::scope;
pub use target::{CompileTarget, current_target, for_target};
pub use tensor::Tensor;
pub use trace_derive::Tree;
pub use transform::{grad, jvp, value_and_grad, value_and_grad_with, vjp, vmap, vmap_along, vmap_axes};
pub use tree::{Path, Tree};

/// The guide, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/trace.md")]
struct Guide;

/// The guide of several devices.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/mesh.md")]
struct MeshGuide;
