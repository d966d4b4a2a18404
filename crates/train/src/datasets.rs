//! The data of a training's file, as datasets for training and for evaluation: on this machine, or where it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::config::{DataConfig, DataTable, FlipConfig, TrainConfig};
use crate::data::{
    ArrayFiles, Augment, Batching, DataError, DataFile, Dataset, Flip, ImageFolder, ImageOptions, MarkovOptions,
    MarkovTokens, RemoteData, RemoteOptions, ShapeImages, ShapeOptions, Shuffle, Split, TextOptions, TokenDataset,
    TokenWidth, Tokenizer, WindowOptions,
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
    /// What fetches data that is elsewhere, if any is.
    pub remote: Option<RemoteData>,
}

/// What turns text into tokens: the bytes themselves, or a `tokenizer.json`, here or elsewhere.
pub fn tokenizer(name: &str, beside: &Path) -> Result<Tokenizer, Error> {
    Places { beside, data: None, remote: OnceLock::new() }.tokenizer(name)
}

/// Where paths of a training's file lead: beside the file, or elsewhere through one cache.
struct Places<'a> {
    beside: &'a Path,
    data: Option<&'a DataTable>,
    remote: OnceLock<RemoteData>,
}

impl<'a> Places<'a> {
    fn of(config: &'a TrainConfig, beside: &'a Path) -> Places<'a> {
        Places { beside, data: Some(&config.data), remote: OnceLock::new() }
    }

    /// What fetches, made when it is first needed.
    fn remote(&self) -> Result<&RemoteData, Error> {
        if let Some(remote) = self.remote.get() {
            return Ok(remote);
        }
        let given = self.data.and_then(|data| data.cache_dir.as_ref()).map(|folder| self.beside.join(folder));
        let usual = || compile::cache::default_folder(|name| std::env::var(name).ok()).map(|cache| cache.join("data"));
        let cache_dir = given.or_else(usual).ok_or_else(|| {
            Error::new("there is no folder to keep remote data in: HOME is not set").hint("set data.cache_dir")
        })?;
        let max_gib = self.data.and_then(|data| data.cache_max_gib);
        if max_gib.is_some_and(|gib| !gib.is_finite() || gib <= 0.0) {
            return Err(Error::new("data.cache_max_gib is not above 0").hint("it is how much of the disk may be used"));
        }
        let cache_max_bytes = max_gib.map(|gib| (gib * f64::from(1 << 30)) as u64);
        let remote = RemoteData::new(RemoteOptions { cache_max_bytes, ..RemoteOptions::new(cache_dir) })?;
        Ok(self.remote.get_or_init(|| remote))
    }

    fn file(&self, path: &Path) -> Result<DataFile, Error> {
        match path.to_str().filter(|text| RemoteData::is_address(text)) {
            Some(address) => Ok(DataFile::Remote(self.remote()?.open(address)?)),
            None => Ok(DataFile::Local(self.beside.join(path))),
        }
    }

    fn files(&self, paths: &[PathBuf]) -> Result<Vec<DataFile>, Error> {
        paths.iter().map(|path| self.file(path)).collect()
    }

    fn tokenizer(&self, name: &str) -> Result<Tokenizer, Error> {
        match name {
            "bytes" => Ok(Tokenizer::bytes()),
            path => Ok(Tokenizer::open_file(&self.file(Path::new(path))?)?),
        }
    }

    /// Both datasets, with what fetches them.
    fn both<D: Dataset + 'static>(self, opened: [Result<D, DataError>; 2]) -> Result<Datasets, Error> {
        let [training, evaluation] = opened;
        let share = |opened: Result<D, DataError>| match opened {
            Ok(dataset) => Ok(Arc::new(dataset) as Arc<dyn Dataset>),
            Err(error) => Err(Error::from(error)),
        };
        Ok(Datasets { training: share(training)?, evaluation: share(evaluation)?, remote: self.remote.into_inner() })
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
        let places = Places::of(self, beside);
        let windows = |sequence_length: usize, split: Split| WindowOptions {
            sequence_length,
            vocab_size: Some(vocab_size),
            split,
            batching,
        };
        match &self.data.source {
            DataConfig::Text { files, tokenizer: name, sequence_length, separator, validation_fraction } => {
                let name = name.as_deref().unwrap_or("bytes");
                let tokenizer = places.tokenizer(name)?;
                let text = TextOptions { tokenizer, separator: separator.clone(), cache: cache.to_path_buf() };
                let files = places.files(files)?;
                let opened = splits(*validation_fraction)
                    .map(|split| TokenDataset::from_text_files(&files, &text, windows(*sequence_length, split)));
                Ok((places.both(opened)?, *sequence_length))
            }
            DataConfig::Tokens { files, bits, sequence_length, validation_fraction } => {
                let width = match bits {
                    16 => TokenWidth::U16,
                    32 => TokenWidth::U32,
                    _ => return Err(Error::new(format!("data.bits is {bits}")).hint("tokens have 16 or 32 bits")),
                };
                let files = places.files(files)?;
                let opened = splits(*validation_fraction)
                    .map(|split| TokenDataset::open_files(&files, width, windows(*sequence_length, split)));
                Ok((places.both(opened)?, *sequence_length))
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
                Ok((places.both(opened)?, *sequence_length))
            }
            DataConfig::Shapes { .. } | DataConfig::Images { .. } | DataConfig::Arrays { .. } => {
                Err(Error::new("the model takes tokens, but the data are images or arrays")
                    .hint("data.kind is one of text, tokens, synthetic"))
            }
        }
    }

    /// Images for a model of this size, these channels and so many classes.
    pub fn images(&self, beside: &Path, channels: usize, classes: usize) -> Result<Datasets, Error> {
        let places = Places::of(self, beside);
        match &self.data.source {
            DataConfig::Shapes { size } => places.both(self.made().map(|batching| {
                ShapeImages::new(ShapeOptions { height: *size, width: *size, channels, classes, batching })
            })),
            DataConfig::Images { folder, size, validation_fraction, crop_padding, flip } => {
                let address = folder.to_str().filter(|text| RemoteData::is_address(text));
                let remote = address.map(|_| places.remote()).transpose()?;
                let folder = if remote.is_some() { folder.clone() } else { beside.join(folder) };
                let flip = flip.map_or(Flip::Never, |FlipConfig::Horizontal| Flip::Horizontal);
                // Only what is trained on is changed.
                let changes = [Augment { crop_padding: *crop_padding, flip }, Augment::default()];
                let open = |split: Split, augment: Augment| {
                    let options = ImageOptions::new(*size, *size, self.batching());
                    let threads = self.data.decode_threads.unwrap_or(options.threads);
                    let options = ImageOptions { channels, split, augment, threads, ..options };
                    match (remote, address) {
                        (Some(remote), Some(address)) => ImageFolder::open_remote(remote, address, options),
                        _ => ImageFolder::open(&folder, options),
                    }
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
                places.both(opened)
            }
            _ => Err(Error::new("the model takes images, but the data are tokens or arrays")
                .hint("data.kind is one of shapes, images")),
        }
    }
}

