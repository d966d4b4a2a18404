//! Calls that compilers know as a move between memories, or as an order of axes in memory.

use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, DenseData, ElementType, TensorType};

use crate::graph::MemoryKind;
use crate::ops::attrs;

impl MemoryKind {
    /// Attributes of the calls that compilers know as a move of a value with so many axes; a device without such a memory
    /// leaves it where it is.
    pub(super) fn calls(self, rank: usize) -> Vec<Attrs> {
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
pub(super) fn row_major(rank: usize) -> Attrs {
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
