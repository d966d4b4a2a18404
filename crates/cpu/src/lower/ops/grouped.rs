//! Dots with scales by group as one step: partial sums of each group, times its scales, added up.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, HashMap};

use hlo::{Definition, Func, Op, OpId, OpKind, Region, Value};
use tensor::DType;

use super::contraction::{self, Order};
use crate::attributes;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::loops::ir::Fold;
use crate::kernels::matmul::{Grouped, MatMul, Scales, is_narrow};
use crate::lower::block::Lowering;
use crate::lower::constant;
use crate::lower::fuse::reduction_fold;
use crate::lower::view::{array_type, is_transparent};
use crate::program::{Kernel, Run};

/// A reduction that adds up a dot's groups, by what is multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupedDot {
    dot: OpId,
    /// `[groups, rows, columns]`.
    scales: Value,
    /// Between the dot and the reduction.
    product: OpId,
}

/// The reductions of a region that become grouped dots.
#[derive(Debug, Default)]
pub(crate) struct GroupedDots {
    by_reduction: HashMap<OpId, GroupedDot>,
    /// Dots and multiplications that are part of one.
    inside: BTreeSet<OpId>,
}

impl GroupedDots {
    pub(crate) fn of(func: &Func, region: Region, uses: &HashMap<Value, Vec<(OpId, usize)>>) -> GroupedDots {
        let mut found = GroupedDots::default();
        let ops: BTreeSet<OpId> = func.region(region).ops.iter().copied().collect();
        for &id in &ops {
            let dot = recognise(func, func.op(id), uses);
            if let Some(dot) = dot.filter(|dot| ops.contains(&dot.dot) && ops.contains(&dot.product)) {
                found.inside.extend([dot.dot, dot.product]);
                found.by_reduction.insert(id, dot);
            }
        }
        found
    }

    /// Whether an op is the reduction of a grouped dot.
    pub(crate) fn ends_at(&self, id: OpId) -> Option<GroupedDot> {
        self.by_reduction.get(&id).copied()
    }

    /// Whether an op is computed as part of a grouped dot that ends at another.
    pub(crate) fn has_inside(&self, id: OpId) -> bool {
        self.inside.contains(&id)
    }

    /// Whether an op is any part of a grouped dot.
    pub(crate) fn has(&self, id: OpId) -> bool {
        self.has_inside(id) || self.by_reduction.contains_key(&id)
    }
}

/// `reduce_add(dot(x, w) * scales)` over the one batch dimension of a dot with a narrow right factor.
fn recognise(func: &Func, op: &Op, uses: &HashMap<Value, Vec<(OpId, usize)>>) -> Option<GroupedDot> {
    if reduction_fold(func, op)? != Fold::Sum || attributes::ints(op, "dimensions").ok()? != [0] {
        return None;
    }
    let is_zero = |value: Value| {
        let Definition::Result(id, _) = func.value(value).definition else { return false };
        constant::splat(func.op(id)).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
    };
    let (dtype, dims) = array_type(func.ty(op.operands[0]))?;
    if dtype != DType::F32 || dims.len() != 3 || dims.contains(&0) || !is_zero(op.operands[1]) {
        return None;
    }
    let is_used_once = |value: Value| uses.get(&value).is_some_and(|uses| uses.len() == 1);
    let Definition::Result(product, _) = func.value(op.operands[0]).definition else { return None };
    let multiply = func.op(product);
    if multiply.kind() != Some(OpKind::Multiply) || !is_used_once(multiply.first_result) {
        return None;
    }
    let [left, right] = multiply.operands[..] else { return None };
    [(left, right), (right, left)].into_iter().find_map(|(dot, scales)| {
        let Definition::Result(id, _) = func.value(dot).definition else { return None };
        let is_there = is_grouped(func, func.op(id), &dims) && is_used_once(dot) && is_by_group(func, scales);
        is_there.then_some(GroupedDot { dot: id, scales, product })
    })
}

