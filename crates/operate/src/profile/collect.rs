//! Adds up what readers of profiles hand over, whatever the file's format: devices, ops, runs, steps, waits, the host.

use super::host::HostTable;
use super::nest::{Closed, Picoseconds};
use super::ops::{OpId, OpTable, Program, Sum, cut};
use super::programs::ProgramFacts;
use super::record::{CoreKind, MeasuredMemory};
use super::spans::Spans;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Devices, steps and other lists at most: a hostile file may claim any number.
const MOST_DEVICES: usize = 1 << 16;
const MOST_STEPS: usize = 1 << 20;
const MOST_RUNS: usize = 1 << 20;
const MOST_NAMES: usize = 1 << 14;
const MOST_NOTES: usize = 100;
/// Sums of ops on devices at most.
const MOST_SUMS: usize = 1 << 22;

/// Everything that was read so far.
#[derive(Default)]
pub(super) struct Collector {
    pub(super) ops: OpTable,
    pub(super) devices: Vec<Device>,
    pub(super) host: HostTable,
    /// Steps as the host marks them.
    pub(super) host_steps: Vec<Step>,
    pub(super) memory: BTreeMap<String, MeasuredMemory>,
    pub(super) programs: HashMap<u64, ProgramFacts>,
    pub(super) hosts: BTreeSet<String>,
    pub(super) matrix_percent: Option<f64>,
    pub(super) hbm_percent: Option<f64>,
    notes: Vec<String>,
    sums: usize,
}

/// A device while it is read.
#[derive(Default)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) file: usize,
    pub(super) core: CoreKind,
    pub(super) device_type: String,
    pub(super) peak_flops: Option<f64>,
    pub(super) peak_hbm: Option<f64>,
    pub(super) span: Option<(Picoseconds, Picoseconds)>,
    pub(super) busy: Spans,
    /// Devices with several streams: collectives, and everything else.
    pub(super) collectives: Spans,
    pub(super) others: Spans,
    pub(super) sums: HashMap<OpId, Sum>,
    pub(super) runs: BTreeMap<Program, Sum>,
    /// When which program ran.
    pub(super) run_spans: Vec<(Picoseconds, Picoseconds, Program)>,
    pub(super) steps: Vec<Step>,
    pub(super) waits: BTreeMap<String, Sum>,
    pub(super) transfers: HashMap<OpId, Sum>,
    pub(super) events: u64,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) start: Picoseconds,
    pub(super) length_ps: u64,
}

/// An execution of an op.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpRun {
    pub(super) op: OpId,
    pub(super) count: u64,
    /// Where an execution states its own work; else the op's is taken.
    pub(super) flops: Option<f64>,
    pub(super) hbm_bytes: Option<f64>,
}

