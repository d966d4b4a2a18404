//! How an op is computed in parts: along which factors its operands and results are split, and what its attributes become.

use super::digits::{Digit, Held, dividing, overlap, parts, push, unused};
use crate::ir::{Attr, Attrs, DenseData, ElementType, Func, Op, OpKind, Region, Type, Value};
use crate::ops::OpClass;
use crate::propagate::{FactorKind, Rule, rule_of};

/// An op in parts.
pub(super) struct Plan {
    /// What is held of each operand and then of each result, without summands.
    pub(super) held: Vec<Held>,
    /// Digits along which results are summands, or parts of another reduction.
    pub(super) reduced: Vec<Digit>,
}

/// What an op may be split by.
pub(super) struct Splits {
    rule: Rule,
    can_split: Vec<bool>,
}

impl Splits {
    /// `None` for an op that is computed whole.
    pub(super) fn of(func: &Func, op: &Op) -> Option<Splits> {
        let kind = op.kind()?;
        let is_plain = |value: &Value| {
            let Type::Tensor(ty) = func.ty(*value) else { return false };
            matches!(ty.element, ElementType::Plain(_)) && ty.is_static() && ty.encoding.is_none()
        };
        let values: Vec<Value> = op.operands.iter().copied().chain(op.results()).collect();
        if !values.iter().all(is_plain) {
            return None;
        }
        let class = kind.class();
        let is_known = kind.is_stablehlo() || kind == OpKind::ChloTopK || kind.is_elementwise();
        let dims = |value: Value| func.ty(value).as_tensor().map(|ty| ty.dims.clone());
        let same = || values.windows(2).all(|two| dims(two[0]) == dims(two[1]));
        if !(is_known || class == OpClass::Broadcasting && same()) {
            return None;
        }
        let rule = rule_of(func, op)?;
        if rule.tensors.len() != values.len() {
            return None;
        }
        let moves = moves(func, op, kind)?;
        let sums = sums(func, op, kind);
        let can_split = |factor: usize| {
            let places =
                |tensor: usize| rule.tensors[tensor].iter().enumerate().filter(move |(_, list)| list.contains(&factor));
            let stays = (0..rule.tensors.len()).all(|n| places(n).all(|(dim, _)| !moves.contains(&(n, dim))));
            let is_complete = match kind {
                // A dimension of the input that updates do not cover is addressed by indices.
                OpKind::Scatter => places(op.num_results as usize + 1).next().is_some(),
                _ => true,
            };
            let is_allowed = match rule.factors[factor].kind {
                FactorKind::PassThrough => true,
                FactorKind::Reduction => sums,
                FactorKind::Permutation => false,
            };
            stays && is_complete && is_allowed
        };
        let can_split = (0..rule.factors.len()).map(can_split).collect();
        Some(Splits { rule, can_split })
    }

    /// The digits that each factor has of a tensor; `None` where the tensor does not have the factor.
    fn project(&self, tensor: usize, held: &Held) -> Vec<Option<Vec<Digit>>> {
        let mut found = vec![None; self.rule.factors.len()];
        for (factors, digits) in self.rule.tensors[tensor].iter().zip(&held.dims) {
            let mut rest = digits.clone();
            for &factor in factors {
                let (taken, more, left) = dividing(&rest, self.rule.factors[factor].size);
                found[factor] = Some(taken);
                rest = if left == 1 { more } else { Vec::new() };
            }
        }
        found
    }

