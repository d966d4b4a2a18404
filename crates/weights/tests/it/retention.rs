//! Which checkpoints are kept, what is cleaned up, and who may write.

use std::fs;

use weights::{CheckpointManager, Error, Keep, Saver, Store};

use crate::state::{assert_exact, snapshot};

/// Names in a folder, but for the record of the owner and what keeps earlier releases out.
fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("owner-") && name != "step-18446744073709551615");
    names.sort();
    names
}

#[test]
fn old_checkpoints_go_when_the_new_one_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    let mut saver = Saver::new(manager.clone(), Keep::newest(2).and_every(40)).unwrap();
    let mut deleted = Vec::new();
    for step in (10..=90).step_by(10) {
        let report = saver.save(snapshot(step)).unwrap();
        assert!(report.warnings.is_empty() && report.size_bytes > 0);
        deleted.extend(report.deleted);
    }
    assert_eq!(manager.steps().unwrap(), [40, 80, 90]);
    assert_eq!(deleted, [10, 20, 30, 50, 60, 70]);
    assert_eq!(names(folder.path()), [".lock", "step-00000040", "step-00000080", "step-00000090"]);
    drop(saver);
    // Another start with another rule.
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    saver.save(snapshot(100)).unwrap();
    assert_eq!(manager.steps().unwrap(), [100]);
}

#[test]
fn leftovers_of_interrupted_saves_are_cleaned_up_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let manager = CheckpointManager::at(Store::folder(path));
    Saver::new(manager.clone(), Keep::ALL).unwrap().save(snapshot(1)).unwrap();
    let put = |name: &str| {
        fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        fs::write(path.join(name), "x").unwrap();
    };
    put("step-00000002/0000-00000-aa.safetensors");
    put("step-00000002/.unfinished-abc");
    put("step-00000001/.unfinished-def");
    put("step-00000001/0000-00000-bb.safetensors");
    fs::create_dir(path.join("step-00000003")).unwrap();
    put("notes.txt");
    put("other/step-00000004/file");
    put("step-5/file");
    put("step-00000009/manifest.json");
    assert_eq!(manager.steps().unwrap(), [1, 9]);
    Saver::new(manager.clone(), Keep::ALL).unwrap().save(snapshot(10)).unwrap();
    // What has a manifest is not ours to delete without a rule, even if the manifest is damaged.
    let expected = [".lock", "notes.txt", "other", "step-00000001", "step-00000009", "step-00000010", "step-5"];
    assert_eq!(names(path), expected);
    let kept = names(&path.join("step-00000001"));
    assert!(kept.len() == 2 && kept[1].starts_with("manifest-"), "{kept:?}");
    assert_exact(&manager.load(1).unwrap());
}

#[test]
fn one_process_writes_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    let first = Saver::new(manager.clone(), Keep::ALL).unwrap();
    let error = Saver::new(manager.clone(), Keep::ALL).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    drop(first);
    Saver::new(manager, Keep::ALL).unwrap();
}

#[test]
fn a_run_begun_again_from_an_older_checkpoint_discards_the_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    let mut saver = Saver::new(manager.clone(), Keep::ALL).unwrap();
    for step in [10, 20, 30, 40] {
        saver.save(snapshot(step)).unwrap();
    }
    assert!(matches!(saver.discard_after(25), Err(Error::NoCheckpoint { step: Some(25), .. })));
    assert_eq!(manager.steps().unwrap(), [10, 20, 30, 40]);
    assert_eq!(saver.discard_after(20).unwrap(), [30, 40]);
    assert_eq!(manager.steps().unwrap(), [10, 20]);
    saver.save(snapshot(21)).unwrap();
    assert_eq!(manager.latest().unwrap(), Some(21));
}

#[test]
fn files_that_another_run_removed_make_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let manager = CheckpointManager::at(Store::folder(folder.path()));
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    saver.save(snapshot(1)).unwrap();
    // The last tensor is fetched when the files of the others are there.
    let mut second = snapshot(2);
    let (gone, one) = (folder.path().join("step-00000002"), tensor::Literal::from([1.0f32]));
    second.pieces.push(weights::SnapshotPiece::fetched("z", one.dtype(), &[1], move || {
        let first =
            fs::read_dir(&gone)?.flatten().find(|file| file.path().to_string_lossy().ends_with("-00000.safetensors"));
        fs::remove_file(first.ok_or("nothing is written yet")?.path())?;
        Ok(one)
    }));
    saver = saver.with_file_bytes(1);
    let error = saver.save(second).unwrap_err();
    assert!(error.to_string().contains("does another run save here?"), "{error}");
    assert_exact(&manager.load(manager.latest().unwrap().unwrap()).unwrap());
}
