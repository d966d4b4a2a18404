//! Concatenation, padding, and slices whose place is known only when the program runs.
#![allow(unsafe_code)]

use hlo::Op;

use super::dense_operands;
use crate::attributes;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::copy::shapes::{self, DynamicSlice, DynamicUpdateSlice, Pad};
use crate::kernels::copy::{Plan, Side, dense_strides};
use crate::lower::block::{Lowering, Origin};
use crate::lower::view::View;
use crate::memory::Packing;
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
    let view = lowering.view(op.operands[0])?;
    if let Some(argument) = part_of(lowering, &view)
        && let Some(shapes) = run_of_bytes(&view, &dims, &sizes)
        && let Some(plan) = DynamicSlice::new(&shapes[0], &shapes[1], index, 1)
    {
        let mut slots = vec![view.slot];
        for &index in &op.operands[1..] {
            slots.push(lowering.dense_value(index)?);
        }
        let bytes = shapes[1].iter().product();
        let part = lowering.slot(bytes, Origin::Part(argument));
        lowering.define(op.first_result, part);
        lowering.pack_view(op.first_result, view.packing);
        lowering.step(slots, vec![part], Part(plan));
        return Ok(Some(()));
    }
    let Some(plan) = DynamicSlice::new(&dims, &sizes, index, dtype.size_bytes()) else { return Ok(None) };
    let slots = dense_operands(lowering, op)?;
    let result = lowering.result_slot(op.first_result)?;
    lowering.step(slots, vec![result], Slice(plan));
    Ok(Some(()))
}

/// The argument that a view is the whole of, if it is only read.
fn part_of(lowering: &Lowering<'_>, view: &View) -> Option<usize> {
    let Origin::Argument(n) = lowering.slots[view.slot.0 as usize].origin else { return None };
    (view.is_dense() && lowering.kept.get(n) == Some(&true)).then_some(n)
}

/// Sizes of an array and of a slice of it with bytes for the last dimension, if the slice is one run of bytes.
pub(crate) fn run_of_bytes(view: &View, dims: &[usize], sizes: &[usize]) -> Option<[Vec<usize>; 2]> {
    if dims.len() != sizes.len() || sizes.contains(&0) {
        return None;
    }
    // One index along the outer dimensions, some along the next, all along the rest.
    let cut = sizes.iter().take_while(|&&size| size == 1).count();
    if (cut + 1..dims.len()).any(|d| dims[d] != sizes[d]) {
        return None;
    }
    let width = view.packing.width(view.dtype);
    let last = dims.len().checked_sub(1)?;
    // Indices along a dimension of packed elements would name parts of bytes.
    let bits = [dims[last], sizes[last]].map(|size| size.checked_mul(width));
    let is_whole = |bits: Option<usize>| bits.is_some_and(|bits| bits.is_multiple_of(8));
    if !bits.into_iter().all(is_whole) || (view.packing == Packing::Bits || width > 8) && dims[last] != sizes[last] {
        return None;
    }
    let with_bytes = |dims: &[usize], bits: Option<usize>| {
        let mut dims = dims.to_vec();
        dims[last] = bits? / 8;
        Some(dims)
    };
    Some([with_bytes(dims, bits[0])?, with_bytes(sizes, bits[1])?])
}

/// A slice of an array that is only read, used where it lies.
struct Part(DynamicSlice);

impl Kernel for Part {
    fn name(&self) -> String {
        "dynamic_slice in place".into()
    }

    fn footprint(&self) -> Option<Footprint> {
        self.0.footprint()
    }

    unsafe fn part(&self, inputs: &[*const u8]) -> Option<isize> {
        // SAFETY: one index scalar for each dimension, as the footprint says.
        Some(unsafe { self.0.start(&inputs[1..]) })
    }

    fn is_part(&self) -> bool {
        true
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        // SAFETY: the operand, one index scalar per dimension, and a slice of the operand.
        unsafe { self.0.run(inputs[0], &inputs[1..], outputs[0], run.cores) };
        Ok(())
    }
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
