//! Rows of the KV cache: which request has which, and what earlier requests left in them.

/// Fewer tokens are computed again rather than copied from a row that is in use.
const LEAST_COPIED: usize = 32;

/// A row of the KV cache.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Tokens whose keys and values are in the row, from the first position on.
    tokens: Vec<u32>,
    is_taken: bool,
    last_used: u64,
}

/// A row given to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenSlot {
    /// The row.
    pub(crate) slot: usize,
    /// Tokens of the prompt that need not be computed.
    pub(crate) reused: usize,
    /// The row that they are copied from, where it is another.
    pub(crate) copy_from: Option<usize>,
}

/// All rows.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    clock: u64,
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Slots {
    pub(crate) fn new(count: usize) -> Slots {
        Slots { slots: vec![Slot::default(); count], clock: 0 }
    }

    /// A row for a prompt; `None` if all are taken. At least the last token of the prompt is left to compute.
    pub(crate) fn take(&mut self, prompt: &[u32]) -> Option<TakenSlot> {
        self.clock += 1;
        let usable = &prompt[..prompt.len().saturating_sub(1)];
        let shared = |slot: &Slot| common(&slot.tokens, usable);
        let free = || self.slots.iter().enumerate().filter(|(_, slot)| !slot.is_taken);
        // What is there already, else the row that was not used for longest; rows in front make small batches.
        let (own, reused) = free()
            .map(|(n, slot)| (n, shared(slot)))
            .min_by_key(|&(n, shared)| (std::cmp::Reverse(shared), self.slots[n].last_used, n))?;
        let other = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_taken);
        let other = other.map(|(n, slot)| (n, shared(slot))).max_by_key(|&(n, shared)| (shared, std::cmp::Reverse(n)));
        let taken = match other {
            Some((from, copied)) if copied >= reused + LEAST_COPIED => {
                // A row that shares little is kept for others: the oldest is taken.
                let oldest = free().min_by_key(|(n, slot)| (slot.last_used, *n)).map_or(own, |(n, _)| n);
                TakenSlot { slot: oldest, reused: copied, copy_from: Some(from) }
            }
            _ => TakenSlot { slot: own, reused, copy_from: None },
        };
        let slot = &mut self.slots[taken.slot];
        slot.tokens = prompt[..taken.reused].to_vec();
        (slot.is_taken, slot.last_used) = (true, self.clock);
        Some(taken)
    }

    /// More tokens are in a row.
    pub(crate) fn written(&mut self, slot: usize, tokens: &[u32]) {
        self.slots[slot].tokens.extend_from_slice(tokens);
    }

    /// Positions filled of a row.
    pub(crate) fn filled(&self, slot: usize) -> usize {
        self.slots[slot].tokens.len()
    }

    /// A row is free; what is in it may be used again.
    pub(crate) fn release(&mut self, slot: usize) {
        self.clock += 1;
        (self.slots[slot].is_taken, self.slots[slot].last_used) = (false, self.clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_reused_where_prompts_begin_alike() {
        let mut slots = Slots::new(3);
        let long: Vec<u32> = (0..100).collect();
        assert_eq!(slots.take(&long), Some(TakenSlot { slot: 0, reused: 0, copy_from: None }));
        slots.written(0, &long);
        // The same prompt while the first is running: copied, but for its last token.
        assert_eq!(slots.take(&long), Some(TakenSlot { slot: 1, reused: 99, copy_from: Some(0) }));
        slots.release(0);
        // The row itself, once it is free.
        let longer: Vec<u32> = (0..120).collect();
        assert_eq!(slots.take(&longer), Some(TakenSlot { slot: 0, reused: 100, copy_from: None }));
        assert_eq!(slots.take(&[7, 8]), Some(TakenSlot { slot: 2, reused: 0, copy_from: None }));
        assert_eq!(slots.take(&[7, 8]), None);
        slots.release(2);
        assert_eq!(slots.take(&[9]), Some(TakenSlot { slot: 2, reused: 0, copy_from: None }));
    }
}
