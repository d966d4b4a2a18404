//! The real and imaginary part of a number made of two are those two.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "complex_parts", kinds: &[OpKind::Real, OpKind::Imag], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let part = usize::from(site.op().kind() == Some(OpKind::Imag));
    let made = site.computed_by(site.operand(0), OpKind::Complex)?;
    Some(vec![made.operands[part]])
}
