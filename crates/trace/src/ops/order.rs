//! Sorting and the largest few.

use hlo::{Attr, Attrs, OpKind};
use tensor::DType;

use crate::graph::Combine;
use crate::ops::{attrs, only, write};
use crate::tensor::Tensor;

/// Which comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// Tensors of one shape sorted along an axis by the first of them; the order of equals is kept.
#[track_caller]
pub fn sort_together(tensors: &[Tensor], axis: isize, order: Order) -> Vec<Tensor> {
    let Some(first) = tensors.first() else { return Vec::new() };
    let combine = if order == Order::Ascending { Combine::Ascending } else { Combine::Descending };
    let attrs = attrs([("dimension", Attr::i64(first.axis(axis) as i64)), ("is_stable", Attr::Bool(true))]);
    write((OpKind::Sort, attrs, Some(combine)), &tensors.iter().collect::<Vec<_>>(), None)
}

impl Tensor {
    /// Sorted along an axis.
    #[track_caller]
    #[must_use]
    pub fn sort(&self, axis: isize, order: Order) -> Tensor {
        only(sort_together(std::slice::from_ref(self), axis, order))
    }

    /// Positions that would sort along an axis, as `i32`.
    #[track_caller]
    #[must_use]
    pub fn argsort(&self, axis: isize, order: Order) -> Tensor {
        let positions = Tensor::iota(DType::I32, self.dims(), self.axis(axis));
        only(sort_together(&[self.clone(), positions], axis, order).split_off(1))
    }

    /// The `k` largest along the last axis, largest first, and their positions as `i32`.
    #[track_caller]
    #[must_use]
    pub fn top_k(&self, k: usize) -> (Tensor, Tensor) {
        let axis = self.rank().saturating_sub(1);
        let positions = Tensor::iota(DType::I32, self.dims(), axis);
        let sorted = sort_together(&[self.clone(), positions], -1, Order::Descending);
        (sorted[0].slice(-1, 0..k), sorted[1].slice(-1, 0..k))
    }
}

/// Positions from which a sort took its elements.
fn permutation(attrs: &Attrs, combine: Option<Combine>, ins: &[Tensor]) -> (usize, Tensor) {
    let axis = attrs.get("dimension").and_then(Attr::as_int).unwrap_or(0) as usize;
    let order = if combine == Some(Combine::Descending) { Order::Descending } else { Order::Ascending };
    (axis, ins[0].argsort(axis as isize, order))
}

/// Cotangents of a sort's operands: each goes back to where its element came from.
pub(crate) fn transposed(
    attrs: &Attrs,
    combine: Option<Combine>,
    ins: &[Tensor],
    cts: &[Option<Tensor>],
) -> Vec<Option<Tensor>> {
    let (axis, from) = permutation(attrs, combine, ins);
    // The inverse of a permutation is what sorts it.
    let back = from.argsort(axis as isize, Order::Ascending);
    cts.iter().map(|ct| ct.as_ref().map(|ct| ct.take_along(axis as isize, &back))).collect()
}

/// Tangents of a sort's results.
pub(crate) fn pushed(
    attrs: &Attrs,
    combine: Option<Combine>,
    ins: &[Tensor],
    tangents: &[Option<Tensor>],
) -> Vec<Option<Tensor>> {
    let (axis, from) = permutation(attrs, combine, ins);
    tangents.iter().map(|tangent| tangent.as_ref().map(|t| t.take_along(axis as isize, &from))).collect()
}

/// Attributes of a sort with the axis of a batch in front.
pub(crate) fn batched(attrs: &Attrs) -> Attrs {
    let mut attrs = attrs.clone();
    let axis = attrs.get("dimension").and_then(Attr::as_int).unwrap_or(0);
    attrs.set("dimension", Attr::i64(axis + 1));
    attrs
}
