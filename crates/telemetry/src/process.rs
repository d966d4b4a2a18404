//! What a process of a training says of where it is, and where it can be asked: records that others read.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Longest record that is read from a file.
const MAX_FILE_BYTES: u64 = 1 << 16;

/// What a training does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainPhase {
    /// Devices and the first state.
    Initialize,
    /// A checkpoint is read.
    Restore,
    /// A program is compiled.
    Compile,
    /// The next batch is waited for.
    Data,
    /// Steps are dispatched and waited for.
    Step,
    /// A checkpoint is copied from the device, or an earlier one waited for.
    Save,
    /// Validation data.
    Evaluate,
    /// Anything else.
    #[serde(other)]
    Other,
}

impl TrainPhase {
    /// All of them, in the order they are numbered.
    pub const ALL: [TrainPhase; 8] = [
        TrainPhase::Initialize,
        TrainPhase::Restore,
        TrainPhase::Compile,
        TrainPhase::Data,
        TrainPhase::Step,
        TrainPhase::Save,
        TrainPhase::Evaluate,
        TrainPhase::Other,
    ];

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            TrainPhase::Initialize => "initialize",
            TrainPhase::Restore => "restore",
            TrainPhase::Compile => "compile",
            TrainPhase::Data => "data",
            TrainPhase::Step => "step",
            TrainPhase::Save => "save",
            TrainPhase::Evaluate => "evaluate",
            TrainPhase::Other => "other",
        }
    }
}

/// Version of [`ProcessStatus`].
pub const STATUS_VERSION: u32 = 1;

/// Where a process of a training is: what `/status` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Version of the record.
    pub version: u32,
    /// Its number.
    pub process: usize,
    /// Its machine.
    pub host: String,
    /// Its id there.
    pub pid: u32,
    /// What it does.
    pub phase: TrainPhase,
    /// For how long.
    pub phase_seconds: f64,
    /// Steps that were dispatched.
    pub dispatched: u64,
    /// Steps that have ended.
    pub step: u64,
    /// Since the last step ended; since the start before the first one.
    pub step_age_seconds: f64,
    /// What the step's program is known by; empty before it is compiled.
    pub program: String,
    /// Programs that were compiled again.
    #[serde(default)]
    pub recompilations: u64,
    /// Which, and what was different, the last one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recompiled: Vec<String>,
    /// Its threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadStatus>,
}

/// What a thread does, as the kernel says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStatus {
    /// Its name.
    pub name: String,
    /// `R` runs, `S` sleeps, `D` waits for a disk, `T` is stopped.
    pub state: String,
    /// The kernel's function it waits in, where that is told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_in: String,
}

/// Threads that are told at most.
const MAX_THREADS: usize = 64;

impl ThreadStatus {
    /// The threads of this process. Empty where the kernel does not tell.
    pub fn all() -> Vec<ThreadStatus> {
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let thread = |folder: PathBuf| {
            let waits_in = read(folder.join("wchan"));
            ThreadStatus {
                name: read(folder.join("comm")),
                state: state_of(&read(folder.join("stat"))).unwrap_or('?').to_string(),
                waits_in: if waits_in == "0" { String::new() } else { waits_in },
            }
        };
        tasks.filter_map(Result::ok).take(MAX_THREADS).map(|task| thread(task.path())).collect()
    }
}

/// The state of a process of this machine, as `ps` shows it: `T` is stopped. `None` if there is no such process.
pub fn process_state(pid: u32) -> Option<char> {
    state_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The state in a line of `/proc/N/stat`; the name before it may hold anything.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Version of [`TrainingRecord`].
pub const TRAINING_RECORD_VERSION: u32 = 1;

/// The file of a run's folder with its [`TrainingRecord`].
pub const TRAINING_RECORD_FILE: &str = "training.json";

/// What is trained, on what: what one must know to say whether it could be faster. `/training` answers it too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainingRecord {
    /// Version of the record.
    pub version: u32,
    /// Kind of the devices.
    pub device: String,
    /// `tpu`, `cuda`, `cpu`, …
    pub platform: String,
    /// Devices of all processes.
    pub devices: u64,
    /// Processes.
    pub processes: u64,
    /// The type that the model computes in.
    pub precision: String,
    /// Whether a device multiplies bf16 faster than f32, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_bf16_faster: Option<bool>,
    /// Peak operations per second of a device in bf16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_flops: Option<f64>,
    /// Bytes per second of a device's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_second: Option<f64>,
    /// Examples of a step.
    pub batch_size: u64,
    /// Tokens of a step, if a batch is counted in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_step: Option<u64>,
    /// Steps in all.
    pub steps: u64,
    /// Steps between two checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_every: Option<u64>,
    /// Threads that prepare batches.
    pub data_workers: u64,
    /// Seconds of a step as predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_step_seconds: Option<f64>,
}

