//! Concatenation, padding, and slices whose place is known only when the program runs.
#![allow(unsafe_code)]

use hlo::Op;

use super::dense_operands;
use crate::attributes;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::copy::shapes::{self, DynamicSlice, DynamicUpdateSlice, Pad};
use crate::kernels::copy::{Plan, Side, dense_strides};
use crate::lower::block::Lowering;
use crate::program::{Kernel, Run};

struct Concatenate {
    pieces: Vec<Plan>,
}

pub(crate) fn concatenate(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let along = attributes::int(op, "dimension")? as usize;
    let (dtype, dims) = lowering.array_type(op.first_result)?;
    let (mut slots, mut pieces) = (Vec::new(), Vec::new());
    let strides = dense_strides(&dims);
    let mut start = 0;
    if along >= dims.len() {
        return Ok(None);
    }
    for &value in &op.operands {
        // Pieces are read as the views they are: a slice or a transpose costs no copy of its own.
        let view = lowering.view(value)?;
        let is_slab = view.dtype == dtype && view.dims.len() == dims.len();
        if !is_slab || (0..dims.len()).any(|d| d != along && view.dims[d] != dims[d]) {
            return Ok(None);
        }
        let to = Side { offset: strides[along].wrapping_mul(start), strides: strides.clone() };
        start += view.dims[along] as isize;
        let from = Side { offset: view.offset, strides: view.strides.clone() };
        pieces.push(Plan::new(&view.dims, &from, &to, dtype.size_bytes()));
        slots.push(view.slot);
    }
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Concatenate { pieces });
    Ok(Some(()))
}

impl Kernel for Concatenate {
    fn name(&self) -> String {
        format!("concatenate {}", self.pieces.len())
    }

    fn footprint(&self) -> Option<Footprint> {
        let reads = self.pieces.iter().map(Plan::reads).collect::<Option<Vec<usize>>>()?;
        let ends = self.pieces.iter().map(Plan::writes).collect::<Option<Vec<usize>>>()?;
        // Slabs side by side: they fill the result if they have as many bytes as there are up to their end.
        let bytes = self.pieces.iter().try_fold(0usize, |n, plan| n.checked_add(plan.bytes()))?;
        let end = ends.into_iter().max().unwrap_or(0);
        (bytes == end).then(|| Footprint { reads, writes: vec![Written::Whole(bytes)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        for (plan, &from) in self.pieces.iter().zip(inputs) {
            // SAFETY: each piece lies in its operand and in the result.
            unsafe { plan.run(from, outputs[0], run.cores) };
        }
        Ok(())
    }
}

struct Padding(Pad);

pub(crate) fn pad(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let [low, high, interior] =
        ["edge_padding_low", "edge_padding_high", "interior_padding"].map(|name| attributes::ints(op, name));
    let (dtype, dims) = lowering.array_type(op.operands[0])?;
    let Some(pad) = Pad::new(&dims, &low?, &high?, &interior?, dtype.size_bytes()) else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Padding(pad));
    Ok(Some(()))
}

impl Kernel for Padding {
    fn name(&self) -> String {
        "pad".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.0.footprint()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: operand, padding value and result have the shapes of the plan.
        unsafe { self.0.run(inputs[0], inputs[1], outputs[0], run.cores) };
        Ok(())
    }
}

struct Slice(DynamicSlice);

pub(crate) fn dynamic_slice(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let (dtype, dims) = lowering.array_type(op.operands[0])?;
    let (_, sizes) = lowering.array_type(op.first_result)?;
    let index = match op.operands.get(1) {
        Some(&index) => lowering.array_type(index)?.0,
        None => return Ok(None),
    };
    let Some(plan) = DynamicSlice::new(&dims, &sizes, index, dtype.size_bytes()) else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Slice(plan));
    Ok(Some(()))
}

impl Kernel for Slice {
    fn name(&self) -> String {
        "dynamic_slice".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.0.footprint()
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: operand, one scalar for each dimension, and result, as the plan was made for.
        unsafe { self.0.run(inputs[0], &inputs[1..], outputs[0], run.cores) };
        Ok(())
    }
}

struct Update {
    plan: DynamicUpdateSlice,
    whole: Plan,
}

pub(crate) fn dynamic_update_slice(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let (dtype, dims) = lowering.array_type(op.operands[0])?;
    let (_, sizes) = lowering.array_type(op.operands[1])?;
    let index = match op.operands.get(2) {
        Some(&index) => lowering.array_type(index)?.0,
        None => return Ok(None),
    };
    let width = dtype.size_bytes();
    let Some(plan) = DynamicUpdateSlice::new(&dims, &sizes, index, width) else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    let whole = shapes::broadcast_in_dim(&dims, &(0..dims.len()).collect::<Vec<_>>(), &dims, width);
    lowering.step(slots, vec![result], Update { plan, whole });
    Ok(Some(()))
}

impl Kernel for Update {
    fn name(&self) -> String {
        "dynamic_update_slice".into()
    }

    fn may_share(&self, input: usize, _output: usize) -> bool {
        input == 0
    }

    fn footprint(&self) -> Option<Footprint> {
        updated(&self.whole, self.plan.footprint()?)
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        if inputs[0] != outputs[0].cast_const() && self.whole.bytes() > 0 {
            // SAFETY: operand and result have the same shape and do not overlap.
            unsafe { self.whole.run(inputs[0], outputs[0], run.cores) };
        }
        // SAFETY: the update, one scalar for each dimension, and the result, as the plan was made for.
        unsafe { self.plan.run(inputs[1], &inputs[2..], outputs[0], run.cores) };
        Ok(())
    }
}

/// What a step touches that copies its first input and then changes a part of the copy, as `update` says.
pub(super) fn updated(whole: &Plan, update: Footprint) -> Option<Footprint> {
    let (read, written) = (whole.reads()?, whole.covers(&[])?);
    if update.writes.iter().any(|part| part.bytes() > written) {
        return None;
    }
    let mut reads = vec![read];
    reads.extend(update.reads);
    Some(Footprint { reads, writes: vec![Written::Whole(written)] })
}