/// Whether an op is a dot of `[rows, groups, steps]` or such with a narrow `[groups, steps, columns]`.
fn is_grouped(func: &Func, op: &Op, dims: &[usize]) -> bool {
    let plain = |value: Value| func.ty(value).as_tensor().and_then(|ty| ty.element.plain());
    if op.kind() != Some(OpKind::DotGeneral) || op.attr("algorithm").is_some() {
        return false;
    }
    let types = (plain(op.operands[0]), plain(op.operands[1]));
    let (Some(lhs), Some(rhs)) = types else { return false };
    let rank = func.ty(op.operands[0]).as_tensor().map_or(0, |ty| ty.rank());
    let Ok(numbers) = attributes::dot_dims(op, rank) else { return false };
    let sizes = array_type(func.ty(op.first_result)).map(|(_, dims)| dims);
    is_narrow(rhs)
        && MatMul::is_supported(lhs, rhs, DType::F32)
        && numbers.lhs_batching.len() == 1
        && sizes.as_deref() == Some(dims)
        && rank == 2 + numbers.lhs_contracting.len()
}

/// Whether a value of `[groups, rows, columns]` is the same for all rows: a broadcast of an array without them.
fn is_by_group(func: &Func, value: Value) -> bool {
    let Definition::Result(id, _) = func.value(value).definition else { return false };
    let op = func.op(id);
    if op.kind() != Some(OpKind::BroadcastInDim) || !is_transparent(func, op) {
        // Of one row there is nothing to repeat.
        return array_type(func.ty(value)).is_some_and(|(_, dims)| dims[1] == 1);
    }
    let (Ok(along), Some((_, from))) =
        (attributes::ints(op, "broadcast_dimensions"), array_type(func.ty(op.operands[0])))
    else {
        return false;
    };
    along.iter().zip(&from).all(|(&to, &size)| to != 1 || size == 1)
}

/// One step for a grouped dot.
pub(crate) fn lower(lowering: &mut Lowering<'_>, op: &Op, grouped: GroupedDot) -> Result<Option<()>, Error> {
    let dot = lowering.func.op(grouped.dot);
    let Some((dot, _)) = contraction::pending(lowering, dot, Order::AsWritten)? else { return Ok(None) };
    let label = format!("{} by group", contraction::label(&dot));
    let problem =
        MatMul { out: crate::kernels::matmul::Target { dtype: DType::F32, ..dot.problem.out }, ..dot.problem };
    let mut scales = lowering.view(grouped.scales)?;
    let is_any = Grouped::reads_any_scales(&problem, lowering.machine);
    let is_plain = |strides: &[isize], dims: &[usize]| {
        (strides[1] == 0 || dims[1] == 1) && (is_any || matches!(strides[2], 0 | 1) || dims[2] == 1)
    };
    if !is_plain(&scales.strides, &scales.dims) {
        let slot = lowering.dense(&scales)?;
        scales = crate::lower::view::View::dense(slot, scales.dtype, scales.dims.clone());
    }
    let column = if scales.dims[2] == 1 { 0 } else { scales.strides[2] };
    let strides = Scales { group: scales.strides[0], column };
    let result = lowering.result_slot(op.first_result)?;
    lowering.computing.extend([grouped.dot, grouped.product]);
    let inputs = vec![dot.inputs[0], dot.inputs[1], scales.slot];
    let work = Grouped::new(problem, strides, lowering.machine);
    lowering.step(inputs, vec![result], Step { work, offsets: dot.offsets, scales: scales.offset, label });
    Ok(Some(()))
}

struct Step {
    work: Grouped,
    /// Bytes from the start of each factor to its first element.
    offsets: [isize; 2],
    /// Elements from the start of the scales to the first.
    scales: isize,
    label: String,
}

impl Kernel for Step {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn footprint(&self) -> Option<Footprint> {
        let (reads, written) = self.work.touches(self.offsets, self.scales)?;
        Some(Footprint { reads: reads.to_vec(), writes: vec![Written::Whole(written)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let [lhs, rhs] = [0, 1].map(|n| inputs[n].wrapping_offset(self.offsets[n]));
        let scales = inputs[2].cast::<f32>().wrapping_offset(self.scales);
        // SAFETY: the slots hold what the footprint says.
        unsafe { self.work.run(lhs, rhs, scales, outputs[0].cast(), run.cores) };
        Ok(())
    }
}
