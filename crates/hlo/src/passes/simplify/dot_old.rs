//! `dot` is a `dot_general` of the last dimension with the first.

use std::sync::Arc;

use crate::ir::dims::DotDims;
use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "dot_old", kinds: &[OpKind::Dot], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    let last = site.array(lhs)?.rank() as i64 - 1;
    site.array(rhs)?;
    let numbers = DotDims { lhs_contracting: vec![last], rhs_contracting: vec![0], ..DotDims::default() };
    let mut attributes = site.op().attrs.clone();
    attributes.set("dot_dimension_numbers", Attr::Dot(Arc::new(numbers)));
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::DotGeneral, &[lhs, rhs], attributes, ty)])
}
