//! `tpu check`: run self-checking StableHLO programs and count what passes.

mod archive;
mod cases;
mod engine;
mod expected;
mod files;
mod jobs;
mod onnx_model;
mod plugin;
mod report;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cases::{Body, Case, Disabled};
use engine::{Engine, Verdict};
use expected::ExpectedFailures;
use jobs::{Ended, Jobs};
use report::{CaseRecord, Outcome, Record};

use crate::args::CheckArgs;
use crate::failure::{Answer, Failure};
use crate::imported::Format;
use crate::output::Output;
use crate::progress::Progress;
use crate::{imported, stop};

pub(crate) use plugin::serve;

/// How often Ctrl-C is looked for while jobs run.
const TICK: Duration = Duration::from_millis(100);

/// The ops of PyTorch that have a translation.
#[derive(serde::Serialize)]
struct OpsRecord {
    version: u32,
    ops: Vec<&'static str>,
}

pub(crate) fn run(args: &CheckArgs, output: &Output) -> Result<Answer, Failure> {
    if args.ops {
        let record = OpsRecord { version: 1, ops: torch::translate::op_names() };
        output.record(&record, || record.ops.iter().map(|name| format!("{name}\n")).collect())?;
        return Ok(Answer::Yes);
    }
    let started = Instant::now();
    let limit = Duration::try_from_secs_f64(args.timeout).ok().filter(|limit| !limit.is_zero());
    let limit = limit.ok_or_else(|| Failure::new(format!("--timeout {} is not a number of seconds", args.timeout)))?;
    let files = files::find(&args.paths)?;
    let stop = stop::on_signal();
    let engine = match &args.plugin {
        Some(plugin) => Engine::plugin(plugin, &stop)?,
        None => Engine::new(args.mode)?,
    };
    let expected = match &args.expected_failures {
        Some(path) => ExpectedFailures::read(path, engine.mode())?,
        None => ExpectedFailures::default(),
    };
    let mut suite = Suite { args, engine, expected, judged: Vec::new(), failed: 0, unfiltered: 0 };
    suite.run(&files, Jobs::new(limit), &stop)?;
    if suite.unfiltered == 0 {
        let failure = Failure::new("no programs found");
        return Err(failure.hint("name files, or folders with *.mlir, *.stablehlo, *.bc, *.pt2 or *.onnx files"));
    }
    if suite.judged.is_empty() {
        let filter = args.filter.as_deref().unwrap_or_default();
        return Err(Failure::new(format!("no case of {} contains `{filter}`", suite.unfiltered)));
    }
    let record = suite.record(started.elapsed());
    let unmatched = &record.unmatched_expected_failures;
    if !unmatched.is_empty() && args.filter.is_none() && !args.fail_fast {
        eprintln!("note: listed as expected failures, but not among these cases: {}", unmatched.join(", "));
    }
    output.record(&record, || record.text())?;
    Ok(if record.failed == 0 { Answer::Yes } else { Answer::No })
}

/// What a job gives back.
enum JobResult {
    Loaded(Vec<Case>),
    Ran(Verdict),
}

/// What a job is about.
enum Work {
    Load { file: usize },
    Run { place: Place, name: String, started: Instant },
}

/// Where a case stands among all: its file's number and its own in the file.
type Place = (usize, usize);

struct Suite<'a> {
    args: &'a CheckArgs,
    engine: Engine,
    expected: ExpectedFailures,
    judged: Vec<(Place, CaseRecord)>,
    failed: usize,
    /// Cases there are, before the filter.
    unfiltered: usize,
}

