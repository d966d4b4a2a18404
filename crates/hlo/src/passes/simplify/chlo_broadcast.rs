//! A CHLO op that broadcasts its operands is the broadcasts and the plain op.

use crate::attr::Attr;
use crate::ops::OpKind;
use crate::ty::TensorType;

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

fn plain(kind: OpKind) -> Option<OpKind> {
    use OpKind as K;
    Some(match kind {
        K::ChloBroadcastAdd => K::Add,
        K::ChloBroadcastAnd => K::And,
        K::ChloBroadcastAtan2 => K::Atan2,
        K::ChloBroadcastCompare => K::Compare,
        K::ChloBroadcastComplex => K::Complex,
        K::ChloBroadcastDivide => K::Divide,
        K::ChloBroadcastMaximum => K::Maximum,
        K::ChloBroadcastMinimum => K::Minimum,
        K::ChloBroadcastMultiply => K::Multiply,
        K::ChloBroadcastNextAfter => K::ChloNextAfter,
        K::ChloBroadcastOr => K::Or,
        K::ChloBroadcastPolygamma => K::ChloPolygamma,
        K::ChloBroadcastPower => K::Power,
        K::ChloBroadcastRemainder => K::Remainder,
        K::ChloBroadcastSelect => K::Select,
        K::ChloBroadcastShiftLeft => K::ShiftLeft,
        K::ChloBroadcastShiftRightArithmetic => K::ShiftRightArithmetic,
        K::ChloBroadcastShiftRightLogical => K::ShiftRightLogical,
        K::ChloBroadcastSubtract => K::Subtract,
        K::ChloBroadcastXor => K::Xor,
        K::ChloBroadcastZeta => K::ChloZeta,
        _ => return None,
    })
}

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let kind = plain(site.op().kind()?)?;
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
