//! Contractions of tensors: `dot_general`, `matmul` and `einsum`.

use std::panic::Location;
use std::sync::Arc;

use hlo::dims::DotDims;
use hlo::{Attr, Attrs, Keyword, OpKind};
use tensor::DType;

use crate::Spec;
use crate::error::misuse;
use crate::line;
use crate::ops::lane::Lane;
use crate::ops::{attrs, op_as};
use crate::tensor::Tensor;

/// Which axes of two tensors are summed over, and which go along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contraction {
    /// Axes of the left tensor that go along with those of the right.
    pub lhs_batch: Vec<usize>,
    /// Axes of the right tensor that go along.
    pub rhs_batch: Vec<usize>,
    /// Axes of the left tensor that are summed over.
    pub lhs_sum: Vec<usize>,
    /// Axes of the right tensor that are summed over.
    pub rhs_sum: Vec<usize>,
}

/// Precision of a matmul of `f32` tensors where the device has cheaper ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// The device's usual way: one pass of bf16 on a TPU.
    #[default]
    Default,
    /// Three passes of bf16 on a TPU.
    High,
    /// As exact as the type.
    Highest,
}

impl Precision {
    fn attr(self) -> Attr {
        let keyword = match self {
            Precision::Default => Keyword::PrecisionDefault,
            Precision::High => Keyword::PrecisionHigh,
            Precision::Highest => Keyword::PrecisionHighest,
        };
        Attr::Array([Attr::Keyword(keyword), Attr::Keyword(keyword)].into())
    }
}

impl Tensor {
    /// The general contraction (`dot_general`); the result has the batch axes, then the left's others, then the right's.
    #[track_caller]
    #[must_use]
    pub fn dot_general(&self, rhs: &Tensor, contraction: &Contraction, result: DType, precision: Precision) -> Tensor {
        let axes = |list: &[usize]| list.iter().map(|&axis| axis as i64).collect();
        let dims = DotDims {
            lhs_batching: axes(&contraction.lhs_batch),
            rhs_batching: axes(&contraction.rhs_batch),
            lhs_contracting: axes(&contraction.lhs_sum),
            rhs_contracting: axes(&contraction.rhs_sum),
        };
        let attrs =
            attrs([("dot_dimension_numbers", Attr::Dot(Arc::new(dims))), ("precision_config", precision.attr())]);
        contract(self, rhs, contraction, attrs, result)
    }

    /// Matmul over the last axis of this and the last but one of `rhs`; axes before are batches, broadcast together. A vector is
    /// a row on the left and a column on the right, and the result has no axis for it.
    #[track_caller]
    #[must_use]
    pub fn matmul(&self, rhs: &Tensor) -> Tensor {
        let _line = line::of(Location::caller());
        if self.rank() == 0 || rhs.rank() == 0 {
            misuse(
                Location::caller(),
                format!("matmul of {} and {}: a scalar has no axis to contract, multiply it", self.spec(), rhs.spec()),
            );
        }
        if self.rank() == 1 {
            return self.expand(0).matmul(rhs).squeeze(if rhs.rank() == 1 { 0 } else { -2 });
        }
        if rhs.rank() == 1 {
            return self.matmul(&rhs.expand(1)).squeeze(-1);
        }
        if self.dim(-1) != rhs.dim(-2) {
            misuse(
                Location::caller(),
                format!(
                    "matmul of {} and {}: sizes {} and {} do not match",
                    self.spec(),
                    rhs.spec(),
                    self.dim(-1),
                    rhs.dim(-2)
                ),
            );
        }
        if rhs.rank() == 2 {
            let contraction =
                Contraction { lhs_sum: vec![self.rank() - 1], rhs_sum: vec![0], ..Contraction::default() };
            return self.dot_general(rhs, &contraction, self.dtype(), Precision::Default);
        }
        let (l, r) = (self.rank() - 2, rhs.rank() - 2);
        let batch: Vec<usize> = if self.dims()[..l] == rhs.dims()[..r] {
            self.dims()[..l].to_vec()
        } else {
            let count = l.max(r);
            (0..count)
                .map(|n| {
                    let size =
                        |tensor: &Tensor, rank: usize| (n + rank).checked_sub(count).map_or(1, |at| tensor.dims()[at]);
                    size(self, l).max(size(rhs, r))
                })
                .collect()
        };
        let whole = |tensor: &Tensor| {
            let dims: Vec<usize> = batch.iter().chain(&tensor.dims()[tensor.rank() - 2..]).copied().collect();
            tensor.broadcast_to(&dims)
        };
        let axes: Vec<usize> = (0..batch.len()).collect();
        let contraction = Contraction {
            lhs_batch: axes.clone(),
            rhs_batch: axes,
            lhs_sum: vec![batch.len() + 1],
            rhs_sum: vec![batch.len()],
        };
        whole(self).dot_general(&whole(rhs), &contraction, self.dtype(), Precision::Default)
    }

