//! Offload: optimizer state and saved activations wait in pinned host memory between the moments they are needed.

use compile::Program;
use compile::optimize::offload_activations;
use hlo::memory_kind::{DEVICE, PINNED_HOST, placement};
use hlo::{Attr, Func, NewOp, OpKind, OpName, Type};

use super::{FixKind, Proposal, Situation, entry};
use crate::error::Error;
use crate::memory::{BufferClass, ProgramArgument};

/// Attribute of an argument or result: which memory it lies in.
const MEMORY_KIND: &str = "mhlo.memory_kind";

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
    NewOp { results: vec![ty], attrs: placement(memory), ..NewOp::new(OpName::Known(OpKind::CustomCall)) }
}

/// Of stacks of activations: smaller ones are not worth a transfer for each layer.
const LEAST_STACK_BYTES: u64 = 16 << 20;

pub(super) fn propose_activations(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "keep saved activations in pinned host memory";
    let detail = "what each layer saves travels over PCIe to the host, and back in the backward pass";
    let proposal = situation.proposal(FixKind::Offload, title, detail);
    let changed = activations(situation.program)?;
    Ok(changed.map(|(program, _)| Proposal { program: Some(program), ..proposal }))
}

/// The program in which loops save their activations in pinned host memory, and how many bytes these are; `None` where none saves any.
pub(crate) fn activations(program: &Program) -> Result<Option<(Program, u64)>, Error> {
    let made = offload_activations(program.verified(), LEAST_STACK_BYTES)?;
    Ok(made.map(|made| (Program::from_module(made.module), made.bytes)))
}
