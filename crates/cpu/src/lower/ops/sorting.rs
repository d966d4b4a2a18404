//! Sorts, the largest elements of rows, and reductions that look for an element.
#![allow(unsafe_code)]

use hlo::{Definition, Op, OpKind};
use tensor::DType;

use super::dense_operands;
use super::routine::Routine;
use crate::attributes;
use crate::error::Error;
use crate::kernels::sort::{Sort, TopK};
use crate::kernels::variadic_reduce::{Body, Indices, VariadicReduce};
use crate::lower::block::Lowering;
use crate::lower::fuse::reduced_dims;
use crate::lower::region;
use crate::program::Slot;

/// Element types of the operands; `None` where one is not plain.
fn plain_types(lowering: &Lowering<'_>, values: &[hlo::Value]) -> Option<Vec<DType>> {
    values.iter().map(|&v| lowering.func.ty(v).as_tensor()?.element.plain()).collect()
}

/// New slots for all results of an op.
pub(super) fn results(lowering: &mut Lowering<'_>, op: &Op) -> Result<Vec<Slot>, Error> {
    op.results().map(|value| lowering.result_slot(value)).collect()
}

pub(crate) fn sort(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let Some(dtypes) = plain_types(lowering, &op.operands) else { return Ok(None) };
    let (_, dims) = lowering.array_type(op.operands[0])?;
    let along = attributes::int_or(op, "dimension", -1);
    let along = if along < 0 { along + dims.len() as i64 } else { along };
    let Ok(along) = usize::try_from(along) else { return Ok(None) };
    let (order, program) = (region::comparator(func, op.regions[0]), region::program(func, op.regions[0]));
    let Some(plan) = Sort::new(&dims, along, &dtypes, order, program) else { return Ok(None) };
    let (inputs, outputs) = (dense_operands(lowering, op)?, results(lowering, op)?);
    // SAFETY: operands and results have the shapes of the plan.
    let call =
        Routine::new("sort", plan.footprint(), move |reads, writes, cores| unsafe { plan.run(reads, writes, cores) });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}

pub(crate) fn top_k(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let Some(&[dtype]) = plain_types(lowering, &op.operands).as_deref() else { return Ok(None) };
    if op.num_results != 2 {
        return Ok(None);
    }
    let (_, dims) = lowering.array_type(op.operands[0])?;
    let (_, result) = lowering.array_type(op.first_result)?;
    let (index, _) = lowering.array_type(hlo::Value(op.first_result.0 + 1))?;
    let (Some((&length, outer)), Some(&k)) = (dims.split_last(), result.last()) else { return Ok(None) };
    let rows = outer.iter().product();
    let Some(plan) = TopK::new(rows, length, k, dtype).filter(|_| index == DType::I32) else { return Ok(None) };
    let (inputs, outputs) = (dense_operands(lowering, op)?, results(lowering, op)?);
    let call = Routine::new("top_k", plan.footprint(), move |reads, writes, cores| {
        // SAFETY: operand and results have the shapes of the plan.
        unsafe { plan.run(reads[0], writes[0], writes[1].cast(), cores) }
    });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}

/// A reduction of several operands, or with a body that is more than one op.
pub(crate) fn reduce(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let func = lowering.func;
    let count = op.operands.len() / 2;
    let Some(dtypes) = plain_types(lowering, &op.operands[..count]) else { return Ok(None) };
    let (_, dims) = lowering.array_type(op.operands[0])?;
    let reduced = reduced_dims(op);
    let body = match region::arg_extreme(func, op.regions[0]) {
        Some((extreme, program)) if count == 2 => {
            let position = matches!(&reduced[..], &[d] if is_position(lowering, op.operands[1], d));
            Body::Search(extreme, if position { Indices::Position } else { Indices::Read }, program)
        }
        _ => match region::program(func, op.regions[0]) {
            Some(program) => Body::Program(program),
            None => return Ok(None),
        },
    };
    let is_position = matches!(body, Body::Search(_, Indices::Position, _));
    let Some(plan) = VariadicReduce::new(&dims, &reduced, &dtypes, body) else { return Ok(None) };
    let mut inputs = Vec::with_capacity(op.operands.len());
    for (n, &value) in op.operands.iter().enumerate() {
        // Positions are not read: any memory stands for them.
        inputs.push(if n == 1 && is_position { inputs[0] } else { lowering.dense_value(value)? });
    }
    let outputs = results(lowering, op)?;
    let call = Routine::new("reduce", plan.footprint(), move |reads, writes, cores| {
        let (operands, inits) = reads.split_at(count);
        // SAFETY: operands, initial values and results have the shapes of the plan.
        unsafe { plan.run(operands, inits, writes, cores) }
    });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}

/// Whether a value is the position along a dimension.
fn is_position(lowering: &Lowering<'_>, value: hlo::Value, dim: usize) -> bool {
    let func = lowering.func;
    let Definition::Result(id, _) = func.value(value).definition else { return false };
    let op = func.op(id);
    op.kind() == Some(OpKind::Iota) && attributes::int(op, "iota_dimension") == Ok(dim as i64)
}