    /// Chooses how to split, from what is held of operands (`None`: whatever is wanted of them) and wanted of results.
    pub(super) fn plan(&self, sizes: &[f64], have: &[Option<Held>], want: &[Held], summands: &[Digit]) -> Plan {
        let inputs: Vec<Option<Vec<Option<Vec<Digit>>>>> =
            have.iter().enumerate().map(|(n, held)| held.as_ref().map(|held| self.project(n, held))).collect();
        let outputs: Vec<Vec<Option<Vec<Digit>>>> =
            want.iter().enumerate().map(|(n, held)| self.project(have.len() + n, held)).collect();
        let factors = self.rule.factors.len();
        let wanted = |factor: usize| outputs.iter().find_map(|output| output[factor].clone().filter(|d| !d.is_empty()));
        let all_wanted: Vec<Digit> = (0..factors).filter_map(wanted).flatten().collect();
        let mut taken = summands.to_vec();
        let mut chosen: Vec<Vec<Digit>> = vec![Vec::new(); factors];
        let is_reduction = |factor: usize| self.rule.factors[factor].kind == FactorKind::Reduction;
        for factor in (0..factors).filter(|&factor| self.can_split[factor] && is_reduction(factor)) {
            let holders =
                inputs.iter().enumerate().filter_map(|(n, input)| Some((n, input.as_ref()?[factor].as_ref()?)));
            let holders: Vec<(usize, &Vec<Digit>)> = holders.collect();
            let Some((_, most)) = holders.iter().max_by_key(|(_, digits)| parts(digits)) else { continue };
            let agree = holders.iter().all(|(_, digits)| digits == most);
            let is_free = |n: usize| !have[n].as_ref().is_some_and(|held| held.dims.iter().any(|d| overlap(d, most)));
            let can_follow = holders.iter().all(|&(n, digits)| digits == *most || digits.is_empty() && is_free(n));
            if agree || can_follow && !overlap(most, &all_wanted) {
                chosen[factor] = unused(most, &taken);
                taken.extend(&chosen[factor]);
            }
        }
        for factor in (0..factors).filter(|&factor| self.can_split[factor] && !is_reduction(factor)) {
            if let Some(digits) = wanted(factor) {
                chosen[factor] = unused(&digits, &taken);
                taken.extend(&chosen[factor]);
            }
        }
        // Results that nobody wants split are computed where the parts of operands are.
        for factor in (0..factors).filter(|&factor| self.can_split[factor] && !is_reduction(factor)) {
            let holders =
                inputs.iter().enumerate().filter_map(|(n, input)| Some((n, input.as_ref()?[factor].as_ref()?)));
            let largest =
                holders.filter(|(_, digits)| !digits.is_empty()).max_by(|a, b| sizes[a.0].total_cmp(&sizes[b.0]));
            if let Some((_, digits)) = largest.filter(|_| chosen[factor].is_empty()) {
                chosen[factor] = unused(digits, &taken);
                taken.extend(&chosen[factor]);
            }
        }
        for (digits, factor) in chosen.iter_mut().zip(&self.rule.factors) {
            *digits = dividing(digits, factor.size).0;
        }
        self.drop_gaps(&mut chosen);
        let compose = |dims: &Vec<Vec<usize>>| {
            let one = |list: &Vec<usize>| {
                let mut digits = Vec::new();
                list.iter().for_each(|&factor| chosen[factor].iter().for_each(|&digit| push(&mut digits, digit)));
                digits
            };
            Held { dims: dims.iter().map(one).collect(), unreduced: Vec::new() }
        };
        let reduced = (0..factors).filter(|&factor| is_reduction(factor)).flat_map(|factor| chosen[factor].clone());
        Plan { reduced: reduced.collect(), held: self.rule.tensors.iter().map(compose).collect() }
    }

    /// A factor behind one that is not split to its end cannot be split by itself: its parts would not lie together.
    fn drop_gaps(&self, chosen: &mut [Vec<Digit>]) {
        loop {
            let mut gap = None;
            for list in self.rule.tensors.iter().flatten() {
                let mut is_open = true;
                for &factor in list {
                    if !is_open && !chosen[factor].is_empty() {
                        gap = Some(factor);
                    }
                    is_open &= parts(&chosen[factor]) == self.rule.factors[factor].size;
                }
            }
            match gap {
                Some(factor) => chosen[factor].clear(),
                None => return,
            }
        }
    }
}

pub(crate) fn ints(op: &Op, name: &str) -> Option<Vec<i64>> {
    match op.attr(name)? {
        Attr::DenseArray(_, values) => Some(values.to_vec()),
        Attr::Dense(dense) => dense.to_i64s(1 << 16),
        _ => None,
    }
}

/// Dimensions of operands, by number of operand, in which elements change their place by other means than a factor says;
/// `None` where that is not known.
fn moves(func: &Func, op: &Op, kind: OpKind) -> Option<Vec<(usize, usize)>> {
    let dims = |n: usize| func.ty(*op.operands.get(n)?).as_tensor().map(|ty| ty.dims.clone());
    let rank = dims(0).map_or(0, |dims| dims.len());
    let is = |name: &str, dim: usize, value: i64| ints(op, name).is_none_or(|list| list.get(dim) == Some(&value));
    let moved =
        |stays: &dyn Fn(usize) -> bool| Some((0..rank).filter(|&dim| !stays(dim)).map(|dim| (0, dim)).collect());
    match kind {
        OpKind::Reverse => {
            let reversed = ints(op, "dimensions")?;
            moved(&|dim| !reversed.contains(&(dim as i64)))
        }
        OpKind::Pad => {
            let names = ["edge_padding_low", "edge_padding_high", "interior_padding"];
            moved(&|dim| names.iter().all(|name| is(name, dim, 0)))
        }
        OpKind::ReduceWindow | OpKind::SelectAndScatter => {
            let ones = ["window_dimensions", "window_strides", "base_dilations", "window_dilations"];
            let padding = ints(op, "padding");
            let is_unpadded = |dim: usize| {
                padding.as_ref().is_none_or(|list| list.get(2 * dim..2 * dim + 2).is_some_and(|pair| pair == [0, 0]))
            };
            moved(&|dim| ones.iter().all(|name| is(name, dim, 1)) && is_unpadded(dim))
        }
        OpKind::DynamicUpdateSlice => {
            let (whole, update) = (dims(0)?, dims(1)?);
            moved(&|dim| whole.get(dim) == update.get(dim))
        }
        _ => Some(Vec::new()),
    }
}

