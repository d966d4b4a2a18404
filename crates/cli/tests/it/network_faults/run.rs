//! The runs of a campaign: starting and watching them, and the strangers beside them.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::OUTSIDE;
use super::cluster::Cluster;
use crate::harness::{Bench, arg};
use crate::networks::Networks;
use crate::processes::{MESH, PATIENCE, PROCESSES, manager};

/// Silence after which a process counts as gone.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(3);
/// After a fault that ends a run, every process has ended after this: what `docs/howto/processes.md` states.
const DEADLINE: Duration = Duration::from_secs(2 * HEARTBEAT.as_secs() + 10);
const PORT: u16 = 4711;
/// Every so many runs meet in etcd.
const ETCD_EVERY: usize = 4;
/// Tells a process of this file's where a coordinator is.
const TARGET: &str = "TPUBRIDGE_TEST_SLOW_LORIS";
const CLOCK: &str = "TPUBRIDGE_TEST_CLOCK";
/// Adds the seconds in a file to what a process is told of the time of day.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *shift;
__attribute__((constructor)) static void start(void) {
  int file = open(getenv("TPUBRIDGE_TEST_CLOCK"), O_RDONLY);
  if (file >= 0) shift = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME && shift && shift != MAP_FAILED) time->tv_sec += *shift;
  return result;
}
"#;

/// Where the processes of a run meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Own,
    Etcd,
}

/// A series of runs of one training.
pub(super) struct Campaign<'a> {
    bench: &'a Bench,
    pub(super) networks: &'a Networks,
    pub(super) cluster: Option<Cluster>,
    pub(super) runs: usize,
    shim: PathBuf,
    newest: u64,
}

/// Four processes that train together. Dropped, they are killed.
pub(super) struct Run {
    pub(super) store: Store,
    number: usize,
    children: Vec<Child>,
    logs: Vec<PathBuf>,
    clocks: Vec<PathBuf>,
    /// The step it must begin at, or a later one.
    from: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl<'a> Campaign<'a> {
    pub(super) fn new(bench: &'a Bench, networks: &'a Networks) -> Campaign<'a> {
        let (source, shim) = (bench.write("clock.c", SHIM), bench.path("clock.so"));
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o", arg(&shim), arg(&source)]).output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        bench.write("secret", "the secret of the campaign, long enough\n");
        bench.write("other-secret", "another secret, as long as the first\n");
        Campaign { bench, networks, cluster: None, runs: 0, shim, newest: 0 }
    }

