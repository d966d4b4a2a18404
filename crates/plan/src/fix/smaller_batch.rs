//! A smaller batch, for programs that leave it open.

use super::{FixKind, Proposal, Situation};
use crate::batch;
use crate::error::Error;

/// Half the batch, then half of that.
pub(super) fn proposals(situation: &Situation<'_>) -> Result<Vec<Proposal>, Error> {
    let Some((symbolic, batch)) = situation.symbolic else { return Ok(Vec::new()) };
    let mut proposals = Vec::new();
    for smaller in [batch / 2, batch / 4].into_iter().filter(|&smaller| smaller > 0) {
        let title = format!("a batch of {smaller} instead of {batch}");
        let detail = "a step does less: more steps, or gradients summed over several";
        let mut proposal = situation.proposal(FixKind::Batch, title, detail);
        proposal.program = Some(batch::with_batch(symbolic, smaller)?);
        proposal.options = vec!["--batch".into(), smaller.to_string()];
        proposals.push(proposal);
    }
    Ok(proposals)
}
