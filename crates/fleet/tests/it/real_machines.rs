//! A job on machines with Debian's ssh server, supervised by processes that are killed: preempted, cut, and still the same numbers, nothing
//! left, and a bill to the second. The provider is a file that all processes share; its faults are the test's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fleet::job::JobFile;
use fleet::provider::{PaidTime, ProvidedSlice, Provider, ProviderError, SliceId, SliceRequest, SliceState, Worker};
use fleet::supervisor::{JobBill, JobOwner, Journal, Supervisor, SupervisorError};
use fleet::workers::{Ssh, SshWorkers};
use serde::{Deserialize, Serialize};
use tensor::Literal;
use testkit::SshMachines;
use weights::{CheckpointManager, Keep, Saver, Snapshot, SnapshotPiece, Store};

const STEPS: u64 = 60;
const WORKERS: usize = 4;
const FOLDER: &str = "TPUBRIDGE_TEST_FOLDER";
/// Time that the provider takes to make machines, and to delete them.
const MAKE_MS: u64 = 500;
const DELETE_MS: u64 = 300;

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// A slice of the provider in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slice {
    zone: String,
    name: String,
    labels: BTreeMap<String, String>,
    made_ms: u64,
    machines: Vec<usize>,
    is_lost: bool,
    deleting_ms: Option<u64>,
    gone_ms: Option<u64>,
}

/// Everything that the provider knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    slices: Vec<Slice>,
    addresses: Vec<String>,
    used: usize,
    /// Answers that get lost after the effect.
    lose: u32,
    without_stock: Vec<String>,
}

struct FileCloud(PathBuf);

impl FileCloud {
    /// Looks at and changes what is known, one process at a time. What is due happens first.
    fn with<T>(&self, run: impl FnOnce(&mut Known) -> T) -> T {
        let file = std::fs::File::create(self.0.with_extension("lock")).unwrap();
        file.lock().unwrap();
        let mut known: Known = serde_json::from_slice(&std::fs::read(&self.0).unwrap()).unwrap();
        for slice in &mut known.slices {
            if let Some(at) = slice.deleting_ms.filter(|at| slice.gone_ms.is_none() && now_ms() >= at + DELETE_MS) {
                slice.gone_ms = Some(at + DELETE_MS);
            }
        }
        let answer = run(&mut known);
        std::fs::write(&self.0, serde_json::to_vec(&known).unwrap()).unwrap();
        answer
    }

    fn shown(known: &Known, slice: &Slice) -> ProvidedSlice {
        let state = match (slice.deleting_ms, slice.is_lost) {
            (Some(_), _) => SliceState::Deleting,
            (None, true) => SliceState::Lost,
            (None, false) if now_ms() < slice.made_ms + MAKE_MS => SliceState::Creating,
            (None, false) => SliceState::Ready,
        };
        let worker = |(number, at): (usize, &usize)| Worker {
            slice: 0,
            number: number as u32,
            internal: known.addresses[*at].parse().unwrap(),
            external: None,
        };
        ProvidedSlice {
            id: SliceId { zone: slice.zone.clone(), name: slice.name.clone() },
            workers: slice.machines.iter().enumerate().map(worker).collect(),
            detail: format!("{state:?}"),
            state,
            labels: slice.labels.clone(),
            created: None,
        }
    }
}

impl Provider for FileCloud {
    fn create(&self, request: &SliceRequest) -> Result<(), ProviderError> {
        self.with(|known| {
            if known.without_stock.contains(&request.id.zone) {
                return Err(ProviderError::NoCapacity("none".into()));
            }
            if !known.slices.iter().any(|slice| slice.name == request.id.name && slice.gone_ms.is_none()) {
                // Machines are never used twice, so that nothing of one attempt can be on those of another.
                let machines: Vec<usize> = (known.used..known.used + WORKERS).collect();
                known.used += WORKERS;
                known.slices.push(Slice {
                    zone: request.id.zone.clone(),
                    name: request.id.name.clone(),
                    labels: request.labels.clone(),
                    made_ms: now_ms(),
                    machines,
                    is_lost: false,
                    deleting_ms: None,
                    gone_ms: None,
                });
            }
            if known.lose > 0 {
                known.lose -= 1;
                return Err(ProviderError::Unknown("lost".into()));
            }
            Ok(())
        })
    }

