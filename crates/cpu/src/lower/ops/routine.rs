//! A step made of one call of a kernel.
#![allow(unsafe_code)]

use crate::error::Error;
use crate::footprint::Footprint;
use crate::kernels::Cores;
use crate::program::{Kernel, Run};

/// Calls a kernel that was planned for the shapes of its slots.
pub(crate) struct Routine<F> {
    name: &'static str,
    footprint: Option<Footprint>,
    call: F,
}

impl<F: Fn(&[*const u8], &[*mut u8], &Cores) + Send + Sync> Routine<F> {
    /// A step of that name, which touches what its plan says. `call` may rely on what [`Kernel::run`] is promised.
    pub(crate) fn new(name: &'static str, footprint: Option<Footprint>, call: F) -> Routine<F> {
        Routine { name, footprint, call }
    }
}

impl<F: Fn(&[*const u8], &[*mut u8], &Cores) + Send + Sync> Kernel for Routine<F> {
    fn name(&self) -> String {
        self.name.into()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.footprint.clone()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        (self.call)(inputs, outputs, run.cores);
        Ok(())
    }
}
