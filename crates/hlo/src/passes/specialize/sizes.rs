//! Arithmetic on sizes: small integer constants, computed here so that no device is needed to know a shape.

use tensor::DType;

use crate::ir::{Attr, DYNAMIC, Dense, Keyword, Op, OpKind, TensorType};

use super::super::rewrite::{Replacement, Site, i64s};

/// A vector of sizes has as many elements as a tensor has dimensions, which are few.
pub(super) const MAX_ELEMENTS: usize = 64;

/// A constant for an op on sizes that are known.
pub(super) fn compute(site: &mut Site<'_>) -> Replacement {
    let op = site.op();
    if op.num_results != 1 || !op.regions.is_empty() || op.operands.is_empty() {
        return None;
    }
    let result = site.array(site.result())?.clone();
    let values = match op.kind()? {
        OpKind::GetDimensionSize => {
            let dim = usize::try_from(op.attr("dimension")?.as_int()?).ok()?;
            let size = site.func.ty(op.operands[0]).as_tensor()?.dims.get(dim).copied();
            vec![size.filter(|&size| size != DYNAMIC && size <= i64::from(i32::MAX))?]
        }
        kind => {
            let operands = op.operands.iter().map(|&value| Ints::read(site.constant(value)?));
            let operands = operands.collect::<Option<Vec<Ints>>>()?;
            evaluate(op, kind, &operands, &result)?
        }
    };
    constant(result, &values).map(|dense| vec![site.emit_constant(dense)])
}

/// Integers of a constant.
struct Ints {
    dtype: DType,
    dims: Vec<i64>,
    values: Vec<i64>,
}

impl Ints {
    fn read(dense: &Dense) -> Option<Ints> {
        let dtype = dense.ty.element.plain().filter(|dtype| dtype.is_integer() || dtype.is_bool())?;
        let values = dense.to_i64s(MAX_ELEMENTS)?;
        // The upper half of `ui64` is no size.
        if dtype == DType::U64 && values.iter().any(|&value| value < 0) {
            return None;
        }
        Some(Ints { dtype, dims: dense.ty.dims.clone(), values })
    }
}

fn constant(ty: TensorType, values: &[i64]) -> Option<Dense> {
    let dtype = ty.element.plain().filter(|dtype| dtype.is_integer() || dtype.is_bool())?;
    let bytes = values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(dtype.size_bytes())).collect();
    Dense::from_elements(ty, bytes)
}

fn evaluate(op: &Op, kind: OpKind, operands: &[Ints], result: &TensorType) -> Option<Vec<i64>> {
    let dtype = result.element.plain().filter(|dtype| dtype.is_integer() || dtype.is_bool())?;
    let count = usize::try_from(result.num_elements()?).ok().filter(|&n| n <= MAX_ELEMENTS)?;
    match (kind, operands) {
        (OpKind::Reshape, [a]) => (a.values.len() == count).then(|| a.values.clone()),
        (OpKind::BroadcastInDim, [a]) => broadcast(a, &i64s(op, "broadcast_dimensions")?, &result.dims, count),
        // Along the first dimension the elements follow each other.
        (OpKind::Concatenate, all) if op.attr("dimension").and_then(Attr::as_int) == Some(0) => {
            Some(all.iter().flat_map(|a| a.values.iter().copied()).collect())
        }
        (OpKind::Slice, [a]) if result.rank() == 1 => {
            let [start, limit, stride] = ["start_indices", "limit_indices", "strides"].map(|name| i64s(op, name));
            let first = |list: Option<Vec<i64>>| usize::try_from(*list?.first()?).ok();
            let (start, limit, stride) = (first(start)?, first(limit)?, first(stride)?.max(1));
            Some(a.values.get(start..limit)?.iter().step_by(stride).copied().collect())
        }
        (OpKind::Convert, [a]) if dtype.is_bool() => Some(a.values.iter().map(|&a| i64::from(a != 0)).collect()),
        (OpKind::Convert, [a]) => Some(a.values.iter().map(|&a| wrapped(a.into(), dtype)).collect()),
        (OpKind::Select, [mask, a, b]) => {
            let choose = |n: usize| Some(if *mask.values.get(n).or(mask.values.first())? != 0 { a } else { b });
            (0..count).map(|n| choose(n)?.values.get(n).copied()).collect()
        }
        (OpKind::Clamp, [low, a, high]) => {
            let at = |bound: &Ints, n: usize| bound.values.get(n).or(bound.values.first()).copied();
            (0..count).map(|n| Some((*a.values.get(n)?).max(at(low, n)?).min(at(high, n)?))).collect()
        }
        (OpKind::Compare, [a, b]) => {
            let direction = op.attr("comparison_direction").and_then(Attr::as_keyword)?;
            let pairs = a.values.iter().zip(&b.values);
            pairs.map(|(a, b)| Some(i64::from(compare(direction, *a, *b)?))).collect()
        }
        (_, [a]) => a.values.iter().map(|&a| Some(wrapped(unary(kind, dtype, a.into())?, dtype))).collect(),
        (_, [a, b]) if a.values.len() == b.values.len() && a.dtype == b.dtype => {
            let pairs = a.values.iter().zip(&b.values);
            pairs.map(|(&a, &b)| Some(wrapped(binary(kind, dtype, a.into(), b.into())?, dtype))).collect()
        }
        _ => None,
    }
}

