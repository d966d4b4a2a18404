//! A view written out: the one copy that reshapes, transposes, slices and broadcasts come down to.
#![allow(unsafe_code)]

use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::copy::{Plan, Side};
use crate::lower::view::View;
use crate::program::{Kernel, Run};

/// Copies a view into a dense array.
pub(crate) struct Copy {
    plan: Plan,
    /// The view is the whole array: where source and target are the same memory nothing is left to do.
    is_whole: bool,
    label: String,
}

impl Copy {
    pub(crate) fn new(view: &View) -> Copy {
        let from = Side { offset: view.offset, strides: view.strides.clone() };
        let width = view.dtype.size_bytes();
        Copy {
            plan: Plan::new(&view.dims, &from, &Side::dense(&view.dims), width),
            is_whole: view.is_dense(),
            label: format!("copy {}{:?} by {:?}", view.dtype, view.dims, view.strides),
        }
    }
}

impl Kernel for Copy {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn may_share(&self, _input: usize, _output: usize) -> bool {
        self.is_whole
    }

    fn is_identity(&self) -> bool {
        self.is_whole
    }

    fn footprint(&self) -> Option<Footprint> {
        Some(Footprint { reads: vec![self.plan.reads()?], writes: vec![Written::Whole(self.plan.covers(&[])?)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        if self.plan.bytes() > 0 && inputs[0] != outputs[0].cast_const() {
            // SAFETY: the view lies in the input, the output has room for all its elements.
            unsafe { self.plan.run(inputs[0], outputs[0], run.cores) };
        }
        Ok(())
    }
}
