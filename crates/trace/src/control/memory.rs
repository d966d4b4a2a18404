//! Memories of a device: its own, and that of the host beside it, where there is more room.

use std::panic::Location;
use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, DenseData, ElementType, TensorType};

use crate::graph::Prim;
use crate::ops::{attrs, only};
use crate::stack;
use crate::tensor::Tensor;

/// A memory that a value of a program can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The device's own.
    Device,
    /// The host's, which the device reaches by itself.
    Host,
}

impl MemoryKind {
    /// Attributes of the calls that compilers know as a move of a value with so many axes; a device without such a memory
    /// leaves it where it is.
    pub(crate) fn calls(self, rank: usize) -> Vec<Attrs> {
        match self {
            MemoryKind::Device => vec![self.placement()],
            // Otherwise the loop that writes and the loop that reads may choose layouts of their own, and what lies between
            // them is brought back, transposed and sent again as a whole.
            MemoryKind::Host => vec![row_major(rank), self.placement()],
        }
    }

    fn placement(self) -> Attrs {
        let memory = match self {
            MemoryKind::Device => "device",
            MemoryKind::Host => "pinned_host",
        };
        let frontend = attrs([("_xla_buffer_placement", Attr::string(memory))]);
        attrs([
            ("call_target_name", Attr::string("annotate_device_placement")),
            ("has_side_effect", Attr::Bool(true)),
            ("mhlo.frontend_attributes", Attr::Dict(Arc::new(frontend))),
        ])
    }
}

/// Attributes of a call that pins the order of a value's axes in memory.
pub(crate) fn row_major(rank: usize) -> Attrs {
    let order: Vec<u8> = (0..rank as i64).rev().flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new(vec![rank as i64], ElementType::Index);
    let rules = Attr::Dense(Arc::new(Dense { ty, data: DenseData::Elements(order.into()) }));
    let layouts = || Attr::Array([rules.clone()].into());
    attrs([
        ("call_target_name", Attr::string("LayoutConstraint")),
        ("operand_layouts", layouts()),
        ("result_layouts", layouts()),
    ])
}

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
