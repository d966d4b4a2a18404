//! `and`, `or` and `xor` with all bits clear or all bits set.

use crate::ir::{Attrs, OpKind, Value};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "logical_identity", kinds: &[OpKind::And, OpKind::Or, OpKind::Xor], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    for (value, mask) in [(lhs, rhs), (rhs, lhs)] {
        let Some(bits) = bits(site, mask) else { continue };
        return match (site.op().kind()?, bits) {
            (OpKind::And, Bits::Set) | (OpKind::Or | OpKind::Xor, Bits::Clear) => Some(vec![value]),
            (OpKind::And, Bits::Clear) | (OpKind::Or, Bits::Set) => Some(vec![mask]),
            _ => {
                let ty = site.result_type().clone();
                Some(vec![site.emit(OpKind::Not, &[value], Attrs::new(), ty)])
            }
        };
    }
    None
}

enum Bits {
    Clear,
    Set,
}

fn bits(site: &Site<'_>, value: Value) -> Option<Bits> {
    let dtype = site.dtype(value)?;
    let element = site.splat(value)?;
    let set = match dtype.bits() {
        width if width < 8 && !dtype.is_signed_integer() => (1 << width) - 1,
        _ => u8::MAX,
    };
    if element.iter().all(|&byte| byte == 0) {
        Some(Bits::Clear)
    } else {
        element.iter().all(|&byte| byte == set).then_some(Bits::Set)
    }
}
