//! The culprit, from what all processes and hosts say: whoever reports an error, does not answer, is behind, runs another program,
//! waits for data; else the link or the device that all wait for.

use std::collections::BTreeMap;

use serde::Serialize;
use telemetry::{ProcessStatus, TrainPhase};

use super::cores;
use super::hosts::HostAnswer;
use super::report::ProcessAnswer;
use crate::ask::AskError;
use crate::processes::LocalState;

/// Why a training makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HangCause {
    /// The process is gone; its machine answers.
    Gone,
    /// The process is there, and does nothing.
    Stopped,
    /// Nothing comes back from its machine.
    Unreachable,
    /// A core reports an error.
    CoreError,
    /// It runs another program than the others.
    OtherProgram,
    /// It is some steps behind the others.
    Behind,
    /// It waits for its batch, and the others for it.
    WaitsForData,
    /// It is at another place in the same program than most.
    OtherPlace,
    /// All wait in the same step: for a device, or for what a link should bring.
    LinkOrDevice,
}

/// Who holds the others up, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// Why.
    pub cause: HangCause,
    /// Who.
    pub processes: Vec<String>,
    /// What was seen.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// All culprits of the first cause that holds; none if all go on.
pub(super) fn judge(processes: &[ProcessAnswer], hosts: &[HostAnswer]) -> Vec<Culprit> {
    let cores = cores::cores(hosts);
    let said: Vec<(&ProcessAnswer, &ProcessStatus)> =
        processes.iter().filter_map(|answer| Some((answer, answer.last.as_ref()?))).collect();
    // In the order of what is certain.
    let rules: [&dyn Fn() -> Vec<Culprit>; 4] = [
        &|| cores::failed(&cores),
        &|| processes.iter().filter_map(silent).chain(hosts.iter().filter_map(silent_host)).collect(),
        &|| cores::apart(&cores),
        &|| other_program(&said),
    ];
    if let Some(found) = rules.iter().map(|rule| rule()).find(|found| !found.is_empty()) {
        return found;
    }
    if processes.iter().any(ProcessAnswer::goes_on) {
        return Vec::new();
    }
    // Processes know why they bring nothing. Where they only wait, cores know more of where.
    let by_processes = stuck(&said);
    match cores::stuck(&cores) {
        Some(culprit) if by_processes.iter().all(|known| known.cause == HangCause::LinkOrDevice) => vec![culprit],
        _ => by_processes,
    }
}

/// One that does not answer. One that never could is no culprit.
fn silent(answer: &ProcessAnswer) -> Option<Culprit> {
    let (error, state) = (answer.failure.as_ref()?, answer.local);
    let is_stopped = matches!(state, Some(LocalState::Is('T' | 't')));
    let (cause, why) = match (error, state) {
        (_, Some(LocalState::Gone | LocalState::Is('Z' | 'X'))) => {
            (HangCause::Gone, "its process is not there any more".to_string())
        }
        (_, _) if is_stopped => (HangCause::Stopped, format!("{error}; the kernel says it is stopped by a signal")),
        (AskError::Refused, _) => (HangCause::Gone, format!("its machine answers, but {error}")),
        (AskError::Silent(_), Some(LocalState::Is('D'))) => {
            (HangCause::Stopped, format!("{error}; the kernel says it waits for a disk"))
        }
        (AskError::Silent(_), _) => (HangCause::Stopped, error.to_string()),
        (AskError::Unreachable(_), _) => (HangCause::Unreachable, error.to_string()),
        // Nothing is known of it: not that it hangs either.
        (AskError::Unknown(_) | AskError::Wrong(_), _) => return None,
    };
    let remedy = match cause {
        HangCause::Gone => "see its log for why it ended; start all processes again, they go on from the checkpoint",
        HangCause::Stopped if is_stopped => "find who stopped it; `kill -CONT PID` lets it go on",
        HangCause::Stopped => "look at its machine: load, memory, disk; `kill -CONT PID` if it was stopped",
        _ => "look at its network and its machine; if it is gone, start all processes again without it",
    };
    let pid = answer.target.pid.map_or("PID".to_string(), |pid| pid.to_string());
    Some(Culprit { cause, processes: vec![answer.described()], why, remedy: remedy.replace("PID", &pid) })
}

