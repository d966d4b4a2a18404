//! What only a compiled program can tell and a page shows: memory over the schedule, and the step in order.

mod live;
mod timeline;

use chips::Slice;
use xla::{BufferAssignment, HloModule};

use crate::machine::Machine;
use crate::simulate::simulate;
pub use live::{Alive, Band, LiveMemory, LivePoint};
pub use timeline::{LoopSpan, Span, SpanKind, Timeline, TransferWindow};

/// What only the compiled program can tell, and an answer does not keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pictures {
    /// Live bytes over the schedule, where the buffer assignment is known.
    pub live: Option<LiveMemory>,
    /// The step in order.
    pub timeline: Option<Timeline>,
}

impl Pictures {
    /// Draws a compiled program. `devices` are the device numbers of the partitions, as in [`crate::simulate`].
    pub fn of(module: &HloModule, buffers: Option<&BufferAssignment>, slice: &Slice, devices: &[u64]) -> Pictures {
        let executions = module.executions();
        let simulation = simulate(module, &executions, &Machine::of(slice), devices);
        Pictures {
            live: buffers.and_then(|buffers| LiveMemory::of(module, buffers)),
            timeline: Some(Timeline::of(module, &executions, &simulation)),
        }
    }
}
