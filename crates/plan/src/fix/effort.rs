//! What the compiler can do by itself: more effort, another schedule, more room for one operation.

use compile::CompileMode;
use pjrt::Effort;

use super::{FixKind, Proposal, Situation};
use crate::error::Error;
use crate::fit::{VMEM_LIMIT_FLAG, Verdict};

/// The highest effort on fitting into memory.
pub(super) fn memory_fitting(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    if situation.request.memory_fitting_level == Some(Effort::O3) {
        return Ok(None);
    }
    let title = "let the compiler spend all its effort on fitting (memory_fitting_level O3)";
    let mut proposal =
        situation.proposal(FixKind::CompilerEffort, title, "the compiler rematerializes more; costs step time");
    proposal.request.memory_fitting_level = Some(Effort::O3);
    proposal.options = vec!["--memory-fitting-level".into(), "O3".into()];
    Ok(Some(proposal))
}

/// Share of memory that the scheduler may plan to fill.
const SCHEDULER_FLAG: &str = "xla_tpu_scheduler_percent_shared_memory_limit";

/// A schedule that hides less and holds less.
pub(super) fn schedule_for_memory(situation: &Situation<'_>) -> Result<Option<Proposal>, Error> {
    if situation.request.flags.contains_key(SCHEDULER_FLAG) {
        return Ok(None);
    }
    let title = format!("a schedule that holds fewer values at once ({SCHEDULER_FLAG}=60)");
    let mut proposal = situation.proposal(FixKind::Flag, title, "hides fewer transfers; costs step time");
    proposal.request.flags.insert(SCHEDULER_FLAG.into(), "60".into());
    proposal.options = vec!["--flag".into(), format!("{SCHEDULER_FLAG}=60")];
    Ok(Some(proposal))
}

/// Vector memory for the operation that asked for more than its share: the compiler's own limit if another was set, then
/// as much as it asked for, then more. Only the whole compiler checks it.
pub(super) fn vector_memory(situation: &Situation<'_>, verdict: &Verdict) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    if let Some(set) = situation.request.flags.get(VMEM_LIMIT_FLAG) {
        let title = format!("leave out {VMEM_LIMIT_FLAG}={set}");
        let mut proposal = situation.proposal(FixKind::Flag, title, "the compiler's own limit is larger");
        proposal.request.flags.remove(VMEM_LIMIT_FLAG);
        proposals.push(proposal);
    }
    let needed_kib = verdict.needed_bytes.unwrap_or(0).div_ceil(1 << 10);
    for times in [1, 2, 4] {
        let limit_kib = needed_kib.saturating_mul(times).max(1).next_multiple_of(1024);
        let title = format!("let one operation use {} MiB of vector memory", limit_kib >> 10);
        let mut proposal =
            situation.proposal(FixKind::Flag, title, "leaves less vector memory for prefetching operands of others");
        proposal.request.flags.insert(VMEM_LIMIT_FLAG.into(), limit_kib.to_string());
        proposal.options = vec!["--flag".into(), format!("{VMEM_LIMIT_FLAG}={limit_kib}")];
        proposals.push(proposal);
    }
    proposals.iter_mut().for_each(|proposal| proposal.request.mode = CompileMode::Full);
    proposals
}
