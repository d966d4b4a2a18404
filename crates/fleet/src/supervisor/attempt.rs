//! Attempts: when one begins, how it is followed, and when it has ended for certain.

use std::collections::BTreeMap;

use super::capacity::{DEAD, sizes};
use super::decide::{Action, Decision, Seen, StopHow, WorkerSeen};
use super::state::{AttemptPhase, EndedAttempt, Ending, JobAttempt, JobState, Place, StopCause};
use crate::job::JobFile;
use crate::launch::SAVED;
use crate::provider::ProvidedSlice;
use crate::restart::{RestartVerdict, RunEnd};

/// A worker that does not answer for so long has failed.
const DEAD_MS: u64 = 20_000;
/// One whose machine answers that nobody listens, or whose fellows have failed, is not just cut off for a moment.
const SURELY_DEAD_MS: u64 = 2_000;
/// Preparing workers and starting processes may take so long.
const START_MS: u64 = 1_800_000;
/// After a failure of the program the provider has so long to tell that it was its own.
const SETTLE_MS: u64 = 3_000;
/// An elastic job that has enough slices waits so long for all of them.
const PATIENCE_MS: u64 = 60_000;

/// Begins an attempt, if there is enough for it.
pub(super) fn begin(
    job: &JobFile,
    state: &mut JobState,
    listed: &BTreeMap<&str, &ProvidedSlice>,
    now_ms: u64,
    decision: &mut Decision,
) {
    let (_, full, fewest) = sizes(job);
    if now_ms < state.not_before_ms {
        decision.is_busy = true;
        return;
    }
    // Units whose workers are all known.
    let ready = |state: &JobState, zone: &str| -> Vec<usize> {
        let is_whole = |name: &str, slices: u32| {
            let expected = (slices * job.workers_per_slice()) as usize;
            listed.get(name).is_some_and(|slice| slice.workers.len() == expected)
        };
        let units = state.units.iter().enumerate();
        let units = units.filter(|(_, unit)| unit.zone == zone && unit.is_wanted() && unit.is_ready);
        units.filter(|(_, unit)| is_whole(&unit.name, unit.slices)).map(|(at, _)| at).collect()
    };
    let since = |units: &[usize]| units.iter().filter_map(|at| state.units[*at].given_ms).min().unwrap_or(now_ms);
    let has_enough = |zone: &&String| {
        let units = ready(state, zone);
        let is_patient = state.home.as_ref() != Some(*zone) && now_ms < since(&units) + PATIENCE_MS;
        units.len() >= full || (units.len() >= fewest && !is_patient)
    };
    // The home of the last attempt first: it needs no preparation.
    let home = job.slices.zones.iter().find(|zone| state.home.as_ref() == Some(*zone));
    let Some(zone) = home.into_iter().chain(&job.slices.zones).find(has_enough).cloned() else { return };
    let units = ready(state, &zone);
    // The data axis shrinks to a divisor, so that the global batch still divides.
    let count = (1..=units.len().min(full)).rev().find(|count| full % count == 0).filter(|count| *count >= fewest);
    let Some(count) = count else { return };
    let mut places = Vec::new();
    let mut slice = 0;
    for at in &units[..count] {
        let unit = &state.units[*at];
        let mut workers = listed[unit.name.as_str()].workers.clone();
        workers.sort_by_key(|worker| (worker.slice, worker.number));
        for worker in workers {
            places.push(Place {
                unit: unit.name.clone(),
                zone: unit.zone.clone(),
                unit_slice: worker.slice,
                slice: slice + worker.slice,
                worker: worker.number,
                internal: worker.internal,
                external: worker.external,
            });
        }
        slice += unit.slices;
    }
    for unit in state.units.iter_mut().filter(|unit| unit.is_wanted() && unit.zone != zone) {
        unit.doom("another zone was first");
    }
    state.home = Some(zone.clone());
    state.attempts += 1;
    let attempt = JobAttempt {
        run: state.run.clone(),
        number: state.attempts,
        epoch: 0,
        slices: slice,
        places,
        phase: AttemptPhase::Starting,
        since_ms: now_ms,
        running_ms: None,
        from_step: state.step,
        kept_ms: None,
        unreachable: BTreeMap::new(),
    };
    let from = state.step.map_or_else(|| "the beginning".into(), |step| format!("step {step}"));
    let workers = attempt.places.len();
    decision
        .says
        .push(format!("attempt {}: {workers} workers of {slice} slices in {zone}, from {from}", attempt.number));
    decision.actions.push(Action::Start(attempt.clone()));
    state.attempt = Some(attempt);
}

