//! Keeps what is known of all runs fresh: one thread reads files as they grow, another asks processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use telemetry::{Goodput, GoodputHistory, TrainingRecord};

use super::alert_log::{AlertLog, ToldAlert};
use super::lines::{Found, GrowingFile, Progress};
use super::processes;
use super::reports::{self, ReportFiles};
use super::run::{MetricsLine, RunState};
use super::sources::{FoundRuns, RunSources};
use crate::alerts::ALERTS_FILE;
use crate::processes::ProcessTarget;

/// Between two readings of files that were read to their end.
const READ_EVERY: Duration = Duration::from_millis(250);
/// Between two looks for runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two questions to processes.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Between two looks for reports.
const REPORTS_EVERY: Duration = Duration::from_secs(5);
/// Bytes of a file that are read in turn.
const TURN_BYTES: usize = 1 << 20;
/// Processes of a run whose goodput is shown.
const MAX_GOODPUTS: usize = 64;
/// Largest goodput file that is read.
const MAX_GOODPUT_BYTES: u64 = 64 << 20;
/// Folders that are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// All runs, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) runs: BTreeMap<u64, RunState>,
    /// What is looked for and not there, and whether there is more than is shown.
    pub(super) waiting: Vec<String>,
    pub(super) has_more: bool,
    /// Changes with anything.
    pub(super) version: u64,
    pub(super) is_closed: bool,
    /// The numbers of folders, also of those that are gone: one that comes back keeps its colour.
    numbers: BTreeMap<PathBuf, u64>,
    next_number: u64,
}

impl Runs {
    fn set_folders(&mut self, found: &FoundRuns) {
        let before = self.runs.len();
        self.runs.retain(|_, run| found.folders.contains(&run.folder));
        let mut is_changed = self.runs.len() != before;
        for folder in &found.folders {
            if self.numbers.len() >= MAX_REMEMBERED {
                self.numbers.retain(|folder, _| found.folders.contains(folder));
            }
            let number = *self.numbers.entry(folder.clone()).or_insert(self.next_number);
            self.next_number = self.next_number.max(number + 1);
            self.runs.entry(number).or_insert_with(|| {
                is_changed = true;
                RunState::new(folder)
            });
        }
        if self.waiting != found.waiting || self.has_more != found.has_more {
            self.waiting.clone_from(&found.waiting);
            self.has_more = found.has_more;
            is_changed = true;
        }
        self.version += u64::from(is_changed);
    }

    fn folders(&self) -> Vec<(u64, PathBuf)> {
        self.runs.iter().map(|(id, run)| (*id, run.folder.clone())).collect()
    }

    /// Changes a run that is still there.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut RunState)) {
        if let Some(run) = self.runs.get_mut(&id) {
            change(run);
            run.version += 1;
            self.version += 1;
        }
    }
}

/// What threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    runs: Mutex<Runs>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Runs)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for a change after a version, or for a time.
    pub(super) fn wait_for_change(&self, version: u64, patience: Duration) -> MutexGuard<'_, Runs> {
        let is_same = |runs: &mut Runs| runs.version == version && !runs.is_closed;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, is_same);
        waited.map_or_else(|error| error.into_inner().0, |(runs, _)| runs)
    }

    /// Waits for a time, or until all ends; whether it did.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |runs| !runs.is_closed);
        waited.map_or_else(|error| error.into_inner().0.is_closed, |(runs, _)| runs.is_closed)
    }

    pub(super) fn close(&self) {
        self.change(|runs| runs.is_closed = true);
    }
}

/// Starts both threads; they end when the shared state is closed.
pub(super) fn start(sources: RunSources, shared: &Arc<Shared>) -> std::io::Result<()> {
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let reads = shared.clone();
    thread("dashboard files").spawn(move || read_files(&sources, &reads))?;
    let asks = shared.clone();
    thread("dashboard processes").spawn(move || ask_processes(&asks))?;
    Ok(())
}

/// What was found in a metrics file.
enum Change {
    Anew,
    Line(MetricsLine),
    Unreadable,
}

/// The files of a run that grow.
struct Tail {
    folder: PathBuf,
    metrics: GrowingFile,
    alerts: GrowingFile,
}

impl Tail {
    fn new(folder: &Path) -> Tail {
        Tail {
            folder: folder.to_path_buf(),
            metrics: GrowingFile::new(folder.join("metrics").join("metrics.jsonl")),
            alerts: GrowingFile::new(folder.join(ALERTS_FILE)),
        }
    }

    /// Reads a part of what is new; whether there is more. Files are read while nobody is kept from the shared state.
    fn read(&mut self, id: u64, shared: &Shared) -> bool {
        let mut changes = Vec::new();
        let metrics = self.metrics.read(TURN_BYTES, |found| {
            changes.push(match found {
                Found::Anew => Change::Anew,
                Found::Line(line) => MetricsLine::read(line).map_or(Change::Unreadable, Change::Line),
                Found::TooLong => Change::Unreadable,
            });
        });
        let mut alerts: Vec<Option<ToldAlert>> = Vec::new();
        let told = self.alerts.read(TURN_BYTES, |found| match found {
            Found::Anew => alerts.push(None),
            Found::Line(line) => alerts.extend(ToldAlert::read(line).map(Some)),
            Found::TooLong => {}
        });
        let problem = |error: &std::io::Error, file: &str| format!("{file} cannot be read: {error}");
        let problem = (metrics.as_ref().err().map(|error| problem(error, "metrics.jsonl")))
            .or_else(|| told.as_ref().err().map(|error| problem(error, ALERTS_FILE)));
        let is_known = |runs: &Runs| runs.runs.get(&id).is_some_and(|run| run.problem == problem);
        if !(changes.is_empty() && alerts.is_empty() && is_known(&shared.lock())) {
            let read_bytes = self.metrics.read_bytes();
            shared.change(|runs| {
                runs.change(id, |run| {
                    for change in changes {
                        match change {
                            Change::Anew => run.begin_anew(),
                            Change::Line(line) => run.add(line),
                            Change::Unreadable => run.add_unreadable(),
                        }
                    }
                    for told in alerts {
                        match told {
                            Some(told) => run.alerts.push(told),
                            None => run.alerts = AlertLog::default(),
                        }
                    }
                    run.read_bytes = read_bytes;
                    run.problem = problem;
                });
            });
        }
        [metrics, told].iter().any(|progress| matches!(progress, Ok(Progress::More)))
    }
}

