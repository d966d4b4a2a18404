//! What is done next: a function of what is known, what was seen, and the time.

use std::collections::{BTreeMap, BTreeSet};

use super::bill::JobBill;
use super::state::{Ending, JobAttempt, JobState, StopCause};
use super::{attempt, capacity};
use crate::job::JobFile;
use crate::provider::{ProvidedSlice, ProviderError, SliceId, SliceRequest};

/// What was observed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Slices that carry the labels of this run.
    pub slices: Vec<ProvidedSlice>,
    /// Zones whose slices are all among them. Of another zone nothing is known.
    pub zones: BTreeSet<String>,
    /// When these zones were looked at. A zone that is not here was looked at now.
    pub looks: BTreeMap<String, ZoneLook>,
    /// What workers of the attempt do, in the order of its places; empty if nobody looked.
    pub workers: Vec<WorkerSeen>,
    /// The step of the newest checkpoint.
    pub step: Option<u64>,
    /// Requests that were refused since the last decision.
    pub refused: Vec<(SliceId, ProviderError)>,
    /// The job was asked to stop.
    pub is_stopped: bool,
}

/// When a zone was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLook {
    /// The time of the look before, where this supervisor had one.
    pub before_ms: Option<u64>,
    /// The time of this one.
    pub at_ms: u64,
}

/// What a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerSeen {
    /// It does not answer.
    Unreachable,
    /// Its machine answers, and nobody listens there: it has ended, or begins.
    Refusing,
    /// It has no process of this run.
    Idle,
    /// It is being prepared for an attempt.
    Preparing,
    /// Its process runs.
    Running {
        /// Of which attempt.
        attempt: u32,
        /// Seconds since its last sign of life.
        silent_s: u64,
    },
    /// Its process has ended.
    Exited {
        /// Of which attempt.
        attempt: u32,
        /// The exit code; 128 and the signal if one ended it.
        code: i32,
    },
    /// It could not be prepared.
    Failed {
        /// Why.
        why: String,
    },
}

/// How processes are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopHow {
    /// They save and end.
    Ask,
    /// At once.
    Kill,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask for a slice, or ask again.
    Create(SliceRequest),
    /// Delete a slice, or go on deleting it.
    Delete(SliceId),
    /// Prepare the workers of an attempt and start its processes.
    Start(JobAttempt),
    /// Stop the processes of an attempt on all of its workers.
    Stop(JobAttempt, StopHow),
}

/// What was decided.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// To do, in this order, once the state is written.
    pub actions: Vec<Action>,
    /// For people.
    pub says: Vec<String>,
    /// Look again soon: something is about to change.
    pub is_busy: bool,
}

impl Seen {
    /// The middle of the time in which a change in a zone happened that this look is the first to see.
    pub(super) fn between(&self, zone: &str, now_ms: u64) -> u64 {
        let look = self.looks.get(zone).copied().unwrap_or(ZoneLook { before_ms: None, at_ms: now_ms });
        let before = look.before_ms.filter(|before| *before <= look.at_ms).unwrap_or(look.at_ms);
        before + (look.at_ms - before) / 2
    }

    /// Every zone of a job was listed, and nothing is there.
    pub fn nothing_in(job: &JobFile) -> Seen {
        Seen { zones: job.slices.zones.iter().cloned().collect(), ..Seen::default() }
    }
}

/// Decides what is done next, and changes the state to what holds once it is begun.
pub fn decide(job: &JobFile, state: &mut JobState, seen: &Seen, now_ms: u64) -> Decision {
    let mut decision = Decision::default();
    if state.is_over {
        return decision;
    }
    let listed: BTreeMap<&str, &ProvidedSlice> =
        seen.slices.iter().map(|slice| (slice.id.name.as_str(), slice)).collect();
    if seen.step > state.step {
        state.step = seen.step;
        if let Some(attempt) = &mut state.attempt {
            attempt.kept_ms = Some(now_ms);
        }
    }
    capacity::refused(job, state, seen, now_ms, &mut decision);
    capacity::compare(job, state, seen, &listed, now_ms, &mut decision);
    limits(job, state, seen, now_ms, &mut decision);
    attempt::follow(job, state, seen, now_ms, &mut decision);
    if state.attempt.is_none() {
        match &state.ending {
            Some(_) => {
                for unit in state.units.iter_mut().filter(|unit| unit.is_wanted()) {
                    unit.doom("the job ends");
                }
            }
            None => attempt::begin(job, state, &listed, now_ms, &mut decision),
        }
    }
    if state.ending.is_none() {
        capacity::ask(job, state, now_ms, &mut decision);
    }
    capacity::delete(state, seen, &listed, now_ms, &mut decision);
    let is_gone = state.units.iter().all(|unit| unit.gone_ms.is_some() && unit.is_billed);
    // A zone that was not listed may have a slice of a request whose answer was lost.
    let all_listed = job.slices.zones.iter().all(|zone| seen.zones.contains(zone));
    if state.ending.is_some() && state.attempt.is_none() && is_gone && all_listed && listed.is_empty() {
        state.is_over = true;
    }
    decision.is_busy |= state.ending.is_some() || !decision.actions.is_empty();
    decision
}

/// Ends the job where money, time or somebody says so.
fn limits(job: &JobFile, state: &mut JobState, seen: &Seen, now_ms: u64, decision: &mut Decision) {
    if state.ending.is_some() {
        return;
    }
    let (ending, why) = if seen.is_stopped {
        (Ending::Stopped, "the job was asked to stop".to_string())
    } else if job.limits.deadline_s.is_some_and(|limit| now_ms >= state.started_ms + limit * 1000) {
        (Ending::Deadline, "the deadline is there".to_string())
    } else if let Some(budget) = job.limits.budget_usd {
        let bill = JobBill::of(job, state, now_ms);
        // What it costs until everything is saved and deleted.
        let last = bill.usd_per_hour * (job.limits.grace_s + DELETE_S) as f64 / 3600.0;
        if bill.usd + last < budget {
            return;
        }
        (
            Ending::Budget,
            format!(
                "${:.2} are spent, and ${last:.2} are needed to save and end: the budget is ${budget:.2}",
                bill.usd
            ),
        )
    } else {
        return;
    };
    decision.says.push(format!("{why}: saving and stopping"));
    state.stop(StopCause::Capacity, why, now_ms);
    state.ending = Some(ending);
}

/// Seconds that deleting a slice is expected to take.
const DELETE_S: u64 = 60;
