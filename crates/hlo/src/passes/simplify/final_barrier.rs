//! A barrier whose results are only returned from the function keeps nothing apart.

use std::collections::HashSet;

use crate::ir::{Func, OpId, OpKind};

use super::super::rewrite::use_counts;

/// Barriers of the function's own region that only its return reads.
pub(super) fn find(func: &Func) -> HashSet<OpId> {
    let is_barrier = |id: OpId| func.op(id).kind() == Some(OpKind::OptimizationBarrier);
    let ops = func.body.map_or(&[][..], |body| &func.region(body).ops);
    let Some(&last) = ops.last() else { return HashSet::new() };
    if !ops.iter().any(|&id| is_barrier(id)) {
        return HashSet::new();
    }
    let mut others = use_counts(func);
    for value in &func.op(last).operands {
        others[value.0 as usize] -= 1;
    }
    let is_final = |id: &OpId| is_barrier(*id) && func.op(*id).results().all(|value| others[value.0 as usize] == 0);
    ops.iter().copied().filter(is_final).collect()
}
