//! `sdy.manual_computation`: every process takes its tiles, runs the body, and the tiles of the results are joined.

use hlo::Attr;
use hlo::sdy::{SdyAttr, TensorSharding};

use super::context::Context;
use super::value::{Tensor, Value};
use crate::error::Error;
use crate::sharding::{Sharding, from_sdy};

/// Runs the body on this process's tiles. Outside the body every process holds whole values.
pub(crate) fn computation(context: &mut Context<'_, '_>) -> Result<Vec<Value>, Error> {
    let operands = context.values()?;
    let Some(process) = context.run.process.clone() else {
        return super::control_flow::computation(context);
    };
    let (partition, partitions) = (process.partition(), process.grid.partitions);
    let mut local = Vec::with_capacity(operands.len());
    for (value, sharding) in operands.iter().zip(shardings(context, "in_shardings")?) {
        local.push(match value {
            Value::Tensor(tensor) => {
                let sharding = sharding_of(context, &sharding, tensor.dims().len(), partitions)?;
                let tile = sharding.split(&tensor.to_literal()?)?.swap_remove(partition);
                Value::Tensor(Tensor::from_literal(&tile))
            }
            other => other.clone(),
        });
    }
    if local.len() != operands.len() {
        return context.fail("there is not one sharding for each operand");
    }
    let results = context.region(0, local)?;
    let first = process.replica() * partitions;
    let group: Vec<usize> = (first..first + partitions).collect();
    let all = process.meet(context.run.options, "sdy.manual_computation", 0, &group, results.clone())?;
    let out = shardings(context, "out_shardings")?;
    let join = |(n, value): (usize, &Value)| {
        let Value::Tensor(tensor) = value else { return Ok(value.clone()) };
        let sharding = out.get(n).ok_or_else(|| Error::Internal("a result without a sharding".into()))?;
        let sharding = sharding_of(context, sharding, tensor.dims().len(), partitions)?;
        let parts = all.iter().map(|values| values[n].tensor()?.to_literal()).collect::<Result<Vec<_>, Error>>()?;
        Ok(Value::Tensor(Tensor::from_literal(&sharding.join(&parts, partition)?)))
    };
    results.iter().enumerate().map(join).collect()
}

fn shardings(context: &Context<'_, '_>, name: &str) -> Result<Vec<TensorSharding>, Error> {
    match context.op.attr(name) {
        Some(Attr::Sdy(attr)) => match &**attr {
            SdyAttr::ShardingPerValue(shardings) => Ok(shardings.clone()),
            _ => Err(Error::Internal(format!("{name} is no list of shardings"))),
        },
        _ => Ok(Vec::new()),
    }
}

/// A sharding along the manual axes only: the body sees the other axes whole.
fn sharding_of(
    context: &Context<'_, '_>,
    sharding: &TensorSharding,
    rank: usize,
    partitions: usize,
) -> Result<Sharding, Error> {
    let mut sharding = sharding.clone();
    if let Some(Attr::Sdy(attr)) = context.op.attr("manual_axes")
        && let SdyAttr::ManualAxes(manual) = &**attr
    {
        for dim in &mut sharding.dims {
            dim.axes.retain(|axis| manual.contains(&axis.name));
        }
    }
    from_sdy(&sharding, context.run.module, rank, partitions)
}
