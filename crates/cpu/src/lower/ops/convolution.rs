//! Convolutions: operands are read by their strides, so that a transpose or a reversal before one costs nothing.
#![allow(unsafe_code)]

use hlo::{Op, Value};
use tensor::DType;

use super::contraction::{self, Multiply, PendingDot};
use crate::attributes;
use crate::error::Error;
use crate::footprint::{Footprint, Written};
use crate::kernels::conv::{AsMatmul, Convolution, Layout, Packed, Plan, Window};
use crate::kernels::matmul::{MatMul, Operand, Target};
use crate::lower::block::{Lowering, Origin};
use crate::lower::view::{View, row_major};
use crate::memory::Packing;
use crate::program::{Kernel, Run};

/// A convolution as a step.
struct Convolve {
    plan: Plan,
    /// Bytes from the start of each input to its first element.
    offsets: [isize; 2],
    packed: Option<Packed>,
    label: String,
}

pub(crate) fn convolution(lowering: &mut Lowering<'_>, op: &Op) -> Result<Option<()>, Error> {
    let plain = |v: Value| lowering.func.ty(v).as_tensor().and_then(|ty| ty.element.plain());
    let all = [plain(op.operands[0]), plain(op.operands[1]), plain(op.first_result)];
    let Some(wide) = computed_in(all) else { return Ok(None) };
    let (Some(result_type), Ok(_)) = (all[2], attributes::conv_dims(op)) else { return Ok(None) };
    let mut views = [lowering.view(op.operands[0])?, lowering.view(op.operands[1])?];
    let (_, result_dims) = lowering.array_type(op.first_result)?;
    let Some(problem) = problem(op, wide, &views, &result_dims)? else { return Ok(None) };
    if problem.plan(lowering.machine).is_none() {
        return Ok(None);
    }
    for view in &mut views {
        if view.dtype != wide {
            *view = lowering.converted(view, wide)?;
        }
    }
    let planned = self::problem(op, wide, &views, &result_dims)?.and_then(|problem| problem.plan(lowering.machine));
    let Some(plan) = planned else { return Ok(None) };
    let offsets = [0, 1].map(|n| views[n].offset * wide.size_bytes() as isize);
    if let (Some(dot), true) = (plan.as_matmul(), wide == result_type) {
        return matmul_step(lowering, op.first_result, dot, &views, offsets).map(Some);
    }
    let packed = packed(lowering, &plan, &views[1], offsets[1]);
    let label = label(&problem, &plan);
    if let (Some((m, n)), true) = (plan.finishes(), wide == result_type && lowering.defers(op.first_result)) {
        let taps = problem.windows.iter().map(|w| w.kernel).product::<usize>();
        let sizes = matrix_of(wide, m, n, taps * problem.input_features);
        let multiply = Multiply::Images(Box::new(plan), packed, label);
        let inputs = [views[0].slot, views[1].slot];
        lowering.defer(op.first_result, PendingDot { multiply, problem: sizes, inputs, offsets })?;
        return Ok(Some(()));
    }
    let step = Convolve { plan, offsets, packed, label };
    let inputs = views.iter().map(|view| view.slot).collect();
    if wide == result_type {
        let slot = lowering.result_slot(op.first_result)?;
        lowering.step(inputs, vec![slot], step);
    } else {
        let slot = lowering.temporary(wide, &result_dims)?;
        lowering.step(inputs, vec![slot], step);
        let view = lowering.converted(&View::dense(slot, wide, result_dims), result_type)?;
        lowering.define(op.first_result, view.slot);
    }
    Ok(Some(()))
}

/// A convolution with a window of one point, which other loops can finish as they do a dot.
fn matmul_step(
    lowering: &mut Lowering<'_>,
    result: Value,
    dot: AsMatmul,
    views: &[View; 2],
    offsets: [isize; 2],
) -> Result<(), Error> {
    let AsMatmul { problem, plan, factors } = dot;
    let [left, right] = factors;
    let constant = match lowering.slots[views[right].slot.0 as usize].origin {
        Origin::Constant(n) if plan.gains_by_packing() => Some(&lowering.constants[n]),
        _ => None,
    };
    let is_within = |bytes: &&Vec<u8>| {
        let is_read = problem.rhs_reads(offsets[right]).is_some_and(|end| end <= bytes.len());
        is_read && is_worth_packing(&views[right], bytes)
    };
    let constant = constant.filter(is_within).map(|bytes| bytes.as_ptr());
    // SAFETY: the matrices lie in the constant's bytes.
    let packed = constant.map(|bytes| unsafe { plan.pack_rhs(bytes.wrapping_offset(offsets[right])) });
    let inputs = [views[left].slot, views[right].slot];
    let multiply = Multiply::matrices(plan, packed);
    let dot = PendingDot { multiply, problem, inputs, offsets: [offsets[left], offsets[right]] };
    if lowering.defers(result) {
        return lowering.defer(result, dot);
    }
    let slot = lowering.result_slot(result)?;
    contraction::push(lowering, dot, slot);
    Ok(())
}

/// The sizes of a convolution whose result is a dense matrix.
fn matrix_of(dtype: DType, m: usize, n: usize, k: usize) -> MatMul {
    let factor = Operand { dtype, packing: Packing::Bytes, row_stride: 0, col_stride: 0, batch_stride: 0 };
    let out = Target { dtype, row_stride: n as isize, batch_stride: (m * n) as isize };
    MatMul { batch: 1, m, n, k, lhs: factor.clone(), rhs: factor, out }
}

