//! Several processes save one checkpoint: each its own parts, all or nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use tensor::{DType, Literal};
use weights::{
    Cause, CheckpointManager, Error, IntegrityCheck, Keep, SaveGroup, SaveReport, Saver, Snapshot, SnapshotPiece,
    Store, TensorRegion,
};

use crate::state::chain;

const PROCESSES: usize = 4;

/// What threads tell each other; `None` once one of them is gone.
#[derive(Debug, Default)]
struct Board {
    told: Mutex<Option<BTreeMap<String, Vec<u8>>>>,
    changed: Condvar,
    /// Whether the first process is taken for gone, which it does not hear by talking.
    is_lost: AtomicBool,
}

#[derive(Debug)]
struct Member {
    process: usize,
    board: Arc<Board>,
}

impl SaveGroup for Member {
    fn process(&self) -> usize {
        self.process
    }

    fn processes(&self) -> usize {
        PROCESSES
    }

    fn tell(&self, name: &str, value: &[u8]) -> Result<(), Cause> {
        let mut told = self.board.told.lock().unwrap();
        let before = told.as_mut().ok_or("process 2 is gone")?.insert(name.to_string(), value.to_vec());
        assert!(before.is_none(), "{name} is told twice");
        assert!(value.len() < 1000, "{name}: {} bytes", value.len());
        self.board.changed.notify_all();
        Ok(())
    }

    fn hear(&self, name: &str) -> Result<Vec<u8>, Cause> {
        let mut told = self.board.told.lock().unwrap();
        loop {
            match told.as_ref().map(|told| told.get(name)) {
                None => return Err("process 2 is gone".into()),
                Some(Some(value)) => return Ok(value.clone()),
                Some(None) => told = self.board.changed.wait(told).unwrap(),
            }
        }
    }

    fn still_member(&self) -> Result<(), Cause> {
        match self.board.is_lost.load(Ordering::SeqCst) {
            true => Err("its lease has ended".into()),
            false => Ok(()),
        }
    }
}

/// Eight rows; every process has two of them, and all have the bias.
fn rows(step: u64) -> Literal {
    let values = (0..48u64).flat_map(|n| ((step * 100 + n) as f32).to_le_bytes()).collect();
    Literal::new(DType::F32, [8, 6], values).unwrap()
}

fn own(step: u64, process: usize) -> Vec<SnapshotPiece> {
    let region = TensorRegion { start: vec![process * 2, 0], size: vec![2, 6] };
    let part = Arc::new(region.cut(&rows(step)).unwrap());
    let mut pieces = vec![SnapshotPiece::slice("w", &[8, 6], &region.start, part)];
    if process == 1 {
        pieces.push(SnapshotPiece::whole("bias", Arc::new(Literal::from([step as f32]))));
    }
    pieces
}

