//! Two runs save into one bucket, and one of them is paused between any two of its requests: what was replaced neither
//! commits nor deletes, and what was called saved stays.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex};

use object_store::memory::InMemory;
use serde_json::json;
use tensor::Literal;

use super::{CheckpointManager, IntegrityCheck, Keep, Saver, Snapshot, SnapshotPiece};
use crate::error::Error;
use crate::store::Store;

/// Lets the requests of two runs through one at a time, in an order that is given.
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    /// Which run may go, and how many requests more.
    order: Vec<(usize, usize)>,
    /// Requests of each so far.
    made: [usize; 2],
    /// Runs that have ended, or have not begun.
    is_away: [bool; 2],
}

impl Turns {
    fn new(order: &[(usize, usize)]) -> Arc<Turns> {
        let mut order = order.to_vec();
        order.reverse();
        Arc::new(Turns { state: Mutex::new(Turn { order, ..Turn::default() }), changed: Condvar::new() })
    }

    fn gate(self: &Arc<Self>, run: usize) -> Arc<dyn Fn() + Send + Sync> {
        let turns = self.clone();
        Arc::new(move || {
            let mut state = turns.state.lock().unwrap();
            loop {
                // Turns of a run that makes no more requests are passed over; after the last turn all go.
                while state.order.last().is_some_and(|(whose, left)| *left == 0 || state.is_away[*whose]) {
                    state.order.pop();
                    turns.changed.notify_all();
                }
                match state.order.last_mut() {
                    Some((whose, left)) if *whose == run => {
                        *left -= 1;
                        break;
                    }
                    Some(_) => state = turns.changed.wait(state).unwrap(),
                    None => break,
                }
            }
            state.made[run] += 1;
        })
    }

    fn is_away(&self, run: usize) {
        self.state.lock().unwrap().is_away[run] = true;
        self.changed.notify_all();
    }
}

fn snapshot(step: u64, by: f32) -> Snapshot {
    let pieces = vec![SnapshotPiece::whole("w", Arc::new(Literal::from([step as f32, by])))];
    Snapshot { step, pieces, metadata: json!({}) }
}

/// What a run was told.
#[derive(Debug, Default)]
struct Told {
    /// The number of its taking over; `None` if it could not.
    epoch: Option<u64>,
    /// The step it went on from.
    resumed: u64,
    saved: Vec<u64>,
    error: Option<Error>,
}

/// Which steps the second run saves after the one it goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// Those that the first one saves too, so that names would meet.
    Same,
    /// None of those: one that the first saved would stay beside them.
    Other,
}

/// Saves steps until it is refused.
fn save_all(mut saver: Saver, resumed: u64, steps: &[u64], by: f32) -> Told {
    let mut told = Told { epoch: saver.epoch(), resumed, ..Told::default() };
    for step in steps {
        match saver.save(snapshot(*step, by)) {
            Ok(report) => {
                told.saved.push(*step);
                assert!(report.warnings.iter().all(Error::is_replaced), "{:?}", report.warnings);
                told.error = report.warnings.into_iter().next();
            }
            Err(error) => {
                assert!(error.is_replaced(), "{error}");
                told.error = Some(error);
            }
        }
        if told.error.is_some() {
            break;
        }
    }
    told
}

