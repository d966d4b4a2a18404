//! `x * 1` and `x / 1` are `x`.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "multiply_one", kinds: &[OpKind::Multiply, OpKind::Divide], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    if site.is_filled_with(rhs, 1.0) {
        return Some(vec![lhs]);
    }
    let is_product = site.op().kind() == Some(OpKind::Multiply);
    (is_product && site.is_filled_with(lhs, 1.0)).then_some(vec![rhs])
}
