//! Rules that rewrite one op by what it and the ops it reads say: the table of rules, one file each.

mod add_zero;
mod batch_norm;
mod batch_norm_inference;
mod batch_norm_training;
mod branch_known;
mod broadcast_chain;
mod broadcast_old;
mod chlo_broadcast;
mod chlo_expand;
mod compare_known;
mod complex_parts;
mod compute_before_broadcast;
mod concatenate_one;
mod convert_chain;
mod divide_power_of_two;
mod dot_old;
mod dot_transpose;
mod double_negation;
mod dynamic_slice_constant;
mod dynamic_update_slice_whole;
mod einsum;
mod final_barrier;
mod gather_slice;
mod inverse_root;
mod logical_identity;
mod multiply_one;
mod multiply_zero;
mod pad_nothing;
mod power_constant;
mod reduce_nothing;
mod reshape_chain;
mod reverse_unit;
mod same_operands;
mod select_known;
mod slice_chain;
mod slice_of_concatenate;
mod transpose_chain;
mod transpose_of_broadcast;
mod tuple_element;
mod while_invariant;
mod while_never;

use std::sync::LazyLock;

use crate::ir::{Attr, Attrs, Module, Op, OpKind, Value};

use super::fold;
use super::rewrite::{Replacement, Site, attrs, i64s, walk};
use super::{Exactness, Options, Statistics};

/// A rule.
struct Rule {
    name: &'static str,
    /// Ops it looks at.
    kinds: &'static [OpKind],
    apply: fn(&mut Site<'_>, Exactness) -> Replacement,
}

/// Every rule. For an op that several rules look at, those that remove it come before those that change it.
const RULES: &[Rule] = &[
    add_zero::RULE,
    multiply_one::RULE,
    multiply_zero::RULE,
    same_operands::RULE,
    logical_identity::RULE,
    double_negation::RULE,
    complex_parts::RULE,
    compare_known::RULE,
    select_known::RULE,
    convert_chain::RULE,
    divide_power_of_two::RULE,
    inverse_root::RULE,
    power_constant::RULE,
    reshape_chain::RULE,
    transpose_chain::RULE,
    transpose_of_broadcast::RULE,
    broadcast_old::RULE,
    broadcast_chain::RULE,
    slice_chain::RULE,
    slice_of_concatenate::RULE,
    concatenate_one::RULE,
    pad_nothing::RULE,
    reverse_unit::RULE,
    dynamic_slice_constant::RULE,
    dynamic_update_slice_whole::RULE,
    gather_slice::RULE,
    tuple_element::RULE,
    branch_known::RULE,
    while_never::RULE,
    while_invariant::RULE,
    reduce_nothing::RULE,
    dot_old::RULE,
    einsum::RULE,
    dot_transpose::RULE,
    batch_norm_inference::RULE,
    batch_norm_training::RULE,
    chlo_broadcast::RULE,
    chlo_expand::RULE,
    // Only where nothing simpler applies: it writes two ops for one.
    compute_before_broadcast::RULE,
];

/// Rules by the op they look at.
static BY_KIND: LazyLock<Vec<Vec<&'static Rule>>> = LazyLock::new(|| {
    let of = |kind: &OpKind| RULES.iter().filter(|rule| rule.kinds.contains(kind)).collect();
    OpKind::ALL.iter().map(of).collect()
});

pub(super) fn run(module: &mut Module, options: &Options<'_>, statistics: &mut Statistics) {
    let by_kind = &*BY_KIND;
    for func in &mut module.funcs {
        let final_barriers = final_barrier::find(func);
        // Each rule leaves less to do, so this is far above what programs need; it ends rules that undo each other.
        let fuel = 16 * func.ops.len() as u64 + 1024;
        walk(func, fuel, |site| {
            let kind = site.op().kind()?;
            if kind == OpKind::OptimizationBarrier && final_barriers.contains(&site.id()) {
                statistics.add("final_barrier", 1);
                return Some(site.op().operands.clone());
            }
            if kind != OpKind::Constant
                && let Some(values) = fold::fold(site, options)
            {
                statistics.add("fold", 1);
                return Some(values);
            }
            for rule in &by_kind[kind as usize] {
                if let Some(values) = (rule.apply)(site, options.exactness) {
                    statistics.add(rule.name, 1);
                    return Some(values);
                }
            }
            None
        });
    }
}

/// What a slice takes of each dimension.
struct Ranges {
    starts: Vec<i64>,
    limits: Vec<i64>,
    strides: Vec<i64>,
}

impl Ranges {
    fn of(op: &Op) -> Option<Ranges> {
        let [starts, limits, strides] = ["start_indices", "limit_indices", "strides"].map(|name| i64s(op, name));
        Some(Ranges { starts: starts?, limits: limits?, strides: strides? })
    }

    fn attrs(self) -> Attrs {
        attrs([
            ("start_indices", Attr::i64s(self.starts)),
            ("limit_indices", Attr::i64s(self.limits)),
            ("strides", Attr::i64s(self.strides)),
        ])
    }
}

/// A known index; one too large for `i64` is as large as it gets, since indices are clamped.
fn index(site: &Site<'_>, value: Value) -> Option<i64> {
    let number = site.int_splat(value)?;
    let is_huge = number < 0 && site.dtype(value)?.is_unsigned_integer();
    Some(if is_huge { i64::MAX } else { number })
}
