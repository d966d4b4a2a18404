//! Vectors for numbers of a vocabulary, and scores of every entry from a vector.

use tensor::DType;
use trace::{Contraction, Key, Precision, Tensor, Tree};

use crate::init::Init;
use crate::layers::at_use;

/// A table of vectors.
#[derive(Clone, Debug, Tree)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Tensor,
}

impl Embedding {
    /// A drawn table.
    #[track_caller]
    pub fn init(key: &Key, entries: usize, width: usize, weight: Init) -> Embedding {
        Embedding { weight: weight.draw(key, DType::F32, &[entries, width]) }
    }

    /// Vectors of integers, in the type of activations.
    #[track_caller]
    pub fn apply(&self, indices: &Tensor, compute: DType) -> Tensor {
        self.weight.take(0, indices).cast(compute)
    }

    /// The table as matmuls read it, in the type of activations: all-gathered where it is sharded.
    #[track_caller]
    pub(crate) fn ready(&self, compute: DType) -> Embedding {
        Embedding { weight: at_use(&self.weight.cast(compute), &["vocab", "embed"]) }
    }

    /// The matmul of each vector with every entry, in `f32`: the logits of a model whose LM head is tied to its embedding.
    #[track_caller]
    pub fn scores(&self, x: &Tensor) -> Tensor {
        let contraction =
            Contraction { lhs_sum: vec![x.rank().saturating_sub(1)], rhs_sum: vec![1], ..Contraction::default() };
        x.dot_general(&self.weight.cast(x.dtype()), &contraction, DType::F32, Precision::Default)
    }
}
