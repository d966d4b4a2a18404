//! Agreement of shapes and types, where an unknown dimension agrees with anything its bound allows.

use crate::ir::{Attr, DYNAMIC, ElementType, TensorType, Type};
use crate::ops::def::Violation;

use super::{Checked, require, spelling};

/// Every dimension of a result is known, but for one that may be bounded.
pub(crate) fn static_or_one_bounded(clause: &'static str, result: &TensorType) -> Checked {
    let mut dynamic = (0..result.rank()).filter(|&dim| result.dims[dim] == DYNAMIC);
    let Some(first) = dynamic.next() else { return Ok(()) };
    require!(bound(result, first) != DYNAMIC, clause, "result dim {first} is neither known nor bounded");
    match dynamic.next() {
        None => Ok(()),
        Some(second) => Err(Violation::new(clause, format!("result dims {first} and {second} are both dynamic"))),
    }
}

/// Whether two sizes can be the same.
pub(crate) fn dims_agree(a: i64, b: i64) -> bool {
    a == DYNAMIC || b == DYNAMIC || a == b
}

/// Whether two shapes can be the same.
pub(crate) fn shapes_agree(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| dims_agree(a, b))
}

/// The upper bound of a dimension; [`DYNAMIC`] when there is none.
pub(crate) fn bound(ty: &TensorType, dim: usize) -> i64 {
    ty.bounds().and_then(|bounds| bounds.get(dim).copied()).unwrap_or(DYNAMIC)
}

/// The bounds of every dimension.
pub(crate) fn bounds(ty: &TensorType) -> Vec<i64> {
    (0..ty.rank()).map(|dim| bound(ty, dim)).collect()
}

/// A tensor type whose encoding states the bounds, if any is stated.
pub(crate) fn bounded(dims: Vec<i64>, bounds: Vec<i64>, element: ElementType) -> TensorType {
    let encoding = bounds.iter().any(|&b| b != DYNAMIC).then(|| Attr::Bounds(bounds.into()));
    TensorType { dims, element, encoding }
}

/// The same shape with another element type.
pub(crate) fn with_element(ty: &TensorType, element: ElementType) -> TensorType {
    TensorType { dims: ty.dims.clone(), element, encoding: ty.encoding.clone() }
}

/// Whether element types agree once scales and zero points are set aside (spec: `baseline_element_type`).
pub(crate) fn elements_agree(a: &ElementType, b: &ElementType) -> bool {
    match (a, b) {
        (ElementType::Quantized(a), ElementType::Quantized(b)) => {
            a.storage == b.storage
                && a.expressed == b.expressed
                && a.storage_min == b.storage_min
                && a.storage_max == b.storage_max
                && a.axis.is_some() == b.axis.is_some()
        }
        _ => a == b,
    }
}

/// Whether two tensor types can be the same.
pub(crate) fn tensors_agree(a: &TensorType, b: &TensorType) -> bool {
    let within = |size: i64, bound: i64| size == DYNAMIC || bound == DYNAMIC || size <= bound;
    shapes_agree(&a.dims, &b.dims)
        && (0..a.rank()).all(|d| within(a.dims[d], bound(b, d)) && within(b.dims[d], bound(a, d)))
        && elements_agree(&a.element, &b.element)
}

/// Whether two types can be the same.
pub(crate) fn types_agree(a: &Type, b: &Type) -> bool {
    // Tuples nest, so pairs wait on a list instead of on the call stack.
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        match (a, b) {
            (Type::Tensor(a), Type::Tensor(b)) | (Type::Buffer(a), Type::Buffer(b)) => {
                if !tensors_agree(a, b) {
                    return false;
                }
            }
            (Type::Tuple(a), Type::Tuple(b)) | (Type::Future(a), Type::Future(b)) => {
                if a.len() != b.len() {
                    return false;
                }
                pending.extend(a.iter().zip(b.iter()));
            }
            _ if a == b => {}
            _ => return false,
        }
    }
    true
}

/// Two named tensors have the same shape.
pub(crate) fn same_shape(clause: &'static str, a: (&str, &TensorType), b: (&str, &TensorType)) -> Checked {
    same_dims(clause, (a.0, &a.1.dims), (b.0, &b.1.dims))
}

/// Two named shapes are the same.
pub(crate) fn same_dims(clause: &'static str, a: (&str, &[i64]), b: (&str, &[i64])) -> Checked {
    require!(a.1.len() == b.1.len(), clause, "{} has rank {}, {} has rank {}", a.0, a.1.len(), b.0, b.1.len());
    for (dim, (&x, &y)) in a.1.iter().zip(b.1).enumerate() {
        require!(dims_agree(x, y), clause, "{} dim {dim} is {x}, {} dim {dim} is {y}", a.0, b.0);
    }
    Ok(())
}

/// Two named tensors have the same element type, scales and zero points set aside.
pub(crate) fn same_element(clause: &'static str, a: (&str, &TensorType), b: (&str, &TensorType)) -> Checked {
    require!(
        elements_agree(&a.1.element, &b.1.element),
        clause,
        "element type of {} is {}, of {} is {}",
        a.0,
        spelling::element(&a.1.element),
        b.0,
        spelling::element(&b.1.element)
    );
    Ok(())
}

