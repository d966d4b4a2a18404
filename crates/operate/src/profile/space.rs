//! Reads an XSpace into the collector: which planes and lines are what, and what the stats of their events say.

use super::collect::{Collector, Device, LineKind, OpRun, Step, core_of, length};
use super::host::HostId;
use super::nest::{Closed, Nest, Picoseconds};
use super::ops::{OpFacts, OpId, Program};
use super::programs::Found;
use super::record::{CoreKind, MeasuredMemory};
use super::trace::TraceWriter;
use std::collections::HashMap;
use std::ops::ControlFlow;
use xplane::names::stat;
use xplane::{EventMetadata, Line, LineEvent, Plane, Space, SpaceVisitor, StatValue};

/// Events of a line that are put into order as they pass.
const WINDOW: usize = 1 << 20;
/// CPU devices at most.
const MOST_ORDINALS: i64 = 1 << 12;

/// A pass over one file.
pub(super) struct SpacePass<'a> {
    pub(super) collector: &'a mut Collector,
    pub(super) trace: Option<&'a mut TraceWriter>,
    pub(super) file: usize,
    /// Programs whose HLO the file holds.
    pub(super) found: Vec<Found>,
    plane: PlaneState,
    line: LineState,
    ops: Nest<OpRunAt>,
    host: Nest<HostId>,
    /// Devices that are the host's CPU, by ordinal.
    cpus: HashMap<i64, usize>,
}

/// An op on a line, and which device it is of: threads of a host may run ops of several.
#[derive(Clone, Copy)]
struct OpRunAt {
    device: usize,
    run: OpRun,
}

#[derive(Default)]
struct PlaneState {
    kind: PlaneKind,
    stats: HashMap<i64, StatKind>,
    ops: HashMap<i64, OpId>,
    /// Ops that events name, by the reference to their name and the program.
    referenced: HashMap<(u64, i64), OpId>,
    names: HashMap<i64, HostId>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum PlaneKind {
    Device(usize, CoreKind),
    Host,
    #[default]
    Other,
}

#[derive(Clone, Copy)]
struct LineState {
    kind: LineKind,
}

/// Stats that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatKind {
    DeviceOffset,
    DeviceDuration,
    Category,
    ProgramId,
    TfOp,
    Flops,
    Bytes,
    Breakdown,
    Source,
    HloOp,
    HloModule,
    StepNum,
    DeviceOrdinal,
    IndexOnHost,
    /// Tells that an event of a GPU is work and no remark.
    Work,
    Memcpy,
    SelfDuration,
    Allocator,
    BytesAllocated,
    BytesAvailable,
    PeakBytes,
}

fn stat_kind(name: &str) -> Option<StatKind> {
    Some(match name {
        "device_offset_ps" => StatKind::DeviceOffset,
        "device_duration_ps" => StatKind::DeviceDuration,
        stat::HLO_CATEGORY => StatKind::Category,
        stat::PROGRAM_ID => StatKind::ProgramId,
        stat::TF_OP => StatKind::TfOp,
        stat::FLOPS => StatKind::Flops,
        stat::BYTES_ACCESSED => StatKind::Bytes,
        "memory_access_breakdown" => StatKind::Breakdown,
        stat::SOURCE => StatKind::Source,
        stat::HLO_OP => StatKind::HloOp,
        stat::HLO_MODULE => StatKind::HloModule,
        stat::STEP_NUM => StatKind::StepNum,
        stat::DEVICE_ORDINAL => StatKind::DeviceOrdinal,
        "index_on_host" => StatKind::IndexOnHost,
        "kernel_details" | stat::CORRELATION_ID => StatKind::Work,
        "memcpy_details" | "Memset_details" => StatKind::Memcpy,
        "self_duration_ps" => StatKind::SelfDuration,
        "allocator_name" => StatKind::Allocator,
        "bytes_allocated" => StatKind::BytesAllocated,
        "bytes_available" => StatKind::BytesAvailable,
        "peak_bytes_in_use" => StatKind::PeakBytes,
        _ => return None,
    })
}