    fn list(&self, zone: &str, labels: &BTreeMap<String, String>) -> Result<Vec<ProvidedSlice>, ProviderError> {
        self.with(|known| {
            let has = |slice: &&Slice| labels.iter().all(|(key, value)| slice.labels.get(key) == Some(value));
            let there = known.slices.iter().filter(|slice| slice.zone == zone && slice.gone_ms.is_none()).filter(has);
            Ok(there.map(|slice| FileCloud::shown(known, slice)).collect())
        })
    }

    fn get(&self, id: &SliceId) -> Result<Option<ProvidedSlice>, ProviderError> {
        self.with(|known| {
            let slice = known.slices.iter().find(|slice| slice.name == id.name && slice.gone_ms.is_none());
            Ok(slice.map(|slice| FileCloud::shown(known, slice)))
        })
    }

    fn delete(&self, id: &SliceId) -> Result<(), ProviderError> {
        self.with(|known| {
            for slice in known.slices.iter_mut().filter(|slice| slice.name == id.name) {
                slice.deleting_ms.get_or_insert(now_ms());
            }
            Ok(())
        })
    }

    fn paid(&self, id: &SliceId) -> Result<Vec<PaidTime>, ProviderError> {
        let at = |ms: u64| UNIX_EPOCH + Duration::from_millis(ms);
        self.with(|known| {
            let slices = known.slices.iter().filter(|slice| slice.name == id.name);
            Ok(slices.map(|slice| PaidTime { from: Some(at(slice.made_ms)), until: slice.gone_ms.map(at) }).collect())
        })
    }
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// The supervisor, in a process of its own that the test kills.
#[test]
fn supervisor_process() {
    let Some(folder) = folder() else { return };
    let job = JobFile::read(&folder.join("job.toml")).unwrap();
    let provider = FileCloud(folder.join("cloud.json"));
    let connections = tempfile::tempdir_in("/tmp").unwrap();
    let ssh = Ssh {
        program: "/usr/bin/ssh".into(),
        user: job.cloud.ssh_user.clone(),
        key: job.cloud.ssh_key.clone(),
        folder: connections.path().to_path_buf(),
    };
    let on_line = Box::new(|process: usize, line: &str| println!("[{process}] {line}"));
    let workers = SshWorkers::new(&job, ssh, &std::env::current_exe().unwrap(), None, on_line).unwrap();
    let me = JobOwner::here(&now_ms().to_string());
    let records = Store::open(&job.folder).unwrap();
    let clock = now_ms;
    let mut supervisor = Supervisor::new(&job, &provider, &workers, records, &clock, me, "e2e");
    loop {
        match supervisor.tick() {
            Ok(tick) => {
                tick.says.iter().for_each(|line| println!("{} {line}", now_ms()));
                if tick.is_over {
                    return;
                }
                std::thread::sleep(Duration::from_millis(tick.wait_ms));
            }
            Err(SupervisorError::Journal(error)) => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a step makes of the value before it: different in every digit for a step too many or too few.
fn learn(value: f64, step: u64) -> f64 {
    (value * 1.37 + step as f64 * 0.11).sin()
}

/// The program of a worker. Process 0 saves; all of them go on only together, by files that all see.
#[test]
fn training_process() {
    let Some(folder) = std::env::var_os("TPUBRIDGE_JOB_FOLDER").map(PathBuf::from) else { return };
    let var = |name: &str| std::env::var(name).unwrap();
    let (process, count) = (var("TPUBRIDGE_PROCESS_ID"), var("TPUBRIDGE_PROCESSES").parse::<usize>().unwrap());
    let meeting = folder.join("meeting").join(var("TPUBRIDGE_RUN_ID"));
    std::fs::create_dir_all(&meeting).unwrap();
    assert!(std::fs::read_to_string("../secret").unwrap().trim().len() >= 32);
    train(&folder, process == "0", &|step| {
        std::fs::write(meeting.join(format!("{process}-{step}")), "").unwrap();
        let waited = Instant::now();
        while (0..count).any(|other| !meeting.join(format!("{other}-{step}")).exists()) {
            if waited.elapsed() > Duration::from_secs(8) {
                println!("a process is gone");
                std::process::exit(2);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(150));
    });
    std::process::exit(0);
}

fn train(folder: &Path, is_main: bool, meet: &dyn Fn(u64)) {
    let manager = CheckpointManager::open(folder.join("checkpoints").to_str().unwrap()).unwrap();
    let found = manager.latest().unwrap().map(|step| manager.load(step).unwrap());
    let (mut step, mut value) =
        found.map_or((0, 0.5), |saved| (saved.step(), saved.metadata()["value"].as_str().unwrap().parse().unwrap()));
    let mut saver = is_main.then(|| Saver::new(manager, Keep::newest(3)).unwrap());
    while step < STEPS {
        step += 1;
        value = learn(value, step);
        meet(step);
        println!("step {step} {value:?}");
        if let Some(saver) = &mut saver {
            let line = format!("{step} {value:?} {}\n", now_ms());
            let mut file =
                std::fs::OpenOptions::new().append(true).create(true).open(folder.join("losses.txt")).unwrap();
            std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
            let piece = SnapshotPiece::whole("value", Arc::new(Literal::from([value])));
            // As text: numbers of JSON may lose a digit.
            let metadata = serde_json::json!({"value": format!("{value:?}")});
            saver.save(Snapshot { step, metadata, pieces: vec![piece] }).unwrap();
        }
    }
}

/// Losses by step: a step that was repeated must have the same.
fn losses(folder: &Path) -> BTreeMap<u64, String> {
    let mut losses = BTreeMap::new();
    for line in std::fs::read_to_string(folder.join("losses.txt")).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let before = losses.insert(words[0].parse().unwrap(), words[1].to_string());
        assert!(before.is_none_or(|before| before == words[1]), "step {} was learned in two ways", words[0]);
    }
    losses
}

struct Stage {
    folder: PathBuf,
    machines: SshMachines,
    cloud: FileCloud,
    started: Instant,
    /// What was done to the job, and when.
    faults: Vec<(&'static str, u64)>,
}

impl Stage {
    fn supervisor(&self, log: &str) -> Child {
        let log = std::fs::File::create(self.folder.join(log)).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "real_machines::supervisor_process", "--nocapture"]);
        command.env(FOLDER, &self.folder).stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn().unwrap()
    }

    fn step(&self) -> u64 {
        let manager = CheckpointManager::open(self.folder.join("run/checkpoints").to_str().unwrap()).unwrap();
        manager.latest().unwrap().unwrap_or(0)
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Stage) -> bool) {
        while !is_so(self) {
            let logs = ["first.log", "second.log"]
                .map(|name| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default());
            assert!(
                self.started.elapsed() < Duration::from_secs(400),
                "{what} does not come:\n{}",
                logs.join("\n--\n")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn go_on(&mut self, steps: u64) {
        let to = self.step() + steps;
        self.until(&format!("step {to}"), |stage| stage.step() >= to);
    }

    fn live(&self) -> Slice {
        let is_used = |slice: &&Slice| slice.deleting_ms.is_none() && !slice.is_lost;
        self.cloud.with(|known| known.slices.iter().rfind(is_used).cloned()).expect("a slice runs")
    }

    /// The slice is taken; the provider says so, or only that it is ready.
    fn preempt(&mut self, is_told: bool) {
        self.faults.push((if is_told { "preempted" } else { "preempted without a word" }, now_ms()));
        let slice = self.live();
        self.cloud.with(|known| known.slices.iter_mut().find(|one| one.name == slice.name).unwrap().is_lost = is_told);
        slice.machines.iter().for_each(|at| self.machines.crash(*at));
    }
}

#[test]
fn a_job_on_real_machines_survives_everything_and_leaves_nothing() {
    let name = "a_job_on_real_machines_survives_everything_and_leaves_nothing";
    let folder = tempfile::tempdir().unwrap();
    let Some(machines) = SshMachines::start(name, &folder.path().join("machines"), 8 * WORKERS) else { return };
    let text = "name = 'survivor'\nfolder = 'run'\n[run]\ncommand = ['./bin/tpu', '--exact', 'real_machines::training_process', '--nocapture']\n\
                [slices]\ntype = 'v5litepod-16'\ncapacity = 'spot'\nzones = ['us-west4-a', 'us-west4-b']\n[limits]\ngrace = '5s'\n\
                [cloud]\nssh_user = 'root'\nssh_key = 'machines/key'\n";
    std::fs::write(folder.path().join("job.toml"), text).unwrap();
    let known = Known {
        addresses: (0..8 * WORKERS).map(|at| machines.address(at)).collect(),
        lose: 1,
        without_stock: vec!["us-west4-b".into()],
        ..Known::default()
    };
    let cloud = FileCloud(folder.path().join("cloud.json"));
    std::fs::write(&cloud.0, serde_json::to_vec(&known).unwrap()).unwrap();
    let mut stage =
        Stage { folder: folder.path().to_path_buf(), machines, cloud, started: Instant::now(), faults: Vec::new() };

    // One answer is lost and one zone has no stock from the beginning.
    let mut first = stage.supervisor("first.log");
    stage.go_on(5);
    stage.preempt(true);
    stage.go_on(5);
    // The supervisor dies, and the program goes on without it.
    first.kill().unwrap();
    first.wait().unwrap();
    stage.go_on(3);
    let mut second = stage.supervisor("second.log");
    stage.preempt(true);
    stage.go_on(5);
    // One worker is gone, and nobody says so.
    let dead = stage.live().machines[2];
    stage.faults.push(("worker dead", now_ms()));
    stage.machines.crash(dead);
    stage.go_on(5);
    stage.preempt(false);
    stage.until("the end", |_| second.try_wait().unwrap().is_some());
    let log = std::fs::read_to_string(folder.path().join("second.log")).unwrap();
    assert!(second.wait().unwrap().success(), "{log}");

    // The same numbers as without any of this.
    let alone = folder.path().join("alone");
    std::fs::create_dir_all(&alone).unwrap();
    train(&alone, true, &|_| {});
    assert_eq!(losses(&folder.path().join("run")), losses(&alone));

    // No slice is left, and each is in the bill with its seconds.
    let job = JobFile::read(&folder.path().join("job.toml")).unwrap();
    let store = Store::open(&job.folder).unwrap();
    let (journal, _) = Journal::read(&store).unwrap().unwrap();
    let bill = JobBill::of(&job, &journal.state, now_ms());
    let slices = stage.cloud.with(|known| known.slices.clone());
    assert!(slices.len() >= 5 && slices.iter().all(|slice| slice.gone_ms.is_some()), "{slices:?}");
    for slice in &slices {
        let paid = (slice.gone_ms.unwrap() - slice.made_ms + 500) / 1000;
        let billed = bill.slices.iter().find(|one| one.name == slice.name).map(|one| one.seconds);
        assert_eq!(billed, Some(paid), "{}: {bill:?}", slice.name);
    }
    assert_eq!(bill.slices.len(), slices.len());
    if let Some(path) = std::env::var_os("TPUBRIDGE_FLEET_JOURNAL") {
        let record = serde_json::json!({"journal": journal, "losses": std::fs::read_to_string(folder.path().join("run/losses.txt")).unwrap(), "slices": slices, "faults": stage.faults});
        std::fs::write(path, record.to_string()).unwrap();
    }
}
