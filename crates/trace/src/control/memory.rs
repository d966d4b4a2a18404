//! Memories of a device: its own, and that of the host beside it, where there is more room.

use std::panic::Location;

use crate::graph::{MemoryKind, Prim};
use crate::ops::only;
use crate::stack;
use crate::tensor::Tensor;

impl Tensor {
    /// The value in another memory. What is in the host's can only be moved, sliced and stacked: bring it back to compute.
    #[track_caller]
    #[must_use]
    pub fn moved_to(&self, memory: MemoryKind) -> Tensor {
        only(stack::push(Prim::Moved(memory), &[self], vec![self.spec().clone()], Location::caller()))
    }

    /// The value with its axes in memory in the order they are written in, the last one varying fastest. Compilers choose an
    /// order for each value; where a loop carries a large one that comes from outside, another order costs two copies of it.
    #[track_caller]
    #[must_use]
    pub fn in_order(&self) -> Tensor {
        only(stack::push(Prim::Ordered, &[self], vec![self.spec().clone()], Location::caller()))
    }
}
