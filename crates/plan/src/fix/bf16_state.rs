//! State in bf16: half the bytes between steps, converted to f32 when a step begins.

use hlo::{Attrs, ElementType, Func, NewOp, OpKind, OpName, TensorType, Type};
use tensor::DType;

use super::{FixKind, Proposal, Situation, entry};
use crate::error::Error;
use crate::memory::BufferClass;

/// What the optimizer keeps.
pub(super) fn optimizer(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "keep optimizer state in bf16";
    propose(
        situation,
        &[BufferClass::OptimizerState],
        title,
        "halves it; moments lose precision: check that training converges",
    )
}

/// Everything that lives from step to step.
pub(super) fn all_state(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "keep parameters and optimizer state in bf16";
    let classes = [BufferClass::Parameters, BufferClass::OptimizerState, BufferClass::CarriedState];
    propose(situation, &classes, title, "halves them; small updates are rounded away: check that training converges")
}

fn propose(
    situation: &Situation<'_>,
    classes: &[BufferClass],
    title: &str,
    detail: &str,
) -> Result<Option<Proposal>, Error> {
    let program = entry::edit(situation.program, |func| {
        let mut changed = false;
        for (index, argument) in situation.arguments.iter().enumerate() {
            if classes.contains(&argument.class) {
                changed |= narrow(func, index, argument.replaced_by).is_some();
            }
        }
        changed
    })?;
    let proposal = situation.proposal(FixKind::Bf16State, title, detail);
    Ok(program.map(|program| Proposal { program: Some(program), ..proposal }))
}

/// Makes an argument of f32, and the result that replaces it, bf16.
fn narrow(func: &mut Func, index: usize, replaced_by: Option<usize>) -> Option<()> {
    let wide = func.inputs.get(index)?.as_tensor()?.clone();
    if wide.element.plain() != Some(DType::F32) || wide.encoding.is_some() || wide.rank() == 0 {
        return None;
    }
    let narrow = TensorType { element: ElementType::from(DType::BF16), ..wide.clone() };
    let convert = |ty: TensorType| NewOp {
        results: vec![Type::from(ty)],
        attrs: Attrs::new(),
        ..NewOp::new(OpName::Known(OpKind::Convert))
    };
    entry::retype_argument(func, index, Type::from(narrow.clone()))?;
    entry::after_argument(func, index, convert(wide.clone()))?;
    if let Some(result) = replaced_by
        && func.outputs.get(result).and_then(Type::as_tensor) == Some(&wide)
    {
        entry::before_result(func, result, convert(narrow.clone()))?;
        *func.outputs.get_mut(result)? = Type::from(narrow);
    }
    Some(())
}
