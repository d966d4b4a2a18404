//! The compiler's simulation of a heap, replayed: what is alive after each event.

use std::collections::HashMap;

use xla::{BufferAssignment, BufferId, HeapEvent, HeapEventKind};

/// What is alive while a trace is replayed. Values that share memory keep it until the last of them is freed.
#[derive(Default)]
pub(crate) struct Heap {
    /// The value whose memory a live value lies in: itself, or the one it shares with.
    place: HashMap<BufferId, BufferId>,
    /// Live values in a place.
    users: HashMap<BufferId, u64>,
    /// Bytes of all places.
    pub(crate) bytes: u64,
}

impl Heap {
    /// Goes one event on.
    pub(crate) fn apply(&mut self, assignment: &BufferAssignment, event: &HeapEvent) {
        match event.kind {
            HeapEventKind::Alloc => self.enter(assignment, event.buffer, event.buffer),
            HeapEventKind::ShareWith(other) => {
                let place = self.place.get(&other).copied().unwrap_or(other);
                self.enter(assignment, event.buffer, place);
            }
            HeapEventKind::Free => self.leave(assignment, event.buffer),
            _ => {}
        }
    }

    /// The values whose memory is taken, each place once, by number.
    pub(crate) fn places(&self) -> Vec<BufferId> {
        let mut places: Vec<BufferId> = self.users.keys().copied().collect();
        places.sort_unstable();
        places
    }

    fn enter(&mut self, assignment: &BufferAssignment, buffer: BufferId, place: BufferId) {
        if self.place.insert(buffer, place).is_some() {
            return;
        }
        let users = self.users.entry(place).or_default();
        *users += 1;
        if *users == 1 {
            self.bytes = self.bytes.saturating_add(assignment.buffer(place).size_bytes);
        }
    }

    fn leave(&mut self, assignment: &BufferAssignment, buffer: BufferId) {
        let Some(place) = self.place.remove(&buffer) else { return };
        let Some(users) = self.users.get_mut(&place) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.users.remove(&place);
            self.bytes = self.bytes.saturating_sub(assignment.buffer(place).size_bytes);
        }
    }
}
