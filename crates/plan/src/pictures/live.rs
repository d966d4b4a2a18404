//! Bytes of device memory alive from the first op of the schedule to the last.

use std::collections::HashMap;

use serde::Serialize;
use xla::{AllocationKind, BufferAssignment, HeapTrace, HloModule, MemorySpace};

use crate::estimate::short_source;
use crate::heap::Heap;

/// Live bytes over the schedule. A loop's body comes once: all its iterations use the same memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveMemory {
    /// Bytes alive throughout: arguments, results of their own memory, constants.
    pub held_bytes: u64,
    /// Bytes of temporaries, the most in each of equal parts of the schedule.
    pub points: Vec<LivePoint>,
    /// The fullest of them.
    pub peak: usize,
    /// Computations by where they begin and end in `points`.
    pub bands: Vec<Band>,
    /// Bytes the compiler sets aside for temporaries: the fullest moment, and gaps.
    pub reserved_bytes: u64,
}

/// One part of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LivePoint {
    /// Bytes of temporaries at most.
    pub bytes: u64,
    /// The instruction during which they are.
    pub instruction: String,
    /// Its name in the source.
    pub source: String,
}

/// A computation in the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// First part.
    pub begin: usize,
    /// Part after the last.
    pub end: usize,
    /// Iterations if it is the body of a loop of known length.
    pub trips: Option<u64>,
    /// Name of the computation.
    pub name: String,
}

/// Parts a schedule is shown in.
const PARTS: usize = 320;
/// Computations shown: those of fewer parts are not told apart.
const BANDS: usize = 40;
/// Buffers named.
const NAMED: usize = 40;

impl LiveMemory {
    /// Replays the compiler's own simulation of the heap; `None` where it kept none for device memory.
    pub fn of(module: &HloModule, assignment: &BufferAssignment) -> Option<LiveMemory> {
        let (allocation, trace) = fullest_heap(assignment)?;
        let held: u64 = (assignment.allocations().iter())
            .filter(|a| a.memory_space == MemorySpace::HBM && a.index != allocation)
            .filter(|a| a.kind != AllocationKind::ThreadLocal)
            .fold(0, |sum, a| sum.saturating_add(a.size_bytes));
        let reserved = assignment.allocations().iter().find(|a| a.index == allocation).map_or(0, |a| a.size_bytes);
        let count = trace.events.len();
        let parts = count.clamp(1, PARTS);
        let part_of = |event: usize| event * parts / count.max(1);
        // (most bytes in the part, event where that is)
        let mut most: Vec<Option<(u64, usize)>> = vec![None; parts];
        let mut heap = Heap::default();
        for (position, event) in trace.events.iter().enumerate() {
            heap.apply(assignment, event);
            let slot = &mut most[part_of(position)];
            if slot.is_none_or(|(bytes, _)| heap.bytes > bytes) {
                *slot = Some((heap.bytes, position));
            }
        }
        let points: Vec<LivePoint> = (most.iter().flatten())
            .map(|&(bytes, position)| {
                let event = &trace.events[position];
                let id = module.find(&event.instruction_name);
                let metadata = id.and_then(|id| module.instruction(id).metadata());
                LivePoint {
                    bytes,
                    instruction: event.instruction_name.clone(),
                    source: metadata.map_or_else(String::new, |metadata| short_source(&metadata.op_name)),
                }
            })
            .collect();
        // The first of several equal ones.
        let peak = (0..points.len()).rev().max_by_key(|&at| points[at].bytes)?;
        Some(LiveMemory {
            held_bytes: held,
            peak,
            bands: bands(module, trace, parts),
            points,
            reserved_bytes: reserved,
        })
    }

    /// Bytes at the fullest moment.
    pub fn peak_bytes(&self) -> u64 {
        self.held_bytes.saturating_add(self.points.get(self.peak).map_or(0, |point| point.bytes))
    }
}

/// A buffer that is alive at the fullest moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// The argument's name, or the instruction that defines it.
    pub name: String,
    /// What it holds, in the words of [`MemoryClass::name`](crate::report::MemoryClass::name).
    pub class: String,
    /// Shape on one device.
    pub shape: String,
    /// Bytes with padding.
    pub bytes: u64,
    /// Bytes of the elements.
    pub logical_bytes: u64,
    /// Name or place in the source.
    pub source: String,
}

impl Alive {
    /// The largest buffers at the fullest moment as the compiler names them, for callers that do not tell classes apart.
    pub fn at_peak(module: &HloModule, assignment: &BufferAssignment) -> Vec<Alive> {
        let buffer = |(allocation, placed): (&xla::Allocation, xla::Assigned)| {
            let id = assignment.defining_instruction(module, placed.buffer);
            let index = &assignment.buffer(placed.buffer).shape_index;
            let shape = id.and_then(|id| module.instruction(id).shape().subshape(index));
            let metadata = id.and_then(|id| module.instruction(id).metadata());
            let class = match allocation.kind {
                AllocationKind::Parameter { .. } => "arguments",
                AllocationKind::Output => "outputs",
                AllocationKind::Constant => "constants",
                _ => "temporaries",
            };
            Alive {
                name: assignment.describe(module, placed.buffer),
                class: class.into(),
                shape: shape.map_or_else(String::new, ToString::to_string),
                bytes: placed.size_bytes,
                logical_bytes: shape.map_or(placed.size_bytes, |shape| shape.byte_size()).min(placed.size_bytes),
                source: metadata.map_or_else(String::new, |metadata| short_source(&metadata.op_name)),
            }
        };
        assignment.largest_at_peak(MemorySpace::HBM, NAMED).into_iter().map(buffer).collect()
    }
}

/// The simulated heap of the largest allocation of device memory that has one.
fn fullest_heap(assignment: &BufferAssignment) -> Option<(i64, &HeapTrace)> {
    let hbm = assignment.allocations().iter().filter(|a| a.memory_space == MemorySpace::HBM);
    let traced = hbm.filter_map(|a| {
        let trace = assignment.heap_traces().iter().find(|trace| trace.allocation_index == a.index)?;
        Some((a.size_bytes, a.index, trace))
    });
    traced.max_by_key(|(size, ..)| *size).map(|(_, index, trace)| (index, trace))
}

/// Runs of events of the same computation, the longest ones, in order.
fn bands(module: &HloModule, trace: &HeapTrace, parts: usize) -> Vec<Band> {
    let executions = module.executions();
    let mut trips: HashMap<&str, u64> = HashMap::new();
    for (id, count) in executions.loops() {
        if let (xla::TripCount::Known(count), Some(&body)) =
            (count, module.instruction(*id).called_computations().first())
        {
            trips.insert(module.computation(body).name(), *count);
        }
    }
    let count = trace.events.len().max(1);
    let mut found: Vec<Band> = Vec::new();
    let mut begin = 0;
    for (position, event) in trace.events.iter().enumerate() {
        let ends = trace.events.get(position + 1).is_none_or(|next| next.computation_name != event.computation_name);
        if ends {
            let (first, last) = (begin * parts / count, ((position + 1) * parts).div_ceil(count));
            begin = position + 1;
            found.push(Band {
                begin: first,
                end: last,
                trips: trips.get(event.computation_name.as_str()).copied(),
                name: event.computation_name.clone(),
            });
        }
        if found.len() > 16 * BANDS {
            keep_widest(&mut found);
        }
    }
    keep_widest(&mut found);
    found
}

fn keep_widest(bands: &mut Vec<Band>) {
    bands.sort_by_key(|band| std::cmp::Reverse(band.end - band.begin));
    bands.truncate(BANDS);
    bands.sort_by_key(|band| band.begin);
}
