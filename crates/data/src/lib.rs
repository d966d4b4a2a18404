//! Datasets: what a trainer feeds from, batch by batch, each a function of the seed and the step alone.
//!
//! The batch of step `k` depends on the dataset, its options, the seed and `k`, on nothing that happened before. So a run
//! that resumes at step `k` sees the batches an uninterrupted one sees, without replaying any, and several hosts take
//! their parts of the same batch ([`Shard`]) without talking to each other.
//!
//! ```
//! use data::{Batching, Dataset, MarkovOptions, MarkovTokens};
//!
//! // Eight rows of sixteen tokens and the token that follows each, from seed 0.
//! let options =
//!     MarkovOptions { vocab_size: 64, sequence_length: 16, chain_seed: 1, batching: Batching::new(8, 0) };
//! let dataset = MarkovTokens::new(options)?;
//! let batch = dataset.batch(100)?;
//! assert_eq!(batch[0].dims(), [8, 16]);
//! // The batch of a step is the same whenever it is asked for.
//! assert_eq!(batch, dataset.batch(100)?);
//! # Ok::<(), data::DataError>(())
//! ```

mod arrays;
mod augment;
mod corpus;
mod error;
mod fingerprint;
mod hex;
mod image_input;
mod images;
mod loader;
mod mapped;
mod order;
mod permutation;
mod picture;
mod remote;
mod resample;
mod shapes;
mod source;
mod synthetic;
mod text;
mod tokenizer;
mod tokens;

use tensor::Literal;

pub use arrays::{ArrayDataset, ArrayFiles};
pub use augment::{Augment, Flip};
pub use corpus::{STORIES_BYTES, STORIES_SEED, stories};
pub use error::DataError;
pub use fingerprint::fingerprint_of_files;
pub use image_input::{ImagePreprocessor, MAX_IMAGE_FILE_BYTES};
pub use images::{ImageFit, ImageFolder, ImageOptions};
pub use loader::{Batch, Loader, LoaderOptions};
pub use order::{Batching, Shard, Shuffle, Split};
pub use permutation::Permutation;
pub use remote::{RemoteData, RemoteFile, RemoteFileReader, RemoteOptions, RemoteStats};
pub use shapes::{SHAPE_CLASSES, ShapeImages, ShapeOptions};
pub use source::DataFile;
pub use synthetic::{MarkovOptions, MarkovTokens};
pub use text::{TextOptions, TokenizedText, tokenize_files};
pub use tokenizer::{Tokenizer, check_vocab_size};
pub use tokens::{TokenDataset, TokenWidth, WindowOptions};

use tensor::Spec;

/// Batches of host arrays by step.
pub trait Dataset: Send + Sync {
    /// Types and shapes of the arrays of every batch, in their order.
    fn specs(&self) -> Vec<Spec>;

    /// Steps in which every example is seen once, but for those that do not fill a last batch. `None`: examples are
    /// made as they are asked for and never repeat.
    fn batches_per_epoch(&self) -> Option<u64>;

    /// The arrays of a step, this shard's rows only.
    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError>;

    /// The arrays of a step, the rows of one of several equal parts of the whole batch: what several processes share out.
    /// Datasets that can, read those examples only; others make the batch and cut it.
    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        shard.cut(&self.batch(step)?)
    }

    /// What is read and how, in one line. Two datasets that say the same give the same batches as long as their files
    /// keep their contents: a checkpoint keeps it, and a resumed run compares.
    fn describe(&self) -> String;

    /// A fingerprint of the contents of its files, in bounded time; `None` where the examples follow from what
    /// [`describe`](Self::describe) says. A checkpoint keeps it, and a resumed run compares.
    fn fingerprint(&self) -> Result<Option<String>, DataError> {
        Ok(None)
    }

    /// The epoch a step is in, from 0.
    fn epoch(&self, step: u64) -> u64 {
        self.batches_per_epoch().map_or(0, |batches| step / batches.max(1))
    }
}
