//! `sdy.manual_computation`: every process takes its tiles, runs the body, and the tiles of the results are joined.

use std::borrow::Borrow;
use std::sync::Arc;

use hlo::OpKind;
use tensor::Literal;

use super::InterpreterOptions;
use super::context::Context;
use super::process::Process;
use super::scalar::{self, Scalar};
use super::value::{InterpreterValue, TensorValue};
use crate::attributes::manual_shardings;
use crate::error::Error;
use crate::sharding::{Sharding, from_sdy};

/// Runs the body on this process's tiles. Outside the body every process holds whole values.
pub(crate) fn computation(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let operands = context.values()?;
    let Some(process) = context.run.process.clone() else {
        return super::control_flow::computation(context);
    };
    let (partition, partitions) = (process.partition(), process.grid.partitions);
    let mut local = Vec::with_capacity(operands.len());
    for (value, sharding) in operands.iter().zip(manual_shardings(context.op, "in_shardings")?) {
        let InterpreterValue::Tensor(tensor) = value else { return context.fail("an operand is no tensor") };
        let sharding = from_sdy(&sharding, context.run.module, tensor.dims().len(), partitions)?;
        let tile = sharding.part_of(&tensor.to_literal()?, partition)?;
        local.push(InterpreterValue::Tensor(TensorValue::from_literal(&tile)));
    }
    if local.len() != operands.len() {
        return context.fail("there is not one sharding for each operand");
    }
    let results = context.region(0, local)?;
    let out = manual_shardings(context.op, "out_shardings")?;
    if out.len() != results.len() {
        return context.fail("there is not one sharding for each result");
    }
    let out = results
        .iter()
        .zip(&out)
        .map(|(value, sharding)| from_sdy(sharding, context.run.module, value.tensor()?.dims().len(), partitions));
    let out = out.collect::<Result<Vec<_>, Error>>()?;
    let tiles = results.iter().map(|value| value.tensor()?.to_literal()).collect::<Result<Vec<_>, Error>>()?;
    let whole = joined(&process, context.run.options, tiles, &out.iter().collect::<Vec<_>>())?;
    Ok(whole.iter().map(|literal| InterpreterValue::Tensor(TensorValue::from_literal(literal))).collect())
}

/// Brings this process's tiles to those of the others, and joins each kind of them.
pub(crate) fn joined(
    process: &Arc<Process>,
    options: &InterpreterOptions,
    tiles: Vec<Literal>,
    shardings: &[&Sharding],
) -> Result<Vec<Literal>, Error> {
    let (partition, partitions) = (process.partition(), process.grid.partitions);
    let first = process.replica() * partitions;
    let group: Vec<usize> = (first..first + partitions).collect();
    let tiles = tiles.into_iter().map(|tile| InterpreterValue::Stored(Arc::new(tile))).collect();
    let all = process.meet(options, "sdy.manual_computation", 0, &group, tiles)?;
    let join = |(n, sharding): (usize, &&Sharding)| {
        let part = |values: &Arc<Vec<InterpreterValue>>| match &values[n] {
            InterpreterValue::Stored(tile) => Ok(tile.clone()),
            _ => Err(Error::Internal("a process brought no tile".into())),
        };
        joined_or_summed(sharding, &all.iter().map(part).collect::<Result<Vec<_>, Error>>()?, partition)
    };
    shardings.iter().enumerate().map(join).collect()
}

/// The whole array from what each partition holds; along unreduced axes it is the sum.
pub(crate) fn joined_or_summed<L: Borrow<Literal>>(
    sharding: &Sharding,
    parts: &[L],
    seen_from: usize,
) -> Result<Literal, Error> {
    let whole = sharding.join_summand(parts, seen_from, 0)?;
    if sharding.summands == 1 {
        return Ok(whole);
    }
    let mut sum = TensorValue::from_literal(&whole);
    for summand in 1..sharding.summands {
        let next = TensorValue::from_literal(&sharding.join_summand(parts, seen_from, summand)?);
        for at in 0..sum.elements.len().min(next.elements.len()) {
            let (a, b) = (Scalar::get(&sum.elements, at), Scalar::get(&next.elements, at));
            match scalar::binary(OpKind::Add, sum.dtype(), a, b) {
                Some(value) => value.set(&mut sum.elements, at)?,
                None => return Err(Error::Unsupported { what: format!("sums of {}", sum.dtype()) }),
            }
        }
    }
    sum.to_literal()
}