impl TrainingRecord {
    /// Reads the record of a run's folder; `None` where there is none that this release knows.
    pub fn read(run: &Path) -> Option<TrainingRecord> {
        let record: TrainingRecord = serde_json::from_slice(&read_small(&run.join(TRAINING_RECORD_FILE))?).ok()?;
        (record.version == TRAINING_RECORD_VERSION).then_some(record)
    }

    /// Writes it into a run's folder.
    pub fn write(&self, run: &Path) -> io::Result<()> {
        write_whole(run, TRAINING_RECORD_FILE, &serde_json::to_value(self)?)
    }
}

/// Version of the files that say where processes answer.
const PRESENCE_VERSION: u32 = 1;

/// Where a process of a run answers: `processes/N.json` in the run's folder, as long as it trains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessPresence {
    version: u32,
    /// Its number.
    pub process: usize,
    /// Its machine.
    pub host: String,
    /// Its id there.
    pub pid: u32,
    /// Where it answers `/metrics` and `/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Where it answers requests for profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiler: Option<String>,
}

impl ProcessPresence {
    /// Of this process.
    pub fn new(process: usize) -> ProcessPresence {
        ProcessPresence {
            version: PRESENCE_VERSION,
            process,
            host: host_name(),
            pid: std::process::id(),
            metrics: None,
            profiler: None,
        }
    }

    fn write(&self, run: &Path) -> io::Result<()> {
        write_whole(&run.join("processes"), &format!("{}.json", self.process), &serde_json::to_value(self)?)
    }

    /// Writes the file, and one beside it that Prometheus reads to find its targets. Both go when the answer is dropped.
    pub fn announce(&self, run: &Path) -> io::Result<Announced> {
        let mut files = vec![(run.join("processes"), serde_json::to_value(self)?)];
        if let Some(address) = &self.metrics {
            let labels = serde_json::json!({ "process": self.process.to_string(), "host": self.host });
            files.push((run.join("targets"), serde_json::json!([{ "targets": [address], "labels": labels }])));
        }
        let mut announced = Announced { files: Vec::new() };
        for (folder, value) in files {
            let name = format!("{}.json", self.process);
            write_whole(&folder, &name, &value)?;
            announced.files.push(folder.join(name));
        }
        Ok(announced)
    }

    /// The processes of a run, by their numbers. What cannot be read is left out: it is being written, or another release's.
    pub fn all(run: &Path) -> io::Result<Vec<ProcessPresence>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(run.join("processes"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let read = read_small(&path).and_then(|bytes| serde_json::from_slice::<ProcessPresence>(&bytes).ok());
            all.extend(read.filter(|presence| presence.version == PRESENCE_VERSION));
        }
        all.sort_by_key(|presence| presence.process);
        Ok(all)
    }
}

/// What a process says of its profiler, beside what it says of itself; it goes when this is dropped.
#[derive(Debug)]
pub struct AnnouncedProfiler {
    run: PathBuf,
    process: usize,
    address: String,
    /// The file, where nobody else wrote it.
    _file: Option<Announced>,
}

impl AnnouncedProfiler {
    /// Says in a run's folder where this process answers requests for profiles.
    pub fn new(run: &Path, process: usize, address: &str) -> io::Result<AnnouncedProfiler> {
        let own = own_presence(run, process);
        let profiler = Some(address.to_string());
        let file = match own {
            Some(own) => ProcessPresence { profiler, ..own }.write(run).map(|()| None)?,
            None => Some(ProcessPresence { profiler, ..ProcessPresence::new(process) }.announce(run)?),
        };
        Ok(AnnouncedProfiler { run: run.to_path_buf(), process, address: address.to_string(), _file: file })
    }
}

