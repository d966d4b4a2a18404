//! `tpu train --processes`: four processes, each in a network of its own, learn what one learns; a stop of one saves all of them;
//! one that is killed is named by the others, and all go on from the checkpoint.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::skip;
use weights::CheckpointManager;

use crate::harness::{Bench, Ran, arg, ran};
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
pub(crate) struct Running(pub(crate) Vec<Child>);

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
    pub(crate) fn wait(&mut self, except: &[usize]) -> Vec<(usize, Ran)> {
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
fn start(bench: &Bench, networks: Option<&Networks>, coordinator: &str, folder: &str, with: &[&str]) -> Running {
    start_with(bench, networks, coordinator, folder, with, &|_, _| {})
}

/// The same, with more in the environment of each process.
pub(crate) fn start_with(
    bench: &Bench,
    networks: Option<&Networks>,
    coordinator: &str,
    folder: &str,
    with: &[&str],
    more: &dyn Fn(usize, &mut Command),
) -> Running {
    let start_one = |n: usize| {
        let (id, count) = (n.to_string(), PROCESSES.to_string());
        let mut args = vec!["train", "llama.toml", "--folder", folder, "-d", "cpu", "--json"];
        args.extend(with.iter().flat_map(|change| ["--with", change]));
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
        more(n, &mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    Running((0..PROCESSES).map(start_one).collect())
}

pub(crate) fn manager(bench: &Bench, folder: &str) -> CheckpointManager {
    CheckpointManager::open(arg(&bench.path(&format!("{folder}/checkpoints")))).unwrap()
}

pub(crate) fn here() -> String {
    format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port())
}

impl Running {
    /// Waits for the first checkpoint.
    fn until_saved(&mut self, bench: &Bench, folder: &str) {
        let deadline = Instant::now() + PATIENCE;
        while manager(bench, folder).latest().unwrap().is_none() {
            assert!(Instant::now() < deadline, "no checkpoint appears");
            if self.0.iter_mut().any(|child| child.try_wait().unwrap().is_some()) {
                panic!("a process ended: {:?}", self.wait(&[]));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Trains in one process what four have trained, never interrupted, and compares losses to the digit.
#[track_caller]
fn assert_equals_one(bench: &Bench, folder: &str, steps: u64) {
    let with = format!("train.steps={steps}");
    let args = ["train", "llama.toml", "--folder", "one", "-d", "cpu", "--with", &with];
    let ran = ran(bench.command(&[&args[..], &MESH[..]].concat()).env("TPUBRIDGE_CPU_THREADS", "1").output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(losses(bench, folder), losses(bench, "one"));
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
    let ended = start(&bench, None, &here(), "four", &[]).wait(&[]);
    all_done(&ended);
    assert_alike("several processes", &losses(&bench, "four"), &losses(&bench, "one"));
    // Every process has written parts of its own, and none has written all.
    let files = std::fs::read_dir(bench.path("four/checkpoints/step-00000004")).unwrap();
    let files =
        files.map(|file| file.unwrap()).filter(|file| file.path().extension().is_some_and(|e| e == "safetensors"));
    let mut sizes = files.map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()));
    let mut by_process = std::collections::BTreeMap::<String, u64>::new();
    sizes.by_ref().for_each(|(name, bytes)| *by_process.entry(name[..4].to_string()).or_default() += bytes);
    assert_eq!(by_process.len(), PROCESSES, "{by_process:?}");
    let (least, most) = (by_process.values().min().unwrap(), by_process.values().max().unwrap());
    assert!(most < &(least * 2), "{by_process:?}");
    // Another number of processes and another mesh go on from them.
    bench.expect(0, &["train", "llama.toml", "--folder", "four", "-d", "cpu", "--with", "train.steps=6"]);
    bench.expect(0, &["train", "llama.toml", "--folder", "one", "-d", "cpu", "--with", "train.steps=6"]);
    assert_alike("one process after several", &losses(&bench, "four"), &losses(&bench, "one"));
    let ended = start(&bench, None, &here(), "four", &["train.steps=8"]).wait(&[]);
    all_done(&ended);
    assert!(ended.iter().all(|(_, ran)| ran.stderr.contains("resuming from step 6")), "{ended:?}");
    bench.expect(0, &["train", "llama.toml", "--folder", "one", "-d", "cpu", "--with", "train.steps=8"]);
    assert_alike("several processes after one", &losses(&bench, "four"), &losses(&bench, "one"));
}

#[test]
fn a_signal_to_one_process_stops_and_saves_all_at_the_same_step() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let mut running = start(&bench, None, &here(), "four", &["train.steps=1000000", "train.save_every=50"]);
    running.until_saved(&bench, "four");
    kill_process(Pid::from_child(&running.0[2]), Signal::TERM).unwrap();
    let ended = running.wait(&[]);
    let saved = manager(&bench, "four").latest_good(weights::IntegrityCheck::Contents).unwrap().saved.step();
    for (n, ran) in &ended {
        assert_eq!(ran.code, Some(75), "process {n}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("process 2 was asked to stop: all processes stop after step"), "{}", ran.stderr);
        let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((record["ended"].as_str(), record["step"].as_u64()), (Some("stopped"), Some(saved)), "process {n}");
    }
    let (steps, save) = (saved + 3, "train.save_every=50");
    let ended = start(&bench, None, &here(), "four", &[&format!("train.steps={steps}"), save]).wait(&[]);
    all_done(&ended);
    assert_equals_one(&bench, "four", steps);
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
    let address = || networks.as_ref().map_or_else(here, |networks| format!("{}:4711", networks.address(0)));
    // A save is under way nearly all the time.
    let with = ["train.steps=1000000", "train.save_every=1"];
    let mut running = start(&bench, networks.as_ref(), &address(), "four", &with);
    running.until_saved(&bench, "four");
    running.0[2].kill().unwrap();
    for (n, ran) in running.wait(&[2]) {
        assert_eq!(ran.code, Some(2), "process {n}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("process 2 is gone"), "process {n}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "process {n}: {}", ran.stderr);
    }
    drop(running);
    let found = manager(&bench, "four").latest_good(weights::IntegrityCheck::Contents).unwrap();
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
    let (from, steps) = (found.saved.step(), found.saved.step() + 3);
    let ended = start(&bench, networks.as_ref(), &address(), "four", &[&format!("train.steps={steps}")]).wait(&[]);
    all_done(&ended);
    for (n, ran) in &ended {
        assert!(ran.stderr.contains(&format!("resuming from step {from}")), "process {n}: {}", ran.stderr);
    }
    assert_equals_one(&bench, "four", steps);
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
