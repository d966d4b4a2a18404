//! How the dimensions of an op's operands and results belong together: each is a product of factors, and tensors that share
//! a factor can be split along it alike.

mod indexing;
mod reshape;

use crate::ir::{Attr, Func, Op, OpKind, Type, Value};
use crate::ops::OpClass;

/// What splitting a factor means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FactorKind {
    /// Each part of the results comes from the same part of the operands.
    PassThrough,
    /// Parts are summed up.
    Reduction,
    /// Parts are exchanged between neighbours.
    Permutation,
}

/// A factor: a dimension that several tensors have, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    pub(crate) size: i64,
    pub(crate) kind: FactorKind,
}

/// When an op takes part in propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Among the first: nothing is lost by it.
    First,
    /// With the others.
    Later,
    /// A broadcast: at first only from the result to the operand.
    Broadcast,
}

/// The factors of an op, and those of each dimension of its operands and then its results, major to minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) factors: Vec<Factor>,
    pub(crate) tensors: Vec<Vec<Vec<usize>>>,
    pub(crate) manner: Manner,
}

impl Rule {
    fn new(num_tensors: &[usize]) -> Rule {
        let tensors = num_tensors.iter().map(|&rank| vec![Vec::new(); rank]).collect();
        Rule { factors: Vec::new(), tensors, manner: Manner::Later }
    }

    /// Adds a factor that is one whole dimension of some tensors; sizes of one have nothing to split.
    fn add(&mut self, size: i64, kind: FactorKind, places: &[(usize, usize)]) {
        if size <= 1 {
            return;
        }
        let factor = self.factors.len();
        self.factors.push(Factor { size, kind });
        for &(tensor, dim) in places {
            if let Some(factors) = self.tensors.get_mut(tensor).and_then(|dims| dims.get_mut(dim)) {
                factors.push(factor);
            }
        }
    }

    /// Two tensors of one shape that are split alike.
    pub(super) fn identity(dims: &[i64]) -> Rule {
        let mut rule = Rule::new(&[dims.len(), dims.len()]);
        for (dim, &size) in dims.iter().enumerate() {
            rule.add(size, FactorKind::PassThrough, &[(0, dim), (1, dim)]);
        }
        rule.manner = Manner::First;
        rule
    }
}

/// What an op's values are.
pub(super) struct Shapes<'f> {
    func: &'f Func,
    op: &'f Op,
}

impl<'f> Shapes<'f> {
    fn of(&self, value: Value) -> Option<&'f [i64]> {
        match self.func.ty(value) {
            Type::Tensor(ty) => Some(&ty.dims),
            _ => None,
        }
    }

    fn operand(&self, n: usize) -> Option<&'f [i64]> {
        self.of(*self.op.operands.get(n)?)
    }

    fn result(&self, n: usize) -> Option<&'f [i64]> {
        self.of(self.op.results().nth(n)?)
    }

    fn ranks(&self) -> Vec<usize> {
        let values = self.op.operands.iter().copied().chain(self.op.results());
        values.map(|value| self.of(value).map_or(0, <[i64]>::len)).collect()
    }

    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.op.attr(name)? {
            Attr::DenseArray(_, values) => Some(values.to_vec()),
            Attr::Dense(dense) => dense.to_i64s(1 << 16),
            _ => None,
        }
    }
}

/// A dimension as an index.
fn at(dim: i64) -> Option<usize> {
    usize::try_from(dim).ok()
}

/// The rule of an op; `None` where nothing is known of it.
pub(crate) fn of(func: &Func, op: &Op) -> Option<Rule> {
    let shapes = Shapes { func, op };
    let kind = op.kind()?;
    match kind {
        OpKind::BitcastConvert if shapes.operand(0)?.len() != shapes.result(0)?.len() => leading(&shapes),
        _ if kind.is_elementwise() || matches!(kind.class(), OpClass::Quantization) => pointwise(&shapes),
        OpKind::SdyShardingConstraint | OpKind::SdyReshard | OpKind::SdyPropagationBarrier | OpKind::AllReduce => {
            pointwise(&shapes)
        }
        OpKind::Map => pointwise(&shapes),
        OpKind::BroadcastInDim => broadcast(&shapes),
        OpKind::Transpose => transpose(&shapes),
        OpKind::Reshape => reshape::rule(shapes.operand(0)?, shapes.result(0)?),
        OpKind::Reverse => pointwise(&shapes).map(|rule| Rule { manner: Manner::Later, ..rule }),
        OpKind::Slice | OpKind::Pad | OpKind::Concatenate => mismatched(&shapes, FactorKind::Permutation),
        OpKind::DynamicSlice | OpKind::DynamicUpdateSlice => indexing::window(&shapes),
        OpKind::DotGeneral => dot(&shapes),
        OpKind::Reduce => reduce(&shapes),
        OpKind::ReduceWindow | OpKind::SelectAndScatter => mismatched(&shapes, FactorKind::Permutation),
        OpKind::Gather => indexing::gather(&shapes),
        OpKind::Scatter => indexing::scatter(&shapes),
        OpKind::Sort => sort(&shapes),
        OpKind::Convolution => convolution(&shapes),
        OpKind::Cholesky | OpKind::TriangularSolve => trailing_two(&shapes),
        OpKind::Fft => {
            let lengths = shapes.ints("fft_length")?.len();
            batch(&shapes, shapes.operand(0)?.len().checked_sub(lengths)?)
        }
        OpKind::ChloTopK => batch(&shapes, shapes.operand(0)?.len().checked_sub(1)?),
        _ if matches!(kind.name().split('.').next(), Some("chlo")) => pointwise(&shapes),
        _ => None,
    }
}

