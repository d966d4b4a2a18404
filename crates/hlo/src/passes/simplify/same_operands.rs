//! A value with itself: the larger, the smaller, `and` and `or` are the value, and integers cancel.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule {
    name: "same_operands",
    kinds: &[OpKind::And, OpKind::Or, OpKind::Maximum, OpKind::Minimum, OpKind::Subtract, OpKind::Xor],
    apply,
};

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let value = site.operand(0);
    if site.operand(1) != value {
        return None;
    }
    let ty = site.array(value)?;
    let (dtype, dims) = (ty.element.plain()?, ty.dims.clone());
    match site.op().kind()? {
        OpKind::Subtract | OpKind::Xor if dtype.is_integer() || dtype.is_bool() => {
            Some(vec![site.emit_filled(&dims, dtype, 0.0)?])
        }
        OpKind::Subtract => None,
        _ => Some(vec![value]),
    }
}