/// Saves in four threads; `snapshot` is what each process has.
fn save(
    folder: &Path,
    steps: &[u64],
    snapshot: impl Fn(u64, usize, &Arc<Board>) -> Snapshot + Sync,
) -> Vec<Vec<Saved>> {
    let board = Arc::new(Board { told: Mutex::new(Some(BTreeMap::new())), ..Board::default() });
    std::thread::scope(|scope| {
        let process = |process: usize| {
            let (board, snapshot) = (board.clone(), &snapshot);
            scope.spawn(move || {
                let group = Box::new(Member { process, board: board.clone() });
                let mut saver = Saver::among(manager(folder), Keep::newest(1), group).unwrap();
                steps.iter().map(|step| saver.save(snapshot(*step, process, &board))).collect()
            })
        };
        let threads: Vec<_> = (0..PROCESSES).map(process).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

type Saved = Result<SaveReport, Error>;

fn manager(folder: &Path) -> CheckpointManager {
    CheckpointManager::at(Store::folder(folder))
}

fn good(step: u64, process: usize) -> Snapshot {
    // Only the first process's are kept.
    Snapshot { step, pieces: own(step, process), metadata: json!({ "by": process }) }
}

#[track_caller]
fn assert_saved(folder: &Path, step: u64) {
    let found = manager(folder).latest_good(IntegrityCheck::Contents).unwrap();
    assert_eq!(found.saved.step(), step);
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
    assert_eq!(found.saved.read("w").unwrap(), rows(step));
    assert_eq!(found.saved.read("bias").unwrap(), Literal::from([step as f32]));
    assert_eq!(found.saved.metadata(), &json!({ "by": 0 }));
    // Parts that were cut otherwise.
    let column = TensorRegion { start: vec![1, 3], size: vec![5, 2] };
    let whole = TensorRegion::whole(&[8, 6]);
    let parts = found.saved.read_regions("w", &[column.clone(), whole, column.clone()]).unwrap();
    let cut = column.cut(&rows(step)).unwrap();
    assert_eq!(parts, [cut.clone(), rows(step), cut]);
    assert_eq!(found.saved.read_regions("w", &[]).unwrap(), []);
    // Nothing but its files is left in its folder, and no other folder.
    let folders = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_checkpoint = |path: &std::path::PathBuf| path.is_dir() && !path.ends_with("step-18446744073709551615");
    let [folder] = &folders.filter(is_checkpoint).collect::<Vec<_>>()[..] else { panic!("more folders than one") };
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), PROCESSES + 1);
}

#[test]
fn each_process_writes_its_own_parts() {
    let folder = tempfile::tempdir().unwrap();
    for saved in save(folder.path(), &[1, 2, 3], |step, process, _| good(step, process)) {
        let sizes: Vec<u64> = saved.into_iter().map(|saved| saved.unwrap().size_bytes).collect();
        assert!(sizes.iter().all(|size| *size > 4 * 48), "{sizes:?}");
    }
    assert_saved(folder.path(), 3);
}

#[test]
fn a_part_that_is_missing_or_failed_makes_no_checkpoint_and_the_next_save_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let failed = |step: u64, process: usize, _: &Arc<Board>| match (step, process) {
        (2, 2) => Snapshot::failed(step, "the device is gone".into()),
        // A process that has nothing of what it should have.
        (3, 3) => Snapshot { step, pieces: Vec::new(), metadata: json!({}) },
        _ => good(step, process),
    };
    for (process, saved) in save(folder.path(), &[1, 2, 3, 4], failed).into_iter().enumerate() {
        let said: Vec<String> =
            saved.iter().map(|saved| saved.as_ref().map_or_else(|error| chain(error), |_| String::new())).collect();
        assert!(said[0].is_empty() && said[3].is_empty(), "{said:?}");
        assert!(said[1].contains("the device is gone"), "process {process}: {said:?}");
        assert!(said[2].contains("36 of 48"), "process {process}: {said:?}");
    }
    assert_saved(folder.path(), 4);
}

#[test]
fn a_process_that_is_gone_in_the_middle_of_a_save_leaves_the_earlier_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let dies = |step: u64, process: usize, board: &Arc<Board>| {
        let mut snapshot = good(step, process);
        if (step, process) == (2, 2) {
            let board = board.clone();
            snapshot.pieces.push(SnapshotPiece::fetched("z", DType::F32, &[1], move || {
                *board.told.lock().unwrap() = None;
                board.changed.notify_all();
                Ok(Literal::from([0.0f32]))
            }));
        }
        snapshot
    };
    for (process, saved) in save(folder.path(), &[1, 2], dies).into_iter().enumerate() {
        // A process may be too slow to hear that the first one is complete.
        assert!(process > 0 || saved[0].is_ok());
        let error = saved[1].as_ref().unwrap_err();
        assert!(chain(error).contains("process 2 is gone"), "{}", chain(error));
        assert!(error.remedy().contains("newest checkpoint"), "{}", error.remedy());
    }
    let found = manager(folder.path()).latest_good(IntegrityCheck::Contents).unwrap();
    assert_eq!((found.saved.step(), found.damaged.len()), (1, 0));
    // Started again, they clean up and go on.
    save(folder.path(), &[2], |step, process, _| good(step, process))
        .into_iter()
        .flatten()
        .for_each(|saved| drop(saved.unwrap()));
    assert_saved(folder.path(), 2);
}

#[test]
fn a_first_process_that_is_no_member_any_more_commits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let lost = |step: u64, process: usize, board: &Arc<Board>| {
        board.is_lost.fetch_or(step == 2, Ordering::SeqCst);
        good(step, process)
    };
    // The second step's parts are all there.
    save(folder.path(), &[1], lost).into_iter().flatten().for_each(|saved| drop(saved.unwrap()));
    for saved in save(folder.path(), &[2], lost) {
        let error = saved[0].as_ref().unwrap_err();
        assert!(chain(error).contains("its lease has ended"), "{}", chain(error));
    }
    assert_eq!(manager(folder.path()).latest().unwrap(), Some(1));
}
