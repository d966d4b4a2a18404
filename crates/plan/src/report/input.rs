//! What a page shows: strings, numbers and lists, in the order they are shown.

use serde::Serialize;

use super::roofline::Roof;
use crate::estimate::Estimate;
use crate::pictures::{Alive, LiveMemory, Timeline};

/// Everything a page shows. Parts that are not known are left out of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportInput {
    /// The program.
    pub title: String,
    /// The slice, in canonical form.
    pub slice: String,
    /// What else identifies the answer: devices, compiler, mode.
    pub facts: Vec<Fact>,
    /// Whether it fits, where that was asked.
    pub verdict: Option<ReportVerdict>,
    /// What fills device memory.
    pub memory: Option<MemoryPart>,
    /// How long a step takes.
    pub step: Option<StepPart>,
    /// What it costs, one line for each of the terms.
    pub cost: Vec<CostLine>,
    /// What makes it fit, where it does not.
    pub fixes: Vec<FixLine>,
    /// What would make it faster, most first.
    pub advice: Vec<AdviceLine>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// As in `compiler`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Whether a program fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ReportVerdict {
    /// It does.
    Fits,
    /// It does not.
    TooLarge {
        /// The memory that overflows: `HBM` or `VMEM`.
        space: String,
        /// What the compiler says.
        message: String,
    },
}

/// What fills the memory of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryPart {
    /// What the compiler may use.
    pub limit_bytes: u64,
    /// What it holds against the limit.
    pub total_bytes: u64,
    /// By class; their sum is the total.
    pub classes: Vec<MemoryClass>,
    /// Live bytes over the schedule, where the buffer assignment is known.
    pub live: Option<LiveMemory>,
    /// What is alive at the fullest moment, largest first.
    pub alive: Vec<Alive>,
}

/// Bytes of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryClass {
    /// What they hold, as in `optimizer state`.
    pub name: String,
    /// Bytes with padding.
    pub bytes: u64,
    /// Of these, bytes that tiled layouts add.
    pub padding_bytes: u64,
    /// Buffers.
    pub buffers: u64,
}

/// How long a step takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepPart {
    /// The estimate.
    pub estimate: Estimate,
    /// When what runs, where the compiled program is at hand.
    pub timeline: Option<Timeline>,
    /// What the device can do at most.
    pub roof: Roof,
}

/// Dollars under one set of terms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostLine {
    /// As in `on demand`.
    pub terms: String,
    /// Region of the price.
    pub region: String,
    /// The day or month the price was read; empty for the caller's own.
    pub date: String,
    /// US dollars for one chip for one hour.
    pub usd_per_chip_hour: f64,
    /// US dollars for the slice for one hour.
    pub usd_per_hour: f64,
    /// US dollars for one step.
    pub usd_per_step: Option<f64>,
    /// US dollars for a million tokens.
    pub usd_per_million_tokens: Option<f64>,
    /// US dollars for the run.
    pub usd_per_run: Option<f64>,
}

/// How sure a gain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Proof {
    /// Follows from the estimate.
    Predicted,
    /// Seen by compiling the changed program.
    Compiled,
}

/// A change that would make a program faster or smaller.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceLine {
    /// In one line.
    pub title: String,
    /// What to do.
    pub remedy: String,
    /// Seconds of a step that it saves.
    pub gain_s: f64,
    /// Bytes of device memory that it saves.
    pub gain_bytes: u64,
    /// How sure that is.
    pub proof: Proof,
    /// Instructions or arguments it is about, most first.
    pub places: Vec<String>,
}

/// A change that was tried to make a program fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FixLine {
    /// In one line.
    pub title: String,
    /// What it does.
    pub detail: String,
    /// What the compiler says of the changed program.
    pub verdict: ReportVerdict,
    /// Bytes of device memory it then needs.
    pub needed_bytes: Option<u64>,
    /// Seconds a step then takes.
    pub step_s: Option<f64>,
    /// What to add to the command line.
    pub command: String,
}
