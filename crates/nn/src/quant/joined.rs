//! Weights of matmuls of the same input that lie in memory one behind the other.

use tensor::DType;
use trace::{Path, Tensor, Tree};

use crate::quant::{TurnedTensor, Weight};

/// Dense weights of the same inputs as one, `[…, outputs of all, in]`: one matmul reads them all. It stands for the first of them; the
/// others are [`Weight::Behind`].
#[derive(Clone, Debug)]
pub struct JoinedTensor {
    all: TurnedTensor,
    /// The first as layers see it.
    dims: Vec<usize>,
    /// Outputs of each.
    sizes: Vec<usize>,
}

impl JoinedTensor {
    /// What lies in memory as `[…, outputs of all, in]`, with the outputs of each.
    pub fn new(stored: Tensor, sizes: Vec<usize>) -> JoinedTensor {
        let all = TurnedTensor::new(stored);
        let mut dims = all.dims().to_vec();
        if let (Some(outputs), Some(first)) = (dims.last_mut(), sizes.first()) {
            *outputs = *first;
        }
        JoinedTensor { all, dims, sizes }
    }

    /// The axes of the first as layers see them.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The first as layers see it, in a type.
    #[track_caller]
    pub fn dense(&self, dtype: DType) -> Tensor {
        self.all.dense(dtype).slice(-1, 0..self.sizes.first().copied().unwrap_or(0))
    }

    /// The matmuls of `x [..., in]` with each, in a type.
    #[track_caller]
    pub(crate) fn matmuls(&self, x: &Tensor, result: DType) -> Vec<Tensor> {
        let all = self.all.matmul(x, result);
        let mut from = 0;
        let part = |size: &usize| {
            from += size;
            all.slice(-1, from - size..from)
        };
        self.sizes.iter().map(part).collect()
    }
}

impl Tree for JoinedTensor {
    fn visit(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor)) {
        self.all.visit(path, f);
    }

    fn map(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Tensor) -> Tensor) -> Self {
        JoinedTensor::new(self.all.stored().map(path, f), self.sizes.clone())
    }
}

/// The matmuls of `x [..., in]` with weights that are joined, in its type; `None` where they are apart.
#[track_caller]
pub(crate) fn joined_matmuls<const N: usize>(weights: [&Weight; N], x: &Tensor) -> Option<[Tensor; N]> {
    match weights.first() {
        Some(Weight::Joined(joined)) => joined.matmuls(x, x.dtype()).try_into().ok(),
        _ => None,
    }
}
