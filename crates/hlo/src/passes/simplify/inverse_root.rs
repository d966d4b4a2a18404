//! `1 / sqrt(x)` is `rsqrt(x)` and `1 / rsqrt(x)` is `sqrt(x)`, but for the last bit.

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "inverse_root", kinds: &[OpKind::Divide], apply };

fn apply(site: &mut Site<'_>, exactness: Exactness) -> Replacement {
    if exactness != Exactness::Approximate || !site.is_filled_with(site.operand(0), 1.0) {
        return None;
    }
    let root = site.definition(site.operand(1))?;
    let inverse = match root.kind()? {
        OpKind::Sqrt => OpKind::Rsqrt,
        OpKind::Rsqrt => OpKind::Sqrt,
        _ => return None,
    };
    let operand = root.operands[0];
    let ty = site.result_type().clone();
    Some(vec![site.emit(inverse, &[operand], Attrs::new(), ty)])
}
