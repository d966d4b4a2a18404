//! What is known of a run: its folder, what its processes say twice, its profile, what hosts tell, and what was predicted.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::{
    Goodput, GoodputHistory, MetricFamily, ProcessStatus, SampleValue, TRAINING_RECORD_VERSION, TrainPhase,
    TrainingRecord, from_text,
};

use crate::ask::{self, AskError};
use crate::monitor::{HostMonitor, HostRecord, HostState, MonitorTarget, hosts_of};
use crate::processes::{ProcessTarget, Round, ask_round, lateness, median};
use crate::profile::{self, ProfileReport};

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a live run is looked at.
const WINDOW: Duration = Duration::from_millis(3500);
/// The same where steps are long.
const LONG_WINDOW: Duration = Duration::from_millis(5500);
/// Steps that the processes of a run are compared by.
const STEPS: u64 = 6;
/// Rounds in that time in which all are asked where they are.
const ROUNDS: u32 = 24;
/// Bytes at the end of the metrics file that are read.
const TAIL_BYTES: u64 = 1 << 20;
/// Steps that the newest figures are of.
const RECORDS: usize = 50;
/// How long a host of TPUs may take to answer.
const HOST_PATIENCE: Duration = Duration::from_secs(2);
/// Largest profile that is read.
const MAX_PROFILE_BYTES: u64 = 128 << 20;
/// Largest record of a prediction that is read.
const MAX_PREDICTION_BYTES: u64 = 64 << 20;

/// Where a run is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiagnoseSource {
    /// The folder of a run.
    Folder(PathBuf),
    /// The address of its `--metrics`.
    Address(String),
}

impl DiagnoseSource {
    /// A folder if there is one of that name, else an address.
    pub fn new(text: &str) -> Result<DiagnoseSource, DiagnoseError> {
        let path = Path::new(text);
        let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let port = address.rsplit_once(':').map(|(_, port)| port);
        match (path.is_dir(), port.is_some_and(|port| port.parse::<u16>().is_ok())) {
            (true, _) => Ok(DiagnoseSource::Folder(path.to_path_buf())),
            (false, true) => Ok(DiagnoseSource::Address(address.to_string())),
            (false, false) => Err(DiagnoseError::NoRun(text.chars().take(200).collect())),
        }
    }
}

/// Why a run cannot be looked at.
#[derive(Debug)]
pub enum DiagnoseError {
    /// It is neither a folder nor an address.
    NoRun(String),
    /// The folder has nothing of a training.
    Empty(PathBuf),
    /// Nobody answers at the address.
    Silent(String, AskError),
}

impl fmt::Display for DiagnoseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiagnoseError::NoRun(text) => write!(f, "`{text}` is neither the folder of a run nor HOST:PORT"),
            DiagnoseError::Empty(folder) => {
                write!(f, "{} is no folder of a run: it has no metrics and no process", folder.display())
            }
            DiagnoseError::Silent(address, error) => write!(f, "{address}: {error}"),
        }
    }
}

impl std::error::Error for DiagnoseError {}

impl DiagnoseError {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            DiagnoseError::NoRun(_) => "give train.folder or --folder of the training, or the address of its --metrics",
            DiagnoseError::Empty(_) => "give train.folder or --folder of the training",
            DiagnoseError::Silent(..) => {
                "start the training with --metrics ADDRESS; the folder's processes/N.json names it"
            }
        }
    }
}

/// What a process said at a moment.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) families: Vec<MetricFamily>,
    pub(super) status: ProcessStatus,
}

impl Said {
    /// The value of a series; of several with the labels the first.
    pub(super) fn value(&self, name: &str, label: Option<(&str, &str)>) -> Option<f64> {
        let family = self.families.iter().find(|family| family.name == name)?;
        let has = |labels: &[(String, String)]| {
            label.is_none_or(|(name, value)| labels.iter().any(|(n, v)| n == name && v == value))
        };
        let sample = family.samples.iter().find(|sample| has(&sample.labels))?;
        match &sample.value {
            SampleValue::Number(value) => Some(*value),
            SampleValue::Buckets(_) => None,
        }
    }

    /// Seconds that went into a phase so far, the one under way included.
    pub(super) fn phase_seconds(&self, phase: TrainPhase) -> f64 {
        let name = "tpubridge_training_phase_seconds_total";
        let ended = self.value(name, Some(("phase", phase.name()))).unwrap_or(0.0);
        // What a phase took is counted when it ends, or at the next record.
        ended + if self.status.phase == phase { self.status.phase_seconds.max(0.0) } else { 0.0 }
    }
}

