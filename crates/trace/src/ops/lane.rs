//! Values of a function that runs for a batch.

use crate::Spec;
use crate::tensor::Tensor;

/// A value of a function that runs for a batch: its first axis is that of the batch, or it is the same for all examples.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) tensor: Tensor,
    pub(crate) is_batched: bool,
}

impl Lane {
    pub(crate) fn shared(tensor: Tensor) -> Lane {
        Lane { tensor, is_batched: false }
    }

    pub(crate) fn batched(tensor: Tensor) -> Lane {
        Lane { tensor, is_batched: true }
    }

    /// With an axis of the batch, also where all examples have the same.
    pub(crate) fn spread(&self, size: usize) -> Tensor {
        if self.is_batched {
            return self.tensor.clone();
        }
        let mut dims = vec![size];
        dims.extend(self.tensor.dims());
        let along: Vec<usize> = (1..dims.len()).collect();
        self.tensor.broadcast_along(&dims, &along)
    }

    /// Number of axes of one example.
    pub(crate) fn rank(&self) -> usize {
        self.tensor.rank() - usize::from(self.is_batched)
    }
}

/// A type with the axis of the batch in front.
pub(crate) fn with_axis(spec: &Spec, size: usize) -> Spec {
    let mut dims = vec![size];
    dims.extend(&spec.dims);
    Spec::new(spec.dtype, dims)
}
