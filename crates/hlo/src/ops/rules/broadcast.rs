//! Broadcasting: explicit dimensions, and the implicit alignment of CHLO.

use tensor::DType;

use crate::ir::{DYNAMIC, ElementType, TensorType};
use crate::ops::def::{OpView, Violation};

use super::elements::{self, Elements};
use super::{Checked, Inferred, dimensions, quantization, require, shapes};

/// Clauses C1 to C6 of `broadcast_in_dim`; `c[0]` is unused.
pub(crate) fn in_dim(c: &[&'static str; 7], operand: &TensorType, result: &TensorType, to: &[i64]) -> Checked {
    quantization::per_tensor_kept(c[1], operand, result)?;
    dimensions::count(c[2], "broadcast_dimensions", to.len(), operand.rank())?;
    dimensions::in_range(c[3], "broadcast_dimensions", to, result.rank())?;
    dimensions::unique(c[4], "broadcast_dimensions", to.iter().copied())?;
    for (from, &to) in to.iter().enumerate() {
        let (a, b) = (operand.dims[from], result.dims[to as usize]);
        require!(
            a == 1 || shapes::dims_agree(a, b),
            c[5],
            "operand dim {from} is {a}, neither 1 nor result dim {to}, which is {b}"
        );
    }
    quantization::broadcast(c[6], operand, result, to)
}

/// The type of a CHLO binary op: the smaller shape is aligned at the end, or where `broadcast_dimensions` says.
pub(crate) fn infer(op: &OpView<'_>, element: Option<ElementType>) -> Inferred {
    let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
    let element = match element {
        Some(element) => element,
        None => {
            shapes::same_element("", ("lhs", lhs), ("rhs", rhs))?;
            lhs.element.clone()
        }
    };
    Ok(vec![pair(op, lhs, rhs, element)?.into()])
}

fn pair(op: &OpView<'_>, lhs: &TensorType, rhs: &TensorType, element: ElementType) -> Result<TensorType, Violation> {
    let (small, large) = if lhs.rank() <= rhs.rank() { (lhs, rhs) } else { (rhs, lhs) };
    let lead = large.rank() - small.rank();
    let natural = || (lead as i64..large.rank() as i64).collect::<Vec<i64>>();
    let placed = match op.attrs.get("broadcast_dimensions") {
        Some(_) => {
            let dims = op.i64s("broadcast_dimensions")?;
            dimensions::count("", "broadcast_dimensions", dims.len(), small.rank())?;
            dimensions::in_range("", "broadcast_dimensions", dims, large.rank())?;
            require!(dims.is_sorted(), "", "broadcast_dimensions {dims:?} do not increase");
            dimensions::unique("", "broadcast_dimensions", dims.iter().copied())?;
            dims.to_vec()
        }
        None => natural(),
    };
    let mut sizes = large.dims.clone();
    let mut limits = shapes::bounds(large);
    for (from, &to) in placed.iter().enumerate() {
        let to = to as usize;
        let (a, b) = ((small.dims[from], shapes::bound(small, from)), (sizes[to], limits[to]));
        (sizes[to], limits[to]) = spread(to, a, b)?;
    }
    Ok(shapes::bounded(sizes, limits, element))
}

/// One dimension of two operands: ones stretch, an unknown size may turn out to be one.
fn spread(dim: usize, a: (i64, i64), b: (i64, i64)) -> Result<(i64, i64), Violation> {
    Ok(match (a.0, b.0) {
        (1, _) => b,
        (_, 1) => a,
        (DYNAMIC, DYNAMIC) if a.1 == b.1 => a,
        (DYNAMIC, DYNAMIC) => (DYNAMIC, DYNAMIC),
        (DYNAMIC, size) | (size, DYNAMIC) => (size, DYNAMIC),
        (x, y) => {
            require!(x == y, "", "dim {dim} of the result would be {x} and {y}");
            a
        }
    })
}

/// Element types of a CHLO binary op.
pub(crate) fn check(op: &OpView<'_>, accepted: Elements) -> Checked {
    elements::operand(op, 0, accepted, "")?;
    elements::operand(op, 1, accepted, "")
}

/// The type of `chlo.broadcast_select`: predicate and both values aligned at the end.
pub(crate) fn infer_select(op: &OpView<'_>) -> Inferred {
    let (pred, on_true, on_false) = (op.tensor(0)?, op.tensor(1)?, op.tensor(2)?);
    elements::tensor("", "operand 0", pred, Elements::BOOL)?;
    shapes::same_element("", ("on_true", on_true), ("on_false", on_false))?;
    let values = pair(op, on_true, on_false, on_true.element.clone())?;
    Ok(vec![pair(op, pred, &values, on_true.element.clone())?.into()])
}

/// The complex type made of two reals.
pub(crate) fn complex_of(clause: &'static str, ty: &TensorType) -> Result<DType, Violation> {
    match ty.element.plain() {
        Some(DType::F32) => Ok(DType::C64),
        Some(DType::F64) => Ok(DType::C128),
        _ => Err(Violation::new(
            clause,
            format!("operand 0 must be a tensor of f32 or f64, is {}", super::spelling::tensor(ty)),
        )),
    }
}
