//! Ops whose result sizes are operands, and ops that ask for or set a size.

use hlo::OpKind;

use super::context::{Context, Eval};
use super::shape;
use super::value::InterpreterValue;
use crate::attributes;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::DynamicBroadcastInDim => |c| {
            let along = attributes::ints(c.op, "broadcast_dimensions")?;
            shape::broadcast_in_dim(c, &c.tensor(1)?.ints()?, &along)
        },
        K::DynamicIota => |c| Ok(vec![shape::iota(c, &c.tensor(0)?.ints()?)?.into()]),
        K::DynamicPad => |c| {
            let [low, high, interior] = [2, 3, 4].map(|n| c.tensor(n).and_then(|t| t.ints()));
            shape::pad(c, &low?, &high?, &interior?)
        },
        K::DynamicReshape => |c| shape::reshape(c, &c.tensor(1)?.ints()?),
        K::RealDynamicSlice => |c| {
            let [start, limit, step] = [1, 2, 3].map(|n| c.tensor(n).and_then(|t| t.ints()));
            shape::slice(c, &start?, &limit?, &step?)
        },
        K::GetDimensionSize => get_dimension_size,
        K::SetDimensionSize => set_dimension_size,
        _ => return None,
    })
}

fn get_dimension_size(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "dimension")? as usize;
    match context.tensor(0)?.dims().get(along) {
        Some(&size) => Ok(vec![shape::scalar_i32(size).into()]),
        None => context.fail(format!("there is no dimension {along}")),
    }
}

/// A size may shrink: the elements beyond it are no longer part of the tensor.
fn set_dimension_size(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let along = attributes::int(context.op, "dimension")? as usize;
    let (operand, size) = (context.tensor(0)?, context.tensor(1)?.int()?);
    let mut limit = operand.dims().to_vec();
    match limit.get_mut(along) {
        Some(have) if (0..=*have).contains(&size) => *have = size,
        have => return context.fail(format!("dimension {along} of size {have:?} cannot become {size}")),
    }
    shape::slice(context, &vec![0; limit.len()], &limit, &vec![1; limit.len()])
}