/// A host that does not say what its cores do, though others of its kind would.
fn silent_host(answer: &HostAnswer) -> Option<Culprit> {
    let error = answer.failure.as_ref()?;
    let (cause, why, remedy) = match error {
        AskError::Refused => (
            HangCause::Gone,
            "its machine answers, but no program holds its chips".to_string(),
            "see the log of its program for why it ended; start all hosts again",
        ),
        AskError::Silent(_) => {
            (HangCause::Stopped, error.to_string(), "look at its machine: a stopped program, load, memory, disk")
        }
        AskError::Unreachable(_) => (
            HangCause::Unreachable,
            error.to_string(),
            "look at its network and its machine; if it is gone, start the others again without it",
        ),
        AskError::Unknown(_) | AskError::Wrong(_) => return None,
    };
    Some(Culprit { cause, processes: vec![answer.host.clone()], why, remedy: remedy.to_string() })
}

/// Those whose key fewer share than the most common one.
pub(super) fn minority<'a, T>(all: impl Iterator<Item = (&'a str, T)>) -> Vec<(&'a str, Vec<T>)> {
    let mut groups: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (key, one) in all {
        groups.entry(key).or_default().push(one);
    }
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let is_tie = groups.values().filter(|group| group.len() == most).count() > 1;
    match groups.len() {
        0 | 1 => Vec::new(),
        _ => groups.into_iter().filter(|(_, group)| is_tie || group.len() < most).collect(),
    }
}

/// Those whose step is another program than that of most. While one compiles, its program is not known.
fn other_program(said: &[(&ProcessAnswer, &ProcessStatus)]) -> Vec<Culprit> {
    use TrainPhase::{Compile, Initialize, Restore};
    let known = said.iter().filter(|(_, status)| {
        !status.program.is_empty() && !matches!(status.phase, Initialize | Restore | Compile) && status.dispatched > 0
    });
    let minority = minority(known.map(|(answer, status)| (status.program.as_str(), *answer)));
    minority
        .into_iter()
        .map(|(program, answers)| Culprit {
            cause: HangCause::OtherProgram,
            processes: answers.iter().map(|answer| answer.described()).collect(),
            why: format!("it runs program {program}, most run another"),
            remedy: "start all processes with the same release, files and arguments".to_string(),
        })
        .collect()
}

