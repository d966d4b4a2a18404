//! Pointwise convolutions, which are matmuls: windows of one point and no padding.
#![allow(unsafe_code)]

use tensor::DType;

use super::super::Cores;
use super::super::machine::Machine;
use super::super::matmul::{MatMul, Operand, Packed, Plan, Target};
use super::AsMatmul;
use super::shape::{Axis, Problem};
use crate::memory::Packing;

/// A convolution as a matmul.
#[derive(Debug)]
pub(super) struct Pointwise {
    problem: MatMul,
    plan: Plan,
    factors: Factors,
}

/// Which matrix the filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factors {
    /// Rows are outputs, the filter is on the right.
    Pixels,
    /// Rows are output features, the filter is on the left.
    Features,
}

impl Pointwise {
    /// `None` where it is no matmul with one stride for its rows.
    pub(super) fn new(problem: &Problem, dtype: DType, machine: &Machine) -> Option<Pointwise> {
        if problem.groups > 1 || !problem.axes.iter().all(Axis::is_point) {
            return None;
        }
        // Outputs of an image lie along one axis only, or in equal steps along several.
        let strides = |axis: &Axis| (axis.input_stride * axis.step as isize, axis.output_stride);
        let mut pixels = 1;
        let mut steps = (0, 0);
        for axis in problem.axes.iter().rev().filter(|axis| axis.count > 1) {
            let (input, output) = strides(axis);
            if pixels > 1 && (input != steps.0 * pixels as isize || output != steps.1 * pixels as isize) {
                return None;
            }
            if pixels == 1 {
                steps = (input, output);
            }
            pixels *= axis.count;
        }
        let (input, filter, output) = (&problem.input, &problem.filter, &problem.output);
        let operand = |row_stride, col_stride, batch_stride| Operand {
            dtype,
            packing: Packing::Bytes,
            row_stride,
            col_stride,
            batch_stride,
        };
        let (features, inputs) = (problem.outputs, problem.inputs);
        let (problem, factors) = if output.feature == 1 || features == 1 {
            // Images in equal steps are more rows of one matrix.
            let (mut batch, mut rows) = (problem.batch, pixels);
            let is_run = input.outer == steps.0 * pixels as isize && output.outer == steps.1 * pixels as isize;
            if pixels == 1 {
                steps = (input.outer, output.outer);
            }
            if is_run || pixels == 1 {
                (batch, rows) = (1, batch * pixels);
            }
            let lhs = operand(steps.0, input.feature, input.outer);
            let rhs = operand(filter.feature, filter.outer, 0);
            let out = Target { dtype, row_stride: steps.1, batch_stride: output.outer };
            (MatMul { batch, m: rows, n: features, k: inputs, lhs, rhs, out }, Factors::Pixels)
        } else if steps.1 == 1 {
            let lhs = operand(filter.outer, filter.feature, 0);
            let rhs = operand(input.feature, steps.0, input.outer);
            let out = Target { dtype, row_stride: output.feature, batch_stride: output.outer };
            (MatMul { batch: problem.batch, m: features, n: pixels, k: inputs, lhs, rhs, out }, Factors::Features)
        } else {
            return None;
        };
        Some(Pointwise { plan: problem.clone().plan(machine), problem, factors })
    }

    pub(super) fn as_matmul(&self) -> Option<AsMatmul> {
        let MatMul { batch, m, n, out, .. } = &self.problem;
        let is_dense = out.row_stride == *n as isize && (*batch == 1 || out.batch_stride == (m * n) as isize);
        let factors = if self.factors == Factors::Pixels { [0, 1] } else { [1, 0] };
        is_dense.then(|| AsMatmul { problem: self.problem.clone(), plan: self.plan.clone(), factors })
    }

    /// # Safety
    /// `filter` is as the problem says.
    pub(super) unsafe fn pack(&self, filter: *const u8) -> Option<Packed> {
        if self.factors != Factors::Pixels || !self.plan.gains_by_packing() {
            return None;
        }
        // SAFETY: the caller's promise.
        Some(unsafe { self.plan.pack_rhs(filter) })
    }

    /// # Safety
    /// As [`super::Plan::run`].
    pub(super) unsafe fn run(
        &self,
        input: *const u8,
        filter: *const u8,
        output: *mut u8,
        packed: Option<&Packed>,
        cores: &Cores,
    ) {
        // SAFETY: the caller's promise; the matrices are those arrays.
        unsafe {
            match self.factors {
                Factors::Pixels => self.plan.run(input, filter, output, packed, None, cores),
                Factors::Features => self.plan.run(filter, input, output, None, None, cores),
            }
        }
    }
}
