//! Division by a power of two is multiplication by its inverse, where that is a normal number.

use tensor::DType;

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "divide_power_of_two", kinds: &[OpKind::Divide], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let (lhs, rhs) = (site.operand(0), site.operand(1));
    let smallest_exponent = match site.dtype(rhs)? {
        DType::F16 => -14,
        DType::BF16 | DType::F32 => -126,
        DType::F64 => -1022,
        _ => return None,
    };
    let divisor = site.float_splat(rhs)?;
    let is_power = divisor.is_normal() && divisor.to_bits() << 12 == 0;
    let inverse = 1.0 / divisor;
    if !is_power || inverse.abs() < 2f64.powi(smallest_exponent) || inverse.abs() > 2f64.powi(1 - smallest_exponent) {
        return None;
    }
    let ty = site.array(rhs)?;
    let (dims, dtype) = (ty.dims.clone(), ty.element.plain()?);
    let factor = site.emit_filled(&dims, dtype, inverse)?;
    let ty = site.result_type().clone();
    Some(vec![site.emit(OpKind::Multiply, &[lhs, factor], Attrs::new(), ty)])
}
