//! Disks that are full and folders that cannot be written: a clear error, and the last good checkpoint intact.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tensor::{DType, Literal};
use testkit::skip;
use weights::{AsyncSaver, CheckpointManager, Error, IntegrityCheck, Keep, Saver, Snapshot, SnapshotPiece, WhenBusy};

use crate::state::{assert_exact, chain, snapshot};

/// Where the child saves; the test of that name does nothing without it.
const SMALL_DISK: &str = "TPUBRIDGE_TEST_SMALL_DISK";

/// A disk of the child's that may only be read.
const READ_ONLY: &str = "TPUBRIDGE_TEST_READ_ONLY_DISK";

#[test]
fn child_on_a_small_disk() {
    let Ok(place) = std::env::var(SMALL_DISK) else { return };
    let manager = CheckpointManager::open(&place).unwrap();
    let saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap().with_file_bytes(300_000);
    let saver = AsyncSaver::new(saver, WhenBusy::Wait).unwrap();
    saver.save(snapshot(1)).unwrap();
    saver.wait().unwrap();
    // Four files of 300 kB on a disk of 1 MiB: some are written before it is full.
    let large = |number: usize| {
        SnapshotPiece::whole(format!("t{number}"), Arc::new(Literal::zeros(DType::U8, [300_000]).unwrap()))
    };
    let pieces = (0..4).map(large).collect();
    saver.save(Snapshot { step: 2, pieces, metadata: json!({}) }).unwrap();
    let error = saver.save(snapshot(3)).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull), "{error}");
    assert!(
        chain(&error).contains("No space left") && error.remedy().contains("free some disk space"),
        "{}",
        chain(&error)
    );
    // The failed save gave its space back, the last good one is intact, and saving goes on.
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
    assert_eq!(manager.steps().unwrap(), [1]);
    assert!(!std::path::Path::new(&place).join("step-00000002").exists());
    saver.save(snapshot(3)).unwrap();
    saver.finish().unwrap();
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
    // With every byte taken, not even small files can be written.
    let filler = std::path::Path::new(&place).join("filler");
    let mut taken = 1 << 20;
    while fs::write(&filler, vec![1; taken]).is_err() {
        taken -= 4096;
    }
    let error = Saver::new(manager.clone(), Keep::newest(1)).unwrap_err();
    assert!(error.remedy().contains("free some disk space"), "{}", chain(&error));
    fs::remove_file(filler).unwrap();
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
    saver.save(snapshot(4)).unwrap();
    assert_eq!(manager.steps().unwrap(), [4]);
    // A disk that may only be read.
    let read_only = std::env::var(READ_ONLY).unwrap();
    let error = Saver::new(CheckpointManager::open(&format!("{read_only}/runs")).unwrap(), Keep::ALL).unwrap_err();
    assert!(chain(&error).contains(&read_only) && chain(&error).contains("Read-only file system"), "{}", chain(&error));
    println!("all was seen");
}

#[test]
fn a_full_disk_is_a_clear_error_and_costs_no_checkpoint() {
    const TEST: &str = "a_full_disk_is_a_clear_error";
    let folder = tempfile::tempdir().unwrap();
    let (place, read_only) = (folder.path().join("small"), folder.path().join("read-only"));
    fs::create_dir(&place).unwrap();
    fs::create_dir(&read_only).unwrap();
    // File systems in a mount namespace of the test's own.
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs {} && mount -t tmpfs -o ro tmpfs {} &&
         exec {} --exact disk::child_on_a_small_disk --nocapture",
        place.display(),
        read_only.display(),
        std::env::current_exe().unwrap().display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .env(SMALL_DISK, place)
        .env(READ_ONLY, read_only);
    let Ok(output) = command.output() else { return skip(TEST, "unshare is not installed") };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("unshare failed") {
        return skip(TEST, "user namespaces are not allowed here");
    }
    assert!(output.status.success() && text.contains("all was seen"), "{text}");
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let check = |place: &std::path::Path, expected: &str| {
        let manager = CheckpointManager::open(place.to_str().unwrap()).unwrap();
        let error = Saver::new(manager, Keep::ALL).unwrap_err();
        assert!(
            chain(&error).contains(expected) && chain(&error).contains(place.to_str().unwrap()),
            "{}",
            chain(&error)
        );
    };
    check(&file, "making the folder");
    check(std::path::Path::new("/proc/none"), "making the folder");
}
