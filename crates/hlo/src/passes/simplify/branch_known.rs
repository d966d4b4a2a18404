//! A branch that is known to be taken stands in place of the choice.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "branch_known", kinds: &[OpKind::If, OpKind::Case], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let op = site.op();
    let chosen = site.int_splat(op.operands[0])?;
    let region = match op.kind()? {
        OpKind::If => usize::from(chosen == 0),
        // An index out of range takes the last branch (case, "Semantics").
        _ => usize::try_from(chosen).map_or(op.regions.len() - 1, |n| n.min(op.regions.len() - 1)),
    };
    let region = op.regions[region];
    site.splice(region, &[])
}
