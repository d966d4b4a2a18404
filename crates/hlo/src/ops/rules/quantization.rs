//! Constraints on scales, zero points and quantized dimensions.

use std::sync::Arc;

use tensor::DType;

use crate::ir::{DYNAMIC, ElementType, Quantized, TensorType};
use crate::ops::def::Violation;

use super::{Checked, elements, require, shapes, spelling};

/// The quantization of a tensor, if it is quantized.
pub(crate) fn of(ty: &TensorType) -> Option<&Arc<Quantized>> {
    match &ty.element {
        ElementType::Quantized(q) => Some(q),
        _ => None,
    }
}

/// Clauses of `add` for quantized operands: C3, C4, C5, C6 and C7.
pub(crate) fn sum(lhs: &TensorType, rhs: &TensorType, result: &TensorType) -> Checked {
    let (Some(l), Some(r), Some(o)) = (of(lhs), of(rhs), of(result)) else {
        return Err(Violation::new("add C2", "either all or none of lhs, rhs and result are quantized"));
    };
    require!(
        l.storage == r.storage && l.storage == o.storage,
        "add C3",
        "storage types of lhs, rhs and result are {}, {} and {}",
        l.storage,
        r.storage,
        o.storage
    );
    require!(
        l.expressed == r.expressed && l.expressed == o.expressed,
        "add C4",
        "expressed types of lhs, rhs and result are {}, {} and {}",
        l.expressed,
        r.expressed,
        o.expressed
    );
    require!(
        (l.axis.is_some() || r.axis.is_some()) == o.axis.is_some(),
        "add C5",
        "the result is quantized per axis exactly when lhs or rhs is"
    );
    require!(l.axis.is_none() || l.axis == o.axis, "add C6", "quantized dimensions of lhs and result differ");
    require!(r.axis.is_none() || r.axis == o.axis, "add C7", "quantized dimensions of rhs and result differ");
    Ok(())
}

