//! The fullest moment of the memory for temporaries: what is alive then, and during which instruction.

use xla::{BufferAssignment, BufferId};

use crate::heap::Heap;

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
    let alive = heap.places();
    let event = &trace.events[at];
    Some(Fullest { bytes: most, alive, instruction: &event.instruction_name, computation: &event.computation_name })
}
