//! What fills device memory: by class, at the fullest moment, buffer by buffer with the names of the source.

mod arguments;
mod class;
mod flow;
mod heap;
mod held;

use std::collections::BTreeMap;

use compile::Report;
use flow::Flow;
use heap::Fullest;
use serde::Serialize;
use xla::{AllocationKind, BufferAssignment, BufferId, HloModule, MemorySpace};

pub use arguments::ProgramArgument;
pub(crate) use arguments::arguments;
pub use class::BufferClass;
pub use held::Held;

/// Buffers a report names.
const NAMED: usize = 40;

/// Bytes of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassBytes {
    /// What they hold.
    pub class: BufferClass,
    /// Bytes with padding.
    pub bytes: u64,
    /// Of these, bytes that tiled layouts add.
    pub padding_bytes: u64,
    /// Buffers.
    pub buffers: u64,
}

/// The fullest moment of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// The instruction being run.
    pub instruction: String,
    /// The computation it stands in.
    pub computation: String,
    /// Name the source gave it.
    pub source: String,
    /// File and line of the source, where the program carries them.
    pub location: Option<String>,
    /// Bytes of temporaries alive then.
    pub temporary_bytes: u64,
    /// The largest of them.
    pub alive: Vec<Held>,
}

/// Memory near the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Vmem {
    /// Bytes the compiler keeps values in at once, at most.
    pub used_bytes: u64,
    /// Bytes there are.
    pub capacity_bytes: u64,
}

/// What fills the memory of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryBreakdown {
    /// What the compiler may use.
    pub limit_bytes: u64,
    /// What it holds against the limit.
    pub total_bytes: u64,
    /// Bytes left; negative where it does not fit.
    pub headroom_bytes: i64,
    /// By class, in fixed order, none without bytes. Their sum is the total.
    pub classes: Vec<ClassBytes>,
    /// Bytes that tiled layouts add, in all classes together.
    pub padding_bytes: u64,
    /// Results that lie in the memory of donated arguments.
    pub aliased_bytes: u64,
    /// Machine code, where code was generated; the compiler does not count it against the limit.
    pub code_bytes: Option<u64>,
    /// Pinned memory of the host.
    pub host_bytes: u64,
    /// Memory near the core, where the buffer assignment is known.
    pub vmem: Option<Vmem>,
    /// The fullest moment, where the buffer assignment is known.
    pub peak: Option<Peak>,
    /// What fills the memory at the fullest moment, largest first, arguments included.
    pub largest: Vec<Held>,
}

impl MemoryBreakdown {
    /// Bytes of a class.
    pub fn class_bytes(&self, class: BufferClass) -> u64 {
        self.classes.iter().find(|row| row.class == class).map_or(0, |row| row.bytes)
    }

    /// Reads the memory of a compiled program. Without a buffer assignment, temporaries are not told apart.
    pub(crate) fn of(
        module: &HloModule,
        buffers: Option<&BufferAssignment>,
        report: &Report,
        arguments: &[ProgramArgument],
    ) -> MemoryBreakdown {
        let mut sum = Sum::default();
        let mut peak = None;
        match buffers {
            Some(assignment) => peak = sum.add_assignment(module, assignment, arguments),
            None => sum.add_report(module, report, arguments),
        }
        let mut largest = sum.held;
        largest.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        largest.truncate(NAMED);
        let limit_bytes = report.memory.limit;
        let total_bytes = report.memory.total;
        let space = |space| buffers.map(|assignment| assignment.summary(space));
        MemoryBreakdown {
            limit_bytes,
            total_bytes,
            headroom_bytes: i64::try_from(limit_bytes).unwrap_or(i64::MAX)
                - i64::try_from(total_bytes).unwrap_or(i64::MAX),
            padding_bytes: sum.classes.values().map(|row| row.padding_bytes).sum(),
            classes: BufferClass::ALL.iter().filter_map(|class| sum.classes.get(class).copied()).collect(),
            aliased_bytes: report.memory.aliased,
            code_bytes: report.memory.code,
            host_bytes: match space(MemorySpace::HOST) {
                Some(host) => host.total_bytes(),
                None => report.memory.host_temporaries.unwrap_or(0),
            },
            vmem: space(MemorySpace::VMEM)
                .map(|vmem| Vmem { used_bytes: vmem.total_bytes(), capacity_bytes: vmem_capacity(&report.slice) }),
            peak,
            largest,
        }
    }
}

fn vmem_capacity(slice: &str) -> u64 {
    slice.parse::<chips::Slice>().map_or(0, |slice| {
        let spec = slice.spec();
        let cores = spec.cores.tensor_cores_per_chip.value / spec.cores.devices_per_chip.value.max(1);
        spec.memory.vmem_bytes_per_core.value * u64::from(cores.max(1))
    })
}

