//! Which examples a step takes: split, epoch, shuffle, batch and shard.

use tensor::Literal;
use weights::TensorRegion;

use super::error::DataError;
use super::permutation::{Permutation, key};

/// Most bytes one shard's batch may have: a typing error in a size must not become an allocation.
const MAX_BATCH_BYTES: usize = 1 << 36;

/// One of several equal parts of every batch, such as one host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: usize,
    /// How many parts there are.
    pub count: usize,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// The rows of this part of a batch that was made whole.
    pub(crate) fn cut(self, batch: &[Literal]) -> Result<Vec<Literal>, DataError> {
        let Shard { index, count } = self;
        let cut = |array: &Literal| {
            let rows = array.dims().first().copied();
            let rows = rows.filter(|rows| count > 0 && index < count && rows.is_multiple_of(count))?;
            let (mut start, mut size) = (vec![0; array.dims().len()], array.dims().to_vec());
            (start[0], size[0]) = (rows / count * index, rows / count);
            TensorRegion { start, size }.cut(array)
        };
        let refused =
            || DataError::Options(format!("a batch cannot be cut into {count} equal shards for shard {index}"));
        batch.iter().map(|array| cut(array).ok_or_else(refused)).collect()
    }
}

/// How examples become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Rows of a whole batch, over all shards.
    pub batch: usize,
    /// Chooses the order of every epoch.
    pub seed: u64,
    /// The rows that are taken here: the batch is cut into equal runs of rows.
    pub shard: Shard,
}

impl Batching {
    /// Batches of this many rows, all of them here.
    pub fn new(batch: usize, seed: u64) -> Batching {
        Batching { batch, seed, shard: Shard::WHOLE }
    }

    /// The same batches, one part of them.
    pub fn shard(self, index: usize, count: usize) -> Batching {
        Batching { shard: Shard { index, count }, ..self }
    }

    /// Rows of this shard's part of a batch whose rows have so many bytes.
    pub(crate) fn rows(&self, row_bytes: Option<usize>) -> Result<usize, DataError> {
        let Batching { batch, shard: Shard { index, count }, .. } = *self;
        if batch == 0 {
            return Err(DataError::Options("the batch has no rows".into()));
        }
        if index >= count {
            return Err(DataError::Options(format!("shard {index} of {count}: shards count from 0")));
        }
        if !batch.is_multiple_of(count) {
            return Err(DataError::Options(format!("a batch of {batch} cannot be cut into {count} equal shards")));
        }
        let rows = batch / count;
        match row_bytes.and_then(|bytes| bytes.checked_mul(rows)) {
            Some(bytes) if bytes <= MAX_BATCH_BYTES => Ok(rows),
            _ => Err(DataError::Options(format!("a batch of {rows} rows here would not fit into memory"))),
        }
    }

    /// This shard's positions in the endless row of examples, for a step.
    pub(crate) fn positions(&self, step: u64) -> impl Iterator<Item = u64> + use<> {
        let rows = (self.batch / self.shard.count.max(1)) as u64;
        // Past 2^64 examples the count begins again.
        let first = step.wrapping_mul(self.batch as u64).wrapping_add(self.shard.index as u64 * rows);
        (0..rows).map(move |row| first.wrapping_add(row))
    }
}

/// The part of the examples that is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// Every example.
    All,
    /// What is left for training when this fraction is kept for validation.
    Train {
        /// The part kept for validation, from 0 to below 1.
        validation_fraction: f64,
    },
    /// The part kept for validation, rounded up to whole examples.
    Validation {
        /// That part, from 0 to below 1.
        validation_fraction: f64,
    },
}

impl Split {
    /// First example and number of examples, of so many.
    fn range(self, examples: u64) -> Result<(u64, u64), DataError> {
        let fraction = match self {
            Split::All => return Ok((0, examples)),
            Split::Train { validation_fraction } | Split::Validation { validation_fraction } => validation_fraction,
        };
        if !(0.0..1.0).contains(&fraction) {
            return Err(DataError::Options(format!("a validation fraction of {fraction} is not from 0 to below 1")));
        }
        let kept = ((examples as f64 * fraction).ceil() as u64).min(examples);
        Ok(match self {
            Split::Validation { .. } => (examples - kept, kept),
            _ => (0, examples - kept),
        })
    }
}

/// Whether examples come in the order of their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// Every epoch has an order of its own.
    #[default]
    EachEpoch,
    /// They come as they are.
    Never,
}

