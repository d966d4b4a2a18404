//! Which experts tokens chose, and what each weighs: sums of one-hot vectors of a `top_k` times probabilities.

use hlo::{Attr, Definition, Func, Keyword, Op, OpKind, Value};

use super::super::mask::Evaluator;
use super::super::ops::reducer;
use crate::call::static_spec;

/// Which experts tokens chose, and what each weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// `[…tokens, choices]`.
    pub(super) chosen: Value,
    pub(super) probabilities: Value,
    pub(super) choices: usize,
    pub(super) experts: usize,
}

pub(super) fn indices(dims: &[i64]) -> Option<Vec<usize>> {
    dims.iter().map(|&n| usize::try_from(n).ok()).collect()
}

fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

/// The value before conversions between floats.
fn unconverted(func: &Func, mut value: Value) -> Value {
    while let Some(op) = defining(func, value).filter(|op| op.kind() == Some(OpKind::Convert)) {
        let is_float = |value: Value| static_spec(func.ty(value)).is_some_and(|spec| spec.dtype.is_float());
        if !is_float(op.operands[0]) || !is_float(value) {
            break;
        }
        value = op.operands[0];
    }
    value
}

/// What a value repeats: a source whose large dimensions are the value's in order, but for the last, along which it is repeated.
fn repeated(func: &Func, value: Value) -> Option<Value> {
    let dims = static_spec(func.ty(value))?.dims;
    let (mut source, mut places) = (value, (0..dims.len()).map(Some).collect::<Vec<_>>());
    while let Some(op) = defining(func, source) {
        let (&operand, to) = (op.operands.first()?, static_spec(func.ty(source))?.dims);
        let from = static_spec(func.ty(operand))?.dims;
        let pairs: Vec<(usize, usize)> = match op.kind() {
            Some(OpKind::BroadcastInDim) => {
                let dims = indices(op.attr("broadcast_dimensions")?.as_i64s()?)?;
                dims.into_iter().enumerate().filter(|&(n, to_dim)| from.get(n) == to.get(to_dim)).collect()
            }
            Some(OpKind::Reshape) => {
                let large = |dims: &[usize]| (0..dims.len()).filter(|&n| dims[n] != 1).collect::<Vec<_>>();
                let (a, b) = (large(&from), large(&to));
                if a.iter().map(|&n| from[n]).ne(b.iter().map(|&n| to[n])) {
                    break;
                }
                a.into_iter().zip(b).collect()
            }
            _ => break,
        };
        let before = |place: Option<usize>| pairs.iter().find(|(_, to)| Some(*to) == place).map(|(from, _)| *from);
        places = places.into_iter().map(|place| before(Some(place?))).collect();
        source = operand;
    }
    let of = static_spec(func.ty(source))?.dims;
    let (&last, front) = dims.split_last()?;
    let large: Vec<usize> = (0..of.len()).filter(|&n| of[n] != 1).collect();
    let read: Option<Vec<usize>> = (0..front.len()).filter(|&n| dims[n] != 1).map(|n| places[n]).collect();
    (last > 1 && places.last() == Some(&None) && read? == large).then_some(source)
}

impl Choice {
    /// Weights `[…tokens, experts]`: a sum over choices of one-hot vectors times probabilities.
    pub(super) fn of(func: &Func, value: Value) -> Option<Choice> {
        let value = unconverted(func, value);
        let sum = defining(func, value).filter(|op| op.kind() == Some(OpKind::Reduce))?;
        let [input, init] = sum.operands[..] else { return None };
        let is_sum = reducer(func, sum) == Some(OpKind::Add) && Evaluator::new(func).scalar(init) == Some(0.0);
        let product = unconverted(func, input);
        let dims = static_spec(func.ty(product))?.dims;
        let &[choices, experts] = dims.last_chunk::<2>()?;
        let along = i64::try_from(dims.len() - 2).ok()?;
        let is_over_choices = sum.attr("dimensions")?.as_i64s()? == [along];
        let factors = defining(func, product).filter(|op| op.kind() == Some(OpKind::Multiply))?;
        (is_sum && is_over_choices && choices > 1 && experts > choices).then_some(())?;
        let (chosen, weight) = match factors.operands[..] {
            [a, b] => one_hot(func, a).map(|chosen| (chosen, b)).or_else(|| Some((one_hot(func, b)?, a)))?,
            _ => return None,
        };
        let probabilities = repeated(func, unconverted(func, weight))?;
        static_spec(func.ty(probabilities))?.dtype.is_float().then_some(())?;
        Some(Choice { chosen, probabilities, choices, experts })
    }
}

/// The indices of one-hot vectors along the last dimension, where they are those of a `top_k` over as many as the vectors have places.
pub(super) fn one_hot(func: &Func, value: Value) -> Option<Value> {
    let mut value = unconverted(func, value);
    let places = *static_spec(func.ty(value))?.dims.last()?;
    let convert = defining(func, value).filter(|op| op.kind() == Some(OpKind::Convert))?;
    value = convert.operands[0];
    let compare = defining(func, value).filter(|op| op.kind() == Some(OpKind::Compare))?;
    let is_equal = compare.attr("comparison_direction").and_then(Attr::as_keyword) == Some(Keyword::Eq);
    let [a, b] = compare.operands[..] else { return None };
    let (indices, counted) = match (repeated(func, a), repeated(func, b)) {
        (Some(indices), _) if is_counter(func, b) => (indices, b),
        (_, Some(indices)) if is_counter(func, a) => (indices, a),
        _ => return None,
    };
    let Definition::Result(id, 1) = func.value(indices).definition else { return None };
    let top = func.op(id);
    let of = static_spec(func.ty(*top.operands.first()?))?.dims;
    let is_top = top.kind() == Some(OpKind::ChloTopK) && of.last() == Some(&places);
    (is_equal && is_top && counted != indices).then_some(indices)
}

/// Whether an array counts along its last dimension.
fn is_counter(func: &Func, value: Value) -> bool {
    let mut last = match static_spec(func.ty(value)) {
        Some(spec) => spec.dims.len().wrapping_sub(1),
        None => return false,
    };
    let mut value = value;
    while let Some(op) = defining(func, value) {
        match op.kind() {
            Some(OpKind::Iota) => {
                let along = op.attr("iota_dimension").and_then(Attr::as_int);
                return along.and_then(|n| usize::try_from(n).ok()) == Some(last);
            }
            Some(OpKind::BroadcastInDim) => {
                let dims = op.attr("broadcast_dimensions").and_then(Attr::as_i64s).and_then(indices);
                let Some(at) = dims.and_then(|dims| dims.iter().position(|&to| to == last)) else { return false };
                let sizes = [op.operands[0], value].map(|value| static_spec(func.ty(value)));
                let [Some(from), Some(to)] = sizes else { return false };
                if from.dims.get(at) != to.dims.get(last) {
                    return false;
                }
                (value, last) = (op.operands[0], at);
            }
            _ => return false,
        }
    }
    false
}
