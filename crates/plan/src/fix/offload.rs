//! Offload: optimizer state waits in pinned host memory between the moments it is needed.

use std::sync::Arc;

use compile::Program;
use hlo::{Attr, Attrs, Func, NewOp, OpKind, OpName, Type};

use super::{FixKind, Proposal, Situation, entry};
use crate::error::Error;
use crate::memory::{BufferClass, ProgramArgument};

/// Attribute of an argument or result: which memory it lies in.
const MEMORY_KIND: &str = "mhlo.memory_kind";
const PINNED_HOST: &str = "pinned_host";
const DEVICE: &str = "device";

pub(super) fn propose(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "keep optimizer state in pinned host memory";
    let detail = "it travels over PCIe to the device and back in every step";
    let proposal = situation.proposal(FixKind::Offload, title, detail);
    let program = optimizer_state(situation.program, &situation.arguments)?;
    Ok(program.map(|program| Proposal { program: Some(program), ..proposal }))
}

/// A program whose optimizer state is in pinned host memory before and after a step; `None` where it has none, or has it there.
pub(crate) fn optimizer_state(program: &Program, arguments: &[ProgramArgument]) -> Result<Option<Program>, Error> {
    entry::edit(program, |func| {
        let mut changed = false;
        for (index, argument) in arguments.iter().enumerate() {
            if argument.class == BufferClass::OptimizerState
                && let Some(result) = argument.replaced_by
            {
                changed |= offload(func, index, result).is_some();
            }
        }
        changed
    })
}

fn offload(func: &mut Func, index: usize, result: usize) -> Option<()> {
    let ty = func.inputs.get(index)?.clone();
    let is_array = ty.as_tensor().is_some_and(|tensor| tensor.rank() > 0);
    let is_there = func.input_attrs.get(index)?.get(MEMORY_KIND).and_then(Attr::as_str) == Some(PINNED_HOST);
    if !is_array || is_there || func.outputs.get(result) != Some(&ty) {
        return None;
    }
    func.input_attrs.get_mut(index)?.set(MEMORY_KIND, Attr::string(PINNED_HOST));
    func.output_attrs.get_mut(result)?.set(MEMORY_KIND, Attr::string(PINNED_HOST));
    entry::after_argument(func, index, placed(ty.clone(), DEVICE))?;
    entry::before_result(func, result, placed(ty, PINNED_HOST))
}

/// A value moved to another memory, as JAX writes it.
fn placed(ty: Type, memory: &str) -> NewOp {
    let mut frontend = Attrs::new();
    frontend.set("_xla_buffer_placement", Attr::string(memory));
    let mut attrs = Attrs::new();
    attrs.set("call_target_name", Attr::string("annotate_device_placement"));
    attrs.set("has_side_effect", Attr::Bool(true));
    attrs.set("mhlo.frontend_attributes", Attr::Dict(Arc::new(frontend)));
    NewOp { results: vec![ty], attrs, ..NewOp::new(OpName::Known(OpKind::CustomCall)) }
}
