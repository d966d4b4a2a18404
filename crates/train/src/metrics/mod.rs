//! Metrics of a training: JSON lines, and event files that TensorBoard reads.
//!
//! Metrics never stop a training. What cannot be written, as on a full disk, is a warning once and is left out; lines and
//! records that were written stay whole, and writing goes on when it works again.

mod appended;
mod events;
mod jsonl;
mod proto;

use std::path::Path;

pub use events::{EventFile, ValueHistogram};
pub use jsonl::{JsonLines, METRICS_VERSION};

/// How a training begins, seen from its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From nothing: earlier metrics are dropped.
    Fresh,
    /// After this step: metrics up to it are kept, later ones are dropped, for they are made again.
    AfterStep(u64),
}

/// What was measured at a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The step.
    pub step: u64,
    /// Seconds since 1970.
    pub wall_time_seconds: f64,
    /// Names and values, in the order they are written.
    pub values: Vec<(String, f64)>,
}

impl Record {
    /// Nothing yet, at a step, now.
    pub fn new(step: u64) -> Record {
        Record { step, wall_time_seconds: now_seconds(), values: Vec::new() }
    }

    /// With one more value.
    pub fn with(mut self, name: impl Into<String>, value: f64) -> Record {
        self.values.push((name.into(), value));
        self
    }

    /// With the loss.
    pub fn loss(self, loss: f64) -> Record {
        self.with("loss", loss)
    }

    /// With the learning rate.
    pub fn learning_rate(self, rate: f64) -> Record {
        self.with("learning_rate", rate)
    }

    /// With the speed of one step of so many tokens: `step_seconds` and `tokens_per_second`.
    pub fn speed(self, step_seconds: f64, tokens: u64) -> Record {
        self.with("step_seconds", step_seconds).with("tokens_per_second", tokens as f64 / step_seconds)
    }

    /// With the part of the device's peak rate that was used, from 0 to 1.
    pub fn mfu(self, fraction: f64) -> Record {
        self.with("mfu", fraction)
    }
}

/// Where metrics go: JSON lines, TensorBoard, both or none.
#[derive(Debug, Default)]
pub struct Metrics {
    lines: Option<JsonLines>,
    events: Option<EventFile>,
}

impl Metrics {
    /// Metrics that go nowhere.
    pub fn none() -> Metrics {
        Metrics::default()
    }

    /// Also as JSON lines into this file.
    pub fn with_lines(mut self, path: &Path, start: Start) -> Metrics {
        self.lines = Some(JsonLines::open(path, start));
        self
    }

    /// Also as a new event file in this folder.
    pub fn with_events(mut self, folder: &Path, start: Start) -> Metrics {
        self.events = Some(EventFile::create(folder, start));
        self
    }

    /// Writes a record.
    pub fn write(&mut self, record: &Record) {
        if let Some(lines) = &mut self.lines {
            lines.write(record);
        }
        if let Some(events) = &mut self.events {
            events.scalars(record);
        }
    }

    /// The event file, for texts and histograms.
    pub fn events(&mut self) -> Option<&mut EventFile> {
        self.events.as_mut()
    }

    /// Puts everything on disk.
    pub fn flush(&mut self) {
        if let Some(lines) = &mut self.lines {
            lines.flush();
        }
        if let Some(events) = &mut self.events {
            events.flush();
        }
    }
}

pub(crate) fn now_seconds() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
