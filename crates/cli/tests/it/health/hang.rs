//! The culprits that `tpu hang` names: a stopped process, one behind a dropped link, one with another program; and what a training
//! does by itself when it hangs.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::skip;

use super::bench;
use crate::harness::{Bench, ran};
use crate::metrics::{answering, wait_for};
use crate::networks::Networks;
use crate::processes::{PROCESSES, Running, here, llama, start_with};

/// The host outside of the training, from which it is asked.
const OUTSIDE: usize = PROCESSES;

/// Where each process of a training with these networks answers.
fn addresses(networks: Option<&Networks>) -> Vec<String> {
    let address = |n: usize| networks.map_or("127.0.0.1".to_string(), |networks| networks.address(n));
    (0..PROCESSES).map(|n| format!("{}:0", address(n))).collect()
}

/// Four processes that train together, each in its network where there are some, and answer.
fn four(bench: &Bench, networks: Option<&Networks>, with: &[&str]) -> Running {
    let coordinator = networks.map_or_else(here, |networks| format!("{}:4711", networks.address(0)));
    let addresses = addresses(networks);
    let more = |n: usize, command: &mut std::process::Command| {
        command.args(["--metrics", &addresses[n]]).env("TPUBRIDGE_HEARTBEAT_TIMEOUT_SECONDS", "120");
        if let Some(networks) = networks {
            command.args(["--runtime-metrics", &format!("{}:8431", networks.address(n))]);
        }
    };
    // Nobody reads what they print.
    let mut all = vec!["train.steps=1000000", "train.save_every=1000000", "train.log_every=1000000"];
    all.extend(with);
    start_with(bench, networks, &coordinator, "run", &all, &more)
}

/// What `tpu hang` says, asked from outside.
fn hang(bench: &Bench, networks: Option<&Networks>, args: &[&str]) -> (Option<i32>, Value) {
    let plain = bench.command(&[&["hang", "--json"][..], args].concat());
    let mut command = match networks {
        None => plain,
        Some(networks) => networks.inside(OUTSIDE, &plain),
    };
    let ran = ran(command.output().unwrap());
    let record = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran.code, record)
}

#[track_caller]
fn blames(bench: &Bench, networks: Option<&Networks>, of: &[&str], cause: &str, who: &str) -> Value {
    let (code, record) = hang(bench, networks, &[of, &["--apart", "1"]].concat());
    assert_eq!((code, record["hangs"].as_bool()), (Some(1), Some(true)), "{record:#}");
    let culprits = record["culprits"].as_array().unwrap();
    assert_eq!(culprits.len(), 1, "{record:#}");
    assert_eq!(culprits[0]["cause"], cause, "{record:#}");
    assert!(culprits[0]["processes"][0].as_str().unwrap().starts_with(who), "{record:#}");
    culprits[0].clone()
}

/// Waits until all processes train.
fn until_training(bench: &Bench, networks: Option<&Networks>, of: &[&str]) {
    wait_for("all processes training", || {
        let (_, record) = hang(bench, networks, &[of, &["--apart", "0"]].concat());
        let processes = record["processes"].as_array().unwrap();
        let trains = |process: &Value| process["last"]["step"].as_u64().is_some_and(|step| step > 2);
        (processes.len() == PROCESSES && processes.iter().all(trains)).then_some(())
    });
}

/// Networks for four processes and one who asks; without them, a note of what is not tested.
fn networks(test: &str) -> Option<Networks> {
    Networks::new(PROCESSES + 1).map_err(|why| skip(&format!("{test} (its networks)"), &why)).ok()
}

