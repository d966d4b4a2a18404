//! The fullest moment of the memory for temporaries: what is alive then, and during which instruction.

use std::collections::HashMap;

use hlo::xla::{BufferAssignment, BufferId, HeapEvent, HeapEventKind};

/// The fullest moment of one allocation.
pub(super) struct Fullest<'a> {
    /// Bytes of what is alive.
    pub(super) bytes: u64,
    /// What is alive, each buffer once however many values share it.
    pub(super) alive: Vec<BufferId>,
    /// The instruction being run.
    pub(super) instruction: &'a str,
    /// Its computation.
    pub(super) computation: &'a str,
}

/// Memory that one buffer took and others share.
struct Group {
    bytes: u64,
    sharers: u32,
}

/// The heap while it is replayed.
#[derive(Default)]
struct Heap {
    groups: HashMap<BufferId, Group>,
    /// The group a buffer belongs to.
    member_of: HashMap<BufferId, BufferId>,
    bytes: u64,
}

impl Heap {
    fn apply(&mut self, assignment: &BufferAssignment, event: &HeapEvent) {
        match event.kind {
            HeapEventKind::Alloc => {
                let bytes = assignment.buffer(event.buffer).size_bytes;
                if self.groups.insert(event.buffer, Group { bytes, sharers: 1 }).is_none() {
                    self.bytes = self.bytes.saturating_add(bytes);
                }
                self.member_of.insert(event.buffer, event.buffer);
            }
            HeapEventKind::ShareWith(other) => {
                let owner = self.member_of.get(&other).copied().unwrap_or(other);
                if let Some(group) = self.groups.get_mut(&owner) {
                    group.sharers += 1;
                    self.member_of.insert(event.buffer, owner);
                }
            }
            HeapEventKind::Free => {
                let Some(owner) = self.member_of.remove(&event.buffer) else { return };
                let Some(group) = self.groups.get_mut(&owner) else { return };
                group.sharers = group.sharers.saturating_sub(1);
                if group.sharers == 0 {
                    self.bytes = self.bytes.saturating_sub(group.bytes);
                    self.groups.remove(&owner);
                }
            }
            _ => {}
        }
    }
}

/// Replays the compiler's simulation of the heap of an allocation.
pub(super) fn fullest(assignment: &BufferAssignment, allocation_index: i64) -> Option<Fullest<'_>> {
    let trace = assignment.heap_traces().iter().find(|trace| trace.allocation_index == allocation_index)?;
    let mut heap = Heap::default();
    let (mut most, mut at) = (0, None);
    for (position, event) in trace.events.iter().enumerate() {
        heap.apply(assignment, event);
        if heap.bytes > most {
            (most, at) = (heap.bytes, Some(position));
        }
    }
    // Again up to there: keeping what is alive at every new maximum would copy it each time.
    let at = at?;
    let mut heap = Heap::default();
    trace.events[..=at].iter().for_each(|event| heap.apply(assignment, event));
    let mut alive: Vec<BufferId> = heap.groups.into_keys().collect();
    alive.sort_unstable();
    let event = &trace.events[at];
    Some(Fullest { bytes: most, alive, instruction: &event.instruction_name, computation: &event.computation_name })
}
