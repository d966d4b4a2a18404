//! A slice that takes everything is none, and one of a slice is one.

use crate::ir::OpKind;

use super::{Exactness, Ranges, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "slice_chain", kinds: &[OpKind::Slice], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    site.array(operand)?;
    if site.func.ty(operand) == site.result_type() {
        return Some(vec![operand]);
    }
    let inner = site.computed_by(operand, OpKind::Slice)?;
    let (source, inner) = (inner.operands[0], Ranges::of(inner)?);
    let outer = Ranges::of(site.op())?;
    let sizes = site.dims(site.result())?.to_vec();
    let mut both = Ranges { starts: Vec::new(), limits: Vec::new(), strides: Vec::new() };
    for (d, &size) in sizes.iter().enumerate() {
        let stride = inner.strides[d].checked_mul(outer.strides[d])?;
        let start = inner.strides[d].checked_mul(outer.starts[d])?.checked_add(inner.starts[d])?;
        let limit = match size {
            0 => start,
            _ => (size - 1).checked_mul(stride)?.checked_add(start)?.checked_add(1)?,
        };
        // An empty slice may start behind the end of what it is taken from.
        if limit > site.dims(source)?[d] {
            return None;
        }
        both.starts.push(start);
        both.limits.push(limit);
        both.strides.push(stride);
    }
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Slice, &[source], both.attrs(), ty)])
}
