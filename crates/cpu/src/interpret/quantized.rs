//! Ops between reals and the integers that stand for them.

use hlo::OpKind;

use super::context::{Context, Eval};
use super::quantization;
use super::value::InterpreterValue;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        // Also from one quantized type to another: through the reals both stand for.
        OpKind::UniformQuantize => quantize,
        OpKind::UniformDequantize => |c| Ok(vec![quantization::expressed(c.tensor(0)?)?.into()]),
        _ => return None,
    })
}

fn quantize(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = &context.result_tensor(0)?.element;
    Ok(vec![quantization::stored(&quantization::expressed(context.tensor(0)?)?, element)?.into()])
}
