//! The data of a training's file, as datasets for training and for evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::data::{
    Batching, DataError, Dataset, MarkovOptions, MarkovTokens, Split, TextOptions, TokenDataset, TokenWidth, Tokenizer,
    WindowOptions,
};

use super::config::{DataConfig, TrainConfig};
use crate::failure::Failure;

/// Data to train on and to evaluate on.
pub(super) struct Datasets {
    pub(super) training: Arc<dyn Dataset>,
    pub(super) evaluation: Arc<dyn Dataset>,
}

/// What turns text into tokens: the bytes themselves, or a `tokenizer.json`.
pub(super) fn tokenizer(name: &str, beside: &Path) -> Result<Tokenizer, DataError> {
    match name {
        "bytes" => Ok(Tokenizer::bytes()),
        path => Tokenizer::open(&beside.join(path)),
    }
}

/// Opens the data for a model of so many tokens. Text is tokenized into `cache`.
pub(super) fn open(config: &TrainConfig, beside: &Path, vocabulary: u32, cache: &Path) -> Result<Datasets, Failure> {
    let batching = Batching::new(config.train.batch, config.train.seed);
    let windows =
        |sequence: usize, split: Split| WindowOptions { sequence, vocabulary: Some(vocabulary), split, batching };
    let splits = |fraction: f64| match fraction {
        0.0 => [Split::All, Split::All],
        _ => [Split::Train { validation_fraction: fraction }, Split::Validation { validation_fraction: fraction }],
    };
    let resolve = |files: &[PathBuf]| files.iter().map(|file| beside.join(file)).collect::<Vec<_>>();
    let [training, evaluation]: [Arc<dyn Dataset>; 2] = match &config.data {
        DataConfig::Text { files, tokenizer: name, sequence, separator, validation_fraction } => {
            let tokenizer = tokenizer(name, beside).map_err(runtime::Error::from)?;
            let text = TextOptions { tokenizer, separator: separator.clone(), cache: cache.to_path_buf() };
            let files = resolve(files);
            let opened = splits(*validation_fraction)
                .map(|split| TokenDataset::from_text(&files, &text, windows(*sequence, split)));
            both(opened)?
        }
        DataConfig::Tokens { files, bits, sequence, validation_fraction } => {
            let width = match bits {
                16 => TokenWidth::U16,
                32 => TokenWidth::U32,
                _ => return Err(Failure::new(format!("data.bits is {bits}")).hint("tokens have 16 or 32 bits")),
            };
            let files = resolve(files);
            let opened =
                splits(*validation_fraction).map(|split| TokenDataset::open(&files, width, windows(*sequence, split)));
            both(opened)?
        }
        DataConfig::Synthetic { sequence } => {
            let chain = |seed: u64| {
                let batching = Batching::new(config.train.batch, seed);
                let options =
                    MarkovOptions { vocabulary, sequence: *sequence, chain_seed: config.train.seed, batching };
                MarkovTokens::new(options)
            };
            let seed = config.train.seed;
            both([chain(seed), chain(seed.wrapping_add(1 << 32))])?
        }
    };
    Ok(Datasets { training, evaluation })
}

fn both<D: Dataset + 'static>(opened: [Result<D, DataError>; 2]) -> Result<[Arc<dyn Dataset>; 2], Failure> {
    let [training, evaluation] = opened;
    let share = |opened: Result<D, DataError>| match opened {
        Ok(dataset) => Ok(Arc::new(dataset) as Arc<dyn Dataset>),
        Err(error) => Err(Failure::from(runtime::Error::from(error))),
    };
    Ok([share(training)?, share(evaluation)?])
}
