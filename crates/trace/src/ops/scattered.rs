//! Derivatives of scatters that keep extremes or multiply: what the operand and each update weigh in the result.

use hlo::dims::ScatterDims;

use crate::graph::Combine;
use crate::ops::index::{Update, gather_of, is_inside, window_sizes};
use crate::tensor::Tensor;

/// Derivatives of a scatter's elements: by the element of the operand at the same place, and by each update.
pub(crate) struct Weights {
    pub(crate) operand: Tensor,
    /// 0 for updates that stick out, which are left out.
    pub(crate) updates: Tensor,
}

/// The weights of a scatter; `None` for one that adds or sets, whose derivatives are scatters and gathers themselves.
pub(crate) fn weights(combine: Option<Combine>, dims: &ScatterDims, ins: &[Tensor]) -> Option<Weights> {
    match combine {
        Some(Combine::Maximum) => Some(extreme(Update::Maximum, dims, ins)),
        Some(Combine::Minimum) => Some(extreme(Update::Minimum, dims, ins)),
        Some(Combine::Multiply) => Some(product(dims, ins)),
        _ => None,
    }
}

/// What updates would read of a tensor of the operand's shape.
pub(crate) fn read(dims: &ScatterDims, ins: &[Tensor], from: &Tensor) -> Tensor {
    let sizes = window_sizes(dims, &ins[0], &ins[2]);
    let read = from.gather(&ins[1], gather_of(dims), &sizes);
    is_inside(dims, &sizes, ins).select(&read, &read.scalar_like(0.0))
}

/// Updates summed at their places.
pub(crate) fn summed(dims: &ScatterDims, ins: &[Tensor], updates: &Tensor) -> Tensor {
    ins[0].zeros_like().scatter(&ins[1], updates, dims.clone(), Update::Add)
}

/// All that equal the extreme share alike.
fn extreme(update: Update, dims: &ScatterDims, ins: &[Tensor]) -> Weights {
    let (operand, updates) = (&ins[0], &ins[2]);
    let out = operand.scatter(&ins[1], updates, dims.clone(), update);
    let stayed = operand.equals(&out).cast(operand.dtype());
    let sizes = window_sizes(dims, operand, updates);
    let won = updates.equals(&read(dims, ins, &out)).and(&is_inside(dims, &sizes, ins)).cast(operand.dtype());
    let count = &stayed + &summed(dims, ins, &won);
    // Nothing equals a NaN: there the count is 0.
    let share = &count.full_like(1.0) / &count.maximum(&count.full_like(1.0));
    Weights { operand: &stayed * &share, updates: &won * &read(dims, ins, &share) }
}

/// An update weighs the product of all else at its place; with zeros among the updates, what is left without them.
fn product(dims: &ScatterDims, ins: &[Tensor]) -> Weights {
    let (operand, updates) = (&ins[0], &ins[2]);
    let factors = |updates: &Tensor| operand.full_like(1.0).scatter(&ins[1], updates, dims.clone(), Update::Multiply);
    let is_zero = updates.equals(&updates.zeros_like());
    let others = is_zero.select(&updates.full_like(1.0), updates);
    let product = read(dims, ins, &(operand * &factors(&others)));
    let zeros = read(dims, ins, &summed(dims, ins, &is_zero.cast(updates.dtype())));
    // Of a place with one zero only that zero weighs anything; with more, nothing does.
    let weighs = zeros.equals(&is_zero.cast(updates.dtype()));
    let of_updates = weighs.select(&(&product / &others), &updates.zeros_like());
    Weights { operand: factors(updates), updates: of_updates }
}
