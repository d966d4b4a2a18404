//! Slices that are paid for and do nothing: without a job, after their job, or with one that makes no steps.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::provider::{ProvidedSlice, SliceId, SliceState};

/// What a slice is used for, as journals and processes tell.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceUse {
    /// The job that has it.
    pub job: String,
    /// Whether the job goes on.
    pub is_live: bool,
    /// How long ago its last step ended, where a process of it tells.
    pub step_age: Option<Duration>,
}

/// Why a slice counts as idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleReason {
    /// No job that is known has it.
    NoJob,
    /// Its job is over.
    JobOver {
        /// Which.
        job: String,
    },
    /// Its job makes no steps.
    NoSteps {
        /// Which.
        job: String,
        /// Seconds since the last one.
        seconds: u64,
    },
}

impl fmt::Display for IdleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdleReason::NoJob => f.write_str("no job has it"),
            IdleReason::JobOver { job } => write!(f, "job {job} is over"),
            IdleReason::NoSteps { job, seconds } => write!(f, "job {job} has made no step for {seconds} s"),
        }
    }
}

/// A slice that is paid for and does nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleSlice {
    /// Its zone.
    pub zone: String,
    /// Its name.
    pub name: String,
    /// Why it counts as idle.
    pub why: IdleReason,
    /// Seconds since it was asked for, where that is known.
    pub age_seconds: Option<u64>,
    /// US dollars for each hour, where a price is known.
    pub usd_per_hour: Option<f64>,
    /// How to end it.
    pub remedy: String,
}

/// Slices of ours that do nothing, in the order they were given. A slice that is still being made, or is being deleted, is not
/// idle; one that is younger than `grace` may be waiting for its job. `price` is what a slice costs an hour, where it is known.
pub fn idle_slices(
    slices: &[ProvidedSlice],
    used: &BTreeMap<SliceId, SliceUse>,
    now: SystemTime,
    grace: Duration,
    price: impl Fn(&ProvidedSlice) -> Option<f64>,
) -> Vec<IdleSlice> {
    let idle = |slice: &ProvidedSlice| {
        if slice.state != SliceState::Ready {
            return None;
        }
        let age = slice.created.and_then(|created| now.duration_since(created).ok());
        let why = match used.get(&slice.id) {
            Some(SliceUse { job, is_live: false, .. }) => IdleReason::JobOver { job: job.clone() },
            Some(SliceUse { job, step_age: Some(step_age), .. }) if *step_age > grace => {
                IdleReason::NoSteps { job: job.clone(), seconds: step_age.as_secs() }
            }
            Some(_) => return None,
            None if age.is_some_and(|age| age < grace) => return None,
            None => IdleReason::NoJob,
        };
        let SliceId { zone, name } = slice.id.clone();
        let remedy = match &why {
            IdleReason::NoSteps { job, .. } => format!("tpu hang and tpu diagnose say why; tpu job stop {job} ends it"),
            _ => format!("tpu down {name} --zone {zone}"),
        };
        Some(IdleSlice {
            zone,
            name,
            why,
            age_seconds: age.map(|age| age.as_secs()),
            usd_per_hour: price(slice),
            remedy,
        })
    };
    slices.iter().filter_map(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_without_work_are_found() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100_000);
        let slice = |name: &str, state: SliceState, age: u64| ProvidedSlice {
            id: SliceId { zone: "z-a".into(), name: name.into() },
            state,
            workers: Vec::new(),
            labels: BTreeMap::new(),
            created: Some(now - Duration::from_secs(age)),
            detail: String::new(),
        };
        let slices = [
            slice("forgotten", SliceState::Ready, 7200),
            slice("new", SliceState::Ready, 10),
            slice("over", SliceState::Ready, 30),
            slice("works", SliceState::Ready, 7200),
            slice("hangs", SliceState::Ready, 7200),
            slice("silent", SliceState::Ready, 7200),
            slice("queued", SliceState::Waiting, 7200),
            slice("lost", SliceState::Lost, 7200),
            slice("going", SliceState::Deleting, 7200),
        ];
        let used = |name: &str, is_live: bool, step_age: Option<u64>| {
            let id = SliceId { zone: "z-a".into(), name: name.into() };
            (id, SliceUse { job: "j".into(), is_live, step_age: step_age.map(Duration::from_secs) })
        };
        let used = BTreeMap::from([
            used("over", false, None),
            used("works", true, Some(12)),
            used("hangs", true, Some(4000)),
            // A job whose processes cannot be asked is believed.
            used("silent", true, None),
        ]);
        let found = idle_slices(&slices, &used, now, Duration::from_secs(900), |slice| {
            (slice.id.name == "forgotten").then_some(21.6)
        });
        let said: Vec<(&str, String)> = found.iter().map(|idle| (idle.name.as_str(), idle.why.to_string())).collect();
        assert_eq!(
            said,
            [
                ("forgotten", "no job has it".to_string()),
                ("over", "job j is over".to_string()),
                ("hangs", "job j has made no step for 4000 s".to_string()),
            ]
        );
        assert_eq!((found[0].age_seconds, found[0].usd_per_hour), (Some(7200), Some(21.6)));
        assert_eq!(found[0].remedy, "tpu down forgotten --zone z-a");
    }
}
