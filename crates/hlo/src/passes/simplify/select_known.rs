//! A choice that is known, between equals, or by a negated predicate.

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "select_known", kinds: &[OpKind::Select], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (pred, on_true, on_false) = (site.operand(0), site.operand(1), site.operand(2));
    if on_true == on_false {
        return Some(vec![on_true]);
    }
    if let Some(chosen) = site.int_splat(pred) {
        return Some(vec![if chosen != 0 { on_true } else { on_false }]);
    }
    let positive = site.computed_by(pred, OpKind::Not)?.operands[0];
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Select, &[positive, on_false, on_true], Attrs::new(), ty)])
}
