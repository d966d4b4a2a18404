//! An update of everything is the update; one of nothing changes nothing.

use crate::ir::OpKind;

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "dynamic_update_slice_whole", kinds: &[OpKind::DynamicUpdateSlice], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (operand, update) = (site.operand(0), site.operand(1));
    if site.array(update)?.num_elements() == Some(0) {
        return Some(vec![operand]);
    }
    (site.array(operand)? == site.array(update)?).then(|| vec![update])
}
