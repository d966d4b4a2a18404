//! Vectors for numbers of a vocabulary, and scores of every entry from a vector.

use hlo::Attrs;
use kernel::composites::EMBEDDING_LOOKUP;
use tensor::DType;
use trace::{Key, Path, Tensor, Tree, composite};

use crate::init::Init;
use crate::quant::{InputAxis, MapWeights, TurnedTensor, Weight};

/// How vectors are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmbeddingLookup {
    /// A gather, which the compiler places.
    #[default]
    Gather,
    /// A composite that TPUs with SparseCores run there: for dense tables of `f32` with rows of whole lines of 128. All else is a gather.
    SparseCores,
}

/// A table of vectors.
#[derive(Clone, Debug, Tree)]
pub struct Embedding {
    /// `[entries, width]`.
    pub weight: Weight,
}

impl MapWeights for Embedding {
    fn map_weights_at(&self, path: &mut Path, f: &mut dyn FnMut(&Path, &Weight, InputAxis) -> Weight) -> Self {
        Embedding { weight: path.within("weight", |path| f(path, &self.weight, InputAxis::Last)) }
    }
}

impl Embedding {
    /// A drawn table.
    #[track_caller]
    pub fn init(key: &Key, entries: usize, width: usize, weight: Init) -> Embedding {
        Embedding { weight: weight.draw(key, DType::F32, &[entries, width]).into() }
    }

    /// The same without its values, for a part of a model that does not read them.
    pub(crate) fn elsewhere(&self) -> Embedding {
        Embedding { weight: self.weight.elsewhere() }
    }

    /// Vectors of integers, in the type of activations.
    #[track_caller]
    pub fn apply(&self, indices: &Tensor, compute: DType) -> Tensor {
        match &self.weight {
            Weight::Dense(table) => table.take(0, indices).cast(compute),
            Weight::Quantized(table) => table.rows(indices, compute),
            Weight::Blocks(table) => table.rows(indices, compute),
            Weight::Recorded(table, _) => Embedding { weight: (**table).clone() }.apply(indices, compute),
            table @ (Weight::InTraining(_) | Weight::Turned(_) | Weight::Joined(_) | Weight::Behind(_)) => {
                table.dense(compute).take(0, indices)
            }
        }
    }

    /// As [`Embedding::apply`], saying how. With sharding rules it is a gather, which the partitioner splits.
    #[track_caller]
    pub fn apply_with(&self, indices: &Tensor, compute: DType, lookup: EmbeddingLookup) -> Tensor {
        match (&self.weight, lookup) {
            (Weight::Dense(table), EmbeddingLookup::SparseCores) if trace::current_rules().is_none() => {
                let flat = indices.reshape(&[indices.dims().iter().product()]).cast(DType::I32);
                let rows = composite(EMBEDDING_LOOKUP, Attrs::new(), &(table.clone(), flat), |(table, ids)| {
                    table.take(0, ids)
                });
                let dims: Vec<usize> = indices.dims().iter().copied().chain([table.dim(1)]).collect();
                rows.reshape(&dims).cast(compute)
            }
            _ => self.apply(indices, compute),
        }
    }

    /// The table as matmuls read it, in the type of activations: all-gathered where it is sharded.
    #[track_caller]
    pub(crate) fn ready(&self, compute: DType) -> Embedding {
        Embedding { weight: self.weight.at_use(compute, &["vocab", "embed"]) }
    }

    /// The matmul of each vector with every entry, in `f32`: the logits of a model whose LM head is tied to its embedding.
    #[track_caller]
    pub fn scores(&self, x: &Tensor) -> Tensor {
        match &self.weight {
            Weight::Quantized(table) => table.matmul(x, DType::F32),
            Weight::Blocks(table) => table.matmul(x, DType::F32),
            Weight::Recorded(table, _) => Embedding { weight: (**table).clone() }.scores(x),
            table => TurnedTensor::new(table.dense(x.dtype())).matmul(x, DType::F32),
        }
    }
}