/// The first run has saved steps 1 and 2 and goes on; the second takes over and begins again from what it finds.
fn two_runs(order: &[(usize, usize)], saves: Steps) -> [usize; 2] {
    let memory: Arc<InMemory> = Arc::default();
    let plain = || CheckpointManager::at(Store::gated(memory.clone(), Arc::new(|| {})));
    save_all(Saver::new(plain(), KEEP).unwrap(), 0, &[1, 2], 0.5);
    let turns = Turns::new(order);
    let gated = |run: usize| CheckpointManager::at(Store::gated(memory.clone(), turns.gate(run)));
    let train = |run: usize, by: f32, steps: &dyn Fn(u64) -> [u64; 2]| {
        let manager = gated(run);
        let told = Saver::new(manager.clone(), KEEP).map(|saver| {
            let from = manager.latest_good(IntegrityCheck::Contents).unwrap().saved.step();
            save_all(saver, from, &steps(from), by)
        });
        turns.is_away(run);
        told.unwrap_or_else(|error| Told { error: Some(error), ..Told::default() })
    };
    let skipped = u64::from(saves == Steps::Other);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| train(0, 1.0, &|from| [from + 1, from + 2]));
        let second = scope.spawn(|| train(1, 2.0, &|from| [from + skipped + 1, from + skipped + 2]));
        (first.join().unwrap(), second.join().unwrap())
    });
    check(&plain(), &first, &second, &format!("{order:?}, {saves:?} steps"));
    let state = turns.state.lock().unwrap();
    state.made
}

/// Room for all that two runs save after each other, and for one more that should not be there.
const KEEP: Keep = Keep { newest: NonZeroUsize::new(3), every_steps: None };

#[track_caller]
fn check(manager: &CheckpointManager, first: &Told, second: &Told, order: &str) {
    let context = || format!("{order}: first {first:?}, second {second:?}");
    let found = manager.latest_good(IntegrityCheck::Contents).unwrap();
    assert!(found.damaged.is_empty(), "{}: {:?}", context(), found.damaged);
    // Every checkpoint that counts is whole.
    let steps: BTreeSet<u64> = manager.steps().unwrap().into_iter().collect();
    for step in &steps {
        manager.load(*step).unwrap().verify().unwrap();
    }
    assert_ne!(first.epoch, second.epoch, "{}", context());
    // Who took over last is the winner, and nothing keeps it from saving.
    let (winner, by, loser) = if first.epoch > second.epoch { (first, 1.0, second) } else { (second, 2.0, first) };
    assert!(winner.error.is_none() && winner.saved.len() == 2, "{}", context());
    let is_its_own = |step: &u64| manager.load(*step).unwrap().read("w").unwrap() == Literal::from([*step as f32, by]);
    assert!(winner.saved.iter().all(is_its_own), "{}", context());
    assert_eq!(Some(&found.saved.step()), winner.saved.last(), "{}", context());
    // The loser was told that it has lost, or was done before. What it was told is saved was found by the winner.
    let is_done = loser.saved.len() == 2;
    assert!(is_done || loser.error.as_ref().is_some_and(Error::is_replaced), "{}", context());
    assert!(loser.saved.iter().all(|step| *step <= winner.resumed), "{}", context());
    // What it committed after the winner began would lie behind the step the winner went on from.
    let is_expected = |step: &u64| *step <= winner.resumed || winner.saved.contains(step);
    assert!(steps.iter().all(is_expected), "{}: {steps:?}", context());
    // The loser says who won.
    if let Some(error) = &loser.error {
        let text = error.to_string();
        assert!(text.contains("taken over by run") && text.contains(" UTC)"), "{text}");
    }
}

/// Every pair of moments at which one run is paused and the other goes on for a while.
#[test]
fn a_run_that_was_replaced_neither_commits_nor_deletes() {
    const REST: usize = usize::MAX;
    let [firsts, seconds] = two_runs(&[(0, REST)], Steps::Same);
    assert!(firsts > 20 && seconds > 20, "{firsts} and {seconds} requests");
    // The first is paused once; the second runs to its end meanwhile.
    for at in 0..=firsts {
        for steps in [Steps::Same, Steps::Other] {
            two_runs(&[(0, at), (1, REST), (0, REST)], steps);
        }
    }
    // The second is paused too.
    for at in 0..=firsts {
        // A third of the moments each time, so that all come in turn.
        for then in (1 + at % 3..seconds).step_by(3) {
            // Pauses of the first while it saves its second step are those of its first one again, so they take turns.
            let steps = if (at + then / 3) % 2 == 0 { Steps::Same } else { Steps::Other };
            two_runs(&[(0, at), (1, then), (0, REST)], steps);
        }
    }
    // Each goes on for a few requests at a time.
    for at in 0..firsts {
        for (then, later) in [(1, 1), (2, 1), (3, 2), (4, 1), (5, 3), (7, 2), (11, 1)] {
            let turns: Vec<(usize, usize)> = (0..40).flat_map(|_| [(1, then), (0, later)]).collect();
            two_runs(&[&[(0, at)][..], &turns[..]].concat(), Steps::Same);
        }
    }
}