impl<'a> SpacePass<'a> {
    pub(super) fn new(collector: &'a mut Collector, trace: Option<&'a mut TraceWriter>, file: usize) -> SpacePass<'a> {
        SpacePass {
            collector,
            trace,
            file,
            found: Vec::new(),
            plane: PlaneState::default(),
            line: LineState { kind: LineKind::Other },
            ops: Nest::new(WINDOW),
            host: Nest::new(WINDOW),
            cpus: HashMap::new(),
        }
    }

    fn device_of(&mut self, plane: &Plane, core: CoreKind) -> Option<usize> {
        let number = |name: &str| plane.fact(name).and_then(|value| value.number()).filter(|value| *value > 0.0);
        let text = |name: &str| plane.fact(name).and_then(|value| plane.text(value).map(str::to_string));
        let mut device = Device {
            name: plane.name.clone(),
            file: self.file,
            core,
            device_type: text(stat::DEVICE_TYPE).or_else(|| text("device_vendor")).unwrap_or_default(),
            peak_flops: number(stat::PEAK_TERAFLOPS).map(|rate| rate * 1e12),
            peak_hbm: number(stat::PEAK_HBM_GIGABYTES).map(|rate| rate * 1e9),
            ..Device::default()
        };
        if core == CoreKind::Gpu {
            device.peak_hbm = device.peak_hbm.or_else(|| number("memory_bandwidth"));
            let rate = || {
                let (major, minor) = (number("compute_cap_major")?, number("compute_cap_minor").unwrap_or(0.0));
                let clock_hz = number("clock_rate")? * 1e3;
                Some(tensor_flops_per_cycle(major, minor)? * number("core_count")? * clock_hz)
            };
            device.peak_flops = device.peak_flops.or_else(rate);
        }
        self.collector.device(device)
    }

    /// The op that event metadata describe: how profilers of TPUs write ops.
    fn described_op(&mut self, plane: &Plane, id: i64, core: CoreKind) -> OpId {
        if let Some(&op) = self.plane.ops.get(&id) {
            return op;
        }
        let unknown = EventMetadata::default();
        let metadata = plane.event_metadata(id).unwrap_or(&unknown);
        let mut facts = OpFacts { core, ..OpFacts::default() };
        (facts.name, facts.expression) = match (&*metadata.display_name, &*metadata.name) {
            ("", "") => ("(unnamed)".into(), String::new()),
            ("", text) => match text.strip_prefix('%').and_then(|rest| rest.split_once(" = ")) {
                Some((name, _)) => (name.to_string(), text.to_string()),
                None => (text.to_string(), String::new()),
            },
            (name, text) => (name.to_string(), text.to_string()),
        };
        if self.line.kind == LineKind::AsyncOps {
            facts.name = started_by(&facts.expression).unwrap_or(&facts.name).to_string();
        }
        for stat in metadata.stats.iter() {
            let Some(kind) = self.plane.stats.get(&stat.metadata_id) else { continue };
            let number = || stat.value.number().filter(|value| value.is_finite() && *value >= 0.0);
            let text = || plane.text(stat.value).unwrap_or("").to_string();
            match kind {
                StatKind::Category => facts.category = text(),
                StatKind::ProgramId => facts.program.id = stat.value.integer().map(|id| id as u64),
                StatKind::TfOp => facts.scope = framework_name(&text()),
                StatKind::Flops => facts.flops = number().unwrap_or(0.0),
                StatKind::Bytes => facts.bytes = number().unwrap_or(0.0),
                StatKind::Source => facts.source = text(),
                StatKind::HloModule => facts.program.name = text(),
                StatKind::Breakdown => {
                    if let StatValue::Bytes(bytes) = stat.value {
                        facts.hbm_bytes = hbm_bytes(bytes).unwrap_or(0.0);
                    }
                }
                _ => {}
            }
        }
        if facts.hbm_bytes == 0.0 {
            facts.hbm_bytes = facts.bytes;
        }
        let op = self.collector.ops.intern(facts);
        self.plane.ops.insert(id, op);
        op
    }

    /// The op that an event's stats name: how profilers of GPUs and of XLA's CPU device write ops.
    fn named_op(&mut self, plane: &Plane, event: &LineEvent<'_>, seen: &Seen<'_>, core: CoreKind) -> Option<OpId> {
        let hlo_op = seen.hlo_op?;
        let key = match hlo_op {
            StatValue::Ref(id) => Some((id, seen.program_id.unwrap_or(-1))),
            _ => None,
        };
        if let Some(op) = key.and_then(|key| self.plane.referenced.get(&key)) {
            return Some(*op);
        }
        // Annotations around each other are joined; the innermost is last.
        let name = plane.text(hlo_op)?.rsplit("::").next()?.to_string();
        if name.is_empty() {
            return None;
        }
        let program = Program {
            id: seen.program_id.map(|id| id as u64),
            name: seen.hlo_module.and_then(|value| plane.text(value)).unwrap_or("").to_string(),
        };
        let scope = seen.tf_op.and_then(|value| plane.text(value)).map(framework_name).unwrap_or_default();
        let expression =
            plane.event_metadata(event.metadata_id).map(|metadata| metadata.name.to_string()).filter(|n| *n != name);
        let facts =
            OpFacts { program, name, core, scope, expression: expression.unwrap_or_default(), ..OpFacts::default() };
        let op = self.collector.ops.intern(facts);
        if let Some(key) = key {
            self.plane.referenced.insert(key, op);
        }
        Some(op)
    }

    /// Work of a GPU that no HLO op is named for: copies and kernels of others.
    fn kernel(&mut self, plane: &Plane, event: &LineEvent<'_>, seen: &Seen<'_>) -> Option<OpId> {
        if !seen.is_work && !seen.is_copy {
            return None;
        }
        if let Some(&op) = self.plane.ops.get(&event.metadata_id) {
            return Some(op);
        }
        let name = plane.event_metadata(event.metadata_id).map_or("(unnamed)", |metadata| &*metadata.name);
        let category = if seen.is_copy { "memory copy" } else { "kernel" };
        let scope = seen.tf_op.and_then(|value| plane.text(value)).map(framework_name).unwrap_or_default();
        let facts = OpFacts {
            name: name.to_string(),
            core: CoreKind::Gpu,
            category: category.into(),
            scope,
            ..OpFacts::default()
        };
        let op = self.collector.ops.intern(facts);
        self.plane.ops.insert(event.metadata_id, op);
        Some(op)
    }

    fn see<'e>(&self, event: &LineEvent<'e>) -> Seen<'e> {
        let mut seen = Seen::default();
        for stat in event.stats() {
            let Some(kind) = self.plane.stats.get(&stat.metadata_id) else { continue };
            let number = || stat.value.number().filter(|value| value.is_finite() && *value >= 0.0);
            match kind {
                StatKind::DeviceOffset => seen.device_offset = stat.value.integer(),
                StatKind::DeviceDuration => seen.device_duration = stat.value.integer(),
                StatKind::SelfDuration => seen.self_duration = stat.value.integer(),
                StatKind::Flops => seen.flops = number(),
                StatKind::Bytes => seen.bytes = number(),
                StatKind::HloOp => seen.hlo_op = Some(stat.value),
                StatKind::HloModule => seen.hlo_module = Some(stat.value),
                StatKind::ProgramId => seen.program_id = stat.value.integer(),
                StatKind::TfOp => seen.tf_op = Some(stat.value),
                StatKind::StepNum => seen.step = stat.value.integer(),
                StatKind::DeviceOrdinal => seen.ordinal = stat.value.integer(),
                StatKind::IndexOnHost => seen.index = stat.value.integer(),
                StatKind::Work => seen.is_work = true,
                StatKind::Memcpy => seen.is_copy = true,
                StatKind::Allocator => seen.allocator = Some(stat.value),
                StatKind::BytesAllocated => seen.allocated = stat.value.integer(),
                StatKind::BytesAvailable => seen.available = stat.value.integer(),
                StatKind::PeakBytes => seen.peak = stat.value.integer(),
                StatKind::Category | StatKind::Breakdown | StatKind::Source => {}
            }
        }
        seen
    }

    fn device_event(&mut self, at: (usize, CoreKind), plane: &Plane, line: &Line, event: &LineEvent<'_>) {
        let (device, core) = at;
        let seen = self.see(event);
        let shown_start = line.start_ps(event);
        // The device's own clock counts where it is given whole.
        let (start, length_ps) = match seen.device_offset.zip(seen.device_duration) {
            Some((start, duration)) => (Picoseconds::from(start), length(duration)),
            None => (shown_start, length(event.duration_ps)),
        };
        let name = || plane.event_metadata(event.metadata_id).map_or("", |metadata| &*metadata.name);
        match self.line.kind {
            LineKind::Ops => {
                let mut op = self.described_op(plane, event.metadata_id, core);
                if self.collector.ops.get(op).program == Program::default()
                    && let Some(program) = self.collector.devices[device].program_at(shown_start).cloned()
                {
                    let mut facts = self.collector.ops.get(op).clone();
                    facts.program = program;
                    op = self.collector.ops.intern(facts);
                }
                let run = OpRun {
                    op,
                    count: event.occurrences.map_or(1, |count| length(count).max(1)),
                    flops: seen.flops,
                    hbm_bytes: seen.bytes,
                };
                if event.occurrences.is_some() {
                    let self_ps = seen.self_duration.map_or(length_ps, length);
                    let closed = Closed { what: run, start: 0, total_ps: length_ps, self_ps, is_outermost: false };
                    return self.collector.aggregated(device, &closed);
                }
                let collector = &mut *self.collector;
                self.ops.push(start, length_ps, OpRunAt { device, run }, &mut |closed| enter(collector, &closed));
            }
            LineKind::Stream => {
                let op = self.named_op(plane, event, &seen, core).or_else(|| self.kernel(plane, event, &seen));
                let Some(op) = op else { return };
                let run = OpRun { op, count: 1, flops: seen.flops, hbm_bytes: seen.bytes };
                let closed = Closed { what: run, start, total_ps: length_ps, self_ps: length_ps, is_outermost: true };
                self.collector.op(device, &closed);
            }
            LineKind::AsyncOps => {
                let op = self.described_op(plane, event.metadata_id, core);
                self.collector.devices[device].transfer(op, length_ps);
            }
            LineKind::Modules => {
                let program = Program::of_run(name());
                self.collector.devices[device].run(program, shown_start, length_ps);
            }
            LineKind::Steps => {
                let name = seen.step.map_or_else(|| name().to_string(), |number| number.to_string());
                self.collector.devices[device].step(Step { name, start, length_ps });
            }
            LineKind::Marks => self.collector.devices[device].wait(name(), length_ps),
            LineKind::Other => {}
        }
    }

    fn host_event(&mut self, plane: &Plane, line: &Line, event: &LineEvent<'_>) {
        let seen = self.see(event);
        let (start, length_ps) = (line.start_ps(event), length(event.duration_ps));
        let name = plane.event_metadata(event.metadata_id).map_or("", |metadata| &*metadata.name);
        if let Some(number) = seen.step {
            self.collector.host_step(Step { name: number.to_string(), start, length_ps });
        }
        if name == "MemoryAllocation" || name == "MemoryDeallocation" {
            return self.memory_event(plane, name, &seen);
        }
        if seen.hlo_op.is_some()
            && let Some(op) = self.named_op(plane, event, &seen, CoreKind::Cpu)
            && let Some(device) = self.cpu(seen.ordinal.unwrap_or(0))
        {
            let run = OpRun { op, count: 1, flops: seen.flops, hbm_bytes: seen.bytes };
            let collector = &mut *self.collector;
            self.ops.push(start, length_ps, OpRunAt { device, run }, &mut |closed| enter(collector, &closed));
            return;
        }
        if name.starts_with("end: ") || length_ps == 0 {
            return;
        }
        let id = *self.plane.names.entry(event.metadata_id).or_insert_with(|| self.collector.host.intern(name));
        let host = &mut self.collector.host;
        self.host.push(start, length_ps, id, &mut |closed| host.add(&closed));
    }

    fn cpu(&mut self, ordinal: i64) -> Option<usize> {
        if !(0..MOST_ORDINALS).contains(&ordinal) {
            return None;
        }
        if let Some(&device) = self.cpus.get(&ordinal) {
            return Some(device);
        }
        let device = Device {
            name: format!("CPU:{ordinal}"),
            file: self.file,
            core: CoreKind::Cpu,
            device_type: "CPU".into(),
            ..Device::default()
        };
        let device = self.collector.device(device)?;
        self.cpus.insert(ordinal, device);
        Some(device)
    }

    fn memory_event(&mut self, plane: &Plane, name: &str, seen: &Seen<'_>) {
        // Allocators of TPUs have no name but the device's place on its host.
        let allocator = match (seen.allocator.and_then(|value| plane.text(value)), seen.index) {
            (Some(name), _) => name.to_string(),
            (None, Some(index)) => format!("device {index}"),
            (None, None) => "(unnamed)".into(),
        };
        let memory = &mut self.collector.memory;
        if memory.len() >= 1024 && !memory.contains_key(&allocator) {
            return;
        }
        let entry = memory
            .entry(allocator.clone())
            .or_insert_with(|| MeasuredMemory { allocator, ..MeasuredMemory::default() });
        if name == "MemoryAllocation" {
            entry.allocations += 1;
        } else {
            entry.frees += 1;
        }
        let bytes = |value: Option<i64>| value.map_or(0, length);
        if bytes(seen.allocated) > entry.peak_bytes {
            entry.peak_bytes = bytes(seen.allocated);
            entry.free_at_peak_bytes = bytes(seen.available);
        }
        entry.lifetime_peak_bytes = entry.lifetime_peak_bytes.max(bytes(seen.peak));
    }
}

