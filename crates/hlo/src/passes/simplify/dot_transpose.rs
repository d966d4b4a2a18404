//! A transposed operand of a contraction is its source, contracted along other dimensions.

use std::sync::Arc;

use crate::ir::{Attr, OpKind};

use super::{Exactness, Replacement, Rule, Site, i64s};

pub(super) const RULE: Rule = Rule { name: "dot_transpose", kinds: &[OpKind::DotGeneral], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let Attr::Dot(numbers) = site.op().attr("dot_dimension_numbers")? else { return None };
    let mut numbers = (**numbers).clone();
    let mut operands = site.op().operands.clone();
    let mut changed = false;
    let sides = [
        (&mut numbers.lhs_batching, &mut numbers.lhs_contracting),
        (&mut numbers.rhs_batching, &mut numbers.rhs_contracting),
    ];
    for (operand, (batching, contracting)) in operands.iter_mut().zip(sides) {
        let Some(transpose) = site.computed_by(*operand, OpKind::Transpose) else { continue };
        let (source, permutation) = (transpose.operands[0], i64s(transpose, "permutation")?);
        site.array(source)?;
        // The free dimensions of the result stand in the operand's order.
        let free = (0..permutation.len() as i64).filter(|d| !batching.contains(d) && !contracting.contains(d));
        if !free.map(|d| permutation[d as usize]).is_sorted() {
            continue;
        }
        batching.iter_mut().chain(contracting).for_each(|d| *d = permutation[*d as usize]);
        *operand = source;
        changed = true;
    }
    if !changed {
        return None;
    }
    let mut attributes = site.op().attrs.clone();
    attributes.set("dot_dimension_numbers", Attr::Dot(Arc::new(numbers)));
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::DotGeneral, &operands, attributes, ty)])
}
