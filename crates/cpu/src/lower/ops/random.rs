//! Random bits.
#![allow(unsafe_code)]

use hlo::{Keyword, Op};

use super::dense_operands;
use super::routine::Routine;
use super::sorting::results;
use crate::attributes;
use crate::error::Error;
use crate::kernels::random::{Algorithm, RandomBits};
use crate::lower::block::Lowering;

pub(crate) fn bits(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let (state, state_dims) = lowering.array_type(op.operands[0])?;
    let (dtype, dims) = lowering.array_type(hlo::Value(op.first_result.0 + 1))?;
    let algorithm = match attributes::keyword(op, "rng_algorithm")? {
        Keyword::ThreeFry => Algorithm::ThreeFry,
        // The interpreter's default is the same.
        _ => Algorithm::Philox,
    };
    let Some(plan) = RandomBits::new(algorithm, state, state_dims.iter().product(), &dims, dtype) else {
        return Ok(None);
    };
    let (inputs, outputs) = (dense_operands(lowering, op)?, results(lowering, op)?);
    let call = Routine::new("rng_bit_generator", plan.footprint(), move |reads, writes, cores| {
        // SAFETY: the state, the next state and the bits have the shapes of the plan.
        unsafe { plan.run(reads[0], writes[0], writes[1], cores) }
    });
    lowering.step(inputs, outputs, call);
    Ok(Some(()))
}
