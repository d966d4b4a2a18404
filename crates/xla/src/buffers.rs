//! The compiler's buffer assignment: what is allocated where, which values share it, and what fills the memory.

use crate::module::{HloModule, InstructionId};
use crate::shape::{List, MemorySpace};
use crate::zstd::{Limits, decompress};
use crate::{Error, proto};
use prost::Message as _;
use std::collections::{HashMap, HashSet};

/// A buffer of a [`BufferAssignment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// What an allocation is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllocationKind {
    /// An argument of the program.
    Parameter {
        /// Which parameter.
        number: i64,
        /// Which part of it.
        index: Vec<i64>,
    },
    /// A constant.
    Constant,
    /// Scratch of a function applied per element.
    ThreadLocal,
    /// Holds a result of the program and no argument.
    Output,
    /// Everything else.
    Temporary,
}

/// One contiguous allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The compiler's number for it.
    pub index: i64,
    /// Size.
    pub size_bytes: u64,
    /// What it is for.
    pub kind: AllocationKind,
    /// Which memory it lies in.
    pub memory_space: MemorySpace,
    /// Holds only the pointers of a tuple.
    pub is_tuple: bool,
    /// May hold a result when the program ends.
    pub maybe_live_out: bool,
    /// An argument whose memory a result takes over.
    pub is_aliased_with_output: bool,
    /// Values placed in it.
    pub assigned: Vec<Assigned>,
}

/// A value's place in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The value.
    pub buffer: BufferId,
    /// Offset in the allocation.
    pub offset_bytes: u64,
    /// Size.
    pub size_bytes: u64,
}

/// A value that needs memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalBuffer {
    /// Size.
    pub size_bytes: u64,
    /// Which memory it lies in.
    pub memory_space: MemorySpace,
    /// Name of the instruction that defines it; empty where the compiler gave only its number.
    pub instruction_name: String,
    /// Which part of that instruction's result.
    pub shape_index: Vec<i64>,
    instruction_number: i64,
}

/// What happens to a buffer during the compiler's simulation of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapEventKind {
    /// Memory is taken.
    Alloc,
    /// Memory is given back.
    Free,
    /// The memory of another buffer is used.
    ShareWith(BufferId),
}

/// One event of a heap simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapEvent {
    /// What happens.
    pub kind: HeapEventKind,
    /// To which buffer.
    pub buffer: BufferId,
    /// The instruction being processed.
    pub instruction_name: String,
    /// Its computation.
    pub computation_name: String,
}

/// The events of one simulated heap, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapTrace {
    /// The compiler's number of the allocation it shaped.
    pub allocation_index: i64,
    /// Events.
    pub events: Vec<HeapEvent>,
}

/// Bytes of one memory by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySummary {
    /// Arguments, those shared with outputs included.
    pub argument_bytes: u64,
    /// Results, those that take over an argument's memory included.
    pub output_bytes: u64,
    /// Counted in both of the above.
    pub aliased_bytes: u64,
    /// Constants.
    pub constant_bytes: u64,
    /// Temporaries.
    pub temporary_bytes: u64,
    /// Scratch of functions applied per element; not part of the total.
    pub thread_local_bytes: u64,
}

impl MemorySummary {
    /// What is needed at once, without the program's code.
    pub fn total_bytes(&self) -> u64 {
        (self.argument_bytes)
            .saturating_add(self.output_bytes.saturating_sub(self.aliased_bytes))
            .saturating_add(self.constant_bytes)
            .saturating_add(self.temporary_bytes)
    }
}

/// Where every value of a program is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferAssignment {
    allocations: Vec<Allocation>,
    buffers: Vec<LogicalBuffer>,
    heap_traces: Vec<HeapTrace>,
    peaks: Vec<(i64, Vec<BufferId>)>,
}

impl BufferAssignment {
    /// Reads a `BufferAssignmentProto`.
    pub fn from_bytes(bytes: &[u8]) -> Result<BufferAssignment, Error> {
        read(proto::BufferAssignment::decode(bytes).map_err(Error::wire("BufferAssignmentProto"))?)
    }

    /// Reads the `buffer_assignment` output of the compiler's first phase: the same, zstd-compressed.
    pub fn from_zstd(bytes: &[u8]) -> Result<BufferAssignment, Error> {
        BufferAssignment::from_zstd_within(bytes, Limits::default())
    }

    /// As [`BufferAssignment::from_zstd`] with limits on the size after decompression.
    pub fn from_zstd_within(bytes: &[u8], limits: Limits) -> Result<BufferAssignment, Error> {
        BufferAssignment::from_bytes(&decompress(bytes, limits)?)
    }

