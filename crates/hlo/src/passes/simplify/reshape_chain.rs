//! A reshape of a reshape is one, and one to the same sizes is none.

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "reshape_chain", kinds: &[OpKind::Reshape], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    site.array(operand)?;
    if site.func.ty(operand) == site.result_type() {
        return Some(vec![operand]);
    }
    let source = site.computed_by(operand, OpKind::Reshape)?.operands[0];
    site.array(source)?;
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Reshape, &[source], Attrs::new(), ty)])
}
