//! Units: what is asked for, what the provider says of it, what must be deleted.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::decide::{Action, Decision, Seen, WorkerSeen};
use super::state::{AttemptPhase, Ending, JobState, StopCause, Unit, UnitFate, ZoneTrouble};
use crate::job::JobFile;
use crate::provider::{ProvidedSlice, ProviderError, SliceRequest, SliceState};

/// The pause before a zone that refused is asked again; it doubles with each refusal.
const FIRST_REFUSAL_MS: u64 = 5_000;
/// The longest such pause.
const MAX_REFUSAL_MS: u64 = 300_000;

/// A deletion that shows no effect is asked for again.
const DELETE_AGAIN_MS: u64 = 5_000;
/// A slice that is being taken is left alone for so long, so that its processes can save.
const NOTICE_MS: u64 = 30_000;

/// Slices of one unit, units of a full job, and the fewest: those of an elastic job come and go one by one.
pub(super) fn sizes(job: &JobFile) -> (u32, usize, usize) {
    let count = job.slice().num_slices();
    if job.is_elastic() { (1, count as usize, job.slices.min_slices as usize) } else { (count, 1, 1) }
}

/// Takes in what requests were answered with.
pub(super) fn refused(job: &JobFile, state: &mut JobState, seen: &Seen, now_ms: u64, decision: &mut Decision) {
    for (id, error) in &seen.refused {
        let Some(unit) = state.units.iter_mut().find(|unit| unit.name == id.name) else { continue };
        if unit.fate != UnitFate::Wanted {
            continue;
        }
        unit.refused = Some(error.to_string());
        let is_final = matches!(error, ProviderError::Denied(_) | ProviderError::Invalid(_));
        let asks_to_wait = match error {
            // Nobody knows whether it was done: look, and ask again for the same.
            ProviderError::Unknown(_) => continue,
            ProviderError::Taken(_) => {
                unit.doom("its name was taken");
                unit.gone_ms = Some(now_ms);
                unit.is_billed = true;
                continue;
            }
            ProviderError::Transient { retry_after, .. } => retry_after.map_or(0, |seconds| seconds * 1000),
            _ => 0,
        };
        if is_final {
            unit.doom(error.to_string());
        }
        let zone = id.zone.clone();
        trouble(state, &zone, error.to_string(), asks_to_wait, is_final, now_ms);
        decision.says.push(format!("{zone}: {error}"));
    }
    let is_hopeless = |zone: &String| state.zones.get(zone).is_some_and(|trouble| trouble.until_ms.is_none());
    if state.ending.is_none() && job.slices.zones.iter().all(is_hopeless) {
        let why = state.zones.iter().map(|(zone, trouble)| format!("{zone}: {}", trouble.why));
        let why = why.collect::<Vec<_>>().join("; ");
        state.ending = Some(Ending::GivenUp { why });
    }
}

/// Notes that a zone refused.
fn trouble(state: &mut JobState, zone: &str, why: String, at_least_ms: u64, is_final: bool, now_ms: u64) {
    let known = state.zones.entry(zone.to_string()).or_insert(ZoneTrouble {
        why: String::new(),
        refusals: 0,
        until_ms: Some(0),
    });
    let pause = FIRST_REFUSAL_MS.saturating_mul(1 << known.refusals.min(10)).min(MAX_REFUSAL_MS);
    known.refusals += 1;
    known.why = why;
    known.until_ms = (!is_final).then_some(now_ms + pause.max(at_least_ms));
}

