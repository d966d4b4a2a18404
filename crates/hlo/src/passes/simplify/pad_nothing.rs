//! A pad by nothing is none.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "pad_nothing", kinds: &[OpKind::Pad], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    site.array(site.operand(0))?;
    let is_zero = |name: &str| site.i64s(name).is_some_and(|amounts| amounts.iter().all(|&amount| amount == 0));
    let is_nothing = ["edge_padding_low", "edge_padding_high", "interior_padding"].into_iter().all(is_zero);
    is_nothing.then(|| vec![site.operand(0)])
}
