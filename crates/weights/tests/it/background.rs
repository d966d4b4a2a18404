//! Saving beside training: order, replacing, waiting, and errors that surface.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::json;
use tensor::{DType, Literal};
use weights::{
    AsyncSaver, CheckpointManager, Error, IntegrityCheck, Keep, Saver, Snapshot, SnapshotPiece, Store, WhenBusy,
};

use crate::state::{assert_exact, snapshot};

fn start(folder: &std::path::Path, when_busy: WhenBusy) -> (CheckpointManager, AsyncSaver) {
    let manager = CheckpointManager::at(Store::folder(folder));
    let saver = Saver::new(manager.clone(), Keep::newest(3)).unwrap();
    (manager, AsyncSaver::new(saver, when_busy).unwrap())
}

/// A snapshot that says when it is being written, and waits for a word to go on.
fn held(step: u64) -> (Snapshot, Receiver<()>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let piece = SnapshotPiece::fetched("t", DType::U8, &[1], move || {
        begun.send(())?;
        may_go.recv()?;
        Ok(Literal::zeros(DType::U8, [1]).ok_or("no memory")?)
    });
    (Snapshot { step, pieces: vec![piece], metadata: json!({}) }, has_begun, go)
}

#[test]
fn everything_handed_over_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, saver) = start(folder.path(), WhenBusy::Wait);
    for step in 1..=6 {
        assert_eq!(saver.save(snapshot(step)).unwrap(), None);
    }
    let reports = saver.finish().unwrap();
    assert_eq!(reports.iter().map(|report| report.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(manager.steps().unwrap(), [4, 5, 6]);
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
}

#[test]
fn dropping_the_saver_finishes_what_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, saver) = start(folder.path(), WhenBusy::Wait);
    saver.save(snapshot(1)).unwrap();
    drop(saver);
    assert_exact(&manager.load(1).unwrap());
}

#[test]
fn a_waiting_snapshot_is_replaced_by_a_newer_one() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, saver) = start(folder.path(), WhenBusy::Replace);
    let (first, has_begun, go) = held(1);
    assert_eq!(saver.save(first).unwrap(), None);
    has_begun.recv().unwrap();
    assert!(saver.is_busy());
    assert_eq!(saver.save(snapshot(2)).unwrap(), None);
    assert_eq!(saver.save(snapshot(3)).unwrap(), Some(2));
    assert!(manager.steps().unwrap().is_empty(), "nothing is complete yet");
    go.send(()).unwrap();
    saver.wait().unwrap();
    assert!(!saver.is_busy());
    assert_eq!(saver.completed().len(), 2);
    assert_eq!(manager.steps().unwrap(), [1, 3]);
}

#[test]
fn errors_surface_once_and_saving_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, saver) = start(folder.path(), WhenBusy::Wait);
    saver.save(snapshot(1)).unwrap();
    let broken = |step| {
        let piece = SnapshotPiece::fetched("t", DType::U8, &[1], || Err("the device is gone".into()));
        Snapshot { step, pieces: vec![piece], metadata: json!({}) }
    };
    saver.save(broken(2)).unwrap();
    let error = saver.save(snapshot(3)).unwrap_err();
    assert!(matches!(&error, Error::NotProduced { name, .. } if name == "t"), "{error}");
    saver.save(snapshot(3)).unwrap();
    saver.wait().unwrap();
    saver.save(broken(4)).unwrap();
    assert!(saver.wait().is_err());
    saver.wait().unwrap();
    saver.save(broken(5)).unwrap();
    let error = saver.finish().unwrap_err();
    assert!(crate::state::chain(&error).contains("the device is gone"));
    assert_eq!(manager.steps().unwrap(), [1, 3]);
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
}

#[test]
fn the_callers_copy_may_change_after_it_was_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, saver) = start(folder.path(), WhenBusy::Replace);
    let mut value = Arc::new(Literal::zeros(DType::F32, [1000]).unwrap());
    let pieces = vec![SnapshotPiece::whole("w", value.clone())];
    saver.save(Snapshot { step: 1, pieces, metadata: json!({}) }).unwrap();
    Arc::make_mut(&mut value).bytes_mut().fill(7);
    saver.finish().unwrap();
    assert_eq!(manager.load(1).unwrap().read("w").unwrap(), Literal::zeros(DType::F32, [1000]).unwrap());
}
