//! Calls that compilers know as a move of a value to another memory of its device, or as the order of its axes there.

use std::sync::Arc;

use crate::{Attr, Attrs, Dense, DenseData, ElementType, TensorType};

/// The device's own memory.
pub const DEVICE: &str = "device";
/// Memory of the host that the device reaches by itself.
pub const PINNED_HOST: &str = "pinned_host";

/// Attributes of a call that moves a value to a memory. A device without such a memory leaves the value where it is.
pub fn placement(memory: &str) -> Attrs {
    let mut frontend = Attrs::new();
    frontend.set("_xla_buffer_placement", Attr::string(memory));
    let mut attrs = Attrs::new();
    attrs.set("call_target_name", Attr::string("annotate_device_placement"));
    attrs.set("has_side_effect", Attr::Bool(true));
    attrs.set("mhlo.frontend_attributes", Attr::Dict(Arc::new(frontend)));
    attrs
}

/// Attributes of a call that pins the order of a value's axes in memory: the last one varies fastest.
pub fn row_major(rank: usize) -> Attrs {
    let order: Vec<u8> = (0..rank as i64).rev().flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new(vec![rank as i64], ElementType::Index);
    let rules = Attr::Dense(Arc::new(Dense { ty, data: DenseData::Elements(order.into()) }));
    let layouts = || Attr::Array([rules.clone()].into());
    let mut attrs = Attrs::new();
    attrs.set("call_target_name", Attr::string("LayoutConstraint"));
    attrs.set("operand_layouts", layouts());
    attrs.set("result_layouts", layouts());
    attrs
}
