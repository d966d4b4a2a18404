//! The LM head fused with cross-entropy: logits exist block by block only, forward and backward.

mod backward;
mod composite;
mod forward;
mod plain;

use tensor::{DType, Spec};

use super::{PassDirection, divisor};
use crate::error::Error;
use crate::ir::MatMulForm::TransposedRhs;
use crate::kernel::CostEstimate;
pub use backward::{Sum, backward, backward_weight, backward_x};
pub(super) use composite::{backward_for, backward_plain, forward_for, forward_plain};
pub use forward::forward;
pub use plain::{decomposition, decomposition_of_gradients};

use crate::writer::{Val, Writer};

const KERNEL: &str = "cross_entropy";

/// Shapes of one loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedCrossEntropy {
    /// Hidden states.
    pub rows: usize,
    /// Size of a hidden state.
    pub depth: usize,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Element type of hidden states and weight.
    pub dtype: DType,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropyBlockSizes {
    /// Hidden states.
    pub rows: usize,
    /// Rows of the weight (tokens of the vocabulary), padded with zeros to a whole number of blocks.
    pub vocab: usize,
}

impl CrossEntropyBlockSizes {
    /// Sizes from the one that the compiler's static estimate prefers (`docs/kernel-cycles.md`) down to the smallest: the first
    /// that fits into VMEM is to be taken.
    pub fn preferred(loss: &FusedCrossEntropy, pass: PassDirection) -> impl Iterator<Item = CrossEntropyBlockSizes> {
        let sizes = match pass {
            PassDirection::Forward => [(1024, 512), (512, 512), (512, 256), (256, 256), (128, 128)],
            PassDirection::Backward => [(1024, 256), (512, 256), (256, 256), (256, 128), (128, 128)],
        };
        let loss = *loss;
        sizes.into_iter().filter_map(move |(rows, vocab)| {
            Some(CrossEntropyBlockSizes {
                rows: divisor(loss.rows, 128, rows)?,
                vocab: whole_blocks(loss.vocab_size, vocab),
            })
        })
    }
}

/// A block of the vocabulary that leaves little of the last one empty.
fn whole_blocks(vocab_size: usize, most: usize) -> usize {
    let tiles = vocab_size.next_multiple_of(128);
    let most = most / 128 * 128;
    match divisor(tiles, 128, most) {
        Some(block) if 2 * block >= most.min(tiles) => block,
        _ => most.max(128),
    }
}

impl FusedCrossEntropy {
    fn x(&self) -> Spec {
        Spec::new(self.dtype, [self.rows, self.depth])
    }

    /// Size of the vocabulary in whole blocks.
    fn padded(&self, blocks: &CrossEntropyBlockSizes) -> usize {
        self.vocab_size.next_multiple_of(blocks.vocab.max(1))
    }

    fn weight(&self, blocks: &CrossEntropyBlockSizes) -> Spec {
        Spec::new(self.dtype, [self.padded(blocks), self.depth])
    }

    fn row(&self, dtype: DType) -> Spec {
        Spec::new(dtype, [1, self.rows])
    }

    fn check(&self, blocks: &CrossEntropyBlockSizes) -> Result<(), Error> {
        let is_whole = |size: usize| size > 0 && size.is_multiple_of(128);
        let fits = is_whole(blocks.rows)
            && is_whole(blocks.vocab)
            && self.rows.is_multiple_of(blocks.rows)
            && i32::try_from(self.vocab_size.saturating_add(blocks.vocab)).is_ok();
        if !fits || self.rows == 0 || !matches!(self.dtype, DType::BF16 | DType::F32) {
            let message = format!("blocks {blocks:?} for {self:?}: multiples of 128, rows divided, of bf16 or f32");
            return Err(Error::Shape { kernel: KERNEL, message });
        }
        Ok(())
    }

    /// Work of so many matmuls. `x` and the weight are read so many times, blocks that come back included; other bytes are
    /// given.
    fn cost(&self, matmuls: u64, (x_times, weight_times): (usize, usize), more_bytes: u64) -> CostEstimate {
        let logits = self.rows as u64 * self.vocab_size as u64;
        let weight = Spec::new(self.dtype, [self.vocab_size, self.depth]);
        let rows = 4 * self.row(DType::F32).bytes();
        let read = x_times as u64 * self.x().bytes() + weight_times as u64 * weight.bytes();
        CostEstimate {
            flops: matmuls * 2 * logits * self.depth as u64,
            transcendentals: logits,
            bytes_accessed: read + rows + more_bytes,
        }
    }
}

/// A block of logits, vocabulary by rows so that the values of a row are dense, and where it is.
struct Logits<'k> {
    k: &'k Writer,
    /// `f32 [vocab, rows]`.
    values: Val<'k>,
    /// Of the block among blocks of the vocabulary.
    index: Val<'k>,
    vocab: usize,
    rows: usize,
    /// Size of the vocabulary, where the last block is not full.
    limit: Option<usize>,
}

impl<'k> Logits<'k> {
    fn new(k: &'k Writer, loss: &FusedCrossEntropy, x: Val<'k>, (weight, index): (Val<'k>, Val<'k>)) -> Logits<'k> {
        let (vocab, rows) = (weight.dims()[0], x.dims()[0]);
        let limit = (!loss.vocab_size.is_multiple_of(vocab.max(1))).then_some(loss.vocab_size);
        Logits { k, values: k.matmul(weight, x, TransposedRhs), index, vocab, rows, limit }
    }

    /// Where a token is the label of its row, `[1, rows]`.
    fn is_label(&self, labels: Val<'k>) -> Val<'k> {
        self.k.iota([self.vocab, self.rows], 0).equals(labels - self.index * self.vocab as i32)
    }

    /// Values by token, with a number beyond the vocabulary.
    fn known(&self, values: Val<'k>, instead: f32) -> Val<'k> {
        let Some(limit) = self.limit else { return values };
        let left = self.k.i32(limit as i32) - self.index * self.vocab as i32;
        self.k.iota([self.vocab, self.rows], 0).less(left).select(values, instead)
    }
}
