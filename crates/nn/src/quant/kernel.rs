//! The matmul with a weight in groups as a composite, which TPUs get as a kernel: codes are widened block by block in fast memory.

use hlo::Attrs;
use kernel::composites::QUANTIZED_MATMUL;
use tensor::DType;
use trace::{Contraction, Precision, Tensor, composite};

use crate::quant::{ActivationQuant, QuantScheme};

/// Whether the kernel takes weights of a scheme: codes that it can widen, in groups of whole tiles.
pub(crate) fn takes(scheme: &QuantScheme) -> bool {
    let tile = match scheme.values {
        DType::I4 => 64,
        DType::I8 | DType::F8E4M3FN | DType::F8E5M2 => 32,
        _ => return false,
    };
    scheme.activations == ActivationQuant::None && scheme.group.is_some_and(|group| group.is_multiple_of(tile))
}

/// `x [rows, in]` times codes `[in, out]`, each group by its scale of `[groups, out]`, in `f32`.
#[track_caller]
pub(crate) fn matmul(x: &Tensor, codes: &Tensor, scales: &Tensor) -> Tensor {
    composite(QUANTIZED_MATMUL, Attrs::new(), &(x.clone(), codes.clone(), scales.clone()), |(x, codes, scales)| {
        let (groups, rows, inputs) = (scales.dim(0), x.dim(0), x.dim(1));
        let size = inputs / groups.max(1);
        let apart = x.reshape(&[rows, groups, size]);
        let weight = codes.cast(x.dtype()).reshape(&[groups, size, codes.dim(1)]);
        let contraction = Contraction { lhs_batch: vec![1], rhs_batch: vec![0], lhs_sum: vec![2], rhs_sum: vec![1] };
        let parts = apart.dot_general(&weight, &contraction, DType::F32, Precision::Default);
        (parts * scales.expand(1)).sum(&[0])
    })
}
