//! What a supervisor knows of its job. Times are milliseconds since 1970.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::job::JobFile;
use crate::provider::SliceId;
use crate::restart::RestartPolicy;

/// Everything about a job that its journal keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// The job's name.
    pub job: String,
    /// A name of this run of the job that no other has: slices carry it, so that another job of the same name is left alone.
    pub run: String,
    /// When it was first started.
    pub started_ms: u64,
    /// Requests for capacity so far: each has its number in its name.
    pub asked: u32,
    /// Every request that was ever made, and what became of it.
    pub units: Vec<Unit>,
    /// The zone of the attempt that ran last.
    pub home: Option<String>,
    /// What went wrong in zones.
    pub zones: BTreeMap<String, ZoneTrouble>,
    /// Attempts so far.
    pub attempts: u32,
    /// The one that is under way.
    pub attempt: Option<JobAttempt>,
    /// Those that ended.
    pub ended: Vec<EndedAttempt>,
    /// Restarts that are left.
    pub policy: RestartPolicy,
    /// The next attempt does not start before.
    pub not_before_ms: u64,
    /// The newest checkpoint that was seen.
    pub step: Option<u64>,
    /// How the job ends, once that is known.
    pub ending: Option<Ending>,
    /// Nothing is left: no process, no slice, and the bill is complete.
    pub is_over: bool,
}

/// A request for one slice, or for several that come and go together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name, which no other has.
    pub name: String,
    /// Its zone.
    pub zone: String,
    /// Slices in it.
    pub slices: u32,
    /// When it was decided to ask.
    pub asked_ms: u64,
    /// Whether the provider has shown it.
    pub is_seen: bool,
    /// Whether all machines are there.
    pub is_ready: bool,
    /// Whether it is to be kept.
    pub fate: UnitFate,
    /// When its capacity was first seen to be given.
    pub given_ms: Option<u64>,
    /// When all of its machines were first there, between two looks: from then on it is paid for.
    #[serde(default)]
    pub ready_ms: Option<u64>,
    /// When they were taken, deleted or gone, between two looks.
    #[serde(default)]
    pub lost_ms: Option<u64>,
    /// When it was seen to be gone. It may come back, if its request was on its way.
    pub gone_ms: Option<u64>,
    /// The times that are paid, as the provider recorded them: from, until. What it does not say is as it was seen.
    pub paid: Vec<(Option<u64>, Option<u64>)>,
    /// Whether the provider was asked for them when it was given.
    pub is_given_asked: bool,
    /// Whether the provider was asked for them after it was gone.
    pub is_billed: bool,
    /// When its deletion was last asked for.
    pub delete_ms: Option<u64>,
    /// Times that a process on it was ended by a signal of its own.
    pub crashes: u32,
    /// Why the provider refused it last.
    pub refused: Option<String>,
}

/// Whether a unit is to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitFate {
    /// It is asked for, waited for, or used.
    Wanted,
    /// It is to be deleted, until it is gone.
    Doomed {
        /// Why.
        why: String,
    },
}

/// A zone that refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneTrouble {
    /// What it said.
    pub why: String,
    /// Refusals in a row.
    pub refusals: u32,
    /// It is asked again then; never if absent.
    pub until_ms: Option<u64>,
}

/// One machine of an attempt, which runs one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The unit.
    pub unit: String,
    /// The unit's zone.
    #[serde(default)]
    pub zone: String,
    /// The slice among those of the unit, from 0.
    #[serde(default)]
    pub unit_slice: u32,
    /// The slice among all of the attempt, from 0.
    pub slice: u32,
    /// The number in the slice, from 0.
    pub worker: u32,
    /// The address in the network.
    pub internal: IpAddr,
    /// The address on the internet.
    pub external: Option<IpAddr>,
}

/// One start of the program on all workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobAttempt {
    /// The run it belongs to.
    pub run: String,
    /// Its number, from 1.
    pub number: u32,
    /// The lease under which it was started: an older supervisor can start nothing more.
    pub epoch: u64,
    /// Slices it uses.
    pub slices: u32,
    /// Where its processes are, in the order of their ids.
    pub places: Vec<Place>,
    /// How far it is.
    pub phase: AttemptPhase,
    /// When it was decided.
    pub since_ms: u64,
    /// When all processes were first seen to run.
    pub running_ms: Option<u64>,
    /// The newest checkpoint before it.
    pub from_step: Option<u64>,
    /// When the newest checkpoint of its own was seen.
    pub kept_ms: Option<u64>,
    /// Workers (by process id) that do not answer, and since when.
    pub unreachable: BTreeMap<u32, u64>,
}

