//! The last product and the cross-entropy in one: logits exist block by block only, forward and backward.

mod backward;
mod composite;
mod forward;
mod plain;

use tensor::{DType, Spec};

use super::{Pass, divisor};
use crate::error::Error;
use crate::ir::MatMulForm::TransposedRhs;
use crate::kernel::Cost;
pub use backward::{Sum, backward, backward_weight, backward_x};
pub(super) use composite::{backward_for, backward_plain, forward_for, forward_plain};
pub use forward::forward;
pub use plain::{decomposition, decomposition_of_gradients};

use crate::writer::{Val, Writer};

const KERNEL: &str = "cross_entropy";

/// Shapes of one loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropy {
    /// Predictions.
    pub rows: usize,
    /// Size of a prediction.
    pub depth: usize,
    /// Words to choose from.
    pub words: usize,
    /// Element type of predictions and words.
    pub dtype: DType,
}

/// Block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Predictions.
    pub rows: usize,
    /// Words; the weight has rows of zeros up to a whole number of blocks.
    pub words: usize,
}

impl Blocks {
    /// Sizes from the one that the compiler's static estimate prefers (`docs/kernel-cycles.md`) down to the smallest: the first
    /// that fits into VMEM is to be taken.
    pub fn preferred(loss: &CrossEntropy, pass: Pass) -> impl Iterator<Item = Blocks> {
        let sizes = match pass {
            Pass::Forward => [(1024, 512), (512, 512), (512, 256), (256, 256), (128, 128)],
            Pass::Backward => [(1024, 256), (512, 256), (256, 256), (256, 128), (128, 128)],
        };
        let loss = *loss;
        sizes.into_iter().filter_map(move |(rows, words)| {
            Some(Blocks { rows: divisor(loss.rows, 128, rows)?, words: whole_words(loss.words, words) })
        })
    }
}

/// A block of words that leaves little of the last one empty.
fn whole_words(words: usize, most: usize) -> usize {
    let tiles = words.next_multiple_of(128);
    let most = most / 128 * 128;
    match divisor(tiles, 128, most) {
        Some(block) if 2 * block >= most.min(tiles) => block,
        _ => most.max(128),
    }
}

impl CrossEntropy {
    fn x(&self) -> Spec {
        Spec::new(self.dtype, [self.rows, self.depth])
    }

    /// Words in whole blocks.
    fn padded(&self, blocks: &Blocks) -> usize {
        self.words.next_multiple_of(blocks.words.max(1))
    }

    fn weight(&self, blocks: &Blocks) -> Spec {
        Spec::new(self.dtype, [self.padded(blocks), self.depth])
    }

    fn row(&self, dtype: DType) -> Spec {
        Spec::new(dtype, [1, self.rows])
    }

    fn check(&self, blocks: &Blocks) -> Result<(), Error> {
        let is_whole = |size: usize| size > 0 && size.is_multiple_of(128);
        let fits = is_whole(blocks.rows)
            && is_whole(blocks.words)
            && self.rows.is_multiple_of(blocks.rows)
            && i32::try_from(self.words.saturating_add(blocks.words)).is_ok();
        if !fits || self.rows == 0 || !matches!(self.dtype, DType::BF16 | DType::F32) {
            let message = format!("blocks {blocks:?} for {self:?}: multiples of 128, rows divided, of bf16 or f32");
            return Err(Error::Shape { kernel: KERNEL, message });
        }
        Ok(())
    }

    /// Work of so many products. `x` and the weight are read so many times, blocks that come back included; other bytes are
    /// given.
    fn cost(&self, products: u64, (x_times, weight_times): (usize, usize), more_bytes: u64) -> Cost {
        let logits = self.rows as u64 * self.words as u64;
        let weight = Spec::new(self.dtype, [self.words, self.depth]);
        let rows = 4 * self.row(DType::F32).bytes();
        let read = x_times as u64 * self.x().bytes() + weight_times as u64 * weight.bytes();
        Cost {
            flops: products * 2 * logits * self.depth as u64,
            transcendentals: logits,
            bytes_accessed: read + rows + more_bytes,
        }
    }
}

/// A block of logits, words by rows so that what belongs to a row lies densely, and where it is.
struct Logits<'k> {
    k: &'k Writer,
    /// `f32 [words, rows]`.
    values: Val<'k>,
    /// Of the block among blocks of words.
    index: Val<'k>,
    words: usize,
    rows: usize,
    /// Words that there are, where the last block is not full.
    limit: Option<usize>,
}

impl<'k> Logits<'k> {
    fn new(k: &'k Writer, loss: &CrossEntropy, x: Val<'k>, (weight, index): (Val<'k>, Val<'k>)) -> Logits<'k> {
        let (words, rows) = (weight.dims()[0], x.dims()[0]);
        let limit = (!loss.words.is_multiple_of(words.max(1))).then_some(loss.words);
        Logits { k, values: k.matmul(weight, x, TransposedRhs), index, words, rows, limit }
    }

    /// Where a word is the label of its row, `[1, rows]`.
    fn is_label(&self, labels: Val<'k>) -> Val<'k> {
        self.k.iota([self.words, self.rows], 0).equals(labels - self.index * self.words as i32)
    }

    /// Values by word, with a number where there is no word.
    fn known(&self, values: Val<'k>, instead: f32) -> Val<'k> {
        let Some(limit) = self.limit else { return values };
        let left = self.k.i32(limit as i32) - self.index * self.words as i32;
        self.k.iota([self.words, self.rows], 0).less(left).select(values, instead)
    }
}
