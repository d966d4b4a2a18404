//! Memories of a device: its own, and that of the host beside it, where there is more room.

use std::panic::Location;
use std::sync::Arc;

use hlo::{Attr, Attrs};

use crate::graph::Prim;
use crate::ops::{attrs, only};
use crate::stack;
use crate::tensor::Tensor;

/// A memory that a value of a program can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The device's own.
    Device,
    /// The host's, which the device reaches by itself.
    Host,
}

impl Memory {
    /// Attributes of the call that compilers know as a move; a device without such a memory leaves the value where it is.
    pub(crate) fn placement(self) -> Attrs {
        let memory = match self {
            Memory::Device => "device",
            Memory::Host => "pinned_host",
        };
        let frontend = attrs([("_xla_buffer_placement", Attr::string(memory))]);
        attrs([
            ("call_target_name", Attr::string("annotate_device_placement")),
            ("has_side_effect", Attr::Bool(true)),
            ("mhlo.frontend_attributes", Attr::Dict(Arc::new(frontend))),
        ])
    }
}

impl Tensor {
    /// The value in another memory. What is in the host's can only be moved, sliced and stacked: bring it back to compute.
    #[track_caller]
    #[must_use]
    pub fn moved_to(&self, memory: Memory) -> Tensor {
        only(stack::push(Prim::Moved(memory), &[self], vec![self.spec().clone()], Location::caller()))
    }
}
