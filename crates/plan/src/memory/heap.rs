//! The fullest moment of the memory for temporaries: what is alive then, and during which instruction.

use std::collections::HashMap;

use hlo::xla::{BufferAssignment, BufferId, HeapEventKind};

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
    let mut alive: HashMap<BufferId, u64> = HashMap::new();
    let (mut now, mut most, mut at) = (0u64, 0u64, None);
    for (position, event) in trace.events.iter().enumerate() {
        match event.kind {
            HeapEventKind::Alloc => {
                let bytes = assignment.buffer(event.buffer).size_bytes;
                if alive.insert(event.buffer, bytes).is_none() {
                    now = now.saturating_add(bytes);
                }
                if now > most {
                    (most, at) = (now, Some(position));
                }
            }
            HeapEventKind::Free => {
                if let Some(bytes) = alive.remove(&event.buffer) {
                    now = now.saturating_sub(bytes);
                }
            }
            _ => {}
        }
    }
    let at = at?;
    let mut alive: HashMap<BufferId, ()> = HashMap::new();
    for event in &trace.events[..=at] {
        match event.kind {
            HeapEventKind::Alloc => drop(alive.insert(event.buffer, ())),
            HeapEventKind::Free => drop(alive.remove(&event.buffer)),
            _ => {}
        }
    }
    let mut alive: Vec<BufferId> = alive.into_keys().collect();
    alive.sort_unstable();
    let event = &trace.events[at];
    Some(Fullest { bytes: most, alive, instruction: &event.instruction_name, computation: &event.computation_name })
}