/// All tensors of one shape; scalars beside them are left alone.
fn pointwise(shapes: &Shapes<'_>) -> Option<Rule> {
    let whole = shapes.result(0)?;
    let mut rule = Rule::new(&shapes.ranks());
    rule.manner = Manner::First;
    let values: Vec<Value> = shapes.op.operands.iter().copied().chain(shapes.op.results()).collect();
    let same: Vec<usize> = (0..values.len()).filter(|&n| shapes.of(values[n]) == Some(whole)).collect();
    for (dim, &size) in whole.iter().enumerate() {
        let places: Vec<_> = same.iter().map(|&n| (n, dim)).collect();
        rule.add(size, FactorKind::PassThrough, &places);
    }
    Some(rule)
}

/// Dimensions before the last of either side.
fn leading(shapes: &Shapes<'_>) -> Option<Rule> {
    batch(shapes, shapes.operand(0)?.len().min(shapes.result(0)?.len()))
}

/// The first `count` dimensions of all tensors that have them.
fn batch(shapes: &Shapes<'_>, count: usize) -> Option<Rule> {
    let mut rule = Rule::new(&shapes.ranks());
    let whole = shapes.result(0)?.to_vec();
    let values: Vec<Value> = shapes.op.operands.iter().copied().chain(shapes.op.results()).collect();
    for (dim, &size) in whole.iter().enumerate().take(count) {
        let has = |n: &usize| shapes.of(values[*n]).and_then(|dims| dims.get(dim)) == Some(&size);
        let places: Vec<_> = (0..values.len()).filter(has).map(|n| (n, dim)).collect();
        rule.add(size, FactorKind::PassThrough, &places);
    }
    Some(rule)
}

fn trailing_two(shapes: &Shapes<'_>) -> Option<Rule> {
    batch(shapes, shapes.result(0)?.len().checked_sub(2)?)
}

/// Tensors of one rank; where a dimension differs, what is on either side is split alike and exchanged.
fn mismatched(shapes: &Shapes<'_>, kind: FactorKind) -> Option<Rule> {
    let whole = shapes.result(0)?.to_vec();
    let mut rule = Rule::new(&shapes.ranks());
    let values: Vec<Value> = shapes.op.operands.iter().copied().chain(shapes.op.results()).collect();
    let same: Vec<usize> =
        (0..values.len()).filter(|&n| shapes.of(values[n]).is_some_and(|dims| dims.len() == whole.len())).collect();
    for dim in 0..whole.len() {
        let sizes: Vec<i64> = same.iter().filter_map(|&n| shapes.of(values[n]).map(|dims| dims[dim])).collect();
        let all = sizes.iter().all(|&size| size == whole[dim]);
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let places: Vec<_> = same.iter().map(|&n| (n, dim)).collect();
        rule.add(largest, if all { FactorKind::PassThrough } else { kind }, &places);
    }
    Some(rule)
}

fn broadcast(shapes: &Shapes<'_>) -> Option<Rule> {
    let (from, to) = (shapes.operand(0)?, shapes.result(0)?);
    let dims = shapes.ints("broadcast_dimensions")?;
    let mut rule = Rule::new(&shapes.ranks());
    rule.manner = Manner::Broadcast;
    for (dim, &size) in to.iter().enumerate() {
        let mut places = vec![(1, dim)];
        if let Some(source) = dims.iter().position(|&d| at(d) == Some(dim))
            && from.get(source) == Some(&size)
        {
            places.push((0, source));
        }
        rule.add(size, FactorKind::PassThrough, &places);
    }
    Some(rule)
}

fn transpose(shapes: &Shapes<'_>) -> Option<Rule> {
    let order = shapes.ints("permutation")?;
    let mut rule = Rule::new(&shapes.ranks());
    rule.manner = Manner::First;
    for (dim, &size) in shapes.result(0)?.iter().enumerate() {
        rule.add(size, FactorKind::PassThrough, &[(0, at(*order.get(dim)?)?), (1, dim)]);
    }
    Some(rule)
}