fn enter(collector: &mut Collector, closed: &Closed<OpRunAt>) {
    let Closed { what, start, total_ps, self_ps, is_outermost } = *closed;
    collector.op(what.device, &Closed { what: what.run, start, total_ps, self_ps, is_outermost });
}

/// What the stats of an event say.
#[derive(Default)]
struct Seen<'a> {
    device_offset: Option<i64>,
    device_duration: Option<i64>,
    self_duration: Option<i64>,
    flops: Option<f64>,
    bytes: Option<f64>,
    hlo_op: Option<StatValue<'a>>,
    hlo_module: Option<StatValue<'a>>,
    tf_op: Option<StatValue<'a>>,
    program_id: Option<i64>,
    step: Option<i64>,
    ordinal: Option<i64>,
    index: Option<i64>,
    is_work: bool,
    is_copy: bool,
    allocator: Option<StatValue<'a>>,
    allocated: Option<i64>,
    available: Option<i64>,
    peak: Option<i64>,
}

impl SpaceVisitor for SpacePass<'_> {
    fn space(&mut self, space: &Space) {
        for host in space.hostnames.iter().take(1 << 12) {
            self.collector.hosts.insert(host.clone());
        }
        for error in space.errors.iter().take(20) {
            self.collector.note(format!("the producer reports an error: {error}"));
        }
        for warning in space.warnings.iter().take(20) {
            self.collector.note(format!("the producer warns: {warning}"));
        }
    }

    fn plane(&mut self, plane: &Plane) -> ControlFlow<()> {
        self.plane = PlaneState::default();
        self.plane.stats = plane.stat_kinds(stat_kind);
        if plane.name == xplane::names::METADATA_PLANE {
            self.found.extend(Found::all(plane));
        }
        self.plane.kind = match core_of(&plane.name) {
            Some(core) => match self.device_of(plane, core) {
                Some(device) => PlaneKind::Device(device, core),
                None => PlaneKind::Other,
            },
            None if plane.name == xplane::names::HOST_PLANE => {
                let percent = |name| plane.fact(name).and_then(|value| value.number()).filter(|value| *value > 0.0);
                self.collector.matrix_percent =
                    self.collector.matrix_percent.or(percent("matrix_unit_utilization_percent"));
                self.collector.hbm_percent = self.collector.hbm_percent.or(percent("hbm_utilization_percent"));
                PlaneKind::Host
            }
            None => PlaneKind::Other,
        };
        if let Some(trace) = &mut self.trace {
            trace.process(self.file, plane);
        }
        ControlFlow::Continue(())
    }

    fn line(&mut self, plane: &Plane, line: &Line) -> ControlFlow<()> {
        let name = if line.name.is_empty() { &line.display_name } else { &line.name };
        self.line.kind = match self.plane.kind {
            PlaneKind::Device(_, core) => LineKind::of(core, line.id, name),
            _ => LineKind::Other,
        };
        if let Some(trace) = &mut self.trace {
            trace.thread(plane, line);
        }
        ControlFlow::Continue(())
    }

    fn event(&mut self, plane: &Plane, line: &Line, event: &LineEvent<'_>) -> ControlFlow<()> {
        if let Some(trace) = &mut self.trace {
            trace.event(plane, line, event)?;
        }
        match self.plane.kind {
            PlaneKind::Device(device, core) => self.device_event((device, core), plane, line, event),
            PlaneKind::Host => self.host_event(plane, line, event),
            PlaneKind::Other => {}
        }
        ControlFlow::Continue(())
    }

    fn line_end(&mut self, _: &Plane, line: &Line) {
        let collector = &mut *self.collector;
        self.ops.finish(&mut |closed| enter(collector, &closed));
        let host = &mut self.collector.host;
        self.host.finish(&mut |closed| host.add(&closed));
        let late = std::mem::take(&mut self.ops.out_of_order) + std::mem::take(&mut self.host.out_of_order);
        if late > 0 {
            let note =
                format!("{late} events of line {:?} are out of order: self times there are not exact", line.name);
            self.collector.note(note);
        }
    }
}

