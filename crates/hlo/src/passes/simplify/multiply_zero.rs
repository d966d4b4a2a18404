//! `x * 0` is `0` for integers; floats have infinities, NaNs and the sign of zero.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "multiply_zero", kinds: &[OpKind::Multiply], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    if !site.dtype(lhs)?.is_integer() {
        return None;
    }
    let zero = [lhs, rhs].into_iter().find(|&value| site.is_filled_with(value, 0.0))?;
    Some(vec![zero])
}
