//! Steps that pack and unpack integers of 2 and 4 bits, where a program's arguments and results meet ops on bytes.
#![allow(unsafe_code)]

use tensor::DType;

use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::memory::{device_bytes, pack, unpack};
use crate::program::{Kernel, Run};

/// Elements of a task.
const TASK: usize = 1 << 16;

/// Packed elements, each into a byte of its own.
pub(crate) struct Unpack {
    pub(crate) dtype: DType,
    pub(crate) count: usize,
}

/// Elements of a byte each, packed.
pub(crate) struct Pack {
    pub(crate) dtype: DType,
    pub(crate) count: usize,
}

/// Addresses that threads share for the time of one step.
struct Memory {
    from: *const u8,
    to: *mut u8,
}

// SAFETY: what the addresses point at outlives the step, and tasks write disjoint parts.
unsafe impl Sync for Memory {}

impl Memory {
    fn both(&self) -> (*const u8, *mut u8) {
        (self.from, self.to)
    }
}

impl Kernel for Unpack {
    fn name(&self) -> String {
        format!("unpack {}", self.dtype)
    }

    fn footprint(&self) -> Option<Footprint> {
        let packed = device_bytes(self.dtype, &[self.count])?;
        Some(Footprint { reads: vec![packed], writes: vec![Written::Whole(self.count)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let memory = Memory { from: inputs[0], to: outputs[0] };
        run.cores.pool.run(self.count.div_ceil(TASK), &|_, task| {
            let (from, to) = memory.both();
            let (start, count) = (task * TASK, TASK.min(self.count - task * TASK));
            let Some((before, bytes)) = spans(self.dtype, start, count) else { return };
            // SAFETY: elements of this task on both sides; a task begins at a byte.
            unsafe {
                let from = std::slice::from_raw_parts(from.add(before), bytes);
                unpack(self.dtype, from, std::slice::from_raw_parts_mut(to.add(start), count));
            }
        });
        Ok(())
    }
}

impl Kernel for Pack {
    fn name(&self) -> String {
        format!("pack {}", self.dtype)
    }

    fn footprint(&self) -> Option<Footprint> {
        let packed = device_bytes(self.dtype, &[self.count])?;
        Some(Footprint { reads: vec![self.count], writes: vec![Written::Whole(packed)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let memory = Memory { from: inputs[0], to: outputs[0] };
        run.cores.pool.run(self.count.div_ceil(TASK), &|_, task| {
            let (from, to) = memory.both();
            let (start, count) = (task * TASK, TASK.min(self.count - task * TASK));
            let Some((before, bytes)) = spans(self.dtype, start, count) else { return };
            // SAFETY: as above.
            unsafe {
                let from = std::slice::from_raw_parts(from.add(start), count);
                pack(self.dtype, from, std::slice::from_raw_parts_mut(to.add(before), bytes));
            }
        });
        Ok(())
    }
}

/// Packed bytes before some elements, and those of the elements.
fn spans(dtype: DType, start: usize, count: usize) -> Option<(usize, usize)> {
    Some((device_bytes(dtype, &[start])?, device_bytes(dtype, &[count])?))
}
