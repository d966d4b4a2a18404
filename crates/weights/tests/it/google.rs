//! Checkpoints in Google's store: what is saved is restored, large objects in parts, and conditional puts keep two runs apart.

use std::sync::Arc;

use serde_json::json;
use tensor::{DType, Literal};
use testkit::{StoreKind, StoreServer};
use weights::{CheckpointManager, Error, IntegrityCheck, Keep, Saver, Snapshot, SnapshotPiece, Store, StoreFailure};

use crate::servers::access;
use crate::state::{assert_exact, chain, snapshot};

#[test]
fn a_google_bucket_keeps_a_series_as_a_disk_does() {
    let Some(server) = StoreServer::start("a_google_bucket_keeps_a_series", StoreKind::Google) else { return };
    let store = Store::open_with("gs://bucket/runs/a/", &access(&server)).unwrap();
    assert!(store.list("").unwrap().is_empty());
    let manager = CheckpointManager::at(store.clone());
    let mut saver = Saver::new(manager.clone(), Keep::newest(2)).unwrap().with_file_bytes(10_000);
    for step in 1..=3 {
        let report = saver.save(snapshot(step)).unwrap();
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }
    assert_eq!(manager.steps().unwrap(), [2, 3]);
    let found = manager.latest_good(IntegrityCheck::Contents).unwrap();
    assert!(found.damaged.is_empty());
    assert_exact(&found.saved);
    // More than two parts of an upload, which are read in ranges.
    let bytes: Vec<u8> = (0..17u32 << 20).map(|n| (n ^ (n >> 11)) as u8).collect();
    let value = Arc::new(Literal::new(DType::U8, [17, 1 << 20], bytes).unwrap());
    let pieces = vec![SnapshotPiece::whole("large", value.clone())];
    saver.save(Snapshot { step: 4, pieces, metadata: json!({}) }).unwrap();
    assert!(manager.load(4).unwrap().read("large").unwrap() == *value);
    // Another run takes over: the first can neither commit nor delete.
    let mut second = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    assert!(second.replaced().is_some_and(|run| run.contains(&std::process::id().to_string())));
    let error = saver.save(snapshot(5)).unwrap_err();
    assert!(error.is_replaced() && chain(&error).contains("gs://bucket/runs/a"), "{}", chain(&error));
    assert!(saver.discard_after(3).unwrap_err().is_replaced());
    assert_eq!(manager.steps().unwrap(), [3, 4]);
    assert_eq!(second.save(snapshot(5)).unwrap().deleted, [3, 4]);
    assert_exact(&manager.load(5).unwrap());
    drop(second);
    assert_eq!(Saver::new(manager, Keep::newest(1)).unwrap().replaced(), None, "the second one has ended");
    let other = CheckpointManager::open_with("gs://no-such-bucket/a", &access(&server)).unwrap();
    let error = Saver::new(other, Keep::ALL).unwrap_err();
    assert!(matches!(error, Error::Store { failure: StoreFailure::NotFound, .. }), "{}", chain(&error));
}
