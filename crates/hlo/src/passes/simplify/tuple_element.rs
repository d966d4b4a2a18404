//! An element of a tuple made here is what the tuple was made of.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "tuple_element", kinds: &[OpKind::GetTupleElement], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let index = usize::try_from(site.op().attr("index")?.as_int()?).ok()?;
    let tuple = site.computed_by(site.operand(0), OpKind::Tuple)?;
    tuple.operands.get(index).map(|&element| vec![element])
}
