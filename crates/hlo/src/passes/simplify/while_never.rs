//! A loop whose condition is never true gives what it was given.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "while_never", kinds: &[OpKind::While], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let &last = site.func.region(site.op().regions[0]).ops.last()?;
    let decision = *site.func.op(last).operands.first()?;
    (site.int_splat(decision)? == 0).then(|| site.op().operands.clone())
}
