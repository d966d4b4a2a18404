//! Faults of a training in one process and in four, on a disk, on an S3 server and on a Google storage server: what was saved is
//! restored, and the losses are those of a training that nothing happened to.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{StoreKind, StoreServer, skip};
use weights::{Access, CheckpointManager, Error, IntegrityCheck};

use crate::harness::{Bench, Ran, arg, ran};
use crate::preemption::{answer, server};
use crate::processes::{MESH, PATIENCE, PROCESSES, Running, here, llama, start_with};

/// Where checkpoints go.
struct Place {
    bench: Bench,
    folder: String,
    environment: Vec<(&'static str, String)>,
}

impl Place {
    fn new(folder: &str, environment: Vec<(&'static str, String)>) -> Place {
        let bench = Bench::bare();
        bench.write("llama.toml", llama());
        Place { bench, folder: folder.to_string(), environment }
    }

    /// Starts a training in four processes, or in one that has all of the devices.
    fn start(&self, processes: usize, with: &[&str]) -> Running {
        self.start_with(processes, with, &|_, _| {})
    }

    /// The same, with more in the environment of each process.
    fn start_with(&self, processes: usize, with: &[&str], more: &dyn Fn(usize, &mut Command)) -> Running {
        let environ = |n: usize, command: &mut Command| {
            command.envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())));
            more(n, command);
        };
        if processes > 1 {
            return start_with(&self.bench, None, &here(), &self.folder, with, &environ);
        }
        let mut args = vec!["train", "llama.toml", "--folder", &self.folder, "-d", "cpu", "--json"];
        args.extend(with.iter().flat_map(|change| ["--with", change]));
        args.extend(MESH);
        let mut command = self.bench.command(&args);
        environ(0, command.env("TPUBRIDGE_CPU_THREADS", "1"));
        Running(vec![command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()])
    }

    fn manager(&self) -> CheckpointManager {
        let environment = self.environment.iter();
        let access = environment.fold(Access::default(), |access, (name, value)| access.with(name, value));
        let location = match self.folder.contains("://") {
            true => format!("{}/checkpoints", self.folder),
            false => self.bench.path(&format!("{}/checkpoints", self.folder)).display().to_string(),
        };
        CheckpointManager::open_with(&location, &access).unwrap()
    }

    /// The newest good checkpoint, every byte of which was read; 0 for none.
    #[track_caller]
    fn newest(&self) -> u64 {
        match self.manager().latest_good(IntegrityCheck::Contents) {
            Ok(found) => {
                assert!(found.damaged.is_empty(), "{:?}", found.damaged);
                found.saved.step()
            }
            Err(Error::NoCheckpoint { .. }) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until a checkpoint after this step is there.
    fn until_after(&self, running: &mut Running, step: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.manager().latest().unwrap().unwrap_or(0) <= step {
            assert!(Instant::now() < deadline, "no checkpoint after step {step} appears");
            if running.0.iter_mut().any(|child| child.try_wait().unwrap().is_some()) {
                panic!("a process ended: {:?}", running.wait(&[]));
            }
            // A look at a bucket is several requests.
            std::thread::sleep(Duration::from_millis(if self.environment.is_empty() { 20 } else { 200 }));
        }
    }
}

const ENDLESS: [&str; 2] = ["train.steps=1000000", "train.save_every=10"];

#[track_caller]
fn record(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
}

/// What makes a training stop and save.
#[derive(Clone, Copy, Debug)]
enum Request {
    Signal,
    /// Google's, from the metadata server.
    Notice,
}

/// Asks one process of a training to stop: all save the same step, and say so.
fn stops(place: &Place, processes: usize, request: Request) {
    let which = processes - 1;
    let before = place.newest();
    let metadata = server(false);
    let mut running = place.start_with(processes, &ENDLESS, &|n, command| {
        if n == which && matches!(request, Request::Notice) {
            command.env("GCE_METADATA_HOST", &metadata.address);
        }
    });
    place.until_after(&mut running, before);
    match request {
        Request::Signal => kill_process(Pid::from_child(&running.0[which]), Signal::TERM).unwrap(),
        Request::Notice => answer(&mut metadata.waiting.recv().unwrap(), "p2", "TRUE"),
    }
    for (n, ran) in running.wait(&[]) {
        assert_eq!(ran.code, Some(75), "{request:?}, process {n} of {processes}: {}", ran.stderr);
        let ended = if n == which && matches!(request, Request::Notice) { "preempted" } else { "stopped" };
        assert_eq!(
            (record(&ran)["ended"].as_str(), record(&ran)["step"].as_u64()),
            (Some(ended), Some(place.newest())),
            "{request:?}, process {n} of {processes}"
        );
    }
}

/// Stops and kills trainings in one process and in four, each of which goes on from what the one before left.
fn survives(place: &Place) {
    for processes in [1, PROCESSES] {
        for request in [Request::Signal, Request::Notice] {
            stops(place, processes, request);
        }
        let (which, stopped) = (processes - 1, place.newest());
        let mut running = place.start(processes, &ENDLESS);
        place.until_after(&mut running, stopped);
        running.0[which].kill().unwrap();
        for (n, ran) in running.wait(&[which]) {
            assert_eq!(ran.code, Some(2), "process {n} of {processes}: {}", ran.stderr);
            assert!(ran.stderr.contains(&format!("process {which} is gone")), "{}", ran.stderr);
        }
        drop(running);
        assert!(place.newest() > stopped);
    }
    let steps = format!("train.steps={}", place.newest() + 2);
    let ended = place.start(PROCESSES, &[&steps]).wait(&[]);
    let alone = Place::new("alone", Vec::new());
    let (_, expected) = alone.start(1, &[&steps]).wait(&[]).remove(0);
    for (n, ran) in &ended {
        assert_eq!(ran.code, Some(0), "process {n}: {}", ran.stderr);
        assert_eq!(record(ran)["loss"], record(&expected)["loss"], "process {n}");
    }
}

#[test]
fn stops_notices_and_kills_on_a_disk() {
    survives(&Place::new("run", Vec::new()));
}

#[test]
fn stops_notices_and_kills_with_an_s3_server() {
    let Some(server) = StoreServer::start("stops_notices_and_kills_with_an_s3_server", StoreKind::S3) else { return };
    survives(&Place::new(&server.location("run"), server.environment()));
}

#[test]
fn stops_notices_and_kills_with_a_google_server() {
    let Some(server) = StoreServer::start("stops_notices_and_kills_with_a_google_server", StoreKind::Google) else {
        return;
    };
    survives(&Place::new(&server.location("run"), server.environment()));
}

/// The run that starts last has the bucket; the other one is told so and ends.
#[test]
fn a_second_run_in_one_bucket_replaces_the_first() {
    let Some(server) = StoreServer::start("a_second_run_in_one_bucket", StoreKind::S3) else { return };
    let place = Place::new(&server.location("run"), server.environment());
    let mut first = place.start(1, &ENDLESS);
    place.until_after(&mut first, 0);
    let mut second = place.start(1, &ENDLESS);
    let (_, ran) = first.wait(&[]).remove(0);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let pid = second.0[0].id();
    assert!(
        ran.stderr.contains("taken over by run") && ran.stderr.contains(&format!("process {pid} on")),
        "{}",
        ran.stderr
    );
    let newest = place.newest();
    place.until_after(&mut second, newest);
    kill_process(Pid::from_child(&second.0[0]), Signal::TERM).unwrap();
    let (_, ran) = second.wait(&[]).remove(0);
    assert_eq!(ran.code, Some(75), "{}", ran.stderr);
    assert!(ran.stderr.contains("took the checkpoints over from run"), "{}", ran.stderr);
}

/// A disk that has room for one checkpoint and not for two, in a mount namespace of the test's own.
#[test]
fn a_full_disk_leaves_the_checkpoint_before() {
    const TEST: &str = "a_full_disk_leaves_the_checkpoint_before";
    let sized = Place::new("sized", Vec::new());
    let (_, ran_once) = sized.start(1, &["train.steps=1"]).wait(&[]).remove(0);
    assert_eq!(ran_once.code, Some(0), "{}", ran_once.stderr);
    let files = std::fs::read_dir(sized.bench.path("sized/checkpoints/step-00000001")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    for processes in [1, PROCESSES] {
        let place = Place::new("small/run", Vec::new());
        std::fs::create_dir(place.bench.path("small")).unwrap();
        std::fs::create_dir(place.bench.path("kept")).unwrap();
        let mut args = vec!["train", "llama.toml", "--folder", "small/run", "-d", "cpu"];
        args.extend(["--with", "train.steps=5", "--with", "train.save_every=2"]);
        args.extend(MESH);
        let (count, at) = (processes.to_string(), here());
        let own = place.bench.command(&args);
        let each = match processes {
            1 => r#""$@"; echo "code $?""#.to_string(),
            _ => format!(
                r#"for n in 0 1 2 3; do ("$@" --processes {count} --process-id $n --coordinator {at}; echo "code $?") & done; wait"#
            ),
        };
        let room = bytes * 3 / 2;
        let script = format!("mount -t tmpfs -o size={room} tmpfs small || exit 9; {each}; cp -r small/run kept");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
        command.arg(own.get_program()).args(own.get_args()).current_dir(own.get_current_dir().unwrap());
        command.env("TPUBRIDGE_CPU_THREADS", "1").env("TPUBRIDGE_CACHE", place.bench.path("cache"));
        let Ok(output) = command.output() else { return skip(TEST, "unshare is not installed") };
        let ran = ran(output);
        if ran.stderr.contains("unshare failed") || ran.code == Some(9) {
            return skip(TEST, "mounts in a namespace are not allowed here");
        }
        // The first save fits, the second and the last do not.
        assert_eq!(ran.stdout.matches("code 2").count(), processes, "{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stderr.contains("No space left") && ran.stderr.contains("saving a checkpoint failed"),
            "{}",
            ran.stderr
        );
        let kept = CheckpointManager::open(arg(&place.bench.path("kept/run/checkpoints"))).unwrap();
        let found = kept.latest_good(IntegrityCheck::Contents).unwrap();
        assert_eq!((found.saved.step(), found.damaged.len()), (2, 0), "{}", ran.stderr);
    }
}
