//! `tpu train --processes`: four processes, each in a network of its own, learn what one learns; one that is killed is named by
//! the others, and all go on from the checkpoint.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use testkit::skip;

use crate::harness::{Bench, Ran};
use crate::mesh_training::{self, assert_alike, losses};
use crate::networks::Networks;

pub(crate) const PROCESSES: usize = 4;

/// The small Llama of the tests of meshes, saved every few steps.
pub(crate) fn llama() -> String {
    format!("{}save_every = 3\n", mesh_training::llama())
}

/// What hangs longer is a failure; what works is much quicker.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const MESH: [&str; 4] = ["--mesh", "fsdp=2,model=2", "--strategy", "hybrid"];

/// Processes of a test; those that still run at its end are killed.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Waits for all but those in `except`; what they gave, by number.
    fn wait(&mut self, except: &[usize]) -> Vec<(usize, Ran)> {
        let deadline = Instant::now() + PATIENCE;
        let mut ended = Vec::new();
        for (n, child) in self.0.iter_mut().enumerate().filter(|(n, _)| !except.contains(n)) {
            let status = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break status,
                    None => {
                        assert!(Instant::now() < deadline, "process {n} hangs");
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            };
            let mut ran = Ran { code: status.code(), stdout: String::new(), stderr: String::new() };
            child.stdout.take().unwrap().read_to_string(&mut ran.stdout).unwrap();
            child.stderr.take().unwrap().read_to_string(&mut ran.stderr).unwrap();
            ended.push((n, ran));
        }
        ended
    }
}

/// Starts all processes of a training, each in its network where there are some.
fn start(bench: &Bench, networks: Option<&Networks>, coordinator: &str, folder: &str, steps: u64) -> Running {
    let start_one = |n: usize| {
        let (id, with, count) = (n.to_string(), format!("train.steps={steps}"), PROCESSES.to_string());
        let mut args = vec!["train", "llama.toml", "--folder", folder, "-d", "cpu", "--with", &with];
        args.extend(MESH);
        args.extend(["--processes", &count, "--process-id", &id, "--coordinator", coordinator]);
        let plain = bench.command(&args);
        let mut command = match networks {
            None => plain,
            Some(networks) => networks.inside(n, &plain),
        };
        // Networks of their own are not the loopback interface.
        command.env("TPUBRIDGE_SECRET", "a secret of the test's own, long enough");
        command.env("TPUBRIDGE_CPU_THREADS", "1").env("TPUBRIDGE_HEARTBEAT_TIMEOUT_SECONDS", "30");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    Running((0..PROCESSES).map(start_one).collect())
}

pub(crate) fn saved_steps(bench: &Bench, folder: &str) -> BTreeSet<u64> {
    let Ok(entries) = std::fs::read_dir(bench.path(&format!("{folder}/checkpoints"))) else { return BTreeSet::new() };
    // The manifest is written last.
    let complete = entries.flatten().filter(|entry| entry.path().join("manifest.json").exists());
    complete.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()).collect()
}

#[track_caller]
fn all_done(ended: &[(usize, Ran)]) {
    for (n, ran) in ended {
        assert_eq!(ran.code, Some(0), "process {n}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn four_processes_learn_what_one_learns() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    bench.expect(0, &["train", "llama.toml", "--folder", "one", "-d", "cpu"]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = start(&bench, None, &format!("127.0.0.1:{port}"), "four", 4).wait(&[]);
    all_done(&ended);
    assert_alike("several processes", &losses(&bench, "four"), &losses(&bench, "one"));
}

#[test]
fn a_killed_process_is_named_and_all_go_on_from_the_checkpoint() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let networks = match Networks::new(PROCESSES) {
        Ok(networks) => Some(networks),
        Err(why) => {
            skip("a_killed_process_is_named_and_all_go_on_from_the_checkpoint (its networks)", &why);
            None
        }
    };
    let address = || match &networks {
        Some(networks) => format!("{}:4711", networks.address(0)),
        None => format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()),
    };
    let mut running = start(&bench, networks.as_ref(), &address(), "four", 1_000_000);
    let deadline = Instant::now() + PATIENCE;
    while saved_steps(&bench, "four").is_empty() {
        assert!(Instant::now() < deadline, "no checkpoint appears: {:?}", running.wait(&[0, 1, 2, 3]));
        if running.0.iter_mut().any(|child| child.try_wait().unwrap().is_some()) {
            panic!("a process ended: {:?}", running.wait(&[]));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    running.0[2].kill().unwrap();
    for (n, ran) in running.wait(&[2]) {
        assert_eq!(ran.code, Some(2), "process {n}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("process 2 is gone"), "process {n}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "process {n}: {}", ran.stderr);
    }
    drop(running);
    let from = *saved_steps(&bench, "four").last().unwrap();
    let ended = start(&bench, networks.as_ref(), &address(), "four", from + 3).wait(&[]);
    all_done(&ended);
    for (n, ran) in &ended {
        assert!(ran.stderr.contains(&format!("resuming from step {from}")), "process {n}: {}", ran.stderr);
    }
    // The same program in one process, never interrupted.
    let with = format!("train.steps={}", from + 3);
    bench.expect(
        0,
        &[&["train", "llama.toml", "--folder", "one", "-d", "cpu", "--with", &with][..], &MESH[..]].concat(),
    );
    assert_alike("several processes", &losses(&bench, "four"), &losses(&bench, "one"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let refused = |args: &[&str], parts: &[&str]| {
        let run = bench.expect(2, &[&["train", "llama.toml", "-d", "cpu"][..], args].concat());
        for part in parts.iter().chain(&["hint:"]) {
            assert!(run.stderr.contains(part), "{args:?}: {}", run.stderr);
        }
    };
    let four = ["--processes", "4", "--coordinator", "127.0.0.1:1"];
    refused(&four, &["--process-id", "TPUBRIDGE_PROCESS_ID"]);
    refused(&[&four[..], &["--process-id", "4"]].concat(), &["from 0 to 3"]);
    refused(&[&four[..], &["--process-id", "1"]].concat(), &["4 processes need a mesh", "--mesh data=4"]);
    refused(&[&four[..], &["--process-id", "1", "--mesh", "data=2"]].concat(), &["2 devices", "4 processes"]);
    refused(&["--processes", "2", "--process-id", "1"], &["--coordinator"]);
}
