//! Rematerialization as a change that may make a program fit.

use compile::Program;
use compile::optimize::{RematExtent, rematerialize};

use super::{FixKind, Proposal, Situation};
use crate::error::Error;

/// The program in which loops save neither scores of attention nor what is computed from them; `None` where none does.
pub(crate) fn scores(program: &Program) -> Result<Option<Program>, Error> {
    again(program, RematExtent::Scores)
}

/// The program in which loops save nothing of experts and of what tokens chose; `None` where none does.
pub(crate) fn experts(program: &Program) -> Result<Option<Program>, Error> {
    again(program, RematExtent::Experts)
}

/// The program in which loops save nothing that is computed from deviations of norms; `None` where none does.
pub(crate) fn norms(program: &Program) -> Result<Option<Program>, Error> {
    again(program, RematExtent::Norms)
}

/// The program in which loops save no activations that cost no matmul; `None` where none does.
pub(crate) fn cheap_activations(program: &Program) -> Result<Option<Program>, Error> {
    again(program, RematExtent::Cheap)
}

/// The program in which loops save only what each layer takes; `None` where they save nothing else.
pub(crate) fn all_but_inputs(program: &Program) -> Result<Option<Program>, Error> {
    again(program, RematExtent::Everything)
}

pub(super) fn cheap(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "compute element-wise activations again in the backward pass";
    propose(situation, RematExtent::Cheap, title, "results of matmuls stay saved; the rest costs vector work once more")
}

pub(super) fn everything(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let title = "keep only the input of each layer, and compute its activations again in the backward pass";
    propose(
        situation,
        RematExtent::Everything,
        title,
        "every layer runs forward twice: about a third more matmul FLOPs in a step",
    )
}

fn propose(
    situation: &Situation<'_>,
    extent: RematExtent,
    title: &str,
    detail: &str,
) -> Result<Option<Proposal>, Error> {
    let proposal = situation.proposal(FixKind::Recompute, title, detail);
    let program = again(situation.program, extent)?;
    Ok(program.map(|program| Proposal { program: Some(program), ..proposal }))
}

/// The program with activations rematerialized; `None` where there are none.
fn again(program: &Program, extent: RematExtent) -> Result<Option<Program>, Error> {
    Ok(rematerialize(program.verified(), extent)?.map(|made| Program::from_module(made.module)))
}