/// The op that starts one beside others, from its HLO text: such ops are shown as `async-copy` and the like.
pub(super) fn started_by(expression: &str) -> Option<&str> {
    Some(expression.strip_prefix('%')?.split_once(" = ")?.0)
}

/// The framework's name of an op: `jit(f)/add` of `jit(f)/add:` or `jit(f)/add:Add`.
pub(super) fn framework_name(text: &str) -> String {
    text.rsplit_once(':').map_or(text, |(name, _)| name).to_string()
}

/// Bytes of HBM in a `MemoryAccessBreakdown`: accesses with their memory space, of which 1 is HBM.
fn hbm_bytes(encoded: &[u8]) -> Option<f64> {
    const HBM: u64 = 1;
    let mut total = None;
    for (number, access) in xplane::fields(encoded) {
        if let (1, xplane::WireValue::Bytes(access)) = (number, access) {
            let (mut space, mut bytes) = (0, 0);
            for (number, value) in xplane::fields(access) {
                match (number, value) {
                    (2, xplane::WireValue::Varint(value)) => space = value,
                    (3, xplane::WireValue::Varint(value)) => bytes = value,
                    _ => {}
                }
            }
            if space == HBM {
                total = Some(total.unwrap_or(0.0) + bytes as f64);
            }
        }
    }
    total
}

