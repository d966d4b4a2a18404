//! Arguments whose memory results could take.

use hlo::Module;

use crate::memory::{BufferClass, ProgramArgument};

/// Which arguments may be donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Donors {
    /// What lives from step to step.
    State,
    /// Inputs as well, which the caller may want to keep.
    Any,
}

/// Arguments that a result of the same type replaces and that are not donated.
pub(crate) fn candidates(program: &Module, arguments: &[ProgramArgument], donors: Donors) -> Vec<usize> {
    let Some(func) = program.entry() else { return Vec::new() };
    let is_candidate = |(index, argument): &(usize, &ProgramArgument)| {
        let result = argument.replaced_by.and_then(|result| func.outputs.get(result));
        let may = donors == Donors::Any || argument.class != BufferClass::Inputs;
        may && !argument.is_donated && result.is_some() && result == func.inputs.get(*index)
    };
    arguments.iter().enumerate().filter(is_candidate).map(|(index, _)| index).collect()
}