    /// Einstein's sum of two tensors, as in `bqhd,bkhd->bhqk`.
    #[track_caller]
    #[must_use]
    pub fn einsum(&self, equation: &str, rhs: &Tensor) -> Tensor {
        self.einsum_as(equation, rhs, self.dtype())
    }

    /// [`Tensor::einsum`] with another type of result, such as `f32` sums of `bf16` operands.
    #[track_caller]
    #[must_use]
    pub fn einsum_as(&self, equation: &str, rhs: &Tensor, result: DType) -> Tensor {
        let at = Location::caller();
        let malformed = || -> ! { misuse(at, format!("`{equation}` is not of the form `ab,bc->ac`")) };
        let Some((operands, output)) = equation.split_once("->") else { malformed() };
        let Some((left, right)) = operands.split_once(',') else { malformed() };
        let letters = |text: &str| text.trim().chars().collect::<Vec<char>>();
        let (mut left, mut right, output) = (letters(left), letters(right), letters(output));
        if left.len() != self.rank() || right.len() != rhs.rank() {
            misuse(at, format!("`{equation}` of {} and {}: the numbers of axes differ", self.spec(), rhs.spec()));
        }
        // What occurs on one side only and not in the result is summed before.
        let alone = |own: &[char], other: &[char]| -> Vec<usize> {
            (0..own.len()).filter(|&n| !other.contains(&own[n]) && !output.contains(&own[n])).collect()
        };
        let (left_alone, right_alone) = (alone(&left, &right), alone(&right, &left));
        let (lhs, rhs) = (self.sum(&left_alone), rhs.sum(&right_alone));
        let drop = |own: &mut Vec<char>, alone: &[usize]| {
            let mut n = 0;
            own.retain(|_| {
                n += 1;
                !alone.contains(&(n - 1))
            });
        };
        drop(&mut left, &left_alone);
        drop(&mut right, &right_alone);
        let position = |list: &[char], letter: char| list.iter().position(|&have| have == letter);
        let mut contraction = Contraction::default();
        let mut order = Vec::new();
        for (n, &letter) in left.iter().enumerate() {
            if let Some(m) = position(&right, letter) {
                if lhs.dims()[n] != rhs.dims()[m] {
                    misuse(at, format!("`{equation}` of {} and {}: sizes of {letter} differ", lhs.spec(), rhs.spec()));
                }
                if output.contains(&letter) {
                    contraction.lhs_batch.push(n);
                    contraction.rhs_batch.push(m);
                    order.push(letter);
                } else {
                    contraction.lhs_sum.push(n);
                    contraction.rhs_sum.push(m);
                }
            }
        }
        order.extend(left.iter().filter(|letter| !right.contains(letter)));
        order.extend(right.iter().filter(|letter| !left.contains(letter)));
        if order.len() != output.len() || order.iter().any(|letter| !output.contains(letter)) {
            malformed();
        }
        let dot = lhs.dot_general(&rhs, &contraction, result, Precision::Default);
        let permutation: Vec<usize> = output.iter().filter_map(|&letter| position(&order, letter)).collect();
        dot.transpose(&permutation)
    }
}

/// Writes a contraction, with the result's shape worked out.
#[track_caller]
fn contract(lhs: &Tensor, rhs: &Tensor, contraction: &Contraction, attrs: Attrs, result: DType) -> Tensor {
    let at = Location::caller();
    let size = |tensor: &Tensor, axis: usize| match tensor.dims().get(axis) {
        Some(&size) => size,
        None => misuse(at, format!("axis {axis} of {}", tensor.spec())),
    };
    let mut dims: Vec<usize> = contraction.lhs_batch.iter().map(|&axis| size(lhs, axis)).collect();
    dims.extend(free(lhs, &contraction.lhs_batch, &contraction.lhs_sum).iter().map(|&axis| lhs.dims()[axis]));
    dims.extend(free(rhs, &contraction.rhs_batch, &contraction.rhs_sum).iter().map(|&axis| rhs.dims()[axis]));
    op_as(OpKind::DotGeneral, &[lhs, rhs], attrs, Spec::new(result, dims))
}

