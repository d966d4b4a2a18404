//! Servers that lie, break off or never end: the right bytes or an error that says what is wrong, and bounded work.

use std::time::Duration;

use data::{DataError, RemoteData, RemoteFile, RemoteOptions};
use testkit::{Random, WebFault, WebServer};

fn bytes(count: usize) -> Vec<u8> {
    let mut random = Random::new(count as u64);
    (0..count).map(|_| random.next_u64() as u8).collect()
}

/// Small blocks and parts, and few, quick repetitions.
pub(crate) fn options(folder: &std::path::Path) -> RemoteOptions {
    let mut options = RemoteOptions::new(folder.to_path_buf());
    options.access.max_retries = 3;
    options.access.first_pause = Duration::from_millis(1);
    options.access.request_timeout = Duration::from_secs(20);
    RemoteOptions { part_bytes: 16 << 10, block_bytes: 1 << 10, requests: 4, ..options }
}

fn opened(server: &WebServer, folder: &std::path::Path) -> Result<(RemoteData, RemoteFile), DataError> {
    let data = RemoteData::new(options(folder))?;
    let file = data.open(&server.address("a.bin"))?;
    Ok((data, file))
}

#[test]
fn what_is_read_is_what_is_there_whatever_breaks() {
    let contents = bytes(100_001);
    for fault in [
        WebFault::CutAfter(0),
        WebFault::CutAfter(700),
        WebFault::CutAfter(5000),
        WebFault::Overloaded,
        WebFault::Short,
    ] {
        let server = WebServer::start(contents.clone(), Some("one"));
        let folder = tempfile::tempdir().unwrap();
        let (data, file) = opened(&server, folder.path()).unwrap();
        server.fail(fault.clone(), 3);
        assert!(file.read_at(0..100_001).unwrap() == contents, "{fault:?}");
        let stats = data.stats();
        // What came before a cut is not asked for again.
        assert_eq!(stats.fetched_bytes, 100_001, "{fault:?}");
        assert!(stats.bytes_per_second().unwrap() > 0.0);
    }
}

#[test]
fn a_server_without_entity_tags_is_resumed_too() {
    let contents = bytes(50_000);
    let server = WebServer::start(contents.clone(), None);
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = opened(&server, folder.path()).unwrap();
    server.fail(WebFault::CutAfter(1500), 2);
    assert!(file.read_at(0..50_000).unwrap() == contents);
    assert!(data.stats().repeated >= 1);
    drop((data, file));
    // Nothing tells that it is the same file in the next run.
    let (data, file) = opened(&server, folder.path()).unwrap();
    assert!(file.read_at(0..50_000).unwrap() == contents);
    assert_eq!(data.stats().fetched_bytes, 50_000);
}

#[test]
fn lies_are_errors_and_cost_little() {
    let contents = bytes(40_000);
    let check = |fault: WebFault, expected: &str| {
        let server = WebServer::start(contents.clone(), Some("one"));
        let folder = tempfile::tempdir().unwrap();
        let (data, file) = opened(&server, folder.path()).unwrap();
        server.fail(fault.clone(), usize::MAX);
        let error = file.read_at(0..4000).unwrap_err();
        let (requests, sent) = server.heal();
        assert!(error.to_string().contains(expected), "{fault:?}: {error}");
        assert!(!error.remedy().is_empty());
        assert!(requests.len() <= 20, "{fault:?}: {} requests", requests.len());
        assert!(sent <= 16 << 20, "{fault:?}: {sent} bytes");
        // The file is what it was as soon as the server is honest again, and nothing wrong was kept.
        assert!(file.read_at(0..40_000).unwrap() == contents, "{fault:?}");
        assert!(data.stats().cache_bytes < 1 << 20);
    };
    check(WebFault::OtherRange, "got");
    check(WebFault::IgnoresRange, "ranges");
    check(WebFault::Size(39_999), "was changed while");
    check(WebFault::Size(u64::MAX), "which no store keeps");
    check(WebFault::Tag("two"), "was changed while");
    check(WebFault::Packed, "Content-Encoding gzip");
    check(WebFault::Missing, "reading");
    check(WebFault::Refused, "reading");
    check(WebFault::Overloaded, "503");
    check(WebFault::CutAfter(0), "reading");
    check(WebFault::Endless, "");
    check(WebFault::Longer, "");
    check(WebFault::RangeOverflow, "");
    check(WebFault::Redirect("file:///etc/passwd".into()), "");
    check(WebFault::Redirect("ftp://127.0.0.1/a".into()), "");
}

#[test]
fn a_circle_of_redirects_ends() {
    let server = WebServer::start(bytes(1000), Some("one"));
    server.fail(WebFault::Redirect(server.address("again")), usize::MAX);
    let folder = tempfile::tempdir().unwrap();
    let error = opened(&server, folder.path()).unwrap_err();
    let (requests, _) = server.heal();
    assert!(error.to_string().contains("redirect"), "{error}");
    assert!(requests.len() < 100, "{}", requests.len());
}

#[test]
fn a_file_that_changes_under_a_run_is_refused_and_another_run_reads_the_new_one() {
    let server = WebServer::start(bytes(40_000), Some("one"));
    let folder = tempfile::tempdir().unwrap();
    let (_data, file) = opened(&server, folder.path()).unwrap();
    file.read_at(0..1000).unwrap();
    server.fail(WebFault::Tag("two"), usize::MAX);
    // What is here stays readable; what is not belongs to another file now.
    file.read_at(0..1000).unwrap();
    let error = file.read_at(0..40_000).unwrap_err();
    assert!(matches!(&error, DataError::Changed { address } if *address == server.address("a.bin")), "{error}");
    let (data, file) = opened(&server, folder.path()).unwrap();
    file.read_at(0..1000).unwrap();
    assert!(data.stats().fetched_bytes >= 1000, "the blocks of the old version were taken");
}
