//! Sharding constraints: values that are laid out so on the mesh.

use std::panic::Location;
use std::rc::Rc;

use crate::error::misuse;
use crate::graph::Prim;
use crate::ops::only;
use crate::sharding::{PartitionSpec, current_rules};
use crate::stack;
use crate::tensor::Tensor;

impl Tensor {
    /// The value, laid out so where the function runs on a mesh; its gradient is laid out alike.
    #[track_caller]
    #[must_use]
    pub fn with_sharding_constraint(&self, sharding: &PartitionSpec) -> Tensor {
        let Some(rules) = current_rules() else { return self.clone() };
        if let Err(error) = sharding.parts(&rules.mesh, self.dims()) {
            misuse(Location::caller(), error.to_string());
        }
        constrained(self, sharding)
    }

    /// The value, laid out by what its axes mean, as in `["batch", "sequence", "embed"]`. Without a mesh, or where the
    /// strategy says nothing of them, the value as it is.
    #[track_caller]
    #[must_use]
    pub fn with_logical_axes(&self, logical_axes: &[&str]) -> Tensor {
        let Some(rules) = current_rules() else { return self.clone() };
        if logical_axes.len() != self.rank() {
            misuse(Location::caller(), format!("{} logical axes for the axes of {}", logical_axes.len(), self.spec()));
        }
        let sharding = rules.sharding(logical_axes, self.dims());
        if sharding.is_replicated() { self.clone() } else { constrained(self, &sharding) }
    }
}

/// The value, laid out so.
#[track_caller]
pub(crate) fn constrained(tensor: &Tensor, sharding: &PartitionSpec) -> Tensor {
    let prim = Prim::Shard(Rc::new(sharding.clone()));
    only(stack::push(prim, &[tensor], vec![tensor.spec().clone()], Location::caller()))
}