/// Whether parts of a reduction can be combined afterwards.
fn sums(func: &Func, op: &Op, kind: OpKind) -> bool {
    match kind {
        OpKind::DotGeneral | OpKind::Convolution => true,
        // Updates that are added to zeros.
        OpKind::Scatter => {
            combines(func, op) == Some(OpKind::Add) && op.operands.first().is_some_and(|&to| is_zero(func, to))
        }
        OpKind::Reduce => match (combines(func, op), op.operands.get(1)) {
            // The initial value enters once for each part.
            (Some(OpKind::Add | OpKind::Xor), Some(&init)) => is_zero(func, init),
            (Some(OpKind::Maximum | OpKind::Minimum | OpKind::And | OpKind::Or), _) => true,
            _ => false,
        },
        _ => false,
    }
}

/// The op by which a reduction of one array combines two numbers.
pub(super) fn combines(func: &Func, op: &Op) -> Option<OpKind> {
    let (&[region], 1) = (&op.regions[..], op.num_results) else { return None };
    fold_of(func, region)
}

pub(crate) fn fold_of(func: &Func, region: Region) -> Option<OpKind> {
    let data = func.region(region);
    let ([only, end], [a, b]) = (&data.ops[..], &data.args[..]) else { return None };
    let (op, end) = (func.op(*only), func.op(*end));
    let is_fold = end.operands == [op.first_result] && (op.operands == [*a, *b] || op.operands == [*b, *a]);
    op.kind().filter(|_| is_fold)
}

/// Whether all elements of a value are a zero that the program writes.
pub(super) fn is_zero(func: &Func, mut value: Value) -> bool {
    // As many ops as a client puts between a constant and an array of it, and some more.
    for _ in 0..8 {
        let crate::ir::Definition::Result(id, _) = func.value(value).definition else { return false };
        let op = func.op(id);
        match (op.kind(), op.attr("value")) {
            (Some(OpKind::Constant), Some(Attr::Dense(dense))) => {
                return matches!(&dense.data, DenseData::Splat(bytes) if bytes.iter().all(|&byte| byte == 0));
            }
            (
                Some(OpKind::BroadcastInDim | OpKind::Reshape | OpKind::SdyShardingConstraint | OpKind::SdyReshard),
                _,
            ) => {
                value = op.operands[0];
            }
            _ => return false,
        }
    }
    false
}

/// Operands that may be summands if all of them are, so that the results are summands too; empty for an op that is not
/// linear.
pub(super) fn linear_operands(func: &Func, op: &Op) -> Vec<usize> {
    let all = || (0..op.operands.len()).collect();
    let is_float = |value: Value| match func.ty(value) {
        Type::Tensor(ty) => ty.element.plain().is_some_and(|dtype| !dtype.is_integer() && !dtype.is_bool()),
        _ => false,
    };
    match op.kind() {
        Some(OpKind::Add | OpKind::Subtract | OpKind::Concatenate) => all(),
        Some(OpKind::Convert) if op.operands.iter().copied().chain(op.results()).all(is_float) => vec![0],
        Some(
            OpKind::Negate
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::BroadcastInDim
            | OpKind::Slice
            | OpKind::DynamicSlice
            | OpKind::Reverse
            | OpKind::Real
            | OpKind::Imag,
        ) => vec![0],
        Some(OpKind::Divide) => vec![0],
        Some(OpKind::Select) => vec![1, 2],
        Some(OpKind::DynamicUpdateSlice) => vec![0, 1],
        Some(OpKind::Reduce) if combines(func, op) == Some(OpKind::Add) && is_zero(func, op.operands[1]) => vec![0],
        _ => Vec::new(),
    }
}

/// Attributes of an op on parts. `whole` are the types before and `part` those after, operands and then results.
pub(super) fn attributes(op: &Op, whole: &[Type], part: &[Type]) -> Attrs {
    let mut attrs = op.attrs.clone();
    for name in ["sdy.sharding", "mhlo.sharding"] {
        attrs.remove(name);
    }
    let dims = |list: &[Type], n: usize| list.get(n).and_then(Type::as_tensor).map(|ty| ty.dims.clone());
    let (Some(before), Some(after)) = (dims(whole, 0), dims(part, 0)) else { return attrs };
    let mut replace = |name: &'static str, with: &dyn Fn(usize, i64) -> i64| {
        if let Some(list) = ints(op, name) {
            let list: Vec<i64> = list.into_iter().enumerate().map(|(dim, value)| with(dim, value)).collect();
            attrs.set(name, Attr::i64s(list));
        }
    };
    // Where a dimension is split, all of it is taken.
    let is_split = |dim: usize| before.get(dim) != after.get(dim);
    let taken = |dim: usize, value: i64| match after.get(dim) {
        Some(&size) if is_split(dim) && before.get(dim) == Some(&value) => size,
        _ => value,
    };
    match op.kind() {
        Some(OpKind::Slice) => replace("limit_indices", &taken),
        Some(OpKind::DynamicSlice | OpKind::Gather) => replace("slice_sizes", &taken),
        _ => {}
    }
    attrs
}