/// Two named tensors have exactly the same element type.
pub(crate) fn identical_element(clause: &'static str, a: (&str, &TensorType), b: (&str, &TensorType)) -> Checked {
    require!(
        a.1.element == b.1.element,
        clause,
        "element type of {} is {}, of {} is {}",
        a.0,
        spelling::element(&a.1.element),
        b.0,
        spelling::element(&b.1.element)
    );
    Ok(())
}

/// Two lists of types agree one by one.
pub(crate) fn same_types<'a>(
    clause: &'static str,
    a: (&str, impl ExactSizeIterator<Item = &'a Type>),
    b: (&str, impl ExactSizeIterator<Item = &'a Type>),
) -> Checked {
    require!(a.1.len() == b.1.len(), clause, "{} are {}, {} are {}", a.0, a.1.len(), b.0, b.1.len());
    for (n, (x, y)) in a.1.zip(b.1).enumerate() {
        require!(types_agree(x, y), clause, "{} {n} is {}, {} {n} is {}", a.0, spelling::ty(x), b.0, spelling::ty(y));
    }
    Ok(())
}

/// Two lists of types are the same, unknown dimensions included: symbols bind by exact type.
pub(crate) fn identical_types(clause: &'static str, a: (&str, &[Type]), b: (&str, &[Type])) -> Checked {
    same_types(clause, (a.0, a.1.iter()), (b.0, b.1.iter()))?;
    for (n, (x, y)) in a.1.iter().zip(b.1).enumerate() {
        require!(x == y, clause, "{} {n} is {}, {} {n} is {}", a.0, spelling::ty(x), b.0, spelling::ty(y));
    }
    Ok(())
}

/// What is known about a dimension of values that must be equal: the known size, else the smaller bound.
pub(crate) fn meet_dim(
    clause: &'static str,
    dim: usize,
    a: (i64, i64),
    b: (i64, i64),
) -> Result<(i64, i64), Violation> {
    let size = if a.0 == DYNAMIC { b.0 } else { a.0 };
    let bound = match (a.1, b.1) {
        (DYNAMIC, bound) | (bound, DYNAMIC) => bound,
        (a, b) => a.min(b),
    };
    require!(dims_agree(a.0, b.0), clause, "dim {dim} is {} here and {} there", a.0, b.0);
    if size == DYNAMIC {
        return Ok((DYNAMIC, bound));
    }
    require!(bound == DYNAMIC || size <= bound, clause, "dim {dim} is {size}, above its bound {bound}");
    Ok((size, DYNAMIC))
}

/// What is known about a dimension of a value that is one of two: the size if both say so, else the larger bound.
fn join_dim(a: (i64, i64), b: (i64, i64)) -> (i64, i64) {
    if a.0 == b.0 && a.0 != DYNAMIC {
        return (a.0, DYNAMIC);
    }
    let limit = |x: (i64, i64)| if x.0 == DYNAMIC { x.1 } else { x.0 };
    match (limit(a), limit(b)) {
        (DYNAMIC, _) | (_, DYNAMIC) => (DYNAMIC, DYNAMIC),
        (a, b) => (DYNAMIC, a.max(b)),
    }
}

/// The most that is known about tensors that must have one shape; the element type and encoding of the first.
pub(crate) fn meet(clause: &'static str, types: &[&TensorType]) -> Result<TensorType, Violation> {
    let Some((first, rest)) = types.split_first() else {
        return Err(Violation::new(clause, "there must be at least one operand"));
    };
    let mut dims = first.dims.clone();
    let mut limits = bounds(first);
    for (n, ty) in rest.iter().enumerate() {
        same_shape(clause, ("operand 0", first), (&format!("operand {}", n + 1), ty))?;
        for d in 0..dims.len() {
            (dims[d], limits[d]) = meet_dim(clause, d, (dims[d], limits[d]), (ty.dims[d], bound(ty, d)))?;
        }
    }
    if types.iter().all(|ty| ty.bounds().is_none()) {
        return Ok(TensorType { dims, element: first.element.clone(), encoding: first.encoding.clone() });
    }
    Ok(bounded(dims, limits, first.element.clone()))
}

/// What is known about a value that is one of several, as the branches of a conditional give it.
pub(crate) fn join(types: &[&Type]) -> Option<Type> {
    let (&first, rest) = types.split_first()?;
    let Some(tensor) = first.as_tensor() else { return Some(first.clone()) };
    let (mut dims, mut limits) = (tensor.dims.clone(), bounds(tensor));
    for ty in rest {
        let Some(ty) = ty.as_tensor().filter(|ty| ty.rank() == dims.len()) else { return Some(first.clone()) };
        for d in 0..dims.len() {
            (dims[d], limits[d]) = join_dim((dims[d], limits[d]), (ty.dims[d], bound(ty, d)));
        }
    }
    if dims == tensor.dims && limits == bounds(tensor) {
        return Some(first.clone());
    }
    Some(bounded(dims, limits, tensor.element.clone()).into())
}