fn dot(shapes: &Shapes<'_>) -> Option<Rule> {
    let Some(Attr::Dot(dims)) = shapes.op.attr("dot_dimension_numbers") else { return None };
    let (lhs, rhs) = (shapes.operand(0)?, shapes.operand(1)?);
    let mut rule = Rule::new(&shapes.ranks());
    let mut result = 0;
    for (&l, &r) in dims.lhs_batching.iter().zip(&dims.rhs_batching) {
        let (l, r) = (at(l)?, at(r)?);
        rule.add(*lhs.get(l)?, FactorKind::PassThrough, &[(0, l), (1, r), (2, result)]);
        result += 1;
    }
    let operands =
        [(0, lhs, &dims.lhs_batching, &dims.lhs_contracting), (1, rhs, &dims.rhs_batching, &dims.rhs_contracting)];
    for (tensor, sizes, batching, contracting) in operands {
        for (dim, &size) in sizes.iter().enumerate() {
            let is_taken = |list: &[i64]| list.iter().any(|&d| at(d) == Some(dim));
            if !is_taken(batching) && !is_taken(contracting) {
                rule.add(size, FactorKind::PassThrough, &[(tensor, dim), (2, result)]);
                result += 1;
            }
        }
    }
    for (&l, &r) in dims.lhs_contracting.iter().zip(&dims.rhs_contracting) {
        let (l, r) = (at(l)?, at(r)?);
        rule.add(*lhs.get(l)?, FactorKind::Reduction, &[(0, l), (1, r)]);
    }
    Some(rule)
}

fn reduce(shapes: &Shapes<'_>) -> Option<Rule> {
    let inputs = shapes.op.num_results as usize;
    let reduced = shapes.ints("dimensions")?;
    let mut rule = Rule::new(&shapes.ranks());
    let first_result = shapes.op.operands.len();
    let mut kept = 0;
    for (dim, &size) in shapes.operand(0)?.iter().enumerate() {
        let is_reduced = reduced.iter().any(|&d| at(d) == Some(dim));
        let mut places: Vec<_> = (0..inputs).map(|n| (n, dim)).collect();
        if !is_reduced {
            places.extend((0..inputs).map(|n| (first_result + n, kept)));
            kept += 1;
        }
        rule.add(size, if is_reduced { FactorKind::Reduction } else { FactorKind::PassThrough }, &places);
    }
    Some(rule)
}

fn sort(shapes: &Shapes<'_>) -> Option<Rule> {
    let along = shapes.op.attr("dimension").and_then(Attr::as_int).unwrap_or(-1);
    let dims = shapes.operand(0)?;
    let along = if along < 0 { at(along + dims.len() as i64)? } else { at(along)? };
    let mut rule = Rule::new(&shapes.ranks());
    let all = shapes.op.operands.len() + shapes.op.num_results as usize;
    for (dim, &size) in dims.iter().enumerate().filter(|(dim, _)| *dim != along) {
        let places: Vec<_> = (0..all).map(|n| (n, dim)).collect();
        rule.add(size, FactorKind::PassThrough, &places);
    }
    Some(rule)
}

fn convolution(shapes: &Shapes<'_>) -> Option<Rule> {
    let Some(Attr::Conv(dims)) = shapes.op.attr("dimension_numbers") else { return None };
    let groups = |name: &str| shapes.op.attr(name).and_then(Attr::as_int).unwrap_or(1);
    if groups("feature_group_count") != 1 || groups("batch_group_count") != 1 {
        return None;
    }
    let (input, kernel, result) = (shapes.operand(0)?, shapes.operand(1)?, shapes.result(0)?);
    let mut rule = Rule::new(&shapes.ranks());
    let (batch, feature) = (at(dims.input_batch)?, at(dims.input_feature)?);
    rule.add(*input.get(batch)?, FactorKind::PassThrough, &[(0, batch), (2, at(dims.output_batch)?)]);
    let out = at(dims.kernel_output_feature)?;
    rule.add(*kernel.get(out)?, FactorKind::PassThrough, &[(1, out), (2, at(dims.output_feature)?)]);
    let taken = at(dims.kernel_input_feature)?;
    rule.add(*input.get(feature)?, FactorKind::Reduction, &[(0, feature), (1, taken)]);
    for (&from, &to) in dims.input_spatial.iter().zip(&dims.output_spatial) {
        let (from, to) = (at(from)?, at(to)?);
        if input.get(from)? == result.get(to)? {
            rule.add(*input.get(from)?, FactorKind::Permutation, &[(0, from), (2, to)]);
        }
    }
    Some(rule)
}
