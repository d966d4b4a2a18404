//! `tpu train --processes`: four processes, each in a network of its own, learn what one learns; one that is killed is named by
//! the others, and all go on from the checkpoint.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::skip;

use crate::harness::{Bench, Ran};
use crate::mesh_training::{self, assert_alike, losses};

const PROCESSES: usize = 4;

/// The small Llama of the tests of meshes, saved every few steps.
fn llama() -> String {
    format!("{}save_every = 3\n", mesh_training::llama())
}

/// What hangs longer is a failure; what works is much quicker.
const PATIENCE: Duration = Duration::from_secs(300);
const MESH: [&str; 4] = ["--mesh", "fsdp=2,model=2", "--strategy", "hybrid"];

/// Four networks that a bridge connects. Nothing of it is in the network of the machine.
struct Networks {
    ip: PathBuf,
    prefix: String,
}

impl Networks {
    fn new() -> Result<Networks, String> {
        let ip = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"].iter().map(PathBuf::from).find(|p| p.exists());
        let ip = ip.ok_or("there is no `ip` command (Debian package iproute2)")?;
        let networks = Networks { ip, prefix: format!("tpub{}", std::process::id()) };
        let bridge = networks.name("b");
        networks.run(&["netns", "add", &bridge])?;
        networks.run(&["-n", &bridge, "link", "add", "br0", "type", "bridge"])?;
        networks.run(&["-n", &bridge, "link", "set", "br0", "up"])?;
        for n in 0..PROCESSES {
            let (name, port) = (networks.name(&n.to_string()), format!("port{n}"));
            networks.run(&["netns", "add", &name])?;
            let link = ["link", "add", "eth0", "netns", &name, "type", "veth", "peer", "name", &port, "netns", &bridge];
            networks.run(&link)?;
            networks.run(&["-n", &bridge, "link", "set", &port, "master", "br0"])?;
            networks.run(&["-n", &bridge, "link", "set", &port, "up"])?;
            let address = format!("{}/24", networks.address(n));
            networks.run(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            networks.run(&["-n", &name, "link", "set", "eth0", "up"])?;
            networks.run(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(networks)
    }

    fn name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    fn address(&self, n: usize) -> String {
        format!("10.77.0.{}", n + 1)
    }

    fn run(&self, args: &[&str]) -> Result<(), String> {
        let output = Command::new(&self.ip).args(args).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for what in ["b", "0", "1", "2", "3"] {
            let _ = self.run(&["netns", "del", &self.name(what)]);
        }
    }
}

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
            Some(networks) => {
                let mut command = Command::new(&networks.ip);
                command.args(["netns", "exec", &networks.name(&id)]).arg(plain.get_program()).args(plain.get_args());
                command.env_clear().current_dir(plain.get_current_dir().unwrap());
                command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
                command
            }
        };
        command.env("TPUBRIDGE_CPU_THREADS", "1").env("TPUBRIDGE_HEARTBEAT_TIMEOUT_SECONDS", "30");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    Running((0..PROCESSES).map(start_one).collect())
}

fn saved_steps(bench: &Bench, folder: &str) -> BTreeSet<u64> {
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
    let networks = match Networks::new() {
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
