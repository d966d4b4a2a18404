//! Checkpoints in buckets: a real S3 server, and connections that fail at every request of a save.

use std::sync::Arc;

use serde_json::json;
use tensor::{DType, Literal};
use testkit::{Random, StoreKind, StoreServer};
use weights::{
    AsyncSaver, CheckpointManager, Error, IntegrityCheck, Keep, Saver, Snapshot, SnapshotPiece, Store, StoreFailure,
    TensorRegion, WhenBusy,
};

use crate::servers::{Fault, Proxy, access};
use crate::state::{assert_exact, chain, snapshot};

/// Larger than two parts of an upload, and quickly made.
fn value(step: u64) -> Literal {
    let mut random = Random::new(step);
    let row: Vec<u8> = (0..1 << 20).map(|_| random.next_u64() as u8).collect();
    let rows = (0..17u8).flat_map(|n| row.iter().map(move |byte| byte ^ n)).collect();
    Literal::new(DType::U8, [17, 1 << 20], rows).unwrap()
}

fn large(step: u64) -> Snapshot {
    let value = value(step);
    Snapshot { step, pieces: vec![SnapshotPiece::whole("large", Arc::new(value))], metadata: json!({}) }
}

#[track_caller]
fn assert_large(manager: &CheckpointManager, step: u64) {
    let expected = value(step);
    assert!(manager.load(step).unwrap().read("large").unwrap() == expected);
}

#[test]
fn a_bucket_keeps_a_series_as_a_disk_does() {
    let Some(server) = StoreServer::start("a_bucket_keeps_a_series", StoreKind::S3) else { return };
    let store = Store::open_with("s3://bucket/runs/a/", &access(&server)).unwrap();
    assert!(store.list("").unwrap().is_empty());
    let manager = CheckpointManager::at(store.clone());
    assert!(matches!(manager.latest_good(IntegrityCheck::Sizes), Err(Error::NoCheckpoint { .. })));
    let saver = Saver::new(manager.clone(), Keep::newest(2)).unwrap().with_file_bytes(10_000);
    let saver = AsyncSaver::new(saver, WhenBusy::Wait).unwrap();
    for step in 1..=4 {
        saver.save(snapshot(step)).unwrap();
    }
    saver.finish().unwrap();
    assert_eq!(manager.steps().unwrap(), [3, 4]);
    let found = manager.latest_good(IntegrityCheck::Contents).unwrap();
    assert!(found.damaged.is_empty());
    assert_exact(&found.saved);
    // Leftovers, and a neighbour that only begins alike.
    store.put("step-00000009/0000-00000-aa.safetensors", b"left over").unwrap();
    let neighbour = Store::open_with("s3://bucket/runs/ab", &access(&server)).unwrap();
    neighbour.put("step-00000001/x.safetensors", b"not ours").unwrap();
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    let report = saver.save(large(10)).unwrap();
    assert_eq!(report.deleted, [3, 4]);
    assert_large(&manager, 10);
    manager.load(10).unwrap().verify().unwrap();
    let rows = TensorRegion { start: vec![9, 5], size: vec![2, 100] };
    let part = manager.load(10).unwrap().read_region("large", &rows).unwrap();
    let whole = value(10);
    assert_eq!(part.bytes()[..100], whole.bytes()[9 << 20..][5..105]);
    let names: Vec<String> = store.list("").unwrap().into_iter().map(|object| object.name).collect();
    assert_eq!(names.len(), 4, "the record, what keeps earlier releases out, a manifest and a file: {names:?}");
    assert_eq!(neighbour.list("").unwrap().len(), 1);
    // A shard that was damaged or went away.
    let shard = names.iter().find(|name| name.ends_with(".safetensors")).unwrap();
    let mut bytes = store.read(shard, 0, 17 << 20).unwrap();
    bytes[16 << 20] ^= 1;
    let rest =
        store.list("").unwrap().iter().find(|object| &object.name == shard).unwrap().size_bytes as usize - bytes.len();
    bytes.extend(store.read(shard, bytes.len() as u64, rest).unwrap());
    store.put(shard, &bytes).unwrap();
    let error = manager.load(10).unwrap().verify().unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&format!("s3://bucket/runs/a/{shard}")), "{error}");
    store.delete(shard).unwrap();
    store.delete(shard).unwrap();
    assert!(manager.load(10).unwrap_err().to_string().contains("it is missing"));
}