/// All answer and run the same, and nobody goes on.
fn stuck(said: &[(&ProcessAnswer, &ProcessStatus)]) -> Vec<Culprit> {
    let Some(newest) = said.iter().map(|(_, status)| status.dispatched).max() else { return Vec::new() };
    let named = |which: &dyn Fn(&ProcessStatus) -> bool| -> Vec<String> {
        said.iter().filter(|(_, status)| which(status)).map(|(answer, _)| answer.described()).collect()
    };
    let culprit = |cause, processes: Vec<String>, why: String, remedy: &str| {
        vec![Culprit { cause, processes, why, remedy: remedy.to_string() }]
    };
    let waits = |status: &ProcessStatus| status.phase == TrainPhase::Data;
    let data_remedy = "look at what it reads from: a disk, a bucket, a pipe that nobody writes to";
    let lowest = said.iter().map(|(_, status)| status.dispatched).min().unwrap_or(newest);
    if lowest < newest {
        let is_last = |status: &ProcessStatus| status.dispatched == lowest;
        let phase = said.iter().find(|(_, status)| is_last(status)).map_or("other", |(_, status)| status.phase.name());
        let why = format!("it has dispatched {lowest} steps, others {newest}; it is in phase {phase}");
        let is_data = said.iter().filter(|(_, status)| is_last(status)).all(|(_, status)| waits(status));
        return match is_data {
            true => culprit(HangCause::WaitsForData, named(&is_last), why, data_remedy),
            false => culprit(HangCause::Behind, named(&is_last), why, "look at its log and its machine"),
        };
    }
    let waiting = named(&waits);
    if !waiting.is_empty() {
        let seconds = said.iter().filter(|(_, s)| waits(s)).map(|(_, s)| s.phase_seconds).fold(0.0, f64::max);
        let why = format!("it waits for its next batch since {seconds:.0} s");
        return culprit(HangCause::WaitsForData, waiting, why, data_remedy);
    }
    let is_elsewhere = |status: &ProcessStatus| status.phase != TrainPhase::Step;
    let elsewhere = named(&is_elsewhere);
    if !elsewhere.is_empty() && elsewhere.len() < said.len() {
        let phase = said.iter().find(|(_, status)| is_elsewhere(status)).map_or("other", |(_, s)| s.phase.name());
        let why = format!("it is in phase {phase}, the others in a step that waits for it");
        return culprit(HangCause::Behind, elsewhere, why, "look at its log and its machine");
    }
    let phase = said.first().map_or("other", |(_, status)| status.phase.name());
    let seconds = said.iter().map(|(_, status)| status.phase_seconds).fold(f64::INFINITY, f64::min);
    let why = format!("all are in phase {phase} after step {newest} since {seconds:.0} s, and run the same program");
    let remedy = match said.len() {
        1 => "its device does not answer, or its program takes longer than usual; see `tpu doctor`",
        _ => {
            "a link between the processes is broken, or a device; test the network between them, then `tpu doctor` on each"
        }
    };
    culprit(HangCause::LinkOrDevice, named(&|_| true), why, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::ProcessTarget;
    use crate::processes::tests::status;
    use std::time::Duration;

    fn answer(process: usize, change: impl FnOnce(&mut ProcessStatus)) -> ProcessAnswer {
        let mut said = status(process, 100, 60.0);
        said.dispatched = 101;
        change(&mut said);
        let target = ProcessTarget { process: Some(process), ..ProcessTarget::at("h:1") };
        let before = ProcessStatus {
            phase_seconds: said.phase_seconds - 3.0,
            step_age_seconds: said.step_age_seconds - 3.0,
            ..said.clone()
        };
        ProcessAnswer::new(&target, Ok(before), Ok(said))
    }

    fn silent_one(process: usize, error: AskError) -> ProcessAnswer {
        let target = ProcessTarget { process: Some(process), ..ProcessTarget::at("h:1") };
        ProcessAnswer::new(&target, Err(error.clone()), Err(error))
    }

    #[track_caller]
    fn check(processes: Vec<ProcessAnswer>, cause: HangCause, who: &[&str], part: &str) {
        let culprits = judge(&processes, &[]);
        assert_eq!(culprits.len(), 1, "{culprits:?}");
        assert_eq!(culprits[0].cause, cause, "{culprits:?}");
        let names: Vec<&str> = culprits[0].processes.iter().map(|name| name.split(" (").next().unwrap()).collect();
        assert_eq!(names, who);
        assert!(culprits[0].why.contains(part), "{culprits:?}");
    }

    #[test]
    fn the_culprit_in_each_case() {
        let well = |process| answer(process, |_| {});
        let long = Duration::from_secs(2);
        check(
            vec![well(0), silent_one(1, AskError::Silent(long)), well(2)],
            HangCause::Stopped,
            &["process 1"],
            "no answer",
        );
        check(vec![well(0), silent_one(1, AskError::Refused)], HangCause::Gone, &["process 1"], "nobody listens");
        let cut = AskError::Unreachable("no connection".into());
        check(vec![silent_one(0, cut), well(1)], HangCause::Unreachable, &["process 0"], "does not answer");
        let other = answer(2, |status| status.program = "q".into());
        check(vec![well(0), well(1), other, well(3)], HangCause::OtherProgram, &["process 2"], "program q");
        let behind = answer(3, |status| (status.dispatched, status.phase) = (99, TrainPhase::Save));
        check(
            vec![well(0), well(1), behind],
            HangCause::Behind,
            &["process 3"],
            "99 steps, others 101; it is in phase save",
        );
        let starved = answer(1, |status| (status.dispatched, status.phase) = (100, TrainPhase::Data));
        check(vec![well(0), starved], HangCause::WaitsForData, &["process 1"], "phase data");
        let waits = answer(1, |status| status.phase = TrainPhase::Data);
        check(vec![well(0), waits], HangCause::WaitsForData, &["process 1"], "its next batch since 60 s");
        let saves = answer(1, |status| status.phase = TrainPhase::Save);
        check(vec![well(0), saves], HangCause::Behind, &["process 1"], "phase save");
        check(vec![well(0), well(1)], HangCause::LinkOrDevice, &["process 0", "process 1"], "all are in phase step");
        // One that compiles runs no other program yet.
        let compiles = answer(1, |status| {
            (status.program, status.phase, status.dispatched) = ("init".into(), TrainPhase::Compile, 0);
        });
        check(vec![well(0), compiles], HangCause::Behind, &["process 1"], "phase compile");
    }

    #[test]
    fn those_that_go_on_do_not_hang() {
        let said = status(0, 100, 0.1);
        let target = ProcessTarget { process: Some(0), ..ProcessTarget::at("h:1") };
        let going = ProcessAnswer::new(&target, Ok(status(0, 99, 0.2)), Ok(said));
        assert_eq!(judge(&[going.clone(), answer(1, |_| {})], &[]), []);
        // Whoever cannot be asked is not blamed.
        let unknown = silent_one(1, AskError::Unknown("no --metrics".into()));
        assert_eq!(judge(&[going, unknown], &[]), []);
        assert_eq!(judge(&[], &[]), []);
    }
}