/// Follows the attempt that is under way.
pub(super) fn follow(job: &JobFile, state: &mut JobState, seen: &Seen, now_ms: u64, decision: &mut Decision) {
    let Some(attempt) = &mut state.attempt else { return };
    let is_looked_at = seen.workers.len() == attempt.places.len();
    if is_looked_at {
        for (process, worker) in (0u32..).zip(&seen.workers) {
            match worker {
                WorkerSeen::Unreachable | WorkerSeen::Refusing => {
                    attempt.unreachable.entry(process).or_insert(now_ms);
                }
                _ => {
                    attempt.unreachable.remove(&process);
                }
            }
        }
        if attempt.phase == AttemptPhase::Starting
            && seen
                .workers
                .iter()
                .all(|worker| matches!(worker, WorkerSeen::Running { .. } | WorkerSeen::Exited { .. }))
        {
            attempt.phase = AttemptPhase::Running;
            attempt.running_ms = Some(now_ms);
            decision.says.push(format!("attempt {}: all {} processes run", attempt.number, attempt.places.len()));
        }
    }
    decision.is_busy |= attempt.phase == AttemptPhase::Starting || !attempt.unreachable.is_empty();
    dead_workers(state, seen, now_ms, decision);
    if is_looked_at {
        judge(job, state, seen, now_ms, decision);
    }
    grow(job, state, now_ms, decision);
    end(job, state, seen, is_looked_at, now_ms, decision);
}

/// A worker that does not answer for long is deleted with its unit.
fn dead_workers(state: &mut JobState, seen: &Seen, now_ms: u64, decision: &mut Decision) {
    let Some(attempt) = &state.attempt else { return };
    let has_failed = |worker: &WorkerSeen| exit(worker, attempt.number).is_some_and(|code| code != 0);
    let have_failed = seen.workers.iter().any(has_failed);
    let limit_ms = |process: u32| match seen.workers.get(process as usize) {
        Some(WorkerSeen::Refusing) => SURELY_DEAD_MS,
        Some(WorkerSeen::Unreachable) if have_failed => SURELY_DEAD_MS,
        _ => DEAD_MS,
    };
    let silent = attempt.unreachable.iter().filter(|(at, since)| now_ms >= **since + limit_ms(**at));
    let dead: Vec<(u32, String)> =
        silent.filter_map(|(at, _)| Some((*at, attempt.places.get(*at as usize)?.unit.clone()))).collect();
    for (process, name) in dead {
        let why = format!("{DEAD}: worker {process} does not answer");
        state.stop(StopCause::Machine, why.clone(), now_ms);
        if let Some(unit) = state.unit(&name)
            && unit.is_wanted()
        {
            decision.says.push(format!("{name}: worker {process} does not answer: deleting it"));
            unit.doom(why);
        }
    }
}

