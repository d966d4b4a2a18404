//! CHLO ops that are one or two StableHLO ops, to the bit.

use tensor::{DType, encode_float};

use crate::ir::{Attr, Attrs, Dense, Keyword, OpKind};

use super::{Exactness, Replacement, Rule, Site, attrs};

pub(super) const RULE: Rule = Rule {
    name: "chlo_expand",
    kinds: &[
        OpKind::ChloConstant,
        OpKind::ChloConstantLike,
        OpKind::ChloIsInf,
        OpKind::ChloIsNegInf,
        OpKind::ChloIsPosInf,
        OpKind::ChloSquare,
    ],
    apply,
};

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let kind = site.op().kind()?;
    if matches!(kind, OpKind::ChloConstant | OpKind::ChloConstantLike) {
        let constant = constant(site, kind)?;
        return Some(vec![site.emit_constant(constant)]);
    }
    let operand = site.operand(0);
    let ty = site.array(operand)?.clone();
    let dtype = ty.element.plain().filter(|dtype| dtype.is_float())?;
    if kind == OpKind::ChloSquare {
        return Some(vec![site.emit(OpKind::Multiply, &[operand, operand], Attrs::new(), ty)]);
    }
    if !matches!(dtype, DType::BF16 | DType::F16 | DType::F32 | DType::F64) {
        return None;
    }
    let (value, limit) = match kind {
        OpKind::ChloIsPosInf => (operand, f64::INFINITY),
        OpKind::ChloIsNegInf => (operand, f64::NEG_INFINITY),
        _ => (site.emit(OpKind::Abs, &[operand], Attrs::new(), ty.clone()), f64::INFINITY),
    };
    let limit = site.emit_filled(&ty.dims, dtype, limit)?;
    let equal = attrs([("comparison_direction", Attr::Keyword(Keyword::Eq))]);
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Compare, &[value, limit], equal, ty)])
}

fn constant(site: &Site<'_>, kind: OpKind) -> Option<Dense> {
    let ty = site.array(site.result())?.clone();
    let dtype = ty.element.plain()?;
    let bytes = match site.op().attr("value")? {
        Attr::Dense(dense) if kind == OpKind::ChloConstant => return Some((**dense).clone()),
        Attr::Float(number, _) => encode_float(dtype, number.get())?.to_le_bytes(),
        Attr::Int(number, _) if dtype.is_integer() => number.to_le_bytes(),
        Attr::Bool(value) if dtype.is_bool() => i64::from(*value).to_le_bytes(),
        _ => return None,
    };
    Dense::splat(ty, bytes.get(..dtype.size_bytes())?)
}
