//! What was asked, what was answered, and the culprit: one record, as a table and as a file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use telemetry::{ProcessStatus, now_seconds};

use super::cores;
use super::hosts::HostAnswer;
use super::judge::{Culprit, judge};
use crate::ask::AskError;
use crate::processes::{LocalState, ProcessTarget};

/// Version of the record.
pub const HANG_VERSION: u32 = 1;

/// What one process answered, asked twice.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessAnswer {
    /// Whom was asked.
    #[serde(flatten)]
    pub target: ProcessTarget,
    /// What it said the first time.
    #[serde(skip)]
    pub(super) first: Option<ProcessStatus>,
    /// What it said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<ProcessStatus>,
    /// Why it said nothing.
    #[serde(skip)]
    pub(super) failure: Option<AskError>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    pub(super) local: Option<LocalState>,
}

impl ProcessAnswer {
    pub(super) fn new(
        target: &ProcessTarget,
        first: Result<ProcessStatus, AskError>,
        second: Result<ProcessStatus, AskError>,
    ) -> ProcessAnswer {
        let failure = second.as_ref().err().cloned();
        let local = failure.is_some().then(|| target.local_state()).flatten();
        let mut target = target.clone();
        if let Ok(status) = &second {
            target.process = Some(status.process);
            target.host = Some(status.host.clone());
            target.pid = Some(status.pid);
        }
        ProcessAnswer {
            target,
            first: first.ok(),
            last: second.ok(),
            error: failure.as_ref().map(ToString::to_string),
            failure,
            local,
        }
    }

    /// Whether it did something between the two answers.
    pub(super) fn goes_on(&self) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return false };
        let place = |status: &ProcessStatus| (status.step, status.dispatched, status.phase);
        // A phase that it left and came back to is shorter than before.
        place(first) != place(last) || last.phase_seconds < first.phase_seconds
    }

    /// How people find it.
    pub(super) fn described(&self) -> String {
        let ProcessTarget { host, pid, address, .. } = &self.target;
        let host = host.as_ref().map(|host| format!("host {host}"));
        let pid = pid.map(|pid| format!("pid {pid}"));
        let parts: Vec<String> = [host, pid, address.clone()].into_iter().flatten().collect();
        format!("{} ({})", self.target.name(), parts.join(", "))
    }
}

/// Who holds a training up.
#[derive(Clone, Debug, Serialize)]
pub struct HangReport {
    version: u32,
    /// When, in seconds since 1970.
    pub time_seconds: f64,
    /// Seconds between the two questions.
    pub apart_seconds: f64,
    /// Whether somebody is to blame.
    pub hangs: bool,
    /// Who holds the others up.
    pub culprits: Vec<Culprit>,
    /// All processes that were asked.
    pub processes: Vec<ProcessAnswer>,
    /// All hosts of TPUs that were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostAnswer>,
}

impl HangReport {
    pub(super) fn new(processes: Vec<ProcessAnswer>, hosts: Vec<HostAnswer>, apart: Duration) -> HangReport {
        let culprits = judge(&processes, &hosts);
        HangReport {
            version: HANG_VERSION,
            time_seconds: now_seconds(),
            apart_seconds: apart.as_secs_f64(),
            hangs: !culprits.is_empty(),
            culprits,
            processes,
            hosts,
        }
    }

    /// Whether there is nothing to judge by: nobody is blamed because nobody said anything of use.
    pub fn is_blind(&self) -> bool {
        let has_cores = |answer: &HostAnswer| answer.last.as_ref().is_some_and(|status| !status.cores.is_empty());
        let is_heard = self.processes.iter().any(|answer| answer.last.is_some()) || self.hosts.iter().any(has_cores);
        !self.hangs && !is_heard
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.processes.is_empty() || self.hosts.is_empty() {
            let answered = self.processes.iter().filter(|answer| answer.last.is_some()).count();
            let going = self.processes.iter().filter(|answer| answer.goes_on()).count();
            text.push_str(&format!(
                "{} processes asked twice, {:.1} s apart: {answered} answer, {going} make progress\n",
                self.processes.len(),
                self.apart_seconds
            ));
        }
        if !self.hosts.is_empty() {
            let cores = cores::cores(&self.hosts);
            let answered = self.hosts.iter().filter(|answer| answer.last.is_some()).count();
            text.push_str(&format!(
                "{} hosts asked twice, {:.1} s apart: {answered} answer, {} of {} cores make progress\n",
                self.hosts.len(),
                self.apart_seconds,
                cores.iter().filter(|core| core.moves()).count(),
                cores.len()
            ));
        }
        for culprit in &self.culprits {
            text.push_str(&format!(
                "\nculprit: {}\n  {}\n  → {}\n",
                culprit.processes.join(", "),
                culprit.why,
                culprit.remedy
            ));
        }
        if self.culprits.is_empty() {
            text.push_str("nobody hangs\n");
        }
        text.push('\n');
        for answer in &self.processes {
            let name = answer.target.name();
            let line = match (&answer.last, &answer.error) {
                (Some(status), _) => format!(
                    "{name:<12} {:<10} for {:>7.1} s  step {:<8} dispatched {:<8} program {}",
                    status.phase.name(),
                    status.phase_seconds,
                    status.step,
                    status.dispatched,
                    if status.program.is_empty() { "none yet" } else { &status.program }
                ),
                (None, Some(error)) => format!("{name:<12} {error}"),
                (None, None) => name,
            };
            text.push_str(&format!("  {line}\n"));
        }
        for answer in &self.hosts {
            let line = match (&answer.last, &answer.error) {
                (Some(status), _) => cores::described(status),
                (None, error) => error.clone().unwrap_or_default(),
            };
            text.push_str(&format!("  {:<12} {line}\n", answer.host));
        }
        text
    }

    /// Writes it into a folder, under its time and the number of the process that asked.
    pub fn write(&self, folder: &Path, process: usize) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("hang-{:.0}-process-{process}.json", self.time_seconds));
        let unfinished = path.with_extension("tmp");
        let mut file = std::fs::File::create(&unfinished)?;
        file.write_all(format!("{:#}\n", serde_json::to_value(self)?).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        Ok(path)
    }
}
