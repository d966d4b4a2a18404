//! Conversions to bf16 moved up to where values are smaller or earlier.
//!
//! A value of f32 whose readers all want bf16 is computed in bf16 itself. What only moves or picks elements gives the same
//! bits either way; arithmetic rounds once more for each op, so it is a rewrite of its own, and only between two matmuls:
//! from an exponential, a root, a quotient or a reduction to the next matmul everything stays in f32.

use hlo::{Attrs, Definition, Func, OpId, OpKind, TensorType, Value, Verified};
use tensor::DType;

use super::edit::{Narrower, array_of, become_op, emit, visit_ops};
use super::optimizer::Context;
use super::step::RewriteStep;
use crate::error::CompileError;

/// What conversions are moved through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    /// Ops that commute with rounding.
    Moves,
    /// Also arithmetic that loses little.
    Arithmetic,
}

pub(super) fn through_moves(module: Verified, _: &Context<'_>) -> Result<(Verified, RewriteStep), CompileError> {
    let (module, changed) = run(module, Through::Moves)?;
    Ok((module, RewriteStep::new("bf16_moves", changed, format!("{changed} ops move bf16 instead of f32"))))
}

pub(super) fn through_arithmetic(
    module: Verified,
    context: &Context<'_>,
) -> Result<(Verified, RewriteStep), CompileError> {
    if !context.target.gains_from_bf16_arithmetic {
        return Ok((module, RewriteStep::new("bf16_arithmetic", 0, "the device is not faster in bf16")));
    }
    let (module, changed) = run(module, Through::Arithmetic)?;
    Ok((module, RewriteStep::new("bf16_arithmetic", changed, format!("{changed} ops between matmuls compute in bf16"))))
}

fn run(module: Verified, through: Through) -> Result<(Verified, u64), CompileError> {
    let mut module = module.into_inner();
    let mut changed = 0;
    for func in &mut module.funcs {
        // Ids in program order: regions are visited outer before inner.
        func.renumber();
        let narrowed = find(func, through);
        let mut narrower = Narrower::of(func);
        visit_ops(func, |func, region, id| {
            if !narrowed.get(id.0 as usize).copied().unwrap_or(false) {
                return;
            }
            let op = func.op(id).clone();
            let Some(dims) = array_of(func, op.first_result, DType::F32).map(|ty| ty.dims.clone()) else { return };
            let Some(kind) = op.kind() else { return };
            let operands: Vec<Value> =
                op.operands.iter().map(|&value| narrower.narrow(func, region, id, value)).collect();
            let ty = TensorType::new(dims, DType::BF16);
            let value = emit(func, region, id, kind, &operands, op.attrs, ty);
            // Its readers convert back to bf16; clean-up drops both conversions.
            become_op(func, id, OpKind::Convert, vec![value], Attrs::new());
            changed += 1;
        });
    }
    Ok((hlo::verify(module)?, changed))
}

/// Whether results are the same bits, rounded before or after the op. Ops that read more than they give are left out:
/// rounding everything they read costs more than it saves.
fn commutes_with_rounding(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::Reshape
            | K::Transpose
            | K::BroadcastInDim
            | K::Concatenate
            | K::Reverse
            | K::Pad
            | K::Select
            | K::Maximum
            | K::Minimum
            | K::Negate
            | K::Abs
    )
}

/// Arithmetic whose result in bf16 is off by about as much as its operands are.
fn loses_little(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(kind, K::Add | K::Subtract | K::Multiply | K::Tanh | K::Logistic)
}

/// The ops to narrow, by id.
fn find(func: &Func, through: Through) -> Vec<bool> {
    let order = func.walk();
    let islands = islands(func, &order);
    let mut readers: Vec<Vec<OpId>> = vec![Vec::new(); func.values.len()];
    for &id in &order {
        func.op(id).operands.iter().for_each(|value| readers[value.0 as usize].push(id));
    }
    let mut narrowed = vec![false; func.ops.len()];
    // Readers come after what they read.
    for &id in order.iter().rev() {
        let op = func.op(id);
        let Some(kind) = op.kind() else { continue };
        let is_candidate = commutes_with_rounding(kind)
            || through == Through::Arithmetic && loses_little(kind) && !islands[op.first_result.0 as usize];
        if !is_candidate || op.num_results != 1 || array_of(func, op.first_result, DType::F32).is_none() {
            continue;
        }
        let is_wide = |value: &Value| func.ty(*value).as_tensor().and_then(|ty| ty.element.plain()) == Some(DType::F32);
        if op.operands.iter().any(|value| is_wide(value) && array_of(func, *value, DType::F32).is_none()) {
            continue;
        }
        let readers = &readers[op.first_result.0 as usize];
        narrowed[id.0 as usize] = !readers.is_empty()
            && readers.iter().all(|&reader| {
                let op = func.op(reader);
                narrowed[reader.0 as usize]
                    || op.kind() == Some(OpKind::Convert) && array_of(func, op.first_result, DType::BF16).is_some()
            });
    }
    narrowed
}

/// Values on the way from an op that needs f32 to the next matmul.
fn islands(func: &Func, order: &[OpId]) -> Vec<bool> {
    // What a loop or a branch hands in is not looked into.
    let outside = |value: usize| match func.values[value].definition {
        Definition::Argument(region, _) => Some(region) != func.body,
        Definition::Result(..) => false,
    };
    let mut island: Vec<bool> = (0..func.values.len()).map(outside).collect();
    for &id in order {
        let op = func.op(id);
        let is_island = match op.kind() {
            Some(OpKind::DotGeneral | OpKind::Convolution | OpKind::Constant | OpKind::Iota) => false,
            // Something that was bf16 has been rounded already.
            Some(OpKind::Convert) if array_of(func, op.operands[0], DType::BF16).is_some() => false,
            Some(kind) if commutes_with_rounding(kind) || loses_little(kind) => {
                // A mask picks; it does not enter the sum.
                let wide = op.operands.iter().filter(|value| array_of(func, **value, DType::F32).is_some());
                wide.into_iter().any(|value| island[value.0 as usize])
            }
            _ => true,
        };
        op.results().for_each(|result| island[result.0 as usize] = is_island);
    }
    island
}
