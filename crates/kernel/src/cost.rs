//! Work of one call: matmuls, transcendentals and bytes, as the planner and the compiler read them.

use tensor::Spec;

use crate::ir::{BlockId, KernelOp, MatMulForm, UnaryOp};
use crate::kernel::{CostEstimate, Kernel, ReferenceRole};

/// Passes through a matrix unit take at least this share of its edge in cycles: the next tile is loaded meanwhile. By the
/// compiler's cycles of 8 to 64 rows: 0.6 on v5e, 0.7 on v6e.
pub const LEAST_PASS: f64 = 0.65;

/// Bytes of an array as TPUs hold it: elements of less than a byte are packed.
pub(crate) fn packed_bytes(array: &Spec) -> u64 {
    (array.num_elements() as u64).saturating_mul(u64::from(array.dtype.bits())).div_ceil(8)
}

/// Counts a kernel with every branch taken; a loop whose bounds are not constants counts once.
pub(crate) fn count(kernel: &Kernel) -> CostEstimate {
    let steps = kernel.grid.iter().fold(1u64, |n, axis| n.saturating_mul(axis.size as u64));
    let mut cost = block(kernel, BlockId(0), steps);
    let arrays = kernel.references.iter().map(|reference| match &reference.role {
        ReferenceRole::Input(window) if window.part_of.is_some() => 0,
        ReferenceRole::Input(window) | ReferenceRole::Output(window) => packed_bytes(&window.array),
        ReferenceRole::Prefetch => reference.block.bytes(),
        ReferenceRole::Scratch => 0,
    });
    cost.bytes_accessed = arrays.fold(0, u64::saturating_add);
    cost
}

fn block(kernel: &Kernel, id: BlockId, times: u64) -> CostEstimate {
    let body = &kernel.body;
    let mut cost = CostEstimate::default();
    let mut add = |other: CostEstimate| {
        cost.flops = cost.flops.saturating_add(other.flops);
        cost.transcendentals = cost.transcendentals.saturating_add(other.transcendentals);
    };
    for statement in &body.block(id).statements {
        match &statement.op {
            KernelOp::If { then, otherwise, .. } => {
                add(block(kernel, *then, times));
                add(block(kernel, *otherwise, times));
            }
            KernelOp::For { body, .. } => add(block(kernel, *body, times)),
            KernelOp::MatMul { lhs, rhs, form, .. } => {
                let (lhs, rhs) = (&body.ty(*lhs).dims, &body.ty(*rhs).dims);
                let size = |dims: &[usize], n: usize| dims.get(n).map_or(1, |&d| d as u64);
                let (m, k, n) = match form {
                    MatMulForm::Plain => (size(lhs, 0), size(lhs, 1), size(rhs, 1)),
                    MatMulForm::TransposedRhs => (size(lhs, 0), size(lhs, 1), size(rhs, 0)),
                    MatMulForm::TransposedLhs => (size(lhs, 1), size(lhs, 0), size(rhs, 1)),
                };
                add(CostEstimate { flops: times.saturating_mul(2 * m * k * n), ..CostEstimate::default() });
            }
            KernelOp::Unary(UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Log | UnaryOp::Rsqrt | UnaryOp::Tanh, value) => {
                let elements = body.ty(*value).num_elements() as u64;
                add(CostEstimate { transcendentals: times.saturating_mul(elements), ..CostEstimate::default() });
            }
            _ => {}
        }
    }
    cost
}
