//! Moves of values between memories, as calls that compilers know.

use hlo::Attrs;
use hlo::memory_kind::{DEVICE, PINNED_HOST, placement, row_major};

use crate::graph::MemoryKind;

impl MemoryKind {
    /// Attributes of the calls that move a value with so many axes.
    pub(super) fn calls(self, rank: usize) -> Vec<Attrs> {
        match self {
            MemoryKind::Device => vec![placement(DEVICE)],
            // Otherwise the loop that writes and the loop that reads may choose layouts of their own, and what lies between
            // them is brought back, transposed and sent again as a whole.
            MemoryKind::Host => vec![row_major(rank), placement(PINNED_HOST)],
        }
    }
}