    pub(super) fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("a campaign with etcd")
    }

    /// The newest complete checkpoint seen so far. None may be lost.
    pub(super) fn newest(&mut self) -> u64 {
        let found = manager(self.bench, "run").latest().unwrap().unwrap_or_default();
        assert!(found >= self.newest, "checkpoint {} is lost: there is {found}", self.newest);
        self.newest = found;
        found
    }

    /// The command of a process of a run, in its network.
    fn process(&self, folder: &str, steps: u64, id: usize, host: usize, store: Store) -> Command {
        let (id, with, count) = (id.to_string(), format!("train.steps={steps}"), PROCESSES.to_string());
        let coordinator = match (store, &self.cluster) {
            (Store::Etcd, Some(cluster)) => cluster.coordinator(),
            _ => format!("{}:{PORT}", self.networks.address(0)),
        };
        let mut args = vec!["train", "llama.toml", "--folder", folder, "-d", "cpu", "--with", &with];
        args.extend(MESH);
        args.extend(["--processes", &count, "--process-id", &id, "--coordinator", &coordinator]);
        let mut command = self.networks.inside(host, &self.bench.command(&args));
        command.env("TPUBRIDGE_CPU_THREADS", "1").env("TPUBRIDGE_SECRET_FILE", self.bench.path("secret"));
        command.env("TPUBRIDGE_HEARTBEAT_TIMEOUT_SECONDS", HEARTBEAT.as_secs().to_string());
        command.env("TPUBRIDGE_JOIN_TIMEOUT_SECONDS", "60");
        if let (Store::Etcd, Some(cluster)) = (store, &self.cluster) {
            command.envs(cluster.variables());
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts the next run of the training, from its newest checkpoint.
    pub(super) fn start(&mut self) -> Run {
        self.start_in("run", 1_000_000)
    }

    fn start_in(&mut self, folder: &str, steps: u64) -> Run {
        self.runs += 1;
        let number = self.runs;
        let store = match self.cluster.is_some() && number.is_multiple_of(ETCD_EVERY) {
            true => Store::Etcd,
            false => Store::Own,
        };
        let from = if folder == "run" { self.newest() } else { 0 };
        let mut run = Run { store, number, children: Vec::new(), logs: Vec::new(), clocks: Vec::new(), from };
        for n in 0..PROCESSES {
            let log = self.bench.path(&format!("log-{number}-{n}"));
            let clock = self.bench.write(&format!("clock-{number}-{n}"), 0i64.to_ne_bytes());
            let output = File::create(&log).unwrap();
            let mut command = self.process(folder, steps, n, n, store);
            command.env("TPUBRIDGE_RUN_ID", format!("run-{number}"));
            command.env(CLOCK, &clock).env("LD_PRELOAD", &self.shim);
            command.stdout(output.try_clone().unwrap()).stderr(output);
            run.children.push(command.spawn().unwrap());
            run.logs.push(log);
            run.clocks.push(clock);
        }
        run
    }

    /// Waits until a run has saved a checkpoint of its own; its step.
    pub(super) fn progress(&mut self, run: &Run) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        while self.newest() <= run.from {
            assert!(Instant::now() < deadline, "run {} saves nothing:\n{}", run.number, run.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        for n in 0..PROCESSES {
            let text = run.log(n);
            let is_resumed = run.from == 0 || text.contains(&format!("resuming from step {}", run.from));
            assert!(is_resumed, "process {n} did not resume from step {}:\n{text}", run.from);
        }
        self.newest
    }

    /// Whether a run saves a checkpoint after that of a step; not, where one of its processes ended.
    pub(super) fn goes_on(&mut self, run: &Run, before: u64) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.newest() <= before {
            if run.has_ended() {
                return false;
            }
            assert!(Instant::now() < deadline, "run {} hangs after step {before}:\n{}", run.number, run.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Trains to a step, undisturbed.
    pub(super) fn finish(&mut self, folder: &str, last: u64) {
        let mut run = self.start_in(folder, last);
        let deadline = Instant::now() + 4 * PATIENCE;
        for n in 0..PROCESSES {
            let status = loop {
                match run.children[n].try_wait().unwrap() {
                    Some(status) => break status,
                    None => assert!(Instant::now() < deadline, "{}", run.output()),
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            assert!(status.success(), "{}", run.output());
        }
    }

    /// A process from outside that says it is one of the run, and has another secret or another run. It is refused.
    pub(super) fn stranger(&self, run: &Run, has: &str, refusal: &str) {
        let mut command = self.process("stranger", 9, 2, OUTSIDE, Store::Own);
        match has {
            "another secret" => command.env("TPUBRIDGE_SECRET_FILE", self.bench.path("other-secret")),
            _ => command.env("TPUBRIDGE_RUN_ID", format!("run-{}", run.number - 1)),
        };
        let ran = crate::harness::ran(command.output().unwrap());
        assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(refusal), "{}", ran.stderr);
    }

    /// Connections from outside that begin well and do not go on.
    pub(super) fn slow_loris(&self) {
        let mut plain = Command::new(std::env::current_exe().unwrap());
        plain.args(["--exact", "network_faults::run::slow_loris", "--nocapture"]);
        plain.env(TARGET, format!("{}:{PORT}", self.networks.address(0)));
        let ran = self.networks.inside(OUTSIDE, &plain).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    }
}

/// Not a test: the process that opens the connections of [`Campaign::slow_loris`].
#[test]
fn slow_loris() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let mut connections: Vec<TcpStream> = (0..96).filter_map(|_| TcpStream::connect(&target).ok()).collect();
    assert!(!connections.is_empty());
    for byte in b"tpuchan1aaaa" {
        for connection in &mut connections {
            // Those that gave way are closed.
            let _ = connection.write_all(&[*byte]);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Run {
    fn log(&self, n: usize) -> String {
        std::fs::read_to_string(&self.logs[n]).unwrap_or_default()
    }

    /// What all processes said.
    pub(super) fn output(&self) -> String {
        (0..PROCESSES).map(|n| format!("process {n} of run {}:\n{}\n", self.number, self.log(n))).collect()
    }

    pub(super) fn kill(&mut self, n: usize) {
        self.children[n].kill().unwrap();
    }

    pub(super) fn signal(&self, n: usize, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.children[n].id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Changes what a process is told of the time of day.
    pub(super) fn shift_clock(&self, n: usize, seconds: i64) {
        let mut file = File::options().write(true).open(&self.clocks[n]).unwrap();
        file.write_all(&seconds.to_ne_bytes()).unwrap();
    }

    /// Whether one of its processes has ended.
    fn has_ended(&self) -> bool {
        // A child that ended and was not waited for has no command line any more.
        self.children
            .iter()
            .any(|child| std::fs::read(format!("/proc/{}/cmdline", child.id())).map_or(true, |line| line.is_empty()))
    }

    /// All must end by themselves before the deadline; how long they took.
    pub(super) fn must_end(&mut self) -> Duration {
        self.must_end_but(None)
    }

    /// As [`must_end`](Self::must_end), but for one.
    pub(super) fn must_end_but(&mut self, except: Option<usize>) -> Duration {
        let started = Instant::now();
        for n in (0..PROCESSES).filter(|n| Some(*n) != except) {
            while self.children[n].try_wait().unwrap().is_none() {
                assert!(started.elapsed() < DEADLINE, "process {n} outlives the deadline:\n{}", self.output());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        started.elapsed()
    }
}
