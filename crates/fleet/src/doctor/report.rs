//! What the doctor found: one line for each check.

use serde::Serialize;

/// How a check went, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Not looked at, or not to be expected on this machine.
    Skipped,
    /// Works, but something may surprise.
    Warn,
    /// Does not work.
    Fail,
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it went.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), remedy: None }
    }

    pub(super) fn skipped(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Skipped, detail: detail.into(), remedy: None }
    }

    pub(super) fn warn(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Warn, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn fail(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Fail, detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

/// All lines, in the order of the checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// Version of the serialized form.
    pub version: u32,
    /// The lines.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Text from files and variables may hold anything; in a report each field is one line a terminal can show.
    pub(super) fn new(mut checks: Vec<Check>) -> Self {
        for check in &mut checks {
            for text in std::iter::once(&mut check.detail).chain(&mut check.remedy) {
                *text = text.replace(char::is_control, " ");
            }
        }
        Self { version: 1, checks }
    }

    /// The worst status of all lines.
    pub fn worst(&self) -> Status {
        self.checks.iter().map(|c| c.status).max().unwrap_or(Status::Ok)
    }

    /// How many lines have a status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|c| c.status == status).count()
    }
}
