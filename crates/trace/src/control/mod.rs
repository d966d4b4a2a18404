//! Structure of traced programs: loops, branches, recomputation, and derivatives of one's own.

mod composite;
mod cond;
mod custom;
mod memory;
mod remat;
mod scan;
mod while_;

use std::panic::Location;

use crate::Spec;
use crate::graph::{Graph, Prim};
use crate::ops::only;
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane};
use crate::tree::Tree;

pub use composite::composite;
pub(crate) use composite::{Composite, batched as composite_batched};
pub use cond::{Branch, cond, switch};
pub(crate) use cond::{Cond, batched as cond_batched, jvp as cond_jvp, vjp as cond_vjp};
pub(crate) use custom::{
    Custom, Derivative, batched as custom_batched, jvp as custom_jvp_of, vjp as custom_vjp_of, with_derivative,
};
pub use custom::{custom_call, custom_vjp};
pub use memory::MemoryKind;
pub(crate) use memory::row_major;
pub(crate) use remat::{Remat, batched as remat_batched, vjp as remat_vjp};
pub use remat::{RematPolicy, checkpoint};
pub use scan::{Direction, scan, scan_reversed};
pub(crate) use scan::{Scan, batched as scan_batched, jvp as scan_jvp, vjp as scan_vjp};
pub use while_::while_loop;
pub(crate) use while_::{While, batched as while_batched, jvp as while_jvp};

/// The value, through which no derivative passes.
#[track_caller]
pub(crate) fn stopped(tensor: &Tensor) -> Tensor {
    only(stack::push(Prim::Stop, &[tensor], vec![tensor.spec().clone()], Location::caller()))
}

impl Tensor {
    /// The value under a name that [`RematPolicy::SaveOnlyTheseNames`] and [`RematPolicy::Offload`] know.
    #[track_caller]
    #[must_use]
    pub fn named(&self, name: &str) -> Tensor {
        only(stack::push(Prim::Named(name.into()), &[self], vec![self.spec().clone()], Location::caller()))
    }
}

/// Stops the trace unless two structures have the same leaves, type by type.
fn same_leaves<T: Tree>(at: &'static Location<'static>, what: &str, before: &T, after: &T) {
    let (paths, before, after) = (before.paths(), before.specs(), after.specs());
    if before.len() != after.len() {
        let message = format!("{what} has {} tensors before and {} after", before.len(), after.len());
        crate::error::misuse(at, message);
    }
    for ((path, before), after) in paths.iter().zip(&before).zip(&after) {
        if before != after {
            let path = if path.is_empty() { String::new() } else { format!(" `{path}`") };
            crate::error::misuse(at, format!("{what}{path} is {before} before and {after} after"));
        }
    }
}

/// Traces a graph for a batch: its inputs are like these lanes; `finish` makes outputs of what the graph gives.
pub(crate) fn batched_body(
    body: &Graph,
    lanes: &[Lane],
    size: usize,
    finish: impl FnOnce(Vec<Lane>) -> Vec<Tensor>,
) -> stack::Closed {
    let specs: Vec<Spec> = lanes.iter().map(|lane| lane.tensor.spec().clone()).collect();
    stack::closed(&specs, |args| {
        let inner: Vec<Lane> =
            args.into_iter().zip(lanes).map(|(tensor, lane)| Lane { tensor, is_batched: lane.is_batched }).collect();
        finish(transform::batch(body, &inner, size))
    })
}

/// Every lane with the axis of the batch.
pub(crate) fn spread(lanes: Vec<Lane>, size: usize) -> Vec<Tensor> {
    lanes.iter().map(|lane| lane.spread(size)).collect()
}
