//! An inference step under load: latency and tokens against the sequences that are served at once.

use serde::Serialize;

use super::answer::Plan;
use super::candidate::{Candidate, ShardingChoice};
use super::facts::Facts;
use super::roles::StepKind;

/// The recommended slice and mesh with so many sequences at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Sequences that are served at once: the batch.
    pub concurrency: u64,
    /// Seconds of a step: until each sequence has its next token, or until its prompt is read.
    pub latency_s: f64,
    /// Seconds for each token of one sequence.
    pub latency_per_token_s: f64,
    /// Tokens per second on all chips.
    pub tokens_per_s: f64,
    /// Tokens per second on one chip.
    pub tokens_per_s_per_chip: f64,
    /// Keys and values of all sequences, on all chips.
    pub cache_bytes: u64,
    /// HBM of one device that the program takes.
    pub hbm_bytes: u64,
    /// HBM that is left.
    pub headroom_bytes: i64,
}

impl Load {
    /// A plan as a load.
    fn of(plan: &Plan, facts: &Facts) -> Load {
        Load {
            concurrency: plan.batch,
            latency_s: plan.step.seconds,
            latency_per_token_s: plan.step.seconds / facts.tokens_per_sample.max(1) as f64,
            tokens_per_s: plan.tokens_per_s,
            tokens_per_s_per_chip: plan.tokens_per_s_per_chip,
            cache_bytes: facts.cache_bytes_per_sample.saturating_mul(plan.batch),
            hbm_bytes: plan.hbm_bytes,
            headroom_bytes: plan.headroom_bytes(),
        }
    }

    /// All plans that differ from `best` in nothing but the batch, fewest sequences first.
    pub(crate) fn all(best: &Plan, plans: &[Plan], facts: &Facts) -> Vec<Load> {
        if facts.kind == StepKind::Training {
            return Vec::new();
        }
        let same = |plan: &&Plan| Candidate { batch: best.batch, ..plan.candidate.clone() } == best.candidate;
        let mut loads: Vec<Load> = plans.iter().filter(same).map(|plan| Load::of(plan, facts)).collect();
        loads.sort_by_key(|load| load.concurrency);
        loads
    }
}

/// Sequences on one part of the batch that are asked about.
const PER_PART: [u64; 5] = [1, 4, 16, 64, 256];
/// Compilations for them at most.
pub(crate) const MOST: usize = PER_PART.len();

/// The candidates whose load is to be known beside the best one: few sequences first. None where the batch is fixed.
pub(crate) fn candidates(best: &Candidate, facts: &Facts, batches: Option<&[u64]>) -> Vec<Candidate> {
    if facts.kind == StepKind::Training || facts.batch.is_some() {
        return Vec::new();
    }
    let parts = match best.sharding {
        ShardingChoice::ByRule(mesh) => mesh.batch_parts().max(1) * facts.model_axis.batch_parts(mesh.model),
        ShardingChoice::AsWritten => 1,
    };
    let mut sizes: Vec<u64> = match batches {
        Some(batches) => batches.iter().copied().filter(|batch| batch.is_multiple_of(parts)).collect(),
        None => PER_PART.iter().filter_map(|n| n.checked_mul(parts)).collect(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes.retain(|size| *size != best.batch);
    sizes.into_iter().take(MOST).map(|batch| Candidate { batch, ..best.clone() }).collect()
}
