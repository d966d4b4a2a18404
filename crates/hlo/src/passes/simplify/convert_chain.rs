//! A conversion to the same type, and one after another that lost nothing.

use tensor::DType;

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "convert_chain", kinds: &[OpKind::Convert], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let operand = site.operand(0);
    let middle = site.dtype(operand)?;
    let last = site.dtype(site.result())?;
    if middle == last {
        return Some(vec![operand]);
    }
    let source = site.computed_by(operand, OpKind::Convert)?.operands[0];
    let first = site.dtype(source)?;
    if !holds_every(middle, first) {
        return None;
    }
    if first == last {
        return Some(vec![source]);
    }
    // Between integers conversion wraps; from a float out of range it does what the machine does.
    if first.is_integer() && middle.is_float() && !last.is_float() {
        return None;
    }
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Convert, &[source], Attrs::new(), ty)])
}

/// Whether every value of the narrow type is one of the wide type.
fn holds_every(wide: DType, narrow: DType) -> bool {
    let parts = |dtype: DType| match dtype {
        DType::BF16 => Some((8, 8)),
        DType::F16 => Some((5, 11)),
        DType::F32 => Some((8, 24)),
        DType::F64 => Some((11, 53)),
        _ => None,
    };
    if narrow.is_bool() {
        return wide.is_integer() || parts(wide).is_some();
    }
    let magnitude = |dtype: DType| dtype.bits() - u32::from(dtype.is_signed_integer());
    match (parts(wide), parts(narrow)) {
        (Some((e, m)), Some((narrow_e, narrow_m))) => e >= narrow_e && m >= narrow_m,
        // Every exponent here reaches past its significand, so the significand decides.
        (Some((_, m)), None) if narrow.is_integer() => m >= magnitude(narrow),
        (None, None) if narrow.is_integer() && wide.is_integer() => {
            magnitude(wide) >= magnitude(narrow) && (wide.is_signed_integer() || narrow.is_unsigned_integer())
        }
        _ => false,
    }
}