impl Collector {
    /// Tells a reader of the report something, once.
    pub(super) fn note(&mut self, mut note: String) {
        cut(&mut note, 500);
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// A new device; `None` where there are too many.
    pub(super) fn device(&mut self, device: Device) -> Option<usize> {
        if self.devices.len() >= MOST_DEVICES {
            self.note(format!("only the first {MOST_DEVICES} devices are counted"));
            return None;
        }
        self.devices.push(device);
        Some(self.devices.len() - 1)
    }

    /// An execution of an op that has ended.
    pub(super) fn op(&mut self, device: usize, closed: &Closed<OpRun>) {
        let facts = self.ops.get(closed.what.op);
        let device = &mut self.devices[device];
        let run = &closed.what;
        if self.sums >= MOST_SUMS && !device.sums.contains_key(&run.op) {
            return;
        }
        let sum = device.sums.entry(run.op).or_insert_with(|| {
            self.sums += 1;
            Sum::default()
        });
        sum.add(run.count, closed.total_ps, closed.self_ps);
        let times = run.count as f64;
        sum.flops += run.flops.unwrap_or(facts.flops * times);
        sum.hbm_bytes += run.hbm_bytes.unwrap_or(facts.hbm_bytes * times);
        device.events += 1;
        if closed.is_outermost {
            device.busy.add(closed.start, closed.total_ps);
        }
        if matches!(device.core, CoreKind::Gpu | CoreKind::Cpu) {
            let spans = if facts.is_collective() { &mut device.collectives } else { &mut device.others };
            spans.add(closed.start, closed.total_ps);
        }
        device.extend(closed.start, closed.total_ps);
    }

    /// Executions that the producer added up already: they have no place in time.
    pub(super) fn aggregated(&mut self, device: usize, closed: &Closed<OpRun>) {
        let facts = self.ops.get(closed.what.op);
        let run = &closed.what;
        let sum = self.devices[device].sums.entry(run.op).or_default();
        sum.add(run.count, closed.total_ps, closed.self_ps);
        sum.flops += run.flops.unwrap_or(facts.flops * run.count as f64);
        sum.hbm_bytes += run.hbm_bytes.unwrap_or(facts.hbm_bytes * run.count as f64);
        self.devices[device].events += 1;
    }

    /// Whether a program ran on a device of this file.
    pub(super) fn has_run(&self, file: usize, program: &Program) -> bool {
        let mut devices = self.devices.iter().filter(|device| device.file == file);
        devices.any(|device| {
            device.runs.keys().any(|run| run.id == program.id)
                || device.sums.keys().any(|op| self.ops.get(*op).program.id == program.id)
        })
    }

    /// The kind of device in a file.
    pub(super) fn device_type(&self, file: usize) -> Option<String> {
        let mut devices = self.devices.iter().filter(|device| device.file == file && !device.sums.is_empty());
        devices.find(|device| !device.device_type.is_empty()).map(|device| device.device_type.clone())
    }

    /// A step as the host marks it.
    pub(super) fn host_step(&mut self, step: Step) {
        if self.host_steps.len() < MOST_STEPS {
            self.host_steps.push(step);
        }
    }

    /// The number of sums exceeds what is kept.
    pub(super) fn is_cut(&self) -> bool {
        self.sums >= MOST_SUMS || self.ops.is_full
    }
}

impl Device {
    /// The device was seen at this time.
    pub(super) fn extend(&mut self, start: Picoseconds, length_ps: u64) {
        let end = start + Picoseconds::from(length_ps);
        let (first, last) = self.span.unwrap_or((start, end));
        self.span = Some((first.min(start), last.max(end)));
    }

    /// An execution of a program.
    pub(super) fn run(&mut self, program: Program, start: Picoseconds, length_ps: u64) {
        if self.runs.len() < MOST_NAMES || self.runs.contains_key(&program) {
            self.runs.entry(program.clone()).or_default().add(1, length_ps, length_ps);
        }
        if self.run_spans.len() < MOST_RUNS {
            self.run_spans.push((start, start + Picoseconds::from(length_ps), program));
        }
    }

    /// The program that ran at this time. Runs of a device come in order and do not overlap.
    pub(super) fn program_at(&self, time: Picoseconds) -> Option<&Program> {
        let next = self.run_spans.partition_point(|(start, ..)| *start <= time);
        let (_, end, program) = self.run_spans.get(next.checked_sub(1)?)?;
        (time < *end).then_some(program)
    }

    pub(super) fn step(&mut self, step: Step) {
        self.extend(step.start, step.length_ps);
        if self.steps.len() < MOST_STEPS {
            self.steps.push(step);
        }
    }

    pub(super) fn wait(&mut self, name: &str, length_ps: u64) {
        if self.waits.len() < MOST_NAMES || self.waits.contains_key(name) {
            self.waits.entry(name.into()).or_default().add(1, length_ps, length_ps);
        }
    }

    pub(super) fn transfer(&mut self, op: OpId, length_ps: u64) {
        if self.transfers.len() < MOST_SUMS || self.transfers.contains_key(&op) {
            self.transfers.entry(op).or_default().add(1, length_ps, length_ps);
        }
    }
}

/// What the lines of a device's plane are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Ops,
    AsyncOps,
    Modules,
    Steps,
    /// What the device's own program marks outside of ops: barriers and waits.
    Marks,
    /// Work of a GPU in its order.
    Stream,
    /// Made from other lines, or of no use here: counting it would count time twice.
    Other,
}

/// Ids that profilers give to lines they derive from others.
const DERIVED: std::ops::Range<i64> = 0xdead_beef..0xdead_beef + 0x100;