/// One process, asked at the beginning and at the end.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) target: ProcessTarget,
    pub(super) first: Option<Said>,
    pub(super) last: Option<Said>,
    pub(super) failure: Option<AskError>,
    /// Seconds by which it ends its steps after the first one.
    pub(super) late_seconds: Option<f64>,
}

/// What is known of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) run: String,
    pub(super) processes: Vec<Process>,
    pub(super) record: TrainingRecord,
    pub(super) goodput: Option<Goodput>,
    pub(super) step: Option<u64>,
    /// The median of the newest steps.
    pub(super) step_seconds: Option<f64>,
    pub(super) loss: Option<f64>,
    /// The record of `tpu fit --json`, if the folder has it.
    pub(super) prediction: Option<Value>,
    /// The newest profile in the folder.
    pub(super) profile: Option<ProfileReport>,
    /// What the hosts of its TPUs tell.
    pub(super) hosts: Vec<HostRecord>,
    /// What could not be looked at, and why.
    pub(super) notes: Vec<String>,
}

impl Evidence {
    pub(super) fn gather(source: &DiagnoseSource) -> Result<Evidence, DiagnoseError> {
        let mut evidence = Evidence::default();
        let targets = match source {
            DiagnoseSource::Address(address) => {
                evidence.run.clone_from(address);
                vec![ProcessTarget::at(address)]
            }
            DiagnoseSource::Folder(folder) => {
                evidence.run = folder.display().to_string();
                evidence.read_folder(folder);
                ProcessTarget::all(folder).unwrap_or_default()
            }
        };
        evidence.ask(&targets);
        match source {
            DiagnoseSource::Folder(_) => {
                let hosts = hosts_of(&evidence.record);
                evidence.ask_hosts(hosts.map_err(|error| error.to_string()));
            }
            // What is no training may be the metric service of a host.
            DiagnoseSource::Address(address) if matches!(evidence.processes[..], [Process { last: None, .. }]) => {
                let host = MonitorTarget::new(address).map(|host| vec![host]);
                evidence.ask_hosts(host.map_err(|error| error.to_string()));
                match evidence.hosts.iter().any(|host| host.state == HostState::Up) {
                    true => evidence.processes.clear(),
                    false => evidence.hosts.clear(),
                }
            }
            DiagnoseSource::Address(_) => {}
        }
        if let DiagnoseSource::Folder(folder) = source
            && targets.is_empty()
            && evidence.step.is_none()
            && evidence.goodput.is_none()
        {
            return Err(DiagnoseError::Empty(folder.clone()));
        }
        if let (DiagnoseSource::Address(address), [Process { last: None, failure: Some(error), .. }]) =
            (source, &evidence.processes[..])
        {
            return Err(DiagnoseError::Silent(address.clone(), error.clone()));
        }
        Ok(evidence)
    }

    /// Seconds of a step as predicted.
    pub(super) fn predicted_step_seconds(&self) -> Option<f64> {
        let of_fit = || self.prediction.as_ref()?.pointer("/estimate/step/seconds")?.as_f64();
        self.record.predicted_step_seconds.or_else(of_fit).filter(|seconds| *seconds > 0.0)
    }