/// The order of a finite number of examples: shuffled anew in each epoch.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    first: u64,
    examples: u64,
    batching: Batching,
    batches_per_epoch: u64,
    shuffle: Shuffle,
}

impl Order {
    /// `what` says what the examples are, for the error when there are too few for one batch.
    pub(crate) fn new(examples: u64, split: Split, batching: Batching, what: &str) -> Result<Order, DataError> {
        let (first, examples) = split.range(examples)?;
        let batches_per_epoch = examples / (batching.batch as u64).max(1);
        if batches_per_epoch == 0 {
            let what = match split {
                Split::All => what.to_string(),
                Split::Train { .. } => format!("{what}, for training"),
                Split::Validation { .. } => format!("{what}, for validation"),
            };
            return Err(DataError::TooSmall { what, found: examples, needed: batching.batch as u64 });
        }
        Ok(Order { first, examples, batching, batches_per_epoch, shuffle: Shuffle::EachEpoch })
    }

    /// The same, shuffled or not.
    pub(crate) fn with_shuffle(self, shuffle: Shuffle) -> Order {
        Order { shuffle, ..self }
    }

    pub(crate) fn batches_per_epoch(&self) -> u64 {
        self.batches_per_epoch
    }

    /// The examples of a step that are in a shard.
    pub(crate) fn examples(&self, step: u64, shard: Shard) -> impl Iterator<Item = u64> + use<> {
        let epoch = step / self.batches_per_epoch;
        let permutation = Permutation::new(self.examples, key(&[self.batching.seed, epoch]));
        let (first, shuffle) = (self.first, self.shuffle);
        Batching { shard, ..self.batching }
            .positions(step % self.batches_per_epoch)
            .filter_map(move |position| match shuffle {
                Shuffle::EachEpoch => permutation.get(position),
                Shuffle::Never => Some(position),
            })
            .map(move |example| first + example)
    }

    pub(crate) fn describe(&self) -> String {
        let Batching { batch, seed, .. } = self.batching;
        let order = match self.shuffle {
            Shuffle::EachEpoch => format!("seed {seed}"),
            Shuffle::Never => "not shuffled".to_string(),
        };
        format!("examples {}..{} in batches of {batch}, {order}", self.first, self.first + self.examples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_disjoint_and_complete() {
        for (examples, fraction) in [(100, 0.1), (7, 0.5), (1, 0.3), (1000, 0.0), (3, 0.999)] {
            let (train, trained) = Split::Train { validation_fraction: fraction }.range(examples).unwrap();
            let (held, kept) = Split::Validation { validation_fraction: fraction }.range(examples).unwrap();
            assert_eq!((train, trained, held + kept), (0, held, examples));
        }
        for wrong in [1.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(Split::Train { validation_fraction: wrong }.range(10).is_err());
        }
    }

    #[test]
    fn an_epoch_takes_every_example_once() {
        let order = Order::new(60, Split::All, Batching::new(12, 5), "examples").unwrap();
        assert_eq!(order.batches_per_epoch(), 5);
        for epoch in 0..3 {
            let mut seen: Vec<u64> = (0..5).flat_map(|step| order.examples(epoch * 5 + step, Shard::WHOLE)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..60));
        }
        assert!(!order.examples(0, Shard::WHOLE).eq(order.examples(5, Shard::WHOLE)), "two epochs in the same order");
    }

    #[test]
    fn the_last_step_is_a_step() {
        let order = Order::new(60, Split::All, Batching::new(12, 5), "examples").unwrap();
        assert_eq!(order.examples(u64::MAX, Shard::WHOLE).count(), 12);
        assert_eq!(Batching::new(12, 5).positions(u64::MAX).count(), 12);
    }

    #[test]
    fn impossible_batches_are_refused() {
        let refused = |batching: Batching, row_bytes| batching.rows(row_bytes).unwrap_err().to_string();
        assert_eq!(refused(Batching::new(0, 0), Some(1)), "the batch has no rows");
        assert!(refused(Batching::new(4, 0).shard(4, 4), Some(1)).contains("count from 0"));
        assert!(refused(Batching::new(4, 0).shard(0, 0), Some(1)).contains("count from 0"));
        assert!(refused(Batching::new(4, 0).shard(0, 3), Some(1)).contains("3 equal shards"));
        assert!(refused(Batching::new(4, 0), None).contains("memory"));
        assert!(refused(Batching::new(usize::MAX, 0), Some(4)).contains("memory"));
    }
}