#[test]
fn a_stopped_process_and_a_dropped_link_are_named() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let networks = networks("a_stopped_process_and_a_dropped_link_are_named");
    let networks = networks.as_ref();
    let running = four(&bench, networks, &[]);
    wait_for("the processes", || bench.path("run/processes/3.json").exists().then_some(()));
    until_training(&bench, networks, &["run"]);
    // Processes are asked where they are, hosts what their cores do: nobody hangs.
    let hosts = networks.map(|networks| (0..PROCESSES).map(|n| networks.address(n)).collect::<Vec<_>>().join(","));
    let with_hosts = hosts.as_ref().map_or(vec!["run"], |hosts| vec!["run", "--hosts", hosts]);
    let (code, record) = hang(&bench, networks, &[&with_hosts[..], &["--apart", "2"]].concat());
    assert_eq!((code, record["culprits"].as_array().map(Vec::len)), (Some(0), Some(0)), "{record:#}");
    let told = record["hosts"].as_array().map_or(0, Vec::len);
    assert_eq!(told, if networks.is_some() { PROCESSES } else { 0 }, "{record:#}");

    let paused = Pid::from_child(&running.0[2]);
    kill_process(paused, Signal::STOP).unwrap();
    let culprit = blames(&bench, networks, &["run"], "stopped", "process 2");
    assert!(culprit["why"].as_str().unwrap().contains("stopped by a signal"), "{culprit:#}");
    if let Some(hosts) = &hosts {
        blames(&bench, networks, &["--hosts", hosts], "stopped", "10.77.0.3");
    }
    kill_process(paused, Signal::CONT).unwrap();

    if let (Some(networks), Some(hosts)) = (networks, &hosts) {
        networks.set_connected(1, false);
        blames(&bench, Some(networks), &["run"], "unreachable", "process 1");
        blames(&bench, Some(networks), &["--hosts", hosts], "unreachable", "10.77.0.2");
        networks.set_connected(1, true);
    }
}

#[test]
fn another_program_is_named() {
    let bench = bench();
    let networks = networks("another_program_is_named");
    let networks = networks.as_ref();
    let addresses = addresses(networks);
    // Four processes that should train the same: one was started with another model.
    let start = |n: usize| {
        let layers = if n == 2 { "model.n_layer=2" } else { "model.n_layer=1" };
        let with = ["--with", layers, "--with", "model.n_embd=16", "--metrics", &addresses[n]];
        let mut plain = bench.command(&[&["train", "healthy.toml", "-d", "cpu"][..], &with].concat());
        plain.env("TPUBRIDGE_CPU_THREADS", "1");
        let mut command = match networks {
            None => plain,
            Some(networks) => networks.inside(n, &plain),
        };
        answering(&mut command)
    };
    let trainings: Vec<_> = (0..PROCESSES).map(start).collect();
    let all: Vec<&str> = trainings.iter().map(|(_, address)| address.as_str()).collect();
    let all = all.join(",");
    until_training(&bench, networks, &["--metrics", &all]);
    // Each of them is process 0 of its own training.
    let named = blames(&bench, networks, &["--metrics", &all], "other_program", "process 0");
    let named = named["processes"][0].as_str().unwrap().to_string();
    assert!(named.contains(&format!("pid {}", trainings[2].0.0.id())), "{named}");
}

#[test]
fn a_training_that_hangs_reports_by_itself_and_ends_if_it_is_told_to() {
    let bench = Bench::bare();
    bench.write("llama.toml", llama());
    let with = ["alerts.hang.at_least=\"4s\"", "alerts.hang.steps=5", "alerts.hang.action=stop"];
    let mut running = four(&bench, None, &with);
    wait_for("the processes", || bench.path("run/processes/3.json").exists().then_some(()));
    until_training(&bench, None, &["run"]);
    kill_process(Pid::from_child(&running.0[2]), Signal::STOP).unwrap();
    for (n, child) in running.0.iter_mut().enumerate().filter(|(n, _)| *n != 2) {
        let status = wait_for("the end of the others", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(2), "process {n}");
    }
    let reports = std::fs::read_dir(bench.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let reports: Vec<_> = reports.filter(|path| path.to_string_lossy().contains("/hang-")).collect();
    assert!(!reports.is_empty());
    let report: Value = serde_json::from_slice(&std::fs::read(&reports[0]).unwrap()).unwrap();
    assert_eq!(report["culprits"][0]["cause"], "stopped", "{report:#}");
    assert!(report["culprits"][0]["processes"][0].as_str().unwrap().starts_with("process 2"), "{report:#}");
}