/// Stops the attempt when its processes say so.
fn judge(job: &JobFile, state: &mut JobState, seen: &Seen, now_ms: u64, decision: &mut Decision) {
    let Some(attempt) = &state.attempt else { return };
    if matches!(attempt.phase, AttemptPhase::Stopping { .. }) {
        return;
    }
    let number = attempt.number;
    let codes: Vec<(usize, i32)> = seen
        .workers
        .iter()
        .enumerate()
        .filter_map(|(at, worker)| exit(worker, number).map(|code| (at, code)))
        .collect();
    if codes.len() == seen.workers.len() && codes.iter().all(|(_, code)| *code == 0) {
        state.stop(StopCause::Done, "every process is done", now_ms);
        return;
    }
    // The first of these is told: a signal of its own before an error before a wish to stop.
    let failed = |is_so: &dyn Fn(i32) -> bool| codes.iter().find(|(_, code)| is_so(*code)).copied();
    if let Some((at, code)) = failed(&|code| code == 1) {
        state.stop(StopCause::No, format!("process {at} ended with code {code}: the answer is no"), now_ms);
    } else if let Some((at, code)) = failed(&|code| code > 128) {
        let name = attempt.places[at].unit.clone();
        let why = format!("process {at} was ended by signal {}", code - 128);
        decision.says.push(why.clone());
        if let Some(unit) = state.unit(&name) {
            unit.crashes += 1;
            // The same machine again: it is not the program that is broken.
            if unit.crashes > 1 {
                unit.doom(format!("{DEAD}: {why}, again on this slice"));
            }
        }
        state.stop(StopCause::Program, why, now_ms);
    } else if let Some((at, code)) = failed(&|code| code == 2) {
        state.stop(StopCause::Refusal, format!("process {at} ended with code {code}"), now_ms);
    } else if let Some((at, code)) = failed(&|code| code == SAVED) {
        state.stop(StopCause::Capacity, format!("process {at} was told to stop (code {code})"), now_ms);
    } else if let Some((at, code)) = failed(&|code| code != 0) {
        state.stop(StopCause::Program, format!("process {at} ended with code {code}"), now_ms);
    } else if let Some((at, why)) = seen.workers.iter().enumerate().find_map(|(at, worker)| match worker {
        WorkerSeen::Failed { why } => Some((at, why)),
        _ => None,
    }) {
        let why = format!("worker {at} could not be prepared: {why}");
        decision.says.push(why.clone());
        state.stop(StopCause::Refusal, why, now_ms);
    } else if attempt.phase == AttemptPhase::Running {
        let is_vanished = |worker: &WorkerSeen| match worker {
            WorkerSeen::Idle | WorkerSeen::Preparing => true,
            WorkerSeen::Running { attempt, .. } | WorkerSeen::Exited { attempt, .. } => *attempt != number,
            WorkerSeen::Unreachable | WorkerSeen::Refusing | WorkerSeen::Failed { .. } => false,
        };
        if let Some(at) = seen.workers.iter().position(is_vanished) {
            state.stop(StopCause::Machine, format!("the process of worker {at} is gone"), now_ms);
            return;
        }
        let silence = |worker: &WorkerSeen| match worker {
            WorkerSeen::Running { silent_s, .. } => Some(*silent_s),
            _ => None,
        };
        let quietest = seen.workers.iter().filter_map(silence).min();
        let running = attempt.running_ms.map_or(0, |since| now_ms.saturating_sub(since) / 1000);
        let saved = attempt.kept_ms.map_or(u64::MAX, |since| now_ms.saturating_sub(since) / 1000);
        if let Some(quietest) = quietest
            && quietest.min(running).min(saved) >= job.limits.hang_s
        {
            let why = format!("no sign of life for {quietest} s: it hangs");
            decision.says.push(why.clone());
            if state.policy.fruitless > 0 {
                let names: Vec<String> = attempt.places.iter().map(|place| place.unit.clone()).collect();
                for name in names {
                    if let Some(unit) = state.unit(&name) {
                        unit.doom(format!("{DEAD}: it hung again"));
                    }
                }
            }
            state.stop(StopCause::Program, why, now_ms);
        }
    } else if now_ms >= attempt.since_ms + START_MS {
        state.stop(StopCause::Machine, "workers could not be prepared in time", now_ms);
    }
}

fn exit(worker: &WorkerSeen, number: u32) -> Option<i32> {
    match worker {
        WorkerSeen::Exited { attempt, code } if *attempt == number => Some(*code),
        _ => None,
    }
}