/// Clauses that `dot_general` and `convolution` share, in the order C14, C17, C18, C19, C20 of the former.
pub(crate) fn dot(c: [&'static str; 5], lhs: &TensorType, rhs: &TensorType, result: &TensorType) -> Checked {
    if ![lhs, rhs, result].into_iter().any(elements::is_quantized) {
        return Ok(());
    }
    let Some(r) = of(rhs) else {
        return Err(Violation::new(c[0], "rhs must be quantized when lhs or the result is"));
    };
    match (of(lhs), of(result)) {
        (Some(l), Some(o)) => {
            require!(l.storage == r.storage, c[1], "storage type of lhs is {}, of rhs {}", l.storage, r.storage);
            require!(
                l.expressed == r.expressed && l.expressed == o.expressed,
                c[2],
                "expressed types of lhs, rhs and result are {}, {} and {}",
                l.expressed,
                r.expressed,
                o.expressed
            );
            require!(r.axis.is_some() || o.axis.is_none(), c[3], "rhs is quantized per tensor, the result per axis");
        }
        (None, None) => require!(
            lhs.element == ElementType::Plain(r.expressed) && lhs.element == result.element,
            c[4],
            "element type of lhs is {}, expressed type of rhs {}, element type of the result {}",
            spelling::element(&lhs.element),
            r.expressed,
            spelling::element(&result.element)
        ),
        _ => return Err(Violation::new(c[0], "lhs and the result must both be quantized or both not")),
    }
    Ok(())
}

/// Element types are the same; a per-axis quantization may move to another dimension but keeps its scales.
pub(crate) fn moved(clause: &'static str, operand: &TensorType, result: &TensorType) -> Checked {
    shapes::same_element(clause, ("operand", operand), ("result", result))?;
    if let (Some(a), Some(b)) = (of(operand), of(result)) {
        require!(
            a.scales == b.scales && a.zero_points == b.zero_points,
            clause,
            "scales or zero points of operand and result differ"
        );
    }
    Ok(())
}

/// Element types are the same; scales of a per-axis quantization are checked elsewhere.
pub(crate) fn per_tensor_kept(clause: &'static str, operand: &TensorType, result: &TensorType) -> Checked {
    match (of(operand), of(result)) {
        (Some(a), Some(b)) if a.axis.is_none() && b.axis.is_none() => moved(clause, operand, result),
        _ => shapes::same_element(clause, ("operand", operand), ("result", result)),
    }
}

/// A reshape keeps the quantized dimension and what lies before and after it (`reshape` C3).
pub(crate) fn reshaped(clause: &'static str, operand: &TensorType, result: &TensorType) -> Checked {
    let axis = |ty: &TensorType| of(ty).and_then(|q| q.axis).and_then(|axis| usize::try_from(axis).ok());
    let (Some(a), Some(b)) = (axis(operand), axis(result)) else { return Ok(()) };
    let (Some(&x), Some(&y)) = (operand.dims.get(a), result.dims.get(b)) else { return Ok(()) };
    require!(shapes::dims_agree(x, y), clause, "the quantized dimension is {x} in the operand, {y} in the result");
    let product = |dims: &[i64]| dims.iter().try_fold(1i64, |n, &d| if d == DYNAMIC { None } else { n.checked_mul(d) });
    for (name, p, q) in [
        ("before", product(&operand.dims[..a]), product(&result.dims[..b])),
        ("after", product(&operand.dims[a + 1..]), product(&result.dims[b + 1..])),
    ] {
        if let (Some(p), Some(q)) = (p, q) {
            require!(p == q, clause, "dimensions {name} the quantized one hold {p} in the operand, {q} in the result");
        }
    }
    Ok(())
}

/// A broadcast carries the quantized dimension along (`broadcast_in_dim` C6).
pub(crate) fn broadcast(
    clause: &'static str,
    operand: &TensorType,
    result: &TensorType,
    dimensions: &[i64],
) -> Checked {
    let (Some(a), Some(b)) = (of(operand), of(result)) else { return Ok(()) };
    let (Some(from), Some(to)) = (a.axis, b.axis) else { return Ok(()) };
    let mapped = usize::try_from(from).ok().and_then(|d| dimensions.get(d).copied());
    require!(
        mapped == Some(to),
        clause,
        "quantized dimension of the operand is {from}, which becomes {}, but the result's is {to}",
        mapped.map_or("nothing".into(), |d| d.to_string())
    );
    let is_expanded = usize::try_from(from).ok().and_then(|d| operand.dims.get(d)) == Some(&1);
    if is_expanded {
        let uniform = b.scales.iter().all(|s| Some(s) == a.scales.first())
            && b.zero_points.iter().all(|z| Some(z) == a.zero_points.first());
        require!(uniform, clause, "scales and zero points of the result must repeat those of the operand");
    }
    Ok(())
}

/// Least positive and greatest finite value of an expressed type.
fn range(expressed: DType) -> (f64, f64) {
    match expressed {
        DType::F16 => (2f64.powi(-24), 65504.0),
        DType::BF16 => (2f64.powi(-133), f64::from(f32::from_bits(0x7f7f_0000))),
        DType::F32 => (2f64.powi(-149), f64::from(f32::MAX)),
        _ => (f64::from_bits(1), f64::MAX),
    }
}

/// A quantized element type is well formed (spec: "Quantized tensor types").
pub(crate) fn well_formed(ty: &TensorType) -> Checked {
    let Some(q) = of(ty) else { return Ok(()) };
    let clause = "quantized type";
    require!(q.storage.is_integer(), clause, "storage type {} is not an integer", q.storage);
    require!(q.expressed.is_float(), clause, "expressed type {} is not a floating-point type", q.expressed);
    require!(q.storage_min < q.storage_max, clause, "storage range {} to {} is empty", q.storage_min, q.storage_max);
    require!(
        q.scales.len() == q.zero_points.len() && !q.scales.is_empty(),
        clause,
        "{} scales and {} zero points",
        q.scales.len(),
        q.zero_points.len()
    );
    for scale in &q.scales {
        let scale = scale.get();
        require!(scale > 0.0 && scale.is_finite(), clause, "scale {scale} is not positive");
        let (least, most) = range(q.expressed);
        require!((least..=most).contains(&scale), clause, "scale {scale} does not fit {}", q.expressed);
    }
    for &zero in &q.zero_points {
        require!(
            (q.storage_min..=q.storage_max).contains(&zero),
            clause,
            "zero point {zero} is outside the storage range {} to {}",
            q.storage_min,
            q.storage_max
        );
    }
    let Some(axis) = q.axis else {
        require!(q.scales.len() == 1, clause, "{} scales for a per-tensor quantization", q.scales.len());
        return Ok(());
    };
    let Some(&size) = usize::try_from(axis).ok().and_then(|axis| ty.dims.get(axis)) else {
        return Err(Violation::new(clause, format!("quantized dimension {axis} of a tensor of rank {}", ty.rank())));
    };
    require!(
        size == DYNAMIC || size == q.scales.len() as i64,
        clause,
        "quantized dimension {axis} is {size} and there are {} scales",
        q.scales.len()
    );
    Ok(())
}
