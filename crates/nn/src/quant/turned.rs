//! A dense weight that lies in memory as files have it.

use tensor::DType;
use trace::{CompileTarget, Contraction, Path, Precision, Tensor, Tree};

use crate::at_use::at_use;

/// A dense weight whose last two axes lie exchanged, `[…, out, in]`: GPUs and CPUs read the inputs of a result one after the other, and
/// loading turns nothing. Layers see it as `[…, in, out]`.
#[derive(Clone, Debug)]
pub struct TurnedTensor {
    stored: Tensor,
    /// As layers see it.
    dims: Vec<usize>,
}

impl TurnedTensor {
    /// What lies in memory as `[…, out, in]`.
    pub fn new(stored: Tensor) -> TurnedTensor {
        let mut dims = stored.dims().to_vec();
        if let [.., inputs, outputs] = dims.as_mut_slice() {
            std::mem::swap(inputs, outputs);
        }
        TurnedTensor { stored, dims }
    }

    /// As it lies in memory.
    pub(crate) fn stored(&self) -> &Tensor {
        &self.stored
    }

    /// Its axes as layers see them.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The size of an axis as layers see it.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        let rank = self.stored.rank() as isize;
        let from_end = if axis < 0 { axis } else { axis - rank };
        self.stored.dim(match from_end {
            -1 => -2,
            -2 => -1,
            _ => axis,
        })
    }

    /// As a matmul reads it on a mesh, see [`at_use`].
    #[track_caller]
    pub(crate) fn at_use(&self, compute: DType, logical_axes: &[&str]) -> TurnedTensor {
        let mut turned = logical_axes.to_vec();
        if let [.., inputs, outputs] = turned.as_mut_slice() {
            std::mem::swap(inputs, outputs);
        }
        TurnedTensor::new(at_use(&self.stored.cast(compute), &turned))
    }

    /// As layers see it, in a type.
    #[track_caller]
    pub fn dense(&self, dtype: DType) -> Tensor {
        self.stored.cast(dtype).swap_axes(-2, -1)
    }

    /// The matmul of `x [..., in]` with a weight of two axes, in a type.
    #[track_caller]
    pub(crate) fn matmul(&self, x: &Tensor, result: DType) -> Tensor {
        let inputs = x.dim(-1);
        // cuBLAS reads a matrix for one vector no faster than for two, and only in the type of its result; sums along rows read it
        // at the speed of the memory, and what is done to the vector before and after becomes a part of them.
        if trace::current_target() == CompileTarget::Cuda && x.num_elements() == inputs && self.stored.rank() == 2 {
            let sums = (x.cast(DType::F32).reshape(&[1, inputs]) * self.stored.cast(DType::F32)).sum(&[1]);
            let dims = [&x.dims()[..x.rank() - 1], &[self.stored.dim(0)]].concat();
            return sums.cast(result).reshape(&dims);
        }
        let contraction =
            Contraction { lhs_sum: vec![x.rank().saturating_sub(1)], rhs_sum: vec![1], ..Contraction::default() };
        x.dot_general(&self.stored.cast(x.dtype()), &contraction, result, Precision::Default)
    }
}

impl Tree for TurnedTensor {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        self.stored.visit(path, f);
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        TurnedTensor::new(self.stored.map(path, f))
    }
}