#[test]
fn a_store_that_fails_at_any_request_leaves_the_last_good_checkpoint() {
    let Some(server) = StoreServer::start("a_store_that_fails_at_any_request", StoreKind::S3) else { return };
    let proxy = Proxy::start(&server);
    let manager = CheckpointManager::open_with("s3://bucket/failing", &proxy.access()).unwrap();
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    saver.save(large(1)).unwrap();
    proxy.heal();
    saver.save(large(2)).unwrap();
    let requests = proxy.heal();
    assert!(requests.iter().any(|line| line.starts_with("POST") && line.contains("uploads")), "{requests:?}");
    assert!(requests.iter().filter(|line| line.contains("partNumber")).count() >= 3, "{requests:?}");
    let (mut good, mut failed, mut warned) = (2, 0, 0);
    // Some requests with each fault, others with the next: a save that fails takes long, because it is tried again.
    for (offset, fault) in [Fault::Overloaded, Fault::CutRequest, Fault::CutAnswer].into_iter().enumerate() {
        // A save after a failed one begins with looking and cleaning, so that it has more requests than this one.
        for first in (3 * offset..200).step_by(11) {
            let step = good + 1;
            proxy.fail(fault, first, usize::MAX);
            let result = saver.save(large(step));
            proxy.heal();
            match result {
                Ok(report) if report.warnings.is_empty() => {
                    good = step;
                    break;
                }
                Ok(_) => warned += 1,
                Err(error) => {
                    let text = chain(&error);
                    assert!(text.contains("s3://bucket/failing"), "{text}");
                    assert!(error.remedy().contains("complete checkpoints are untouched"), "{}", error.remedy());
                    failed += 1;
                }
            }
            // Good is what was good before, or the new one if its manifest arrived; nothing is damaged.
            let found = manager.latest_good(IntegrityCheck::Sizes).unwrap();
            assert!(found.damaged.is_empty(), "{fault:?} from {first}: {:?}", found.damaged);
            assert!([good, step].contains(&found.saved.step()), "{fault:?} from {first}");
            assert_large(&manager, found.saved.step());
            good = found.saved.step();
        }
    }
    assert!(failed >= 3, "{failed} failed, {warned} warned of {}", requests.len());
    // The same saver goes on, and cleans up.
    saver.save(large(good + 1)).unwrap();
    let left = Store::open_with("s3://bucket/failing", &access(&server)).unwrap().list("").unwrap();
    assert_eq!(left.len(), 4, "the record, what keeps earlier releases out, a manifest and a file: {left:?}");
    assert_large(&manager, good + 1);
}

#[test]
fn a_hiccup_is_retried_and_not_seen() {
    let Some(server) = StoreServer::start("a_hiccup_is_retried", StoreKind::S3) else { return };
    let proxy = Proxy::start(&server);
    let manager = CheckpointManager::open_with("s3://bucket/hiccups", &proxy.access()).unwrap();
    let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
    for (step, at) in (1..).zip([0, 1, 2, 4, 6, 8]) {
        proxy.fail(Fault::Overloaded, at, at);
        let report = saver.save(large(step)).unwrap();
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }
    proxy.heal();
    assert_large(&manager, 6);
}

#[test]
fn an_unreachable_store_is_no_reason_to_go_back() {
    let Some(server) = StoreServer::start("an_unreachable_store", StoreKind::S3) else { return };
    let proxy = Proxy::start(&server);
    let manager = CheckpointManager::open_with("s3://bucket/away", &proxy.access()).unwrap();
    let mut saver = Saver::new(manager.clone(), Keep::ALL).unwrap();
    saver.save(snapshot(1)).unwrap();
    saver.save(snapshot(2)).unwrap();
    for first in 0..4 {
        proxy.fail(Fault::Overloaded, first, usize::MAX);
        let error = manager.latest_good(IntegrityCheck::Contents).unwrap_err();
        assert!(matches!(error, Error::Store { .. }) && !error.is_damage(), "{}", chain(&error));
    }
    proxy.fail(Fault::Refused, 0, usize::MAX);
    let error = manager.steps().unwrap_err();
    assert!(matches!(error, Error::Store { failure: StoreFailure::NotAllowed, .. }), "{}", chain(&error));
    assert!(error.remedy().contains("AWS_ACCESS_KEY_ID"));
    proxy.heal();
    let other = CheckpointManager::open_with("s3://no-such-bucket/a", &access(&server)).unwrap();
    let error = Saver::new(other, Keep::ALL).unwrap_err();
    assert!(matches!(error, Error::Store { failure: StoreFailure::NotFound, .. }), "{}", chain(&error));
    // Nobody listens there.
    let nowhere = access(&server).with("aws_endpoint_url", "http://127.0.0.1:1");
    let error = CheckpointManager::open_with("s3://bucket/a", &nowhere).unwrap().latest().unwrap_err();
    assert!(chain(&error).contains("s3://bucket/a"), "{}", chain(&error));
    assert_exact(&manager.latest_good(IntegrityCheck::Contents).unwrap().saved);
}

/// Two runs would both commit there. Puts of new objects and of changed ones are conditions of their own in S3.
#[test]
fn a_store_that_ignores_conditions_is_refused() {
    const S3_HEADERS: [&str; 2] = ["if-none-match", "if-match"];
    for (kind, headers) in [(StoreKind::S3, &S3_HEADERS[..]), (StoreKind::Google, &["x-goog-if-generation-match"])] {
        let Some(server) = StoreServer::start("a_store_that_ignores_conditions", kind) else { return };
        let proxy = Proxy::start(&server);
        for header in headers {
            let place = server.location(header);
            let manager = CheckpointManager::open_with(&place, &proxy.access()).unwrap();
            proxy.fail(Fault::Ignores(header), 0, usize::MAX);
            // On an empty prefix, and where a run has been before.
            for _ in 0..2 {
                let error = Saver::new(manager.clone(), Keep::ALL).unwrap_err();
                assert!(matches!(error, Error::Unconditional { .. }), "{header}: {}", chain(&error));
                assert!(error.to_string().contains(&place) && error.remedy().contains("If-Match"), "{error}");
            }
            proxy.heal();
            let mut saver = Saver::new(manager.clone(), Keep::ALL).unwrap();
            saver.save(snapshot(1)).unwrap();
            assert_exact(&manager.load(1).unwrap());
        }
    }
}

#[test]
fn a_store_can_be_used_inside_another_runtime() {
    let Some(server) = StoreServer::start("a_store_inside_another_runtime", StoreKind::S3) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let access = access(&server);
    runtime.block_on(async move {
        let store = Store::open_with("s3://bucket/inside", &access).unwrap();
        store.put("a", b"1").unwrap();
        assert_eq!(store.read("a", 0, 1).unwrap(), b"1");
    });
}