impl TrainConfig {
    /// Arrays of files, and their names; none where the data are others.
    pub(crate) fn arrays(&self, beside: &Path) -> Result<Option<(Datasets, Vec<String>)>, Error> {
        let DataConfig::Arrays { files, shuffle, validation_fraction } = &self.data.source else { return Ok(None) };
        let places = Places::of(self, beside);
        let local = |path: &PathBuf| match places.file(path)? {
            DataFile::Local(path) => Ok(path),
            DataFile::Remote(file) => Err(Error::new(format!("{} is elsewhere", file.address()))
                .hint("arrays are read into memory: copy the file to this machine")),
        };
        let shuffle = if *shuffle { Shuffle::EachEpoch } else { Shuffle::Never };
        let files = ArrayFiles::open(&files.iter().map(local).collect::<Result<Vec<_>, Error>>()?)?;
        let opened = splits(*validation_fraction).map(|split| files.dataset(split, self.batching(), shuffle));
        Ok(Some((places.both(opened)?, files.names())))
    }
}

/// Training and validation data; the same where there is no validation data.
fn splits(fraction: f64) -> [Split; 2] {
    match fraction {
        0.0 => [Split::All, Split::All],
        _ => [Split::Train { validation_fraction: fraction }, Split::Validation { validation_fraction: fraction }],
    }
}
