//! `tpu train --restarts`: started again after crashes, not after what would fail again.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Bench, Ran, arg, ran};
use crate::preemption::ENDLESS;
use crate::signals::{children, newest, pid};

/// A supervisor whose training prints its steps.
struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    said: Vec<String>,
}

fn start(bench: &Bench, more: &[&str]) -> Started {
    let file = bench.path("endless.toml");
    let own = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--json"];
    let mut command = bench.command(&[&own[..], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    Started { child, lines, said: Vec::new() }
}

impl Started {
    /// Reads until a line has these words.
    fn until(&mut self, words: &str) {
        loop {
            let line = self.lines.next().unwrap_or_else(|| panic!("no `{words}` in {:?}", self.said)).unwrap();
            self.said.push(line.clone());
            if line.contains(words) {
                return;
            }
        }
    }

    /// Kills the training, not its supervisor.
    fn crash(&mut self) {
        let [training] = children(self.child.id())[..] else { panic!("{:?}", self.said) };
        kill_process(pid(training), Signal::KILL).unwrap();
    }

    fn end(mut self) -> (Ran, String) {
        let reader = std::thread::spawn(move || {
            self.said.extend(self.lines.map(Result::unwrap));
            self.said.join("\n")
        });
        let ran = ran(self.child.wait_with_output().unwrap());
        (ran, reader.join().unwrap())
    }
}

fn bench() -> Bench {
    let bench = Bench::bare();
    bench.write("endless.toml", ENDLESS);
    bench
}

#[test]
fn a_training_that_crashes_is_finished_by_restarts() {
    let bench = bench();
    let mut started =
        start(&bench, &["--restarts", "3", "--with", "train.steps=3000", "--with", "train.save_every=20"]);
    for _ in 0..2 {
        // Checkpoints of this run are complete.
        started.until("/3000");
        while !bench.path("run/checkpoints").exists() || newest_or_none(&bench) <= started.last_resumed() {
            started.until("/3000");
        }
        started.crash();
        started.until("was ended by signal 9; restart");
    }
    let (ran, said) = started.end();
    assert_eq!(ran.code, Some(0), "{said}");
    assert!(said.contains("restart 2 of 3 from step"), "{said}");
    assert_eq!(newest(&bench.path("run")), 3000);
    // A stream of records: each restart, then the run that finished.
    let records: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&ran.stdout).into_iter().map(Result::unwrap).collect();
    assert_eq!(records.len(), 3, "{}", ran.stdout);
    assert_eq!((&records[0]["event"], &records[1]["restart"]), (&"restart".into(), &2.into()));
    assert_eq!((&records[2]["ended"], &records[2]["first_step"]), (&"finished".into(), &records[1]["step"]));
}

fn newest_or_none(bench: &Bench) -> u64 {
    let manager = weights::CheckpointManager::open(arg(&bench.path("run/checkpoints"))).unwrap();
    manager.latest().unwrap().unwrap_or(0)
}

impl Started {
    /// The step that the last run began from.
    fn last_resumed(&self) -> u64 {
        let resumed = self.said.iter().rev().find_map(|line| line.strip_prefix("resuming from step "));
        resumed.map_or(0, |step| step.parse().unwrap())
    }
}

#[test]
fn without_progress_it_is_given_up() {
    let bench = bench();
    let mut started = start(&bench, &["--restarts", "9"]);
    started.until("/10000000");
    started.crash();
    started.until("restart 1 of 9 from the beginning");
    started.until("/10000000");
    started.crash();
    let (ran, said) = started.end();
    assert_eq!(ran.code, Some(2), "{said}");
    assert!(said.contains("2 runs in a row ended without a newer checkpoint") && said.contains("hint: "), "{said}");
}

#[test]
fn what_would_fail_again_is_not_started_again() {
    let bench = bench();
    let (ran, said) = start(&bench, &["--restarts", "9", "--with", "data.sequence_length=99"]).end();
    assert_eq!(ran.code, Some(2), "{said}");
    assert!(said.contains("16 positions") && said.contains("no progress") && !said.contains("restart 1"), "{said}");
    let file = bench.path("endless.toml");
    let none = bench.expect(2, &["train", arg(&file), "-d", "cpu", "--restarts", "2"]);
    assert!(none.stderr.contains("--restarts needs checkpoints") && none.stderr.contains("hint: "), "{}", none.stderr);
}

#[test]
fn a_supervisor_that_is_stopped_or_killed_takes_the_training_with_it() {
    let bench = bench();
    let mut started = start(&bench, &["--restarts", "9"]);
    started.until("/10000000");
    kill_process(Pid::from_child(&started.child), Signal::TERM).unwrap();
    let (ran, said) = started.end();
    assert_eq!(ran.code, Some(75), "{said}");
    assert!(!said.contains("restart 1"), "{said}");
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["step"].as_u64(), Some(newest(&bench.path("run"))));

    let mut started = start(&bench, &["--restarts", "9"]);
    started.until("/10000000");
    started.child.kill().unwrap();
    // The training has the pipe, which ends with it.
    let (_, said) = started.end();
    assert!(
        said.contains("stopped after step") && newest(&bench.path("run")) > record["step"].as_u64().unwrap(),
        "{said}"
    );
}
