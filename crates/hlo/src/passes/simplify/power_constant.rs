//! A power with a small known exponent is a product, a quotient or a root.

use crate::ir::{Attrs, OpKind};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "power_constant", kinds: &[OpKind::Power], apply };

fn apply(site: &mut Site<'_>, exactness: Exactness) -> Replacement {
    let (operand, exponent) = (site.operand(0), site.operand(1));
    let ty = site.array(operand)?;
    let (dims, dtype) = (ty.dims.clone(), ty.element.plain()?);
    let exponent = match dtype.is_float() {
        true => site.float_splat(exponent)?,
        false if dtype.is_integer() => site.int_splat(exponent)? as f64,
        false => return None,
    };
    let ty = site.result_type().clone();
    let approximate = exactness == Exactness::Approximate;
    let value = match exponent {
        0.0 => site.emit_filled(&dims, dtype, 1.0)?,
        1.0 => operand,
        2.0 => site.emit(OpKind::Multiply, &[operand, operand], Attrs::new(), ty),
        3.0 if approximate || dtype.is_integer() => {
            let square = site.emit(OpKind::Multiply, &[operand, operand], Attrs::new(), ty.clone());
            site.emit(OpKind::Multiply, &[square, operand], Attrs::new(), ty)
        }
        -1.0 if dtype.is_float() => {
            let one = site.emit_filled(&dims, dtype, 1.0)?;
            site.emit(OpKind::Divide, &[one, operand], Attrs::new(), ty)
        }
        // The root of `-0.0` and of negative infinity differs from the power.
        0.5 if approximate => site.emit(OpKind::Sqrt, &[operand], Attrs::new(), ty),
        -0.5 if approximate => site.emit(OpKind::Rsqrt, &[operand], Attrs::new(), ty),
        _ => return None,
    };
    Some(vec![value])
}