/// An elastic job goes on with more slices when there are more, once the attempt has brought something.
fn grow(job: &JobFile, state: &mut JobState, now_ms: u64, decision: &mut Decision) {
    let (_, full, _) = sizes(job);
    let Some(attempt) = &state.attempt else { return };
    if full == 1 || attempt.phase != AttemptPhase::Running || attempt.kept_ms.is_none() {
        return;
    }
    let units =
        state.units.iter().filter(|unit| unit.is_wanted() && unit.is_ready && state.home.as_ref() == Some(&unit.zone));
    let count = units.count().min(full);
    let count = (1..=count).rev().find(|count| full % count == 0).unwrap_or(0);
    if count > attempt.slices as usize {
        let why = format!("there are {count} slices: going on with more");
        decision.says.push(why.clone());
        state.stop(StopCause::Capacity, why, now_ms);
    }
}

/// Stops what still runs, and closes the attempt when nothing does.
fn end(job: &JobFile, state: &mut JobState, seen: &Seen, is_looked_at: bool, now_ms: u64, decision: &mut Decision) {
    let Some(attempt) = &state.attempt else { return };
    let AttemptPhase::Stopping { why, cause, since_ms } = attempt.phase.clone() else { return };
    decision.is_busy = true;
    let is_gone = |name: &str| !state.units.iter().any(|unit| unit.name == name && unit.gone_ms.is_none());
    let is_quiet = |at: usize, place: &Place| {
        let is_still = is_looked_at
            && matches!(seen.workers[at], WorkerSeen::Idle | WorkerSeen::Exited { .. } | WorkerSeen::Failed { .. });
        is_still || is_gone(&place.unit)
    };
    let is_over = attempt.places.iter().enumerate().all(|(at, place)| is_quiet(at, place));
    let is_told = matches!(cause, StopCause::Program | StopCause::Refusal);
    if !is_over || (is_told && now_ms < since_ms + SETTLE_MS) {
        let how = if now_ms >= since_ms + job.limits.grace_s * 1000 { StopHow::Kill } else { StopHow::Ask };
        decision.actions.push(Action::Stop(attempt.clone(), how));
        return;
    }
    let Some(attempt) = state.attempt.take() else { return };
    let has_progress = state.step > attempt.from_step;
    let is_done = matches!(cause, StopCause::Done | StopCause::No);
    let mut units: Vec<String> = attempt.places.into_iter().map(|place| place.unit).collect();
    units.dedup();
    state.ended.push(EndedAttempt {
        number: attempt.number,
        slices: attempt.slices,
        units,
        since_ms: attempt.since_ms,
        running_ms: attempt.running_ms,
        stopping_ms: since_ms,
        kept_ms: if is_done { Some(now_ms) } else { attempt.kept_ms },
        ended_ms: now_ms,
        step: state.step,
        why: why.clone(),
    });
    if state.ending.is_some() {
        return;
    }
    let ended = match cause {
        StopCause::Done => return finish(state, Ending::Finished, decision),
        StopCause::No => return finish(state, Ending::Answered, decision),
        StopCause::Program => RunEnd::Failed,
        StopCause::Refusal => RunEnd::Refused,
        StopCause::Machine => RunEnd::Machine,
        StopCause::Capacity => RunEnd::Taken,
    };
    match state.policy.ended(ended, has_progress) {
        RestartVerdict::Again { pause } => {
            let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            // Other machines, or none that failed: at once.
            state.not_before_ms = if ended == RunEnd::Taken { now_ms } else { now_ms + pause_ms };
            decision.says.push(format!("attempt {} ended: {why}", attempt.number));
        }
        RestartVerdict::GiveUp { why: why_not } => {
            let why = format!("{why}, and is not started again: {why_not}");
            finish(state, Ending::GivenUp { why }, decision);
        }
    }
}

fn finish(state: &mut JobState, ending: Ending, decision: &mut Decision) {
    decision.says.push(match &ending {
        Ending::GivenUp { why } => format!("given up: {why}"),
        Ending::Answered => "the program's answer is no".into(),
        _ => "finished".into(),
    });
    state.ending = Some(ending);
}