/// Dense bf16 operations of the tensor cores of one multiprocessor in a cycle, by compute capability.
fn tensor_flops_per_cycle(major: f64, minor: f64) -> Option<f64> {
    match (major as u32, minor as u32) {
        (7, 0) => Some(1024.0),
        (8, 0) => Some(2048.0),
        (8, _) => Some(1024.0),
        (9, _) => Some(4096.0),
        (10, _) => Some(8192.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_spaces_are_told_apart() {
        // Two accesses: a read of 5 GiB of HBM, a write of 7 bytes elsewhere.
        let bytes = [0x0a, 0x0a, 0x08, 0x01, 0x10, 0x01, 0x18, 0x80, 0x80, 0x80, 0x80, 0x14, 0x0a, 4, 0x10, 2, 0x18, 7];
        assert_eq!(hbm_bytes(&bytes), Some(5.0 * (1u64 << 30) as f64));
        assert_eq!(hbm_bytes(&[]), None);
        assert_eq!(hbm_bytes(&[0xff, 0xff]), None);
    }

    #[test]
    fn framework_names_lose_their_type() {
        assert_eq!(framework_name("jit(f)/jit(main)/add:"), "jit(f)/jit(main)/add");
        assert_eq!(framework_name("model/dense/MatMul:MatMul"), "model/dense/MatMul");
        assert_eq!(framework_name("add"), "add");
    }
}
