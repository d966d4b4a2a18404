//! Types of results once sizes are known: the ops' own inference, and what it leaves to the program.

use std::sync::Arc;

use crate::ir::{Attr, DYNAMIC, Func, OpKind, TensorType, Type, Value};
use crate::ops::rules::{contraction, convolution, shapes, spelling};
use crate::ops::{OpView, Violation};

use super::super::rewrite::Site;

/// Whether every size in a type is known.
pub(super) fn is_static(ty: &Type) -> bool {
    match ty {
        Type::Tensor(tensor) | Type::Buffer(tensor) => tensor.is_static(),
        Type::Tuple(types) | Type::Future(types) => types.iter().all(is_static),
        _ => true,
    }
}

/// A type with what another says of its sizes; `None` where they contradict each other.
pub(super) fn refine(declared: &Type, known: &Type) -> Option<Type> {
    match (declared, known) {
        (Type::Tensor(declared), Type::Tensor(known)) => {
            if declared.rank() != known.rank() || !shapes::elements_agree(&declared.element, &known.element) {
                return None;
            }
            let dim = |(&declared, &known): (&i64, &i64)| match (declared, known) {
                (DYNAMIC, size) | (size, DYNAMIC) => Some(size),
                (one, other) => (one == other).then_some(one),
            };
            let dims = declared.dims.iter().zip(&known.dims).map(dim).collect::<Option<Vec<i64>>>()?;
            let mut refined = TensorType { dims, ..(**declared).clone() };
            if refined.is_static() && matches!(refined.encoding, Some(Attr::Bounds(_))) {
                refined.encoding = None;
            }
            Some(Type::Tensor(Arc::new(refined)))
        }
        (Type::Tuple(declared), Type::Tuple(known)) if declared.len() == known.len() => {
            let all = declared.iter().zip(known.iter()).map(|(declared, known)| refine(declared, known));
            Some(Type::Tuple(all.collect::<Option<Arc<[Type]>>>()?))
        }
        (declared, known) => (declared == known).then(|| declared.clone()),
    }
}

/// Adds what is known of a value's type.
pub(super) fn set(func: &mut Func, value: Value, known: &Type) -> Result<(), Violation> {
    let declared = func.ty(value);
    if declared == known {
        return Ok(());
    }
    let Some(refined) = refine(declared, known) else {
        let message = format!("{} cannot be {}", spelling::ty(declared), spelling::ty(known));
        return Err(Violation::new("", message));
    };
    func.values[value.0 as usize].ty = refined;
    Ok(())
}

/// Gives the results of an op the types that follow from its operands, attributes and regions.
pub(super) fn infer(site: &mut Site<'_>) -> Result<(), Violation> {
    let op = site.op();
    let Some(kind) = op.kind() else { return Ok(()) };
    let results: Vec<Type> = op.results().map(|value| site.func.ty(value).clone()).collect();
    if results.iter().all(is_static) {
        return Ok(());
    }
    let operands: Vec<Type> = op.operands.iter().map(|&value| site.func.ty(value).clone()).collect();
    let view = OpView::of(site.func, op, &operands, &results);
    let inferred = match kind.def().infer {
        // What a branching op returns is known once its branches are.
        _ if matches!(kind, OpKind::If | OpKind::Case) => return Ok(()),
        Some(infer) => (infer.types)(&view)?,
        None => match shape(kind, &view)? {
            Some(dims) => {
                let Some(result) = results[0].as_tensor() else { return Ok(()) };
                vec![Type::from(TensorType { dims, ..result.clone() })]
            }
            None => return Ok(()),
        },
    };
    let values: Vec<Value> = op.results().collect();
    for (value, known) in values.into_iter().zip(&inferred) {
        set(site.func, value, known)?;
    }
    Ok(())
}

/// The result sizes of ops that choose their result's element type, which therefore have no inference.
fn shape(kind: OpKind, op: &OpView<'_>) -> Result<Option<Vec<i64>>, Violation> {
    Ok(Some(match kind {
        OpKind::Convert | OpKind::UniformQuantize => op.tensor(0)?.dims.clone(),
        OpKind::DotGeneral => {
            let Attr::Dot(dims) = op.attr("dot_dimension_numbers")? else { return Ok(None) };
            contraction::infer(&[""; 11], op.tensor(0)?, op.tensor(1)?, dims)?.dims
        }
        OpKind::Dot => {
            let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
            let kept = lhs.dims.iter().take(lhs.rank().saturating_sub(1));
            kept.chain(rhs.dims.iter().skip(1)).copied().collect()
        }
        OpKind::Convolution => convolution::infer(op, &[""; 35], None)?.dims,
        OpKind::BitcastConvert => {
            let (operand, result) = (op.tensor(0)?, &op.results[0]);
            let Some(result) = result.as_tensor() else { return Ok(None) };
            // A wider type takes the last dimension; a narrower one adds one, whose size the program states.
            let mut dims = operand.dims.clone();
            dims.truncate(result.rank());
            dims.extend(result.dims.iter().skip(dims.len()));
            dims
        }
        _ => return Ok(None),
    }))
}
