//! Attention as one step.
#![allow(unsafe_code)]

use crate::error::Error;
use crate::footprint::Footprint;
use crate::kernels::attention::{Arrays, Attention};
use crate::program::{Kernel, Run};

/// Two dots and the rows between them.
pub(crate) struct Step {
    attention: Attention,
    /// Bytes to the first elements of the three factors.
    offsets: [isize; 3],
}

impl Step {
    pub(crate) fn new(attention: Attention, offsets: [isize; 3]) -> Step {
        Step { attention, offsets }
    }
}

impl Kernel for Step {
    fn name(&self) -> String {
        self.attention.label()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.attention.footprint(self.offsets)
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let [left, right, values] = [0, 1, 2].map(|n| inputs[n].wrapping_offset(self.offsets[n]));
        let arrays = Arrays { left, right, values, others: &inputs[3..], out: outputs[0] };
        // SAFETY: the slots hold what the footprint says.
        unsafe { self.attention.run(&arrays, run.cores) };
        Ok(())
    }
}
