//! The cost of a job: the bill of its supervisor, with what its training tells of tokens and goodput.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use telemetry::{GoodputHistory, TrainingRecord};

use super::{CostRecord, SliceUse};
use crate::job::JobFile;
use crate::provider::SliceId;
use crate::supervisor::{JobBill, JobState};

impl CostRecord {
    /// The cost of a job at a moment, in milliseconds since 1970. Planned is its budget.
    pub fn of_job(job: &JobFile, state: &JobState, now_ms: u64) -> CostRecord {
        let bill = JobBill::of(job, state, now_ms);
        // A training in a folder of this machine tells more than one in a bucket.
        let folder = (!job.folder.contains("://")).then(|| Path::new(&job.folder));
        let training = folder.and_then(TrainingRecord::read);
        let goodput = folder.and_then(|folder| GoodputHistory::read(&folder.join("goodput").join("0.jsonl")).ok());
        let tokens = training.and_then(|training| training.tokens_per_step).zip(state.step);
        CostRecord {
            labels: job.labels.clone(),
            is_running: !state.is_over,
            attempts: u64::from(state.attempts),
            planned_usd: job.limits.budget_usd,
            usd: bill.usd,
            wasted_usd: bill.wasted_usd,
            usd_per_hour: bill.usd_per_hour,
            slice_seconds: bill.slice_seconds,
            tokens: tokens.map(|(tokens, step)| tokens.saturating_mul(step)),
            goodput: goodput.and_then(|history| history.goodput()).map(|goodput| goodput.ratio()),
            ..CostRecord::new(&state.job)
        }
    }
}

impl SliceUse {
    /// The slices that a job has or had, for [`idle_slices`](super::idle_slices). `step_age` is how long ago its last step ended.
    pub fn of_job(state: &JobState, step_age: Option<Duration>) -> BTreeMap<SliceId, SliceUse> {
        let is_live = |unit_is_wanted: bool| !state.is_over && unit_is_wanted;
        let use_of = |wanted: bool| SliceUse { job: state.job.clone(), is_live: is_live(wanted), step_age };
        state.units.iter().map(|unit| (unit.id(), use_of(unit.is_wanted()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_costs_what_its_supervisor_bills() {
        let text = "name = 'tiny'\nfolder = 'gs://bucket/tiny'\n[labels]\nteam = 'vision'\n[limits]\nbudget = '$100'\n[run]\ntrain = 't.toml'\n\
                    [slices]\ntype = 'v6e-8'\nzones = ['us-east5-a']\n";
        let job = JobFile::parse(text).unwrap();
        let mut state = JobState::new(&job, "run1", 0);
        let empty = CostRecord::of_job(&job, &state, 5_000);
        assert_eq!((empty.usd, empty.slice_seconds, empty.is_running), (0.0, 0, true));
        crate::supervisor::decide(&job, &mut state, &crate::supervisor::Seen::nothing_in(&job), 1_000);
        let unit = &mut state.units[0];
        (unit.ready_ms, unit.gone_ms) = (Some(1_000_000), Some(8_200_000));
        state.is_over = true;
        let cost = CostRecord::of_job(&job, &state, 9_000_000);
        // Eight chips for two hours, at what the job file pays in that zone; nothing of it was kept.
        let usd = job.usd_per_slice_hour("us-east5-a").unwrap() * 2.0;
        assert_eq!((cost.usd, cost.wasted_usd, cost.slice_seconds), (usd, usd, 7200));
        assert_eq!((cost.job.as_str(), cost.planned_usd, cost.is_running), ("tiny", Some(100.0), false));
        assert_eq!((cost.labels["team"].as_str(), cost.usd_per_hour), ("vision", 0.0));
        let used = SliceUse::of_job(&state, None);
        assert!(used.len() == 1 && used.values().all(|slice| !slice.is_live));
    }
}
