//! Dimensions of size 1 are the same reversed, and so is what is reversed twice.

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs, i64s};

pub(super) const RULE: Rule = Rule { name: "reverse_unit", kinds: &[OpKind::Reverse], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let dims = site.dims(operand)?;
    let reversed = site.i64s("dimensions")?;
    let kept: Vec<i64> = reversed.iter().copied().filter(|&d| dims[d as usize] > 1).collect();
    if kept.is_empty() {
        return Some(vec![operand]);
    }
    if kept.len() < reversed.len() {
        let ty = site.result_type().clone();
        return Some(vec![site.emit(OpKind::Reverse, &[operand], attrs([("dimensions", Attr::i64s(kept))]), ty)]);
    }
    let inner = site.computed_by(operand, OpKind::Reverse)?;
    let mut before = i64s(inner, "dimensions")?;
    let mut now = reversed;
    before.sort_unstable();
    now.sort_unstable();
    (before == now).then(|| vec![inner.operands[0]])
}
