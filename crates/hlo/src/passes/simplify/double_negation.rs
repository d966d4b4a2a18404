//! An op that undoes itself, applied twice, does nothing.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule =
    Rule { name: "double_negation", kinds: &[OpKind::Negate, OpKind::Not, OpKind::ChloConj], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let inner = site.computed_by(site.operand(0), site.op().kind()?)?;
    Some(vec![inner.operands[0]])
}