/// Compares units with what the provider shows.
pub(super) fn compare(
    job: &JobFile,
    state: &mut JobState,
    seen: &Seen,
    listed: &BTreeMap<&str, &ProvidedSlice>,
    now_ms: u64,
    decision: &mut Decision,
) {
    // A slice of this run that no unit stands for must go: every unit is in the journal before it is asked for, so that
    // this is one of a journal that was lost.
    for slice in listed.values() {
        if !state.units.iter().any(|unit| unit.name == slice.id.name) {
            let mut unit = new_unit(&slice.id.name, &slice.id.zone, 1, now_ms);
            unit.doom("nobody asked for it");
            state.units.push(unit);
        }
    }
    let wait_ms = job.limits.wait_s.map(|seconds| seconds * 1000);
    let mut failed_zones = Vec::new();
    for unit in &mut state.units {
        if !seen.zones.contains(&unit.zone) {
            continue;
        }
        let between = seen.between(&unit.zone, now_ms);
        let Some(slice) = listed.get(unit.name.as_str()) else {
            if unit.ready_ms.is_some() {
                unit.lost_ms.get_or_insert(between);
            }
            // A request that nobody took is not repeated for ever: the time until which it was valid is part of it.
            let is_late = wait_ms.is_some_and(|wait_ms| now_ms >= unit.asked_ms + wait_ms);
            if unit.gone_ms.is_none() && (unit.is_seen || is_late || unit.fate != UnitFate::Wanted) {
                unit.doom("it is gone");
                unit.gone_ms = Some(now_ms);
                // What was never seen was never given, as far as anybody knows; the provider is asked.
                unit.is_billed = false;
            }
            continue;
        };
        if unit.gone_ms.take().is_some() {
            // Its request was on its way for long. It was given up, and must go.
            decision.says.push(format!("{} is there although it was deleted: deleting it again", unit.name));
            unit.is_billed = false;
            unit.lost_ms = None;
        }
        unit.is_seen = true;
        match (&slice.state, unit.ready_ms) {
            (SliceState::Ready, None) => unit.ready_ms = Some(between),
            (SliceState::Lost | SliceState::Deleting | SliceState::Failed { .. }, Some(_)) => {
                unit.lost_ms.get_or_insert(between);
            }
            _ => {}
        }
        if matches!(slice.state, SliceState::Creating | SliceState::Ready | SliceState::Lost) && unit.given_ms.is_none()
        {
            unit.given_ms = Some(now_ms);
        }
        if unit.fate != UnitFate::Wanted {
            continue;
        }
        match &slice.state {
            SliceState::Ready if !unit.is_ready => {
                unit.is_ready = true;
                state.zones.remove(&unit.zone);
                decision.says.push(format!("{} is ready in {}", unit.name, unit.zone));
            }
            SliceState::Ready => {}
            SliceState::Lost | SliceState::Deleting => {
                decision.says.push(format!("{} was taken away ({})", unit.name, slice.detail));
                unit.doom(format!("taken away: {}", slice.detail));
            }
            SliceState::Failed { why } => {
                decision.says.push(format!("{} failed: {why}", unit.name));
                unit.doom(format!("failed: {why}"));
                failed_zones.push((unit.zone.clone(), why.clone()));
            }
            SliceState::Waiting | SliceState::Creating => {
                // A machine that was ready and is made anew has no process any more.
                if unit.is_ready {
                    unit.doom(format!("made anew: {}", slice.detail));
                } else if wait_ms.is_some_and(|wait_ms| now_ms >= unit.asked_ms + wait_ms) {
                    decision.says.push(format!("{} was not filled in time", unit.name));
                    unit.doom("not filled in time");
                    failed_zones.push((unit.zone.clone(), "not filled in time".into()));
                }
            }
        }
    }
    for (zone, why) in failed_zones {
        trouble(state, &zone, why, 0, false, now_ms);
    }
    // An attempt has lost what its units have lost.
    let Some(attempt) = &state.attempt else { return };
    let is_lost = |name: &String| !state.units.iter().any(|unit| unit.name == *name && unit.is_wanted());
    let lost: Vec<String> = attempt.places.iter().map(|place| place.unit.clone()).filter(is_lost).collect();
    if let Some(first) = lost.first() {
        let is_taken = |unit: &Unit| matches!(&unit.fate, UnitFate::Doomed { why } if why.starts_with(DEAD));
        let is_dead = state.units.iter().any(|unit| unit.name == *first && is_taken(unit));
        if !is_dead && !matches!(attempt.phase, AttemptPhase::Stopping { cause: StopCause::Done | StopCause::No, .. }) {
            let why = format!("{first} was taken away");
            state.stop(StopCause::Capacity, why, now_ms);
        }
    }
}

/// How the reason begins for which a unit with a machine that failed is deleted.
pub(super) const DEAD: &str = "worker failed";

/// Asks for what is missing: in every zone while there is no home with enough, and else only there.
pub(super) fn ask(job: &JobFile, state: &mut JobState, now_ms: u64, decision: &mut Decision) {
    let (slices, full, fewest) = sizes(job);
    let count = |state: &JobState, zone: &String, is_right: &dyn Fn(&Unit) -> bool| {
        state.units.iter().filter(|unit| unit.zone == *zone && unit.is_wanted() && is_right(unit)).count()
    };
    let home = state.home.clone().filter(|home| count(state, home, &|unit| unit.is_ready) >= fewest);
    for zone in job.slices.zones.iter().filter(|zone| home.as_ref().is_none_or(|home| home == *zone)) {
        let trouble = state.zones.get(zone);
        if trouble.is_some_and(|trouble| trouble.until_ms.is_none_or(|until_ms| now_ms < until_ms)) {
            continue;
        }
        for _ in count(state, zone, &|_| true)..full {
            state.asked += 1;
            let name = format!("{}-{}-{}", state.job, state.run, state.asked);
            state.units.push(new_unit(&name, zone, slices, now_ms));
        }
    }
    for unit in state.units.iter().filter(|unit| unit.is_wanted() && !unit.is_seen) {
        let may_ask =
            state.zones.get(&unit.zone).is_none_or(|trouble| trouble.until_ms.is_some_and(|until| now_ms >= until));
        if may_ask {
            decision.actions.push(Action::Create(request(job, state, unit)));
        }
    }
}

