//! The answer: issues, the worst first, as a record and as text.

use serde::Serialize;

use super::evidence::Evidence;
use crate::monitor::HostState;

/// Version of the record.
pub const DIAGNOSIS_VERSION: u32 = 1;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueKind {
    /// The loss is NaN or infinite.
    LossNotFinite,
    /// A process does not answer.
    ProcessSilent,
    /// Steps wait for their batch.
    DataBound,
    /// Programs are compiled again and again.
    Recompiling,
    /// Steps wait for checkpoints.
    CheckpointStalls,
    /// One process is later than the others.
    Straggler,
    /// A batch is too small to keep a device busy.
    SmallBatch,
    /// The model computes in a type that the device is slow in.
    Precision,
    /// Collectives are waited for.
    ExposedCollectives,
    /// Device memory is nearly full.
    HbmNearlyFull,
    /// Devices have nothing to run.
    DeviceIdle,
    /// Matrix units rest while the device is busy.
    MatrixUnitsIdle,
    /// A core reports an error.
    CoreError,
    /// A chip is throttled.
    Throttled,
    /// A link between chips is not healthy.
    IciUnhealthy,
    /// Steps take longer than predicted.
    SlowerThanPredicted,
    /// Time is lost between attempts, and work that was done again.
    Restarts,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Issue {
    /// What.
    pub kind: IssueKind,
    /// The share of the time that it costs, from 0 to 1, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The seconds of a step that it costs, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_step: Option<f64>,
    /// What was seen.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl IssueKind {
    fn name(self) -> &'static str {
        match self {
            IssueKind::LossNotFinite => "loss not finite",
            IssueKind::ProcessSilent => "a process does not answer",
            IssueKind::DataBound => "data-bound",
            IssueKind::Recompiling => "recompiling",
            IssueKind::CheckpointStalls => "checkpoint stalls",
            IssueKind::Straggler => "straggler",
            IssueKind::SmallBatch => "small batch",
            IssueKind::Precision => "precision",
            IssueKind::ExposedCollectives => "exposed collectives",
            IssueKind::HbmNearlyFull => "HBM nearly full",
            IssueKind::DeviceIdle => "device idle",
            IssueKind::MatrixUnitsIdle => "matrix units idle",
            IssueKind::CoreError => "a core reports an error",
            IssueKind::Throttled => "throttled",
            IssueKind::IciUnhealthy => "ICI unhealthy",
            IssueKind::SlowerThanPredicted => "slower than predicted",
            IssueKind::Restarts => "restarts",
        }
    }
}

/// What was found of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    version: u32,
    /// The run, as it was named.
    pub run: String,
    /// Processes that answered.
    pub processes: usize,
    /// Hosts of TPUs that answered.
    pub hosts: usize,
    /// The newest step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The median seconds of a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<f64>,
    /// What it was predicted to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_step_seconds: Option<f64>,
    /// What is wrong, what costs most first.
    pub issues: Vec<Issue>,
    /// What could not be looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Diagnosis {
    pub(super) fn new(evidence: &Evidence, mut issues: Vec<Issue>) -> Diagnosis {
        issues.sort_by(|one, other| {
            let share = |issue: &Issue| issue.share.unwrap_or(1.0);
            share(other).total_cmp(&share(one))
        });
        Diagnosis {
            version: DIAGNOSIS_VERSION,
            run: evidence.run.clone(),
            processes: evidence.processes.iter().filter(|process| process.last.is_some()).count(),
            hosts: evidence.hosts.iter().filter(|host| host.state == HostState::Up).count(),
            step: evidence.step,
            step_seconds: evidence.step_seconds,
            predicted_step_seconds: evidence.predicted_step_seconds(),
            issues,
            notes: evidence.notes.clone(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.run.clone();
        match self.processes {
            0 if self.hosts > 0 => text.push_str(": its metric service answers"),
            0 => text.push_str(": nothing answers, this is from its folder"),
            1 => text.push_str(": 1 process answers"),
            count => text.push_str(&format!(": {count} processes answer")),
        }
        if let Some(step) = self.step {
            text.push_str(&format!(", step {step}"));
        }
        if let Some(seconds) = self.step_seconds {
            text.push_str(&format!(", {} a step", milliseconds(seconds)));
        }
        if let Some(seconds) = self.predicted_step_seconds {
            text.push_str(&format!(" (predicted {})", milliseconds(seconds)));
        }
        text.push('\n');
        if self.issues.is_empty() {
            text.push_str("nothing found\n");
        }
        for (n, issue) in self.issues.iter().enumerate() {
            let mut impact: Vec<String> = Vec::new();
            impact.extend(issue.share.map(|share| format!("{:.0} % of the time", share * 100.0)));
            impact.extend(issue.seconds_per_step.map(|seconds| format!("{} a step", milliseconds(seconds))));
            let impact = if impact.is_empty() { String::new() } else { format!(": {}", impact.join(", ")) };
            text.push_str(&format!("\n{}. {}{impact}\n", n + 1, issue.kind.name()));
            text.push_str(&format!("   {}\n   → {}\n", issue.what, issue.remedy));
        }
        for note in &self.notes {
            text.push_str(&format!("\nnote: {note}\n"));
        }
        text
    }
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}