impl LineKind {
    pub(super) fn of(core: CoreKind, id: i64, name: &str) -> LineKind {
        match core {
            CoreKind::Gpu => match name {
                xplane::names::STEPS_LINE => LineKind::Steps,
                xplane::names::MODULES_LINE => LineKind::Modules,
                xplane::names::OPS_LINE
                | xplane::names::ASYNC_OPS_LINE
                | "Framework Ops"
                | "Framework Name Scope"
                | "Source code"
                | "Launch Stats"
                | "_counters_" => LineKind::Other,
                _ if DERIVED.contains(&id) => LineKind::Other,
                _ => LineKind::Stream,
            },
            _ => match name {
                xplane::names::OPS_LINE | "Sparse Core Ops" => LineKind::Ops,
                xplane::names::ASYNC_OPS_LINE => LineKind::AsyncOps,
                xplane::names::MODULES_LINE | "Sparse Core Modules" => LineKind::Modules,
                xplane::names::STEPS_LINE | "Sparse Core Steps" => LineKind::Steps,
                "XLA TraceMe" => LineKind::Marks,
                _ => LineKind::Other,
            },
        }
    }
}

/// What a plane's name says of its device; `None` for planes that are none.
pub(super) fn core_of(plane: &str) -> Option<CoreKind> {
    if plane.starts_with(xplane::names::GPU_PLANE) {
        return Some(CoreKind::Gpu);
    }
    if let Some(rest) = plane.strip_prefix(xplane::names::TPU_PLANE) {
        return match rest.split_once(' ') {
            None => Some(CoreKind::TensorCore),
            Some((_, rest)) if rest.starts_with("SparseCore") => Some(CoreKind::SparseCore),
            // What a chip does beside its cores.
            Some(_) => None,
        };
    }
    plane.starts_with("/device:").then_some(CoreKind::TensorCore)
}

/// Seconds of a picosecond count that a file claims; negative ones are none.
pub(super) fn length(ps: i64) -> u64 {
    u64::try_from(ps).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_others_were_made_from_are_not_counted() {
        use LineKind::{AsyncOps, Modules, Ops, Other, Steps, Stream};
        for (core, id, name, kind) in [
            (CoreKind::TensorCore, 3, "XLA Ops", Ops),
            (CoreKind::TensorCore, 4, "Async XLA Ops", AsyncOps),
            (CoreKind::TensorCore, 5, "Framework Ops", Other),
            (CoreKind::TensorCore, 7, "TC Overlay", Other),
            (CoreKind::SparseCore, 3, "Sparse Core Ops", Ops),
            (CoreKind::Gpu, 13, "Stream #13(Compute)", Stream),
            (CoreKind::Gpu, 0xdead_beef + 5, "XLA Ops", Other),
            (CoreKind::Gpu, 0xdead_beef + 9, "something new", Other),
            (CoreKind::Gpu, 0xdead_beef + 4, "XLA Modules", Modules),
            (CoreKind::Gpu, 0xdead_beef, "Steps", Steps),
        ] {
            assert_eq!(LineKind::of(core, id, name), kind, "{name}");
        }
    }

    #[test]
    fn planes_are_told_apart() {
        for (name, core) in [
            ("/device:TPU:0", Some(CoreKind::TensorCore)),
            ("/device:TPU:12 SparseCore 1", Some(CoreKind::SparseCore)),
            ("/device:TPU:0 SparseCore Tile 3", Some(CoreKind::SparseCore)),
            ("/device:TPU:0 #Chip", None),
            ("/device:GPU:7", Some(CoreKind::Gpu)),
            ("/device:CUSTOM:Megascale Trace", Some(CoreKind::TensorCore)),
            ("/host:CPU", None),
            ("Task Environment", None),
        ] {
            assert_eq!(core_of(name), core, "{name}");
        }
    }

    #[test]
    fn a_program_is_found_by_time() {
        let mut device = Device::default();
        device.run(Program::of_run("a(1)"), 10, 5);
        device.run(Program::of_run("b(2)"), 20, 5);
        let at = |time| device.program_at(time).map(|program| program.name.as_str());
        assert_eq!([at(9), at(10), at(15), at(24), at(25)], [None, Some("a"), None, Some("b"), None]);
    }
}
