//! The journal: one record in the job's folder or bucket that says who supervises and what is known.
//!
//! A supervisor holds the job as long as it renews the record. Another one that sees no change for [`LEASE_MS`] on its own
//! clock takes over with the next epoch; clocks of machines need not agree. Every change is a conditional put, so that
//! one who was replaced can write nothing more, and knows it.

use std::fmt;

use serde::{Deserialize, Serialize};
use weights::{RecordVersion, Store, Swap};

use super::state::JobState;

/// How long a supervisor holds a job without renewing.
pub const LEASE_MS: u64 = 15_000;

/// The name of the record.
const RECORD: &str = "job-journal";
/// Largest journal.
const MAX_BYTES: usize = 16 << 20;
/// The version of its text.
const VERSION: u32 = 1;

/// A record that changes only from a version that its writer has seen.
pub trait Records {
    /// A version of the record.
    type Version: Clone + fmt::Debug;

    /// The newest version; none if there is none.
    #[allow(clippy::type_complexity)]
    fn read(&self) -> Result<Option<(Vec<u8>, Self::Version)>, String>;

    /// Replaces this version (none: makes the first); none if another was there.
    fn swap(&self, expected: Option<&Self::Version>, bytes: &[u8]) -> Result<Option<Self::Version>, String>;
}

impl Records for Store {
    type Version = RecordVersion;

    fn read(&self) -> Result<Option<(Vec<u8>, RecordVersion)>, String> {
        self.read_record(RECORD, MAX_BYTES).map_err(|error| error.to_string())
    }

    fn swap(&self, expected: Option<&RecordVersion>, bytes: &[u8]) -> Result<Option<RecordVersion>, String> {
        match self.swap_record(RECORD, expected, bytes).map_err(|error| error.to_string())? {
            Swap::Done(version) => Ok(Some(version)),
            Swap::Lost => Ok(None),
        }
    }
}

/// Who supervises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOwner {
    /// A random number.
    pub id: String,
    /// Its machine.
    pub host: String,
    /// Its process there.
    pub process: u32,
    /// That machine since it was started, and the processes that see each other; none where the system does not say.
    #[serde(default)]
    pub machine: Option<String>,
}

impl JobOwner {
    /// This process.
    pub fn here(id: &str) -> JobOwner {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string();
        JobOwner { id: id.to_string(), host, process: std::process::id(), machine: this_machine() }
    }

    /// Whether it was a process of this machine, and is none any more.
    pub fn has_ended_here(&self) -> bool {
        if self.machine.is_none() || self.machine != this_machine() {
            return false;
        }
        let Some(process) = i32::try_from(self.process).ok().and_then(rustix::process::Pid::from_raw) else {
            return false;
        };
        if rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH) {
            return true;
        }
        // One that has ended and that nobody has asked about.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    }
}

/// The start of this machine and the namespace of its processes: numbers of processes mean the same where both are the same.
fn this_machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), processes.display()))
}

impl fmt::Display for JobOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.process, self.host)
    }
}

/// The record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// Changes so far.
    pub update: u64,
    /// Supervisors so far.
    pub epoch: u64,
    /// Who supervises; none if it has let go.
    pub owner: Option<JobOwner>,
    /// What is known.
    pub state: JobState,
}

impl Journal {
    /// The first one of a job.
    pub fn new(owner: JobOwner, state: JobState) -> Journal {
        Journal { version: VERSION, update: 0, epoch: 1, owner: Some(owner), state }
    }

    /// Reads a journal.
    pub fn read<R: Records>(records: &R) -> Result<Option<(Journal, R::Version)>, String> {
        let Some((bytes, version)) = records.read()? else { return Ok(None) };
        let journal: Journal =
            serde_json::from_slice(&bytes).map_err(|error| format!("the journal cannot be read: {error}"))?;
        if journal.version != VERSION {
            return Err(format!("the journal has version {}; this program knows {VERSION}", journal.version));
        }
        Ok(Some((journal, version)))
    }

    /// Writes the next version; none if somebody else did. An answer that was lost is looked for.
    pub fn swap<R: Records>(&self, records: &R, expected: Option<&R::Version>) -> Result<Option<R::Version>, String> {
        let bytes = serde_json::to_vec(self).map_err(|error| format!("the journal cannot be written: {error}"))?;
        let answer = records.swap(expected, &bytes);
        if let Ok(Some(version)) = answer {
            return Ok(Some(version));
        }
        match (answer, records.read()) {
            (_, Ok(Some((found, version)))) if found == bytes => Ok(Some(version)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(_)) => Ok(None),
        }
    }
}