/// How far an attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptPhase {
    /// Workers are prepared, processes are started.
    Starting,
    /// All processes have been seen to run.
    Running,
    /// All processes are to end.
    Stopping {
        /// Why, for people.
        why: String,
        /// Whose fault it is.
        cause: StopCause,
        /// Since when.
        since_ms: u64,
    },
}

/// Why an attempt is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopCause {
    /// The program ended or hung.
    Program,
    /// The program told an error and ended.
    Refusal,
    /// The program said that the answer is no.
    No,
    /// A machine failed.
    Machine,
    /// Capacity was taken, there is more of it, or the job ends.
    Capacity,
    /// Every process has ended well.
    Done,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedAttempt {
    /// Its number.
    pub number: u32,
    /// Slices it used.
    pub slices: u32,
    /// Its units.
    pub units: Vec<String>,
    /// When it was decided: all of its slices were there.
    pub since_ms: u64,
    /// When all processes were first seen to run.
    pub running_ms: Option<u64>,
    /// When it was decided to stop it.
    pub stopping_ms: u64,
    /// Until when its work was kept: the newest checkpoint of its own, or its end if it finished.
    pub kept_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: u64,
    /// The newest checkpoint then.
    pub step: Option<u64>,
    /// Why it ended.
    pub why: String,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Ending {
    /// The program is done.
    Finished,
    /// The program's answer is no (exit code 1).
    Answered,
    /// It was asked to stop; the state is saved.
    Stopped,
    /// More would cost more than the budget; the state is saved.
    Budget,
    /// The deadline is there; the state is saved.
    Deadline,
    /// It is of no use to go on.
    GivenUp {
        /// Why.
        why: String,
    },
}

impl JobState {
    /// A job that begins now.
    pub fn new(job: &JobFile, run: &str, now_ms: u64) -> JobState {
        JobState {
            job: job.name.clone(),
            run: run.to_string(),
            started_ms: now_ms,
            asked: 0,
            units: Vec::new(),
            home: None,
            zones: BTreeMap::new(),
            attempts: 0,
            attempt: None,
            ended: Vec::new(),
            policy: RestartPolicy::new(job.limits.restarts),
            not_before_ms: 0,
            step: None,
            ending: None,
            is_over: false,
        }
    }

    /// The labels that everything of this run carries.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let own = [("tpubridge-job", &self.job), ("tpubridge-run", &self.run)];
        own.into_iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
    }

    pub(super) fn unit(&mut self, name: &str) -> Option<&mut Unit> {
        self.units.iter_mut().find(|unit| unit.name == name)
    }

    /// Stops the attempt, unless it is being stopped already; a stop for the program's sake becomes one for a better reason.
    pub(super) fn stop(&mut self, cause: StopCause, why: impl Into<String>, now_ms: u64) {
        let Some(attempt) = &mut self.attempt else { return };
        match &mut attempt.phase {
            AttemptPhase::Starting | AttemptPhase::Running => {
                attempt.phase = AttemptPhase::Stopping { why: why.into(), cause, since_ms: now_ms };
            }
            AttemptPhase::Stopping { why: before, cause: was, .. } => {
                let is_program = matches!(*was, StopCause::Program | StopCause::Refusal);
                let is_better = matches!(cause, StopCause::Machine | StopCause::Capacity)
                    && (is_program || *was == StopCause::Machine && cause == StopCause::Capacity);
                if is_better {
                    (*was, *before) = (cause, why.into());
                }
            }
        }
    }
}

impl Unit {
    /// Its identity at the provider.
    pub fn id(&self) -> SliceId {
        SliceId { zone: self.zone.clone(), name: self.name.clone() }
    }

    /// Whether it is to be kept and not gone.
    pub fn is_wanted(&self) -> bool {
        self.fate == UnitFate::Wanted && self.gone_ms.is_none()
    }

    pub(super) fn doom(&mut self, why: impl Into<String>) {
        if self.fate == UnitFate::Wanted {
            self.fate = UnitFate::Doomed { why: why.into() };
        }
        self.is_ready = false;
    }
}