/// Bytes by class while they are counted.
#[derive(Default)]
struct Sum {
    classes: BTreeMap<BufferClass, ClassBytes>,
    held: Vec<Held>,
}

impl Sum {
    fn add(&mut self, class: BufferClass, bytes: u64, logical_bytes: Option<u64>) {
        if bytes == 0 {
            return;
        }
        let row = self.classes.entry(class).or_insert(ClassBytes { class, bytes: 0, padding_bytes: 0, buffers: 0 });
        row.bytes = row.bytes.saturating_add(bytes);
        row.padding_bytes = row.padding_bytes.saturating_add(bytes.saturating_sub(logical_bytes.unwrap_or(bytes)));
        row.buffers += 1;
    }

    fn hold(&mut self, held: Held) {
        self.add(held.class, held.bytes, Some(held.logical_bytes));
        self.held.push(held);
    }

    fn add_assignment(
        &mut self,
        module: &HloModule,
        assignment: &BufferAssignment,
        arguments: &[ProgramArgument],
    ) -> Option<Peak> {
        let flow = Flow::of(module);
        let mut fullest: Option<(u64, Peak)> = None;
        for allocation in assignment.allocations().iter().filter(|a| a.memory_space == MemorySpace::HBM) {
            let size = allocation.size_bytes;
            match &allocation.kind {
                AllocationKind::ThreadLocal => {}
                AllocationKind::Constant => self.add(BufferClass::Constants, size, None),
                AllocationKind::Parameter { number, index } => {
                    self.hold(Held::argument(module, *number, index, size, arguments));
                }
                AllocationKind::Output => {
                    let first = allocation.assigned.iter().max_by_key(|assigned| assigned.size_bytes);
                    match first {
                        Some(assigned) => {
                            let mut held = Held::value(module, assignment, assigned.buffer, BufferClass::Outputs);
                            held.bytes = size;
                            self.hold(held);
                        }
                        None => self.add(BufferClass::Outputs, size, None),
                    }
                }
                _ => {
                    let peak = self.add_heap(module, assignment, allocation.index, size, &flow);
                    if let Some(peak) = peak
                        && fullest.as_ref().is_none_or(|(most, _)| size > *most)
                    {
                        fullest = Some((size, peak));
                    }
                }
            }
        }
        fullest.map(|(_, peak)| peak)
    }

    /// Temporaries: what is alive at the fullest moment, and the rest of the allocation as gaps.
    fn add_heap(
        &mut self,
        module: &HloModule,
        assignment: &BufferAssignment,
        allocation_index: i64,
        size: u64,
        flow: &Flow<'_>,
    ) -> Option<Peak> {
        let Some(Fullest { bytes, alive, instruction, computation }) = heap::fullest(assignment, allocation_index)
        else {
            self.add(BufferClass::Temporaries, size, None);
            return None;
        };
        let held = |&buffer: &BufferId| {
            let class = held::class_of_temporary(module, assignment, buffer, flow);
            Held::value(module, assignment, buffer, class)
        };
        let mut alive: Vec<Held> = alive.iter().map(held).collect();
        alive.sort_by_key(|held| std::cmp::Reverse(held.bytes));
        let mut left = size;
        for held in &alive {
            let bytes = held.bytes.min(left);
            left -= bytes;
            self.hold(Held { bytes, logical_bytes: held.logical_bytes.min(bytes), ..held.clone() });
        }
        self.add(BufferClass::Gaps, left, None);
        alive.truncate(NAMED);
        let id = module.find(instruction);
        Some(Peak {
            instruction: instruction.to_string(),
            computation: computation.to_string(),
            source: id.map_or_else(String::new, |id| held::source(module, id)),
            location: id.and_then(|id| held::location(module, id)),
            temporary_bytes: bytes,
            alive,
        })
    }

    /// From the compiler's own statistics, which know only sums.
    fn add_report(&mut self, module: &HloModule, report: &Report, arguments: &[ProgramArgument]) {
        let memory = &report.memory;
        let entry = module.computation(module.entry());
        let mut counted = 0;
        for (number, &id) in entry.parameters().iter().enumerate() {
            let bytes = module.instruction(id).shape().padded_byte_size_in(MemorySpace::HBM);
            counted += bytes;
            self.hold(Held::argument(module, number as i64, &[], bytes, arguments));
        }
        self.add(BufferClass::Inputs, memory.arguments.saturating_sub(counted), None);
        self.add(BufferClass::Outputs, memory.outputs.saturating_sub(memory.aliased), None);
        self.add(BufferClass::Temporaries, memory.temporaries, None);
        self.add(BufferClass::Constants, memory.constants.unwrap_or(0), None);
    }
}