/// Axes that are neither batches nor summed.
fn free(tensor: &Tensor, batch: &[usize], sum: &[usize]) -> Vec<usize> {
    (0..tensor.rank()).filter(|axis| !batch.contains(axis) && !sum.contains(axis)).collect()
}

/// The contraction of a node.
pub(crate) fn contraction_of(attrs: &Attrs) -> Contraction {
    let Some(Attr::Dot(dims)) = attrs.get("dot_dimension_numbers") else { return Contraction::default() };
    let axes = |list: &[i64]| list.iter().map(|&axis| axis as usize).collect();
    Contraction {
        lhs_batch: axes(&dims.lhs_batching),
        rhs_batch: axes(&dims.rhs_batching),
        lhs_sum: axes(&dims.lhs_contracting),
        rhs_sum: axes(&dims.rhs_contracting),
    }
}

/// The precision of a node.
pub(crate) fn precision_of(attrs: &Attrs) -> Precision {
    match attrs.get("precision_config") {
        Some(Attr::Array(words)) => match words.first() {
            Some(Attr::Keyword(Keyword::PrecisionHigh)) => Precision::High,
            Some(Attr::Keyword(Keyword::PrecisionHighest)) => Precision::Highest,
            _ => Precision::Default,
        },
        _ => Precision::Default,
    }
}

/// The cotangent of an operand of a contraction.
pub(crate) fn transposed(attrs: &Attrs, ins: &[Tensor], n: usize, ct: &Tensor) -> Tensor {
    let contraction = contraction_of(attrs);
    let (own, other) = (&ins[n], &ins[1 - n]);
    let (own_batch, own_sum, other_batch, other_sum) = if n == 0 {
        (&contraction.lhs_batch, &contraction.lhs_sum, &contraction.rhs_batch, &contraction.rhs_sum)
    } else {
        (&contraction.rhs_batch, &contraction.rhs_sum, &contraction.lhs_batch, &contraction.lhs_sum)
    };
    let (own_free, other_free) = (free(own, own_batch, own_sum), free(other, other_batch, other_sum));
    let batches = own_batch.len();
    // Axes of the result that come from the other operand.
    let first = if n == 0 { batches + own_free.len() } else { batches };
    let ct_sum: Vec<usize> = (first..first + other_free.len()).collect();
    // Sums of narrow operands are often wider than them; their cotangent is multiplied as narrow again.
    let ct = ct.cast(other.dtype());
    let backward = Contraction {
        lhs_batch: (0..batches).collect(),
        rhs_batch: other_batch.clone(),
        lhs_sum: ct_sum,
        rhs_sum: other_free,
    };
    let dot = ct.dot_general(other, &backward, own.dtype(), precision_of(attrs));
    // The result has batches, own free axes, then the summed axes in the order they have in the other operand.
    let mut have: Vec<usize> = own_batch.clone();
    have.extend(&own_free);
    let mut sums: Vec<(usize, usize)> = other_sum.iter().copied().zip(own_sum.iter().copied()).collect();
    sums.sort_unstable();
    have.extend(sums.into_iter().map(|(_, axis)| axis));
    let mut order = vec![0; own.rank()];
    for (at, &axis) in have.iter().enumerate() {
        order[axis] = at;
    }
    dot.transpose(&order)
}

/// A contraction of which at least one operand has the axis of a batch in front.
pub(crate) fn batched(attrs: &Attrs, ins: &[Lane], result: DType) -> Tensor {
    let own = contraction_of(attrs);
    let further = |axes: &[usize], lane: &Lane| {
        axes.iter().map(|axis| axis + usize::from(lane.is_batched)).collect::<Vec<usize>>()
    };
    let (lhs, rhs) = (&ins[0], &ins[1]);
    let mut contraction = Contraction {
        lhs_batch: further(&own.lhs_batch, lhs),
        rhs_batch: further(&own.rhs_batch, rhs),
        lhs_sum: further(&own.lhs_sum, lhs),
        rhs_sum: further(&own.rhs_sum, rhs),
    };
    let batches = own.lhs_batch.len();
    // Where the axis is in the result: among the batches, the first of the left's others, or of the right's.
    let at = match (lhs.is_batched, rhs.is_batched) {
        (true, true) => {
            contraction.lhs_batch.insert(0, 0);
            contraction.rhs_batch.insert(0, 0);
            0
        }
        (true, false) => batches,
        _ => batches + lhs.rank() - batches - own.lhs_sum.len(),
    };
    let dot = lhs.tensor.dot_general(&rhs.tensor, &contraction, result, precision_of(attrs));
    dot.move_axis(at as isize, 0)
}