    /// Reads the assignment that a `HloProto` carries beside its module, if any.
    pub fn from_hlo_proto(bytes: &[u8]) -> Result<Option<BufferAssignment>, Error> {
        let message = proto::Hlo::decode(bytes).map_err(Error::wire("HloProto"))?;
        message.buffer_assignment.map(read).transpose()
    }

    /// All allocations.
    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// All values that need memory.
    pub fn buffers(&self) -> impl ExactSizeIterator<Item = (BufferId, &LogicalBuffer)> {
        self.buffers.iter().enumerate().map(|(i, b)| (BufferId(i as u32), b))
    }

    /// One value.
    pub fn buffer(&self, id: BufferId) -> &LogicalBuffer {
        &self.buffers[id.0 as usize]
    }

    /// Simulated heaps, if the compiler kept them.
    pub fn heap_traces(&self) -> &[HeapTrace] {
        &self.heap_traces
    }

    /// Values alive at the fullest moment of an allocation, if the compiler kept them.
    pub fn peak_buffers(&self, allocation_index: i64) -> Option<&[BufferId]> {
        self.peaks.iter().find(|p| p.0 == allocation_index).map(|p| p.1.as_slice())
    }

    /// Memories that something is allocated in.
    pub fn memory_spaces(&self) -> Vec<MemorySpace> {
        let mut spaces: Vec<MemorySpace> = self.allocations.iter().map(|a| a.memory_space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    /// Bytes by class in one memory.
    pub fn summary(&self, space: MemorySpace) -> MemorySummary {
        let mut summary = MemorySummary::default();
        for allocation in self.allocations.iter().filter(|a| a.memory_space == space) {
            let size = allocation.size_bytes;
            let class = match allocation.kind {
                AllocationKind::Parameter { .. } => {
                    if allocation.is_aliased_with_output {
                        summary.aliased_bytes = summary.aliased_bytes.saturating_add(size);
                        summary.output_bytes = summary.output_bytes.saturating_add(size);
                    }
                    &mut summary.argument_bytes
                }
                AllocationKind::Constant => &mut summary.constant_bytes,
                AllocationKind::ThreadLocal => &mut summary.thread_local_bytes,
                AllocationKind::Output => &mut summary.output_bytes,
                AllocationKind::Temporary => &mut summary.temporary_bytes,
            };
            *class = class.saturating_add(size);
        }
        summary
    }

    /// The largest values in one memory, with the allocation each lies in. Values that occupy exactly the same place
    /// one after another are listed once.
    pub fn largest(&self, space: MemorySpace, count: usize) -> Vec<(&Allocation, Assigned)> {
        self.largest_where(space, count, |_, _| true)
    }

    /// As [`BufferAssignment::largest`], of the values alive when their allocation is fullest. Where the compiler kept no
    /// peak for an allocation, all its values take part.
    pub fn largest_at_peak(&self, space: MemorySpace, count: usize) -> Vec<(&Allocation, Assigned)> {
        let alive: HashMap<i64, HashSet<BufferId>> =
            self.peaks.iter().map(|(index, buffers)| (*index, buffers.iter().copied().collect())).collect();
        self.largest_where(space, count, |allocation, placed| {
            alive.get(&allocation.index).is_none_or(|buffers| buffers.contains(&placed.buffer))
        })
    }

    fn largest_where(
        &self,
        space: MemorySpace,
        count: usize,
        keep: impl Fn(&Allocation, &Assigned) -> bool,
    ) -> Vec<(&Allocation, Assigned)> {
        let mut placed: Vec<(&Allocation, Assigned)> = (self.allocations.iter())
            .filter(|a| a.memory_space == space && a.kind != AllocationKind::ThreadLocal)
            .flat_map(|a| a.assigned.iter().map(move |&b| (a, b)))
            .filter(|(a, b)| keep(a, b))
            .collect();
        placed.sort_by_key(|(a, b)| (std::cmp::Reverse(b.size_bytes), a.index, b.offset_bytes, b.buffer));
        placed.dedup_by_key(|(a, b)| (a.index, b.offset_bytes, b.size_bytes));
        placed.truncate(count);
        placed
    }

    /// A value as text: the defining instruction, with the part of its result in braces.
    pub fn describe(&self, module: &HloModule, id: BufferId) -> String {
        let buffer = self.buffer(id);
        let name = match self.defining_instruction(module, id) {
            Some(instruction) => module.instruction(instruction).name(),
            None if buffer.instruction_name.is_empty() => "unknown",
            None => &buffer.instruction_name,
        };
        if buffer.shape_index.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", List(&buffer.shape_index)) }
    }

    /// The instruction of `module` that defines a value.
    pub fn defining_instruction(&self, module: &HloModule, id: BufferId) -> Option<InstructionId> {
        let buffer = self.buffer(id);
        module.find(&buffer.instruction_name).or_else(|| module.find_proto_id(buffer.instruction_number))
    }
}

fn size(at: &str, bytes: i64) -> Result<u64, Error> {
    u64::try_from(bytes).map_err(|_| Error::malformed(at, format!("negative size or offset {bytes}")))
}

fn read(proto: proto::BufferAssignment) -> Result<BufferAssignment, Error> {
    let mut ids = HashMap::with_capacity(proto.logical_buffers.len());
    let mut buffers = Vec::with_capacity(proto.logical_buffers.len());
    for buffer in proto.logical_buffers {
        let at = format!("buffer {}", buffer.id);
        let next = BufferId(u32::try_from(buffers.len()).map_err(|_| Error::malformed(&at, "too many buffers"))?);
        if ids.insert(buffer.id, next).is_some() {
            return Err(Error::malformed(&at, "the id occurs twice"));
        }
        let location = buffer.defined_at.unwrap_or_default();
        buffers.push(LogicalBuffer {
            size_bytes: size(&at, buffer.size)?,
            memory_space: MemorySpace(buffer.color),
            instruction_name: location.instruction_name,
            shape_index: location.shape_index,
            instruction_number: location.instruction_id,
        });
    }
    let find = |at: &str, id: i64| {
        ids.get(&id).copied().ok_or_else(|| Error::malformed(at, format!("there is no buffer {id}")))
    };
    let mut allocations = Vec::with_capacity(proto.buffer_allocations.len());
    for allocation in proto.buffer_allocations {
        allocations.push(read_allocation(allocation, &find)?);
    }
    let mut heap_traces = Vec::with_capacity(proto.heap_simulator_traces.len());
    for trace in proto.heap_simulator_traces {
        heap_traces.push(read_trace(trace, &find)?);
    }
    let peaks = (proto.peak_buffers.into_iter())
        .map(|peak| {
            let at = format!("peak of allocation {}", peak.index);
            let buffers = peak.logical_buffer_ids.iter().map(|&id| find(&at, id)).collect::<Result<_, _>>()?;
            Ok((peak.index, buffers))
        })
        .collect::<Result<_, Error>>()?;
    Ok(BufferAssignment { allocations, buffers, heap_traces, peaks })
}

fn read_allocation(
    proto: proto::BufferAllocation,
    find: &impl Fn(&str, i64) -> Result<BufferId, Error>,
) -> Result<Allocation, Error> {
    let at = format!("allocation {}", proto.index);
    let size_bytes = size(&at, proto.size)?;
    let mut assigned = Vec::with_capacity(proto.assigned.len());
    for a in proto.assigned {
        let placed = Assigned {
            buffer: find(&at, a.logical_buffer_id)?,
            offset_bytes: size(&at, a.offset)?,
            size_bytes: size(&at, a.size)?,
        };
        if placed.offset_bytes.checked_add(placed.size_bytes).is_none_or(|end| end > size_bytes) {
            return Err(Error::malformed(&at, format!("buffer {} reaches beyond it", a.logical_buffer_id)));
        }
        assigned.push(placed);
    }
    let kind = if proto.is_entry_computation_parameter {
        AllocationKind::Parameter { number: proto.parameter_number, index: proto.parameter_shape_index }
    } else if proto.is_constant {
        AllocationKind::Constant
    } else if proto.is_thread_local {
        AllocationKind::ThreadLocal
    } else if proto.maybe_live_out {
        AllocationKind::Output
    } else {
        AllocationKind::Temporary
    };
    Ok(Allocation {
        index: proto.index,
        size_bytes,
        kind,
        memory_space: MemorySpace(proto.color),
        is_tuple: proto.is_tuple,
        maybe_live_out: proto.maybe_live_out,
        is_aliased_with_output: proto.is_parameter_aliased_with_output,
        assigned,
    })
}

fn read_trace(
    proto: proto::HeapSimulatorTrace,
    find: &impl Fn(&str, i64) -> Result<BufferId, Error>,
) -> Result<HeapTrace, Error> {
    let at = format!("heap trace of allocation {}", proto.buffer_allocation_index);
    let mut events = Vec::with_capacity(proto.events.len());
    for event in proto.events {
        let kind = match event.kind {
            0 => HeapEventKind::Alloc,
            1 => HeapEventKind::Free,
            2 => HeapEventKind::ShareWith(find(&at, event.share_with_canonical_id)?),
            other => return Err(Error::malformed(&at, format!("unknown event {other}"))),
        };
        events.push(HeapEvent {
            kind,
            buffer: find(&at, event.buffer_id)?,
            instruction_name: event.instruction_name,
            computation_name: event.computation_name,
        });
    }
    Ok(HeapTrace { allocation_index: proto.buffer_allocation_index, events })
}
