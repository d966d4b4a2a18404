//! Donation: results take the memory of the state they replace.

use compile::Program;
use hlo::Attr;
use hlo::attr::{ALIAS, DONOR};

use super::{FixKind, Proposal, Situation, entry};
use crate::donors::{Donors, candidates};
use crate::error::Error;
use crate::memory::ProgramArgument;

/// The program with these donated; `None` where there is nothing to donate.
pub(crate) fn donate(
    program: &Program,
    arguments: &[ProgramArgument],
    donors: Donors,
) -> Result<Option<Program>, Error> {
    let donated = candidates(program.module(), arguments, donors);
    // Where devices share the work, shardings of results are the compiler's to choose, and only it knows what fits where.
    let is_partitioned = program.partitions().is_some_and(|count| count > 1);
    entry::edit(program, |func| {
        for &index in &donated {
            let result = arguments[index].replaced_by.and_then(|result| i32::try_from(result).ok());
            match result.filter(|_| !is_partitioned) {
                Some(result) => func.input_attrs[index].set(ALIAS, Attr::i32(result)),
                None => func.input_attrs[index].set(DONOR, Attr::Bool(true)),
            };
        }
        !donated.is_empty()
    })
}

pub(super) fn propose(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    let count = candidates(situation.program.module(), &situation.arguments, Donors::Any).len();
    let Some(program) = donate(situation.program, &situation.arguments, Donors::Any)? else { return Ok(None) };
    let title = format!("donate {count} arguments to the results that replace them");
    let detail = "costs nothing; the caller must not read them after a step";
    Ok(Some(Proposal { program: Some(program), ..situation.proposal(FixKind::Donation, title, detail) }))
}
