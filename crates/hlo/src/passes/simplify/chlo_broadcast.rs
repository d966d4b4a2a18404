//! A CHLO op that broadcasts its operands is the broadcasts and the plain op.

use crate::ir::{Attr, OpKind, TensorType};

use super::{Exactness, Replacement, Rule, Site, attrs};

pub(super) const RULE: Rule = Rule {
    name: "chlo_broadcast",
    kinds: &[
        OpKind::ChloBroadcastAdd,
        OpKind::ChloBroadcastAnd,
        OpKind::ChloBroadcastAtan2,
        OpKind::ChloBroadcastCompare,
        OpKind::ChloBroadcastComplex,
        OpKind::ChloBroadcastDivide,
        OpKind::ChloBroadcastMaximum,
        OpKind::ChloBroadcastMinimum,
        OpKind::ChloBroadcastMultiply,
        OpKind::ChloBroadcastNextAfter,
        OpKind::ChloBroadcastOr,
        OpKind::ChloBroadcastPolygamma,
        OpKind::ChloBroadcastPower,
        OpKind::ChloBroadcastRemainder,
        OpKind::ChloBroadcastSelect,
        OpKind::ChloBroadcastShiftLeft,
        OpKind::ChloBroadcastShiftRightArithmetic,
        OpKind::ChloBroadcastShiftRightLogical,
        OpKind::ChloBroadcastSubtract,
        OpKind::ChloBroadcastXor,
        OpKind::ChloBroadcastZeta,
    ],
    apply,
};

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let kind = site.op().kind()?.broadcasts()?;
    let result = site.array(site.result())?.dims.clone();
    let placed = site.i64s("broadcast_dimensions");
    let operands = site.op().operands.clone();
    let mut wide = Vec::with_capacity(operands.len());
    for &operand in &operands {
        let ty = site.array(operand)?.clone();
        if ty.dims == result {
            wide.push(operand);
            continue;
        }
        let rank = ty.rank();
        // Where dimensions are given they are the smaller operand's; others are aligned at the end.
        let to = match &placed {
            Some(to) if to.len() == rank && rank < result.len() => to.clone(),
            _ => (result.len().checked_sub(rank)?..result.len()).map(|d| d as i64).collect(),
        };
        let dims = attrs([("broadcast_dimensions", Attr::i64s(to))]);
        wide.push(site.emit(OpKind::BroadcastInDim, &[operand], dims, TensorType::new(result.clone(), ty.element)));
    }
    let mut attributes = site.op().attrs.clone();
    attributes.remove("broadcast_dimensions");
    let ty = site.result_type().clone();
    Some(vec![site.emit(kind, &wide, attributes, ty)])
}