impl Drop for AnnouncedProfiler {
    fn drop(&mut self) {
        // Another run may have the folder by now: what it says stays.
        let own = own_presence(&self.run, self.process);
        if let Some(own) = own.filter(|own| own.profiler.as_ref() == Some(&self.address)) {
            let _ = ProcessPresence { profiler: None, ..own }.write(&self.run);
        }
    }
}

/// What this process itself said.
fn own_presence(run: &Path, process: usize) -> Option<ProcessPresence> {
    let all = ProcessPresence::all(run).unwrap_or_default();
    all.into_iter().find(|found| (found.process, found.pid, &found.host) == (process, std::process::id(), &host_name()))
}

/// Files that say where a process answers; they go when this is dropped.
#[derive(Debug)]
pub struct Announced {
    files: Vec<PathBuf>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() < MAX_FILE_BYTES);
    if is_small { std::fs::read(path).ok() } else { None }
}

/// Writes a file whole or not at all, with the permissions of the umask.
fn write_whole(folder: &Path, name: &str, value: &serde_json::Value) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let unfinished = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = std::fs::File::create(&unfinished).and_then(|mut file| {
        file.write_all(format!("{value:#}\n").as_bytes())?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| std::fs::rename(&unfinished, folder.join(name)));
    renamed.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_as_long_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut presence = ProcessPresence::new(3);
        presence.metrics = Some("127.0.0.1:1".into());
        let announced = presence.announce(folder.path()).unwrap();
        std::fs::write(folder.path().join("processes/4.json"), "{\"version\":").unwrap();
        std::fs::write(folder.path().join("processes/5.json"), " ".repeat(1 << 17)).unwrap();
        assert_eq!(ProcessPresence::all(folder.path()).unwrap(), [presence]);
        assert!(folder.path().join("targets/3.json").exists());
        drop(announced);
        assert_eq!(ProcessPresence::all(folder.path()).unwrap(), []);
        assert!(!folder.path().join("targets/3.json").exists());
    }

    #[test]
    fn a_profiler_is_told_beside_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let told = || ProcessPresence::all(folder.path()).unwrap();
        let mut presence = ProcessPresence::new(0);
        presence.metrics = Some("127.0.0.1:1".into());
        let announced = presence.announce(folder.path()).unwrap();
        let profiler = AnnouncedProfiler::new(folder.path(), 0, "127.0.0.1:2").unwrap();
        let both = ProcessPresence { profiler: Some("127.0.0.1:2".into()), ..presence.clone() };
        assert_eq!(told(), [both]);
        drop(profiler);
        assert_eq!(told(), [presence]);
        drop(announced);
        // Alone, and when another process took the folder over.
        let profiler = AnnouncedProfiler::new(folder.path(), 1, "127.0.0.1:3").unwrap();
        assert_eq!(told()[0].profiler.as_deref(), Some("127.0.0.1:3"));
        drop(profiler);
        assert_eq!(told(), []);
    }

    #[test]
    fn records_of_other_releases() {
        let folder = tempfile::tempdir().unwrap();
        let record = TrainingRecord { version: TRAINING_RECORD_VERSION, batch_size: 8, ..TrainingRecord::default() };
        record.write(folder.path()).unwrap();
        assert_eq!(TrainingRecord::read(folder.path()), Some(record));
        std::fs::write(folder.path().join(TRAINING_RECORD_FILE), r#"{"version":9}"#).unwrap();
        assert_eq!(TrainingRecord::read(folder.path()), None);
        let phase: TrainPhase = serde_json::from_str("\"a_phase_to_come\"").unwrap();
        assert_eq!(phase, TrainPhase::Other);
    }

    #[test]
    fn threads_and_processes_have_states() {
        assert!(ThreadStatus::all().iter().any(|thread| thread.state == "R" || thread.state == "S"));
        assert!(process_state(std::process::id()).is_some());
        assert_eq!(process_state(u32::MAX), None);
        assert_eq!(state_of("1 (a) b) T 0"), Some('T'));
    }
}