impl Suite<'_> {
    fn run(&mut self, files: &[PathBuf], mut jobs: Jobs<JobResult>, stop: &AtomicBool) -> Result<(), Failure> {
        let progress = Progress::start();
        let at_once = match self.args.jobs {
            Some(jobs) => jobs.get(),
            // Each case in flight has a process with the plugin, and many devices belong to one process.
            None if self.args.plugin.is_some() => 1,
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        };
        let mut unread: VecDeque<usize> = (0..files.len()).collect();
        let mut ready: VecDeque<(Place, Case)> = VecDeque::new();
        let mut working: HashMap<u64, Work> = HashMap::new();
        loop {
            // Cases before files, so that few programs are in memory at a time.
            while jobs.in_flight() < at_once {
                let (id, work) = if let Some((place, case)) = ready.pop_front() {
                    let Some(started) = self.start_case(&mut jobs, files, place, case)? else { continue };
                    started
                } else if let Some(file) = unread.pop_front() {
                    (self.start_load(&mut jobs, &files[file])?, Work::Load { file })
                } else {
                    break;
                };
                working.insert(id, work);
            }
            if jobs.in_flight() == 0 || (self.args.fail_fast && self.failed > 0) {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new("interrupted"));
            }
            progress.step(&format!("{} cases run, {} failed", self.judged.len(), self.failed));
            let Some((id, ended)) = jobs.wait(TICK) else { continue };
            match working.remove(&id) {
                Some(Work::Load { file }) => {
                    let cases = self.loaded(ended);
                    self.unfiltered += cases.len();
                    let wanted = |case: &Case| match &self.args.filter {
                        Some(filter) => format!("{}::{}", files[file].display(), case.name).contains(filter.as_str()),
                        None => true,
                    };
                    let cases = cases.into_iter().enumerate().filter(|(_, case)| wanted(case));
                    ready.extend(cases.map(|(n, case)| ((file, n), case)));
                }
                Some(Work::Run { place, name, started }) => {
                    let verdict = self.verdict(ended);
                    self.judge(&files[place.0], place, name, verdict, started.elapsed());
                }
                None => return Err(Failure::new(format!("internal error: job {id} ended twice"))),
            }
        }
    }

    fn start_load(&self, jobs: &mut Jobs<JobResult>, file: &Path) -> Result<u64, Failure> {
        let file = file.to_path_buf();
        let disabled = if self.args.include_disabled { Disabled::Run } else { Disabled::Skip };
        let started = jobs.start(move |_| {
            match imported::format(&file) {
                Some(Format::Torch) => return JobResult::Loaded(archive::cases(&file)),
                Some(Format::Onnx) => return JobResult::Loaded(onnx_model::cases(&file)),
                None => {}
            }
            JobResult::Loaded(match std::fs::read(&file) {
                Ok(bytes) => cases::load(&bytes, disabled),
                Err(error) => vec![unreadable(format!("cannot read the file: {error}"))],
            })
        });
        started.map_err(|e| Failure::new(format!("cannot start a thread: {e}")))
    }

    /// Starts a case, or judges it when there is nothing to run.
    fn start_case(
        &mut self,
        jobs: &mut Jobs<JobResult>,
        files: &[PathBuf],
        place: Place,
        case: Case,
    ) -> Result<Option<(u64, Work)>, Failure> {
        let (module, function) = match case.body {
            Body::Run { module, function } => (module, function),
            Body::Archive { archive, call } => {
                let run = if imported::format(&archive) == Some(Format::Onnx) { onnx_model::run } else { archive::run };
                let started = jobs.start(move |_| JobResult::Ran(run(&archive, &call)));
                let id = started.map_err(|e| Failure::new(format!("cannot start a thread: {e}")))?;
                return Ok(Some((id, Work::Run { place, name: case.name, started: Instant::now() })));
            }
            Body::Unreadable(why) => {
                self.judge(&files[place.0], place, case.name, Verdict::Failed(why), Duration::ZERO);
                return Ok(None);
            }
            Body::Skipped(why) => {
                self.judge(&files[place.0], place, case.name, Verdict::Skipped(why), Duration::ZERO);
                return Ok(None);
            }
        };
        let engine = self.engine.clone();
        let started = jobs.start(move |stop| JobResult::Ran(engine.run(&module, &function, stop)));
        let id = started.map_err(|e| Failure::new(format!("cannot start a thread: {e}")))?;
        Ok(Some((id, Work::Run { place, name: case.name, started: Instant::now() })))
    }

    fn loaded(&self, ended: Ended<JobResult>) -> Vec<Case> {
        match ended {
            Ended::Done(JobResult::Loaded(cases)) => cases,
            Ended::Done(JobResult::Ran(_)) => vec![unreadable("internal error: a file was run".into())],
            Ended::Panicked(why) => vec![unreadable(format!("internal error while reading: {why}"))],
            Ended::TimedOut => vec![unreadable(self.time_limit())],
        }
    }

    fn verdict(&self, ended: Ended<JobResult>) -> Verdict {
        match ended {
            Ended::Done(JobResult::Ran(verdict)) => verdict,
            Ended::Done(JobResult::Loaded(_)) => Verdict::Failed("internal error: a case was read".into()),
            Ended::Panicked(why) => Verdict::Failed(format!("internal error: {why}")),
            Ended::TimedOut => Verdict::Failed(self.time_limit()),
        }
    }

    fn time_limit(&self) -> String {
        format!("took longer than {} s", self.args.timeout)
    }

    fn judge(&mut self, file: &Path, place: Place, name: String, verdict: Verdict, took: Duration) {
        let (outcome, reason) = match (verdict, self.expected.reason(file, &name)) {
            (Verdict::Passed, None) => (Outcome::Passed, None),
            (Verdict::Passed, Some(listed)) => {
                (Outcome::Failed, Some(format!("passes, so it must leave the list of expected failures: {listed}")))
            }
            (Verdict::Failed(why), None) => (Outcome::Failed, Some(why)),
            (Verdict::Failed(_), Some(listed)) => (Outcome::Skipped, Some(format!("expected failure: {listed}"))),
            (Verdict::Skipped(why), _) => (Outcome::Skipped, Some(why)),
        };
        self.failed += usize::from(outcome == Outcome::Failed);
        let file = file.display().to_string();
        self.judged.push((place, CaseRecord { file, function: name, outcome, reason, seconds: took.as_secs_f64() }));
    }

    fn record(mut self, took: Duration) -> Record {
        self.judged.sort_by_key(|(place, _)| *place);
        let cases: Vec<CaseRecord> = self.judged.into_iter().map(|(_, case)| case).collect();
        let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
        Record {
            version: 1,
            mode: self.engine.mode(),
            device: self.engine.device().to_string(),
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            skipped: count(Outcome::Skipped),
            seconds: took.as_secs_f64(),
            unmatched_expected_failures: self.expected.unmatched(),
            cases,
        }
    }
}

fn unreadable(why: String) -> Case {
    Case { name: "program-1".into(), body: Body::Unreadable(why) }
}
