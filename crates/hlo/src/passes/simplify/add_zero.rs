//! `x + 0` and `x - 0` are `x`.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "add_zero", kinds: &[OpKind::Add, OpKind::Subtract], apply };

fn apply(site: &mut Site<'_>, exactness: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    let is_add = site.op().kind() == Some(OpKind::Add);
    // `-0.0 + 0.0` is `0.0`: only the other zero leaves every number as it is.
    let neutral = if is_add { -0.0 } else { 0.0 };
    let is_float = site.dtype(lhs)?.is_float();
    let is_zero = |value| {
        let either = !is_float || exactness == Exactness::Approximate;
        site.is_filled_with(value, neutral)
            || either && (site.is_filled_with(value, 0.0) || site.is_filled_with(value, -0.0))
    };
    if is_zero(rhs) {
        return Some(vec![lhs]);
    }
    (is_add && is_zero(lhs)).then_some(vec![rhs])
}