/// Deletes what is not wanted, until it is gone.
pub(super) fn delete(
    state: &mut JobState,
    seen: &Seen,
    listed: &BTreeMap<&str, &ProvidedSlice>,
    now_ms: u64,
    decision: &mut Decision,
) {
    // Processes are stopped first, so that they save: on a slice that is being taken as long as its notice lasts.
    let is_used = |unit: &Unit| {
        let Some(attempt) = &state.attempt else { return false };
        let mut places = attempt.places.iter().enumerate().filter(|(_, place)| place.unit == unit.name);
        let is_dead = matches!(&unit.fate, UnitFate::Doomed { why } if why.starts_with(DEAD));
        match (listed.get(unit.name.as_str()).map(|slice| &slice.state), &attempt.phase) {
            (Some(SliceState::Ready), _) => !is_dead && places.next().is_some(),
            (Some(SliceState::Lost), AttemptPhase::Stopping { since_ms, .. }) => {
                let runs = |at: usize| matches!(seen.workers.get(at), Some(WorkerSeen::Running { .. }));
                now_ms < since_ms + NOTICE_MS && places.any(|(at, _)| runs(at))
            }
            _ => false,
        }
    };
    let mut now_deleted = Vec::new();
    for (at, unit) in state.units.iter().enumerate() {
        if unit.gone_ms.is_some() || unit.fate == UnitFate::Wanted {
            continue;
        }
        let is_deleting = listed.get(unit.name.as_str()).is_some_and(|slice| slice.state == SliceState::Deleting);
        let is_due = unit.delete_ms.is_none_or(|before_ms| now_ms >= before_ms + DELETE_AGAIN_MS);
        if !is_used(unit) && !is_deleting && is_due {
            now_deleted.push(at);
        }
        decision.is_busy = true;
    }
    for at in now_deleted {
        state.units[at].delete_ms = Some(now_ms);
        decision.actions.push(Action::Delete(state.units[at].id()));
    }
    // Capacity was given: machines are there soon.
    decision.is_busy |= state.units.iter().any(|unit| unit.is_wanted() && !unit.is_ready && unit.given_ms.is_some());
}

fn new_unit(name: &str, zone: &str, slices: u32, now_ms: u64) -> Unit {
    Unit {
        name: name.to_string(),
        zone: zone.to_string(),
        slices,
        asked_ms: now_ms,
        is_seen: false,
        is_ready: false,
        fate: UnitFate::Wanted,
        given_ms: None,
        ready_ms: None,
        lost_ms: None,
        gone_ms: None,
        paid: Vec::new(),
        is_given_asked: false,
        is_billed: false,
        delete_ms: None,
        crashes: 0,
        refused: None,
    }
}

/// The request of a unit: the same whenever it is repeated.
fn request(job: &JobFile, state: &JobState, unit: &Unit) -> SliceRequest {
    let mut labels = job.labels.clone();
    labels.extend(state.labels());
    let number = unit.name.rsplit('-').next().unwrap_or_default();
    labels.insert("tpubridge-attempt".into(), number.to_string());
    // Workers publish the keys of their ssh servers, so that nobody is believed by his address, and let the job's user in.
    let mut metadata = BTreeMap::from([("enable-guest-attributes".to_string(), "TRUE".to_string())]);
    if let (Some(user), Some(key)) = (&job.cloud.ssh_user, &job.cloud.ssh_public_key) {
        metadata.insert("ssh-keys".into(), format!("{user}:{key}"));
    }
    let until =
        |wait_s: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(unit.asked_ms) + Duration::from_secs(wait_s);
    SliceRequest {
        id: unit.id(),
        accelerator_type: job.slice().accelerator_type(),
        runtime_version: job.runtime_version().unwrap_or_default().to_string(),
        slices: unit.slices,
        capacity: job.capacity(),
        valid_until: job.limits.wait_s.map(until),
        network: job.cloud.network.clone(),
        subnetwork: job.cloud.subnetwork.clone(),
        external_ips: job.cloud.external_ips,
        service_account: job.cloud.service_account.clone(),
        tags: job.cloud.tags.clone(),
        labels,
        metadata,
        disks: job.cloud.disks.clone(),
    }
}