fn broadcast(a: &Ints, along: &[i64], dims: &[i64], count: usize) -> Option<Vec<i64>> {
    if along.len() != a.dims.len() {
        return None;
    }
    let at = |n: usize| {
        // The place in the result, major to minor, from its flat index.
        let mut place = vec![0; dims.len()];
        let mut rest = n as i64;
        for (index, &size) in place.iter_mut().zip(dims).rev() {
            (*index, rest) = (rest % size.max(1), rest / size.max(1));
        }
        let mut flat = 0;
        for (&size, &dim) in a.dims.iter().zip(along) {
            let index = *place.get(usize::try_from(dim).ok()?)?;
            flat = flat * size + if size == 1 { 0 } else { index };
        }
        a.values.get(usize::try_from(flat).ok()?).copied()
    };
    (0..count).map(at).collect()
}

fn compare(direction: Keyword, a: i64, b: i64) -> Option<bool> {
    Some(match direction {
        Keyword::Eq => a == b,
        Keyword::Ne => a != b,
        Keyword::Ge => a >= b,
        Keyword::Gt => a > b,
        Keyword::Le => a <= b,
        Keyword::Lt => a < b,
        _ => return None,
    })
}

fn unary(kind: OpKind, dtype: DType, a: i128) -> Option<i128> {
    Some(match kind {
        OpKind::Negate => -a,
        OpKind::Abs => a.abs(),
        OpKind::Sign => a.signum(),
        OpKind::Not if dtype.is_bool() => 1 - a,
        OpKind::Not => !a,
        _ => return None,
    })
}

fn binary(kind: OpKind, dtype: DType, a: i128, b: i128) -> Option<i128> {
    Some(match kind {
        OpKind::And => a & b,
        OpKind::Or => a | b,
        OpKind::Xor => a ^ b,
        OpKind::Maximum => a.max(b),
        OpKind::Minimum => a.min(b),
        _ if dtype.is_bool() => return None,
        OpKind::Add => a + b,
        OpKind::Subtract => a - b,
        OpKind::Multiply => a * b,
        // By zero, the specification leaves it open.
        OpKind::Divide => a.checked_div(b)?,
        OpKind::Remainder => a.checked_rem(b)?,
        OpKind::Power => a.checked_pow(u32::try_from(b).ok()?)?,
        _ => return None,
    })
}

/// The low bits of a number, as its type reads them.
fn wrapped(value: i128, dtype: DType) -> i64 {
    let unused = 64 - dtype.bits().min(64);
    let low = (value as i64) << unused;
    if dtype.is_signed_integer() { low >> unused } else { ((low as u64) >> unused) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_as_their_type_does() {
        assert_eq!(wrapped(i128::from(i32::MAX) + 1, DType::I32), i64::from(i32::MIN));
        assert_eq!(wrapped(-1, DType::U8), 255);
        assert_eq!(wrapped(-1, DType::I64), -1);
        assert_eq!(wrapped(9, DType::U4), 9);
    }

    #[test]
    fn division_truncates_and_by_zero_is_left_alone() {
        assert_eq!(binary(OpKind::Divide, DType::I32, -7, 2), Some(-3));
        assert_eq!(binary(OpKind::Remainder, DType::I32, -7, 2), Some(-1));
        assert_eq!(binary(OpKind::Divide, DType::I32, 1, 0), None);
    }

    #[test]
    fn rows_and_columns_are_broadcast() {
        let a = Ints { dtype: DType::I32, dims: vec![2], values: vec![5, 6] };
        assert_eq!(broadcast(&a, &[0], &[2, 2], 4), Some(vec![5, 5, 6, 6]));
        assert_eq!(broadcast(&a, &[1], &[2, 2], 4), Some(vec![5, 6, 5, 6]));
    }
}