/// A lock that a network file system lost: the record keeps two runs of one disk apart.
#[test]
fn on_a_disk_the_record_keeps_apart_what_a_lost_lock_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    let mut first = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    first.save(snapshot(1, 1.0)).unwrap();
    let busy = Saver::new(manager.clone(), Keep::newest(1)).unwrap_err().to_string();
    assert!(busy.contains(&format!("process {}", std::process::id())), "{busy}");
    std::fs::remove_file(folder.path().join(".lock")).unwrap();
    let mut second = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    let error = first.save(snapshot(2, 1.0)).unwrap_err();
    assert!(error.is_replaced() && error.to_string().contains("taken over by run"), "{error}");
    assert!(matches!(first.discard_after(0), Err(Error::NoCheckpoint { .. })));
    assert_eq!(manager.steps().unwrap(), [1]);
    second.save(snapshot(2, 2.0)).unwrap();
    second.save(snapshot(1, 2.0)).unwrap();
    assert!(first.discard_after(1).unwrap_err().is_replaced());
    assert_eq!(manager.load(2).unwrap().read("w").unwrap(), Literal::from([2.0, 2.0f32]));
    drop((first, second));
    // A run that has ended by itself is not told to be replaced.
    std::fs::remove_file(folder.path().join(".lock")).unwrap();
    assert_eq!(Saver::new(manager.clone(), Keep::newest(1)).unwrap().replaced(), None);
}

/// The record of a disk: of several that swap at once one succeeds, and one that slept does not.
#[test]
fn a_record_is_swapped_by_one_at_a_time() {
    use crate::store::{RecordVersion, Swap};
    let folder = tempfile::tempdir().unwrap();
    let disk = Store::folder(folder.path());
    let memory = Store::gated(Arc::new(InMemory::new()), Arc::new(|| {}));
    for store in [disk, memory] {
        assert!(store.read_record("r", 100).unwrap().is_none());
        let Swap::Done(first) = store.swap_record("r", None, b"1").unwrap() else { panic!("lost to nobody") };
        assert!(matches!(store.swap_record("r", None, b"x").unwrap(), Swap::Lost));
        let Swap::Done(second) = store.swap_record("r", Some(&first), b"2").unwrap() else { panic!("lost to nobody") };
        let Swap::Done(third) = store.swap_record("r", Some(&second), b"3").unwrap() else { panic!("lost to nobody") };
        // Their files are gone by now, and they still count as old.
        for old in [None, Some(&first), Some(&second)] {
            assert!(matches!(store.swap_record("r", old, b"x").unwrap(), Swap::Lost), "{old:?}");
        }
        assert!(store.read_record("r", 0).is_err(), "it is too large");
        let (bytes, found) = store.read_record("r", 100).unwrap().unwrap();
        assert_eq!(bytes, b"3");
        match (&found, &third) {
            (RecordVersion::Number(found), RecordVersion::Number(third)) => assert_eq!(found, third),
            (RecordVersion::Put(found), RecordVersion::Put(third)) => assert_eq!(found.e_tag, third.e_tag),
            other => panic!("{other:?}"),
        }
        let races = std::thread::scope(|scope| {
            let race = |_| scope.spawn(|| matches!(store.swap_record("r", Some(&third), b"4").unwrap(), Swap::Done(_)));
            let races: Vec<_> = (0..8).map(race).collect();
            races.into_iter().filter_map(|race| race.join().unwrap().then_some(())).count()
        });
        assert_eq!(races, 1);
    }
}