    fn read_folder(&mut self, folder: &Path) {
        self.record = TrainingRecord::read(folder).unwrap_or_default();
        self.goodput = GoodputHistory::read(&folder.join("goodput").join("0.jsonl")).ok().and_then(|h| h.goodput());
        self.read_lines(&tail(&folder.join("metrics").join("metrics.jsonl")).unwrap_or_default());
        if folder.join("metrics").is_dir() {
            self.read_profile(&folder.join("metrics"));
        }
        let path = folder.join("fit.json");
        let is_small = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() < MAX_PREDICTION_BYTES);
        if is_small {
            self.prediction = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        }
    }

    /// The newest profile of the run, where it can be read in the time that there is.
    fn read_profile(&mut self, folder: &Path) {
        let read = || {
            let size = profile::size_bytes(folder)?;
            if size > MAX_PROFILE_BYTES {
                return Ok(Err(format!(
                    "its profile has {size} bytes, which takes long to read: see `tpu profile report`"
                )));
            }
            profile::read(folder, xplane::ReadLimits::default(), None).map(Ok)
        };
        match read() {
            Ok(Ok(report)) => self.profile = Some(report).filter(|report| !report.devices.is_empty()),
            Ok(Err(note)) => self.notes.push(note),
            Err(profile::Error::NoProfile { .. }) => {}
            Err(error) => {
                let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
                let causes: String = causes.map(|cause| format!(": {cause}")).collect();
                self.notes.push(format!("its profile is left out: {error}{causes}"));
            }
        }
    }

    /// Asks the hosts of its TPUs.
    fn ask_hosts(&mut self, targets: Result<Vec<MonitorTarget>, String>) {
        let asked = targets.and_then(|targets| match targets.is_empty() {
            true => Ok(Vec::new()),
            false => {
                let monitor = HostMonitor::new(targets, Vec::new(), HOST_PATIENCE);
                monitor.map(|mut monitor| monitor.look().hosts).map_err(|error| error.to_string())
            }
        });
        match asked {
            Ok(hosts) => self.hosts = hosts,
            Err(why) => self.notes.push(format!("the hosts of its TPUs are not asked: {why}")),
        }
    }

    /// The newest records of the metrics file; lines that are no records are passed over.
    fn read_lines(&mut self, text: &str) {
        let records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let number = |record: &Value, name: &str| match record.get(name)? {
            Value::String(text) => text.parse::<f64>().ok(),
            value => value.as_f64(),
        };
        let newest = |name: &str| records.iter().rev().find_map(|record| number(record, name));
        self.step = newest("step").map(|step| step as u64);
        self.loss = newest("loss");
        let times = records.iter().rev().filter_map(|record| number(record, "step_seconds")).take(RECORDS);
        self.step_seconds = median(times.collect());
    }

    /// Asks all processes at the beginning and at the end, and where they are many times between.
    fn ask(&mut self, targets: &[ProcessTarget]) {
        if targets.is_empty() {
            return;
        }
        let first = ask::all(targets, said);
        let deadline = Instant::now() + WINDOW;
        let mut rounds: Vec<Round> = Vec::new();
        // Steps of a second need no more questions than there are.
        let longest = Instant::now() + LONG_WINDOW;
        while targets.len() > 1
            && (Instant::now() < deadline || Instant::now() < longest && steps_seen(&rounds) < STEPS)
        {
            rounds.push(ask_round(targets, PATIENCE));
            std::thread::sleep(WINDOW / ROUNDS);
        }
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        let last = ask::all(targets, said);
        let mut late = lateness(&rounds).into_iter();
        for ((target, first), last) in targets.iter().zip(first).zip(last) {
            let failure = last.as_ref().err().cloned();
            let late_seconds = late.next().flatten();
            let mut target = target.clone();
            if let Ok(said) = &last {
                target.process.get_or_insert(said.status.process);
            }
            self.processes.push(Process { target, first: first.ok(), last: last.ok(), failure, late_seconds });
        }
        let said: Vec<&Said> = self.processes.iter().filter_map(|process| process.last.as_ref()).collect();
        self.step = said.iter().map(|said| said.status.step).max().or(self.step);
        if let Some(first) = said.first() {
            self.loss = first.value("tpubridge_training_loss", None).or(self.loss);
            let steps = first.families.iter().find(|family| family.name == "tpubridge_training_step_seconds");
            if let Some(SampleValue::Buckets(buckets)) = steps.and_then(|f| f.samples.first()).map(|s| &s.value)
                && self.step_seconds.is_none()
            {
                self.step_seconds = buckets.quantile(0.5);
            }
        }
        if self.record.version == 0
            && let Some(address) = targets.iter().find_map(|target| target.address.as_ref())
        {
            let record = ask::get(address, "/training", PATIENCE).ok();
            let record = record.and_then(|body| serde_json::from_str::<TrainingRecord>(&body).ok());
            self.record = record.filter(|record| record.version == TRAINING_RECORD_VERSION).unwrap_or_default();
        }
    }
}

/// Steps that ended while all were asked.
fn steps_seen(rounds: &[Round]) -> u64 {
    let newest = |round: Option<&Round>| round?.iter().flatten().map(|(_, status)| status.step).max();
    newest(rounds.last()).zip(newest(rounds.first())).map_or(0, |(last, first)| last.saturating_sub(first))
}

/// What a process says now.
fn said(target: &ProcessTarget) -> Result<Said, AskError> {
    let status = target.status(PATIENCE)?;
    let address = target.address.as_deref().unwrap_or_default();
    let families = from_text(&ask::get(address, "/metrics", PATIENCE)?);
    Ok(Said { families, status })
}

/// The end of a file, whole lines only.
fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    let whole = if start > 0 { whole.split_once('\n').map_or("", |(_, rest)| rest) } else { whole };
    Ok(whole.to_string())
}
