//! Signals to `tpu train`: they reach the process that trains, through its parent, in a container, and doubled.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::{Bench, arg, ran};
use crate::preemption::ENDLESS;

/// A training under way: steps were printed.
struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

fn start(command: &mut Command) -> Started {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let steps = lines.by_ref().map(Result::unwrap).filter(|line| line.contains("/10000000"));
    assert_eq!(steps.take(3).count(), 3);
    Started { child, lines }
}

/// The step of the newest checkpoint, every byte of which was read.
pub(crate) fn newest(folder: &Path) -> u64 {
    let manager = weights::CheckpointManager::open(arg(&folder.join("checkpoints"))).unwrap();
    manager.latest_good(weights::IntegrityCheck::Contents).unwrap().saved.step()
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub(crate) fn pid(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

impl Started {
    /// Waits for the end of everybody who writes, and expects a training that was saved and can go on.
    fn expect_saved(self, folder: &Path) {
        let reader = std::thread::spawn(move || self.lines.map(Result::unwrap).collect::<Vec<String>>());
        let ran = ran(self.child.wait_with_output().unwrap());
        let said = reader.join().unwrap().join("\n");
        assert_eq!(ran.code, Some(75), "{}{said}", ran.stdout);
        let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(record["ended"], "stopped");
        assert!(said.contains("stopped after step") && said.contains("is saved"), "{said}");
        assert_eq!(Some(newest(folder)), record["step"].as_u64());
    }
}

#[test]
fn a_signal_to_the_parent_reaches_the_trainer() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // Without a device it is found in a child process.
        let mut command = bench.command(&["train", arg(&file), "--folder", "run", "--json"]);
        let started = start(&mut command);
        assert_eq!(children(started.child.id()).len(), 1);
        kill_process(Pid::from_child(&started.child), signal).unwrap();
        started.expect_saved(&bench.path("run"));
    }
}

#[test]
fn a_signal_to_the_whole_group_is_one_request() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let mut command = bench.command(&["train", arg(&file), "--folder", "run", "--json"]);
    let started = start(command.process_group(0));
    // The trainer gets it as a terminal sends it, and once more from its parent.
    kill_process_group(Pid::from_child(&started.child), Signal::INT).unwrap();
    started.expect_saved(&bench.path("run"));
}

/// The training cannot end by itself, because nobody reads what it says.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let args = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "train.save_every=200"];
    let mut child = bench.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pipe = child.stderr.take().unwrap();
    // It is full when there is little room left and nothing is added any more.
    let (mut before, mut looks) = (0, 0);
    while before < 60_000 || looks < 50 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now = rustix::io::ioctl_fionread(&pipe).unwrap();
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        assert!(child.try_wait().unwrap().is_none(), "it ended");
    }
    let newest = newest(&bench.path("run"));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    // What comes within half a second is one request.
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it waits for what it says to be read");
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(self::newest(&bench.path("run")), newest, "nothing is lost");
}

#[test]
fn a_trainer_saves_and_ends_when_its_parent_is_killed() {
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let mut started = start(&mut bench.command(&["train", arg(&file), "--folder", "run"]));
    let trainer = children(started.child.id())[0];
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    // The trainer has the pipe: it ends when the trainer does.
    let said: Vec<String> = started.lines.map(Result::unwrap).collect();
    assert!(said.iter().any(|line| line.contains("stopped after step")), "{said:?}");
    assert!(newest(&bench.path("run")) >= 3);
    // Whoever adopted it may not have waited for it yet, but it runs no more.
    let state = std::fs::read_to_string(format!("/proc/{trainer}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z ") || state.contains(") X "), "{state}");
}

#[test]
fn as_the_first_process_of_a_container_it_hears_signals_and_reaps_orphans() {
    let test = "as_the_first_process_of_a_container_it_hears_signals_and_reaps_orphans";
    let unshare = ["--map-root-user", "--pid", "--fork", "--kill-child"];
    let mut try_it = Command::new("unshare");
    try_it.args(unshare).arg("true");
    if !try_it.output().is_ok_and(|tried| tried.status.success()) {
        testkit::skip(test, "this system does not let `unshare` make a PID namespace");
        return;
    }
    let bench = Bench::bare();
    let file = bench.write("endless.toml", ENDLESS);
    let own = bench.command(&["train", arg(&file), "--folder", "run", "-d", "cpu", "--json"]);
    let mut command = Command::new("unshare");
    // An orphan that ends while the training runs: `sh` is replaced by the command and never waits for it.
    let script = r#"( cat "$0" & ) > /dev/null; exec "$@""#;
    let gate = bench.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    command.args(unshare).args(["sh", "-c", script]).arg(&gate).arg(own.get_program()).args(own.get_args());
    command.current_dir(own.get_current_dir().unwrap()).stdin(Stdio::null());
    command.env("HOME", bench.path("home")).env("TPUBRIDGE_CACHE", bench.path("cache"));
    let started = start(&mut command);
    let first = children(started.child.id())[0];
    // The trainer and the orphan.
    assert_eq!(children(first).len(), 2);
    drop(std::fs::OpenOptions::new().write(true).open(&gate).unwrap());
    while children(first).len() > 1 {
        std::thread::yield_now();
    }
    kill_process(pid(first), Signal::TERM).unwrap();
    started.expect_saved(&bench.path("run"));
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    use std::os::unix::process::ExitStatusExt;

    let bench = Bench::bare();
    for standard_error in [false, true] {
        let mut command = bench.command(if standard_error { &["no-such-command"] } else { &["chips"] });
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let other = std::process::Stdio::piped;
        match standard_error {
            true => command.stderr(writer).stdout(other()),
            false => command.stdout(writer).stderr(other()),
        };
        let ended = command.output().unwrap();
        assert!(!String::from_utf8_lossy(&ended.stderr).contains("panicked"), "{ended:?}");
        if !standard_error {
            assert_eq!(ended.status.signal(), Some(13), "{ended:?}");
        }
    }
}