fn read_files(sources: &RunSources, shared: &Shared) {
    let mut tails: BTreeMap<u64, Tail> = BTreeMap::new();
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            let found = sources.find();
            shared.change(|runs| runs.set_folders(&found));
            let folders = shared.lock().folders();
            tails.retain(|id, tail| folders.iter().any(|(known, folder)| known == id && *folder == tail.folder));
            for (id, folder) in folders {
                tails.entry(id).or_insert_with(|| Tail::new(&folder));
            }
            looked = Some(Instant::now());
        }
        let mut has_more = false;
        for (id, tail) in &mut tails {
            has_more |= tail.read(*id, shared);
        }
        // Between two parts of a long file others get their turn.
        if shared.pause(if has_more { Duration::from_millis(1) } else { READ_EVERY }) {
            return;
        }
    }
}

/// What the thread that asks remembers of a run.
#[derive(Default)]
struct Remembered {
    /// The reports, and when they were looked for.
    reports: Option<(Instant, ReportFiles)>,
    /// The goodput of processes, and what their files were like when it was read.
    goodput: BTreeMap<usize, (u64, Option<SystemTime>, Option<Goodput>)>,
}

fn ask_processes(shared: &Shared) {
    let mut remembered: BTreeMap<u64, Remembered> = BTreeMap::new();
    loop {
        let folders = shared.lock().folders();
        remembered.retain(|id, _| folders.iter().any(|(known, _)| known == id));
        let targets: Vec<(u64, Vec<ProcessTarget>)> =
            folders.iter().map(|(id, folder)| (*id, processes::targets(folder))).collect();
        // All at once: a run whose machines are gone keeps no other waiting.
        let all: Vec<ProcessTarget> = targets.iter().flat_map(|(_, some)| some).cloned().collect();
        let mut seen = processes::look(&all).into_iter();
        for ((id, targets), (_, folder)) in targets.iter().zip(&folders) {
            let memory = remembered.entry(*id).or_default();
            let seen: Vec<_> = seen.by_ref().take(targets.len()).collect();
            let goodput = memory.goodput(folder);
            let record = TrainingRecord::read(folder);
            let reports = memory.new_reports(folder);
            let is_same = |run: &RunState| {
                run.processes == seen && run.goodput == goodput && run.record == record && reports.is_none()
            };
            if shared.lock().runs.get(id).is_some_and(is_same) {
                continue;
            }
            shared.change(|runs| {
                runs.change(*id, |run| {
                    run.processes = seen;
                    run.goodput = goodput;
                    run.record = record;
                    if let Some(reports) = reports {
                        run.set_reports(reports);
                    }
                });
            });
        }
        let has_new = |runs: &Runs| runs.folders() != folders;
        let asked = Instant::now();
        // A run that appears is asked at once.
        while asked.elapsed() < ASK_EVERY && !has_new(&shared.lock()) {
            if shared.pause(Duration::from_millis(100)) {
                return;
            }
        }
        if shared.lock().is_closed {
            return;
        }
    }
}

impl Remembered {
    /// The reports, if they are due to be looked for and are others than before.
    fn new_reports(&mut self, run: &Path) -> Option<ReportFiles> {
        if self.reports.as_ref().is_some_and(|(at, _)| at.elapsed() < REPORTS_EVERY) {
            return None;
        }
        let found = reports::find(run);
        let before = self.reports.replace((Instant::now(), found.clone()));
        before.is_none_or(|(_, known)| known != found).then_some(found)
    }

    /// The goodput of each process; files that did not change are not read again.
    fn goodput(&mut self, run: &Path) -> Vec<(usize, Goodput)> {
        let mut now = BTreeMap::new();
        for process in 0..MAX_GOODPUTS {
            let path = run.join("goodput").join(format!("{process}.jsonl"));
            let metadata = std::fs::metadata(&path).ok().filter(|metadata| metadata.is_file());
            let Some(metadata) = metadata.filter(|metadata| metadata.len() <= MAX_GOODPUT_BYTES) else { break };
            let (bytes, time) = (metadata.len(), metadata.modified().ok());
            let known = self.goodput.remove(&process).filter(|known| (known.0, known.1) == (bytes, time));
            let read = || GoodputHistory::read(&path).ok().and_then(|history| history.goodput());
            let goodput = known.map_or_else(read, |known| known.2);
            now.insert(process, (bytes, time, goodput));
        }
        self.goodput = now;
        self.goodput.iter().filter_map(|(process, known)| Some((*process, known.2?))).collect()
    }
}
