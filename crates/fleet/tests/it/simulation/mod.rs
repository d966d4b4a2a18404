//! Supervisors, a provider and workers in virtual time, with faults: what must hold whatever happens.

mod driver;
mod world;

use driver::{Outcome, Schedule, run};
use fleet::supervisor::Ending;

/// Runs schedules and tells the seeds of those that broke something.
fn check(seeds: std::ops::Range<u64>) -> Vec<(u64, Outcome)> {
    let mut broken = Vec::new();
    let mut outcomes = Vec::new();
    for seed in seeds {
        match run(&Schedule::random(seed)) {
            Ok(outcome) => outcomes.push((seed, outcome)),
            Err(what) => broken.push(format!("schedule {seed}: {what}")),
        }
    }
    assert!(broken.is_empty(), "{} schedules broke:\n{}", broken.len(), broken.join("\n"));
    outcomes
}

/// The faults that were met, over all schedules: a property that nothing tested is worth nothing.
fn check_faults_met(outcomes: &[(u64, Outcome)]) {
    let met = |name: &str| outcomes.iter().filter(|(_, outcome)| outcome.met.contains_key(name)).count();
    for name in [
        "preempted with notice",
        "preempted without a word",
        "preempted, vanished",
        "answer lost before the effect",
        "answer lost after the effect",
        "too many requests",
        "no stock",
        "quota",
        "failed request",
        "dead worker",
        "worker cut off",
        "hang",
        "crash",
        "supervisor killed",
        "two supervisors",
        "supervisor paused",
        "filled 70 minutes later",
        "unseen, filled 70 minutes later",
    ] {
        assert!(met(name) >= 3, "`{name}` was met in {} schedules only", met(name));
    }
    let finished = outcomes.iter().filter(|(_, outcome)| outcome.ending == Ending::Finished).count();
    assert!(finished * 10 >= outcomes.len() * 7, "{finished} finished");
    assert!(outcomes.iter().any(|(_, outcome)| outcome.ending == Ending::Budget));
    assert!(outcomes.iter().any(|(_, outcome)| outcome.ending == Ending::Deadline));
    assert!(outcomes.iter().any(|(_, outcome)| outcome.ending == Ending::Stopped));
}

#[test]
fn two_hundred_schedules_of_faults_leave_one_copy_every_checkpoint_and_no_orphan() {
    let outcomes = check(0..200);
    check_faults_met(&outcomes);
}

#[test]
fn a_quiet_job_wastes_only_its_start_and_end() {
    let outcome = run(&Schedule::quiet()).unwrap();
    assert_eq!((outcome.ending, outcome.attempts), (Ending::Finished, 1));
    assert!(outcome.bill.wasted_seconds < outcome.bill.slice_seconds / 3, "{:?}", outcome.bill);
    assert!(outcome.bill.slice_seconds > driver::STEPS, "{:?}", outcome.bill);
}

#[test]
fn an_elastic_job_shrinks_and_grows_back() {
    let outcome = run(&Schedule::elastic()).unwrap();
    assert_eq!(outcome.ending, Ending::Finished);
    let slices = &outcome.slices_of_attempts;
    assert!(slices.starts_with(&[4, 2, 4]), "{slices:?}");
}

#[test]
fn a_request_that_arrives_after_it_was_given_up_is_deleted_and_billed() {
    use fleet::job::JobFile;
    use fleet::provider::{ProvidedSlice, SliceState};
    use fleet::supervisor::{Action, JobState, Seen, decide};

    let text =
        "name = 'a'\nfolder = 'gs://b/a'\n[run]\ntrain = 't.toml'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-a']\n";
    let job = JobFile::parse(text).unwrap();
    let mut state = JobState::new(&job, "r1", 0);
    let nothing = Seen::nothing_in(&job);
    decide(&job, &mut state, &nothing, 1_000);
    // It is asked to stop before the request is answered, and nothing is there.
    let stopped = Seen { is_stopped: true, ..nothing.clone() };
    decide(&job, &mut state, &stopped, 2_000);
    decide(&job, &mut state, &stopped, 3_000);
    assert!(state.units[0].gone_ms.is_some() && !state.is_over, "the bill is not complete");
    // Then the request arrives after all.
    let id = state.units[0].id();
    let late = ProvidedSlice {
        id: id.clone(),
        state: SliceState::Ready,
        workers: Vec::new(),
        labels: state.labels(),
        created: None,
        detail: "READY".into(),
    };
    let seen = Seen { slices: vec![late], ..stopped.clone() };
    let decision = decide(&job, &mut state, &seen, 4_200_000);
    let again = decide(&job, &mut state, &seen, 4_210_000);
    let deletes = |actions: &[Action]| actions.contains(&Action::Delete(id.clone()));
    assert!(deletes(&decision.actions) || deletes(&again.actions), "{decision:?}");
    assert!(!state.is_over && state.units[0].given_ms.is_some());
    decide(&job, &mut state, &stopped, 4_220_000);
    assert_eq!(fleet::supervisor::JobBill::of(&job, &state, 9_000_000).slices[0].seconds, 20);
}
