//! The bill of a job: seconds and dollars of each slice from ready until it is taken or deleted, and what of it restarts wasted.

use serde::Serialize;

use super::state::{JobState, Unit};
use crate::job::JobFile;

/// What a job has cost so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobBill {
    /// Every unit that was given.
    pub slices: Vec<BilledSlice>,
    /// Seconds of all of them, times their slices.
    pub slice_seconds: u64,
    /// Of these, seconds whose work was not kept: preparation, steps after the newest checkpoint, waiting, deleting.
    pub wasted_seconds: u64,
    /// US dollars; nothing where no price is known.
    pub usd: f64,
    /// Of these, wasted.
    pub wasted_usd: f64,
    /// What is there now costs so much.
    pub usd_per_hour: f64,
}

/// One unit of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BilledSlice {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: String,
    /// Slices in it.
    pub slices: u32,
    /// Seconds that are paid: from ready until taken, deleted or now.
    pub seconds: u64,
    /// Of these, wasted.
    pub wasted_seconds: u64,
    /// US dollars of one hour of all of its slices, where a price is known.
    pub usd_per_hour: Option<f64>,
    /// Whether it is still there.
    pub is_running: bool,
}

impl JobBill {
    /// The bill at a moment.
    pub fn of(job: &JobFile, state: &JobState, now_ms: u64) -> JobBill {
        let mut bill = JobBill {
            slices: Vec::new(),
            slice_seconds: 0,
            wasted_seconds: 0,
            usd: 0.0,
            wasted_usd: 0.0,
            usd_per_hour: 0.0,
        };
        for unit in &state.units {
            let times = paid_times(unit);
            if times.is_empty() {
                continue;
            }
            let is_running = unit.gone_ms.is_none();
            let times = times.into_iter().map(|(from, until)| (from, until.unwrap_or(now_ms).max(from)));
            let (mut seconds, mut kept) = (0, 0);
            for (from, until) in times {
                let length = round_s(until - from);
                seconds += length;
                kept += round_s(kept_ms(state, &unit.name, from, until)).min(length);
            }
            let wasted_seconds = seconds - kept;
            let usd_per_hour = job.usd_per_slice_hour(&unit.zone).map(|usd| usd * f64::from(unit.slices));
            let rate = usd_per_hour.unwrap_or_default();
            bill.slice_seconds += seconds * u64::from(unit.slices);
            bill.wasted_seconds += wasted_seconds * u64::from(unit.slices);
            bill.usd += rate * seconds as f64 / 3600.0;
            bill.wasted_usd += rate * wasted_seconds as f64 / 3600.0;
            bill.usd_per_hour += if is_running { rate } else { 0.0 };
            bill.slices.push(BilledSlice {
                name: unit.name.clone(),
                zone: unit.zone.clone(),
                slices: unit.slices,
                seconds,
                wasted_seconds,
                usd_per_hour,
                is_running,
            });
        }
        bill
    }
}

/// The times for which a unit is paid: the provider's where it has a record, else those between which it was seen to be ready.
fn paid_times(unit: &Unit) -> Vec<(u64, Option<u64>)> {
    let seen = |until: Option<u64>| {
        let until = [until, unit.lost_ms, unit.gone_ms].into_iter().flatten().min();
        unit.ready_ms.map(|from| (from, until.map(|until| until.max(from))))
    };
    if unit.paid.is_empty() {
        return seen(None).into_iter().collect();
    }
    let recorded = |(from, until): &(Option<u64>, Option<u64>)| match from {
        Some(from) => Some((*from, *until)),
        None => seen(*until),
    };
    unit.paid.iter().filter_map(recorded).collect()
}

/// Milliseconds of a time in which a unit did work that was kept.
fn kept_ms(state: &JobState, unit: &str, from: u64, until: u64) -> u64 {
    let ended = state.ended.iter().filter(|attempt| attempt.units.iter().any(|name| name == unit));
    let ended = ended.map(|attempt| (attempt.running_ms, attempt.kept_ms));
    let current = state.attempt.iter().filter(|attempt| attempt.places.iter().any(|place| place.unit == unit));
    let current = current.map(|attempt| (attempt.running_ms, attempt.kept_ms));
    let length = |(running, kept): (Option<u64>, Option<u64>)| {
        let (running, kept) = (running?.max(from), kept?.min(until));
        Some(kept.saturating_sub(running))
    };
    ended.chain(current).filter_map(length).sum()
}

fn round_s(ms: u64) -> u64 {
    (ms + 500) / 1000
}