/// The type to convolve in.
fn computed_in(all: [Option<DType>; 3]) -> Option<DType> {
    let [Some(lhs), Some(rhs), Some(out)] = all else { return None };
    let all = [lhs, rhs, out];
    if all.iter().all(|t| t.is_float()) {
        return Some(if all.contains(&DType::F64) { DType::F64 } else { DType::F32 });
    }
    // Sums of products modulo 2³² are right in every narrower type.
    all.iter().all(|t| t.is_integer() && t.bits() <= 32).then_some(DType::I32)
}

/// What the op convolves, operands as they lie.
fn problem(op: &Op, dtype: DType, views: &[View; 2], result: &[usize]) -> Result<Option<Convolution>, Error> {
    let Ok(dims) = attributes::conv_dims(op) else { return Ok(None) };
    let spatial = dims.input_spatial.len();
    let list = |name, fill| attributes::ints_or(op, name, spatial, fill);
    let strides = list("window_strides", 1)?;
    let (input_dilation, kernel_dilation) = (list("lhs_dilation", 1)?, list("rhs_dilation", 1)?);
    let reversal = list("window_reversal", 0)?;
    let padding = attributes::padding(op, spatial)?;
    let group_count = |name| usize::try_from(attributes::int_or(op, name, 1)).unwrap_or(1).max(1);
    let [input, filter] = views;
    let size = |n: i64| usize::try_from(n).unwrap_or(0);
    let mut windows = Vec::with_capacity(spatial);
    for s in 0..spatial {
        windows.push(Window {
            input: input.dims[dims.input_spatial[s] as usize],
            kernel: filter.dims[dims.kernel_spatial[s] as usize],
            output: result[dims.output_spatial[s] as usize],
            stride: size(strides[s]),
            low: padding[s].0,
            input_dilation: size(input_dilation[s]),
            kernel_dilation: size(kernel_dilation[s]),
            is_reversed: reversal[s] != 0,
        });
    }
    let layout = |strides: &[isize], outer: i64, feature: i64, spatial: &[i64]| Layout {
        outer: strides[outer as usize],
        feature: strides[feature as usize],
        spatial: spatial.iter().map(|&d| strides[d as usize]).collect(),
    };
    Ok(Some(Convolution {
        dtype,
        batch: result[dims.output_batch as usize],
        input_features: filter.dims[dims.kernel_input_feature as usize],
        output_features: result[dims.output_feature as usize],
        feature_groups: group_count("feature_group_count"),
        batch_groups: group_count("batch_group_count"),
        windows,
        input: layout(&input.strides, dims.input_batch, dims.input_feature, &dims.input_spatial),
        filter: layout(&filter.strides, dims.kernel_output_feature, dims.kernel_input_feature, &dims.kernel_spatial),
        output: layout(&row_major(result), dims.output_batch, dims.output_feature, &dims.output_spatial),
    }))
}

/// Whether a constant is worth keeping in the order of a kernel: one element that stands for many would grow without bound.
fn is_worth_packing(view: &View, bytes: &[u8]) -> bool {
    const MOST_GROWTH: usize = 4;
    let whole = crate::memory::byte_count(view.dtype, &view.dims);
    whole.is_some_and(|whole| whole <= bytes.len().saturating_mul(MOST_GROWTH))
}

/// A constant filter in the order of the kernel.
fn packed(lowering: &Lowering<'_>, plan: &Plan, filter: &View, offset: isize) -> Option<Packed> {
    let Origin::Constant(n) = lowering.slots[filter.slot.0 as usize].origin else { return None };
    let bytes = &lowering.constants[n];
    plan.filter_reads(offset).filter(|&end| end <= bytes.len() && is_worth_packing(filter, bytes))?;
    // SAFETY: the filter lies in the constant's bytes.
    unsafe { plan.pack(bytes.as_ptr().wrapping_offset(offset), lowering.machine) }
}

fn label(problem: &Convolution, plan: &Plan) -> String {
    let sizes =
        |size: fn(&Window) -> usize| problem.windows.iter().map(|w| size(w).to_string()).collect::<Vec<_>>().join("x");
    format!(
        "convolution {} ({}) {}x{}x{} of {} by {} of {}",
        problem.dtype,
        plan.name(),
        problem.batch,
        sizes(|w| w.output),
        problem.output_features,
        sizes(|w| w.input),
        sizes(|w| w.kernel),
        problem.input_features,
    )
}

impl Kernel for Convolve {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn footprint(&self) -> Option<Footprint> {
        let filter = if self.packed.is_some() { 0 } else { self.plan.filter_reads(self.offsets[1])? };
        let reads = vec![self.plan.input_reads(self.offsets[0])?, filter];
        Some(Footprint { reads, writes: vec![Written::Whole(self.plan.output_writes()?)] })
    }

    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error> {
        let [input, filter] = [0, 1].map(|n| inputs[n].wrapping_offset(self.offsets[n]));
        // SAFETY: the slots hold what the footprint says.
        unsafe { self.plan.run(input, filter, outputs[0], self.packed.as_ref(), None, run.cores) };
        Ok(())
    }
}
