//! Weights as matmuls read them on a mesh.

use trace::{Tensor, custom_vjp};

/// A weight as a matmul reads it on a mesh: all-gathered where it is sharded, so that the matmul needs no further
/// exchange; its gradient is laid out as the weight is stored. Left to itself the partitioner may move the batch instead, which
/// is far larger.
#[track_caller]
pub(crate) fn at_use(weight: &Tensor, logical_axes: &[&str]) -> Tensor {
    let Some(rules) = trace::current_rules() else { return weight.clone() };
    let of_use = rules.sharding(logical_axes, weight.dims());
    let stored: Vec<&str> = logical_axes.iter().map(|&m| if m == "embed" { STORED_EMBED } else { m }).collect();
    let of_store = rules.sharding(&stored, weight.dims());
    if of_use == of_store {
        return weight.clone();
    }
    custom_vjp(
        weight,
        |weight| weight.with_sharding_constraint(&of_use),
        move |_: &Tensor, _: &Tensor, ct: &Tensor| ct.with_sharding_constraint(&of_store),
    )
}

/// What the width of a stored parameter is to the logical axis rules; that of a value is whole.
pub(crate) const STORED_EMBED: &str = "stored_embed";
