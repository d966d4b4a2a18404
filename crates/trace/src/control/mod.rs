//! Structure of traced programs as users write it: loops, branches, rematerialization, functions of one device's parts, and
//! derivatives of one's own.

mod composite;
mod cond;
mod custom;
mod manual;
mod memory;
mod remat;
mod scan;
mod while_;

use std::panic::Location;

use hlo::{Attrs, OpKind};

use crate::graph::Prim;
use crate::ops::{only, write};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

pub use composite::composite;
pub use cond::{Branch, cond, switch};
pub(crate) use cond::{push as push_cond, united as united_branches};
pub use custom::{custom_call, custom_vjp};
pub use manual::shard_map;
pub(crate) use manual::{inside as inside_shard_map, push as push_manual};
pub use remat::checkpoint;
pub(crate) use scan::{directed as scan_directed, push as push_scan};
pub use scan::{scan, scan_reversed};
pub use while_::while_loop;

/// The same values, which a compiler computes before what uses them and does not compute again.
#[track_caller]
pub fn optimization_barrier<T: Tree>(values: &T) -> T {
    let leaves = values.leaves();
    let behind = write((OpKind::OptimizationBarrier, Attrs::new(), None), &leaves.iter().collect::<Vec<_>>(), None);
    values.with_leaves(behind)
}

impl Tensor {
    /// The value under a name that [`RematPolicy::SaveOnlyTheseNames`](crate::RematPolicy::SaveOnlyTheseNames) and
    /// [`RematPolicy::Offload`](crate::RematPolicy::Offload) know.
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
