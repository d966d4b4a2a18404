//! The data of a training's file, as datasets for training and for evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{DataConfig, FlipConfig, TrainConfig};
use crate::data::{
    Augment, Batching, DataError, Dataset, Flip, ImageFolder, ImageOptions, MarkovOptions, MarkovTokens, ShapeImages,
    ShapeOptions, Split, TextOptions, TokenDataset, TokenWidth, Tokenizer, WindowOptions,
};
use crate::error::Error;

/// Distance of the seeds of data that is made for training and for evaluation.
const EVALUATION_SEED: u64 = 1 << 32;

/// Data to train on and to evaluate on.
pub struct Datasets {
    /// To train on.
    pub training: Arc<dyn Dataset>,
    /// Validation data.
    pub evaluation: Arc<dyn Dataset>,
}

/// What turns text into tokens: the bytes themselves, or a `tokenizer.json`.
pub fn tokenizer(name: &str, beside: &Path) -> Result<Tokenizer, DataError> {
    match name {
        "bytes" => Ok(Tokenizer::bytes()),
        path => Tokenizer::open(&beside.join(path)),
    }
}

impl TrainConfig {
    fn batching(&self) -> Batching {
        Batching::new(self.train.batch_size, u64::from(self.train.seed))
    }

    /// Batches of data that is made: evaluation has other examples.
    fn made(&self) -> [Batching; 2] {
        let seed = u64::from(self.train.seed);
        [self.batching(), Batching::new(self.train.batch_size, seed + EVALUATION_SEED)]
    }

    /// Token windows for a model of so many tokens, and their length. Text is tokenized into `cache`.
    pub fn tokens(&self, beside: &Path, vocab_size: u32, cache: &Path) -> Result<(Datasets, usize), Error> {
        let batching = self.batching();
        let windows = |sequence_length: usize, split: Split| WindowOptions {
            sequence_length,
            vocab_size: Some(vocab_size),
            split,
            batching,
        };
        match &self.data.source {
            DataConfig::Text { files, tokenizer: name, sequence_length, separator, validation_fraction } => {
                let name = name.as_deref().unwrap_or("bytes");
                let tokenizer = tokenizer(name, beside)?;
                let text = TextOptions { tokenizer, separator: separator.clone(), cache: cache.to_path_buf() };
                let files = resolve(files, beside);
                let opened = splits(*validation_fraction)
                    .map(|split| TokenDataset::from_text(&files, &text, windows(*sequence_length, split)));
                Ok((both(opened)?, *sequence_length))
            }
            DataConfig::Tokens { files, bits, sequence_length, validation_fraction } => {
                let width = match bits {
                    16 => TokenWidth::U16,
                    32 => TokenWidth::U32,
                    _ => return Err(Error::new(format!("data.bits is {bits}")).hint("tokens have 16 or 32 bits")),
                };
                let files = resolve(files, beside);
                let opened = splits(*validation_fraction)
                    .map(|split| TokenDataset::open(&files, width, windows(*sequence_length, split)));
                Ok((both(opened)?, *sequence_length))
            }
            DataConfig::Synthetic { sequence_length } => {
                let chain_seed = u64::from(self.train.seed);
                let opened = self.made().map(|batching| {
                    MarkovTokens::new(MarkovOptions {
                        vocab_size,
                        sequence_length: *sequence_length,
                        chain_seed,
                        batching,
                    })
                });
                Ok((both(opened)?, *sequence_length))
            }
            DataConfig::Shapes { .. } | DataConfig::Images { .. } => {
                Err(Error::new("the model takes tokens, but the data are images")
                    .hint("data.kind is one of text, tokens, synthetic"))
            }
        }
    }

    /// Images for a model of this size, these channels and so many classes.
    pub fn images(&self, beside: &Path, channels: usize, classes: usize) -> Result<Datasets, Error> {
        match &self.data.source {
            DataConfig::Shapes { size } => both(self.made().map(|batching| {
                ShapeImages::new(ShapeOptions { height: *size, width: *size, channels, classes, batching })
            })),
            DataConfig::Images { folder, size, validation_fraction, crop_padding, flip } => {
                let folder = beside.join(folder);
                let flip = flip.map_or(Flip::Never, |FlipConfig::Horizontal| Flip::Horizontal);
                // Only what is trained on is changed.
                let changes = [Augment { crop_padding: *crop_padding, flip }, Augment::default()];
                let open = |split: Split, augment: Augment| {
                    let options = ImageOptions::new(*size, *size, self.batching());
                    let threads = self.data.decode_threads.unwrap_or(options.threads);
                    ImageFolder::open(&folder, ImageOptions { channels, split, augment, threads, ..options })
                };
                let [train, validate] = splits(*validation_fraction);
                let opened = [open(train, changes[0]), open(validate, changes[1])];
                if let [Ok(images), _] = &opened
                    && images.classes().len() > classes
                {
                    let message =
                        format!("{} has {} classes, the model {classes}", folder.display(), images.classes().len());
                    return Err(Error::new(message).hint("set num_classes of [model]"));
                }
                both(opened)
            }
            _ => Err(Error::new("the model takes images, but the data are tokens")
                .hint("data.kind is one of shapes, images")),
        }
    }
}

/// Training and validation data; the same where there is no validation data.
fn splits(fraction: f64) -> [Split; 2] {
    match fraction {
        0.0 => [Split::All, Split::All],
        _ => [Split::Train { validation_fraction: fraction }, Split::Validation { validation_fraction: fraction }],
    }
}

fn resolve(files: &[PathBuf], beside: &Path) -> Vec<PathBuf> {
    files.iter().map(|file| beside.join(file)).collect()
}

fn both<D: Dataset + 'static>(opened: [Result<D, DataError>; 2]) -> Result<Datasets, Error> {
    let [training, evaluation] = opened;
    let share = |opened: Result<D, DataError>| match opened {
        Ok(dataset) => Ok(Arc::new(dataset) as Arc<dyn Dataset>),
        Err(error) => Err(Error::from(error)),
    };
    Ok(Datasets { training: share(training)?, evaluation: share(evaluation)? })
}
