//! Folders of images, one folder for each class, decoded by a few threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tensor::{DType, Literal, Spec};

use super::Dataset;
use super::augment::Augment;
use super::error::DataError;
use super::fingerprint::Fingerprint;
use super::hex::hex;
use super::order::{Batching, Order, Shard, Split};
use super::permutation::{Permutation, key};
use super::picture::{Channels, MAX_DECODE_BYTES, MAX_SIDE_PIXELS, Picture};
use super::remote::{ListedFile, RemoteData};
use super::source::DataFile;
use super::tokens::wrong_size;

/// How an image that is not of the wanted size gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFit {
    /// Its middle of the wanted proportions is scaled.
    Crop,
    /// All of it is scaled, and may be distorted.
    Stretch,
}

/// How image files become batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageOptions {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
    /// How images get this size.
    pub fit: ImageFit,
    /// Subtracted from pixels between 0 and 1, by channel; the first one for grey.
    pub mean: [f32; 3],
    /// Divides them then.
    pub deviation: [f32; 3],
    /// The part of the images that is taken. It does not depend on the seed.
    pub split: Split,
    /// Threads that decode.
    pub threads: usize,
    /// What is changed at random, for training.
    pub augment: Augment,
    /// Rows of a batch, seed and shard.
    pub batching: Batching,
}

impl ImageOptions {
    /// Colour images of a size, cropped, from -1 to 1, decoded by two threads.
    pub fn new(height: usize, width: usize, batching: Batching) -> ImageOptions {
        ImageOptions {
            height,
            width,
            channels: 3,
            fit: ImageFit::Crop,
            mean: [0.5; 3],
            deviation: [0.5; 3],
            split: Split::All,
            threads: 2,
            augment: Augment::default(),
            batching,
        }
    }

    fn row_elements(&self) -> Option<usize> {
        self.height.checked_mul(self.width)?.checked_mul(self.channels)
    }
}

/// Where an image is.
#[derive(Clone, Debug)]
enum ImageFile {
    Local(PathBuf),
    Listed(ListedFile),
}

/// Images by class, in the order of their names.
type Classes = Vec<(String, Vec<(String, ImageFile)>)>;

/// Images of `folder/class/*.png|jpg|jpeg`: pixels `f32[batch, height, width, channels]` and labels `i32[batch]`.
///
/// Labels count the classes in the order of their names. Names that begin with a dot and files of other kinds are left out.
#[derive(Debug)]
pub struct ImageFolder {
    /// Hash of the names of classes and images, which tell folders apart wherever they are.
    names_hash: String,
    classes: Vec<String>,
    images: Vec<(ImageFile, i32)>,
    /// Fetches images that are elsewhere.
    remote: Option<RemoteData>,
    /// Mixes the classes before the split.
    mixed: Permutation,
    options: ImageOptions,
    rows: usize,
    order: Order,
}

impl ImageFolder {
    /// Lists the images of a folder. They are decoded when they are needed.
    pub fn open(folder: &Path, options: ImageOptions) -> Result<ImageFolder, DataError> {
        ImageFolder::new(folder, || local_classes(folder), None, options)
    }

    /// Lists the images below an address of a bucket. Each is fetched when it is needed.
    pub fn open_remote(remote: &RemoteData, address: &str, options: ImageOptions) -> Result<ImageFolder, DataError> {
        ImageFolder::new(Path::new(address), || remote_classes(remote, address), Some(remote.clone()), options)
    }

    fn new(
        folder: &Path,
        list: impl FnOnce() -> Result<Classes, DataError>,
        remote: Option<RemoteData>,
        options: ImageOptions,
    ) -> Result<ImageFolder, DataError> {
        let sides = [options.height, options.width];
        if sides.iter().any(|side| !(1..=MAX_SIDE_PIXELS as usize).contains(side)) || !matches!(options.channels, 1 | 3)
        {
            let ImageOptions { height, width, channels, .. } = options;
            return Err(DataError::Options(format!("images cannot be of {height}x{width}x{channels}")));
        }
        if options.augment.crop_padding > MAX_SIDE_PIXELS as usize {
            let padding = options.augment.crop_padding;
            return Err(DataError::Options(format!("images cannot be moved by {padding} pixels")));
        }
        if options.deviation.iter().any(|deviation| *deviation <= 0.0 || !deviation.is_finite()) {
            return Err(DataError::Options("deviations of pixels must be above 0".into()));
        }
        let row_bytes = options.row_elements().and_then(|elements| elements.checked_mul(size_of::<f32>()));
        let rows = options.batching.rows(row_bytes)?;
        let mut classes = Vec::new();
        let mut images = Vec::new();
        let mut names = Sha256::new();
        for (class, files) in list()? {
            let label =
                i32::try_from(classes.len()).map_err(|_| DataError::format(folder, "it has too many classes"))?;
            if files.is_empty() {
                return Err(DataError::format(&folder.join(class), "it has no PNG or JPEG images"));
            }
            names.update(format!("{class}/"));
            for (name, file) in files {
                names.update(format!("{name}/"));
                images.push((file, label));
            }
            classes.push(class);
        }
        if classes.is_empty() {
            return Err(DataError::format(folder, "it has no folders of images, one for each class"));
        }
        let what = format!("images in {}", folder.display());
        let count = images.len() as u64;
        let order = Order::new(count, options.split, options.batching, &what)?;
        let mixed = Permutation::new(count, key(&[count]));
        let names_hash = hex(names.finalize().get(..8).unwrap_or_default());
        Ok(ImageFolder { names_hash, classes, images, remote, mixed, options, rows, order })
    }

    /// Names of the classes; a label is an index into them.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The file of an image.
    fn file(&self, image: &ImageFile) -> Result<DataFile, DataError> {
        match (image, &self.remote) {
            (ImageFile::Local(path), _) => Ok(DataFile::Local(path.clone())),
            (ImageFile::Listed(listed), Some(remote)) => remote.open_listed(listed).map(DataFile::Remote),
            (ImageFile::Listed(_), None) => Err(DataError::Panicked { doing: "opening an image that is elsewhere" }),
        }
    }

    /// The images of a step, with their places.
    fn chosen(&self, step: u64, shard: Shard) -> impl Iterator<Item = (u64, &(ImageFile, i32))> {
        let places = self.order.examples(step, shard).filter_map(|example| self.mixed.get(example));
        places.filter_map(|place| Some((place, self.images.get(place as usize)?)))
    }

    /// Asks for the images of the next step that are elsewhere.
    fn prefetch(&self, step: u64, shard: Shard) {
        let Some(remote) = &self.remote else { return };
        for (_, (image, _)) in self.chosen(step, shard) {
            // What fails is asked for again when it is needed.
            if let ImageFile::Listed(listed) = image
                && listed.size_bytes() <= MAX_DECODE_BYTES
                && let Ok(file) = remote.open_listed(listed)
            {
                file.prefetch(0..file.size_bytes());
            }
        }
    }

    fn load(&self, file: &DataFile, step: u64, example: u64, into: &mut [u8]) -> Result<(), DataError> {
        let ImageOptions { height, width, channels, fit, mean, deviation, .. } = self.options;
        let decoded = decode(file, if channels == 1 { Channels::Grey } else { Channels::Colour })?;
        let fitted = match fit {
            ImageFit::Stretch => decoded,
            ImageFit::Crop => decoded.crop(height, width),
        };
        let bytes = fitted.scale(height, width);
        let number = |byte: u8, channel: usize| {
            let [mean, deviation] = [mean, deviation].map(|by_channel| by_channel.get(channel).copied().unwrap_or(1.0));
            ((f32::from(byte) / 255.0 - mean) / deviation).to_le_bytes()
        };
        for ((out, byte), channel) in into.chunks_exact_mut(size_of::<f32>()).zip(bytes).zip((0..channels).cycle()) {
            out.copy_from_slice(&number(byte, channel));
        }
        let augment = self.options.augment;
        if augment.is_on() {
            let black: Vec<u8> = (0..channels).flat_map(|channel| number(0, channel)).collect();
            let change = augment.change(self.options.batching.seed, step, example);
            change.apply(into, (self.options.height, self.options.width), &black);
        }
        Ok(())
    }
}

/// Entries of a folder by name, without those that begin with a dot.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let reading = || DataError::io("reading", folder);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(reading())? {
        let entry = entry.map_err(reading())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    extension.is_some_and(|extension| ["png", "jpg", "jpeg"].contains(&extension.as_str()))
}

/// The classes of a folder of this machine.
fn local_classes(folder: &Path) -> Result<Classes, DataError> {
    let mut classes = Vec::new();
    for (class, path) in entries(folder)?.into_iter().filter(|(_, path)| path.is_dir()) {
        let images = entries(&path)?.into_iter().filter(|(_, path)| is_image(path));
        classes.push((class, images.map(|(name, path)| (name, ImageFile::Local(path))).collect()));
    }
    Ok(classes)
}

/// The classes below an address: names of two parts, as in `class/image.png`.
fn remote_classes(remote: &RemoteData, address: &str) -> Result<Classes, DataError> {
    let mut classes: BTreeMap<String, Vec<(String, ImageFile)>> = BTreeMap::new();
    for (path, file) in remote.list(address)? {
        let Some((class, name)) = path.split_once('/').filter(|(_, name)| !name.contains('/')) else { continue };
        if class.starts_with('.') || name.starts_with('.') || !is_image(Path::new(name)) {
            continue;
        }
        classes.entry(class.to_string()).or_default().push((name.to_string(), ImageFile::Listed(file)));
    }
    // By name in each class, as a folder is read.
    classes.values_mut().for_each(|images| images.sort_by(|a, b| a.0.cmp(&b.0)));
    Ok(classes.into_iter().collect())
}

fn decode(file: &DataFile, channels: Channels) -> Result<Picture, DataError> {
    let bytes = file.read_all(MAX_DECODE_BYTES)?;
    Picture::decode(&bytes, channels).map_err(|source| DataError::Image { path: file.path().to_path_buf(), source })
}

impl Dataset for ImageFolder {
    fn specs(&self) -> Vec<Spec> {
        let ImageOptions { height, width, channels, .. } = self.options;
        vec![Spec::new(DType::F32, [self.rows, height, width, channels]), Spec::new(DType::I32, [self.rows])]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        Some(self.order.batches_per_epoch())
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.rows(step, self.options.batching.shard)
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        let ImageOptions { height, width, channels, threads, .. } = self.options;
        let row_bytes = height * width * channels * size_of::<f32>();
        let rows = Batching { shard, ..self.options.batching }.rows(Some(row_bytes))?;
        let mut chosen = Vec::with_capacity(rows);
        for (place, (image, label)) in self.chosen(step, shard) {
            let file = self.file(image)?;
            // All that are elsewhere are asked for before the first is waited for.
            if let DataFile::Remote(remote) = &file
                && remote.size_bytes() <= MAX_DECODE_BYTES
            {
                remote.expect(0..remote.size_bytes());
            }
            chosen.push((place, file, *label));
        }
        self.prefetch(step.saturating_add(1), shard);
        let mut pixels = vec![0; rows * row_bytes];
        let rows_per_thread = rows.div_ceil(threads.clamp(1, 256)).max(1);
        std::thread::scope(|scope| {
            let parts = chosen.chunks(rows_per_thread).zip(pixels.chunks_mut(rows_per_thread * row_bytes));
            let workers: Vec<_> = parts
                .map(|(images, into)| {
                    scope.spawn(move || {
                        let mut rows = images.iter().zip(into.chunks_mut(row_bytes));
                        rows.try_for_each(|((place, file, _), into)| self.load(file, step, *place, into))
                    })
                })
                .collect();
            // All are joined, because a panic of one that is not would go on here.
            let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            ended.into_iter().try_for_each(|end| end.unwrap_or(Err(DataError::Panicked { doing: "decoding images" })))
        })?;
        let labels = chosen.iter().flat_map(|(_, _, label)| label.to_le_bytes()).collect();
        let pixels = Literal::new(DType::F32, [rows, height, width, channels], pixels);
        let labels = Literal::new(DType::I32, [rows], labels);
        pixels.zip(labels).map(|(pixels, labels)| vec![pixels, labels]).ok_or_else(wrong_size)
    }

    fn describe(&self) -> String {
        let ImageOptions { height, width, channels, fit, mean, deviation, augment, .. } = self.options;
        // Said only where there are any: runs of before have no such word.
        let changes = if augment.is_on() { format!("{augment:?}, ") } else { String::new() };
        format!(
            "{} images of {} classes ({}), {height}x{width}x{channels} {fit:?}, mean {mean:?}, deviation {deviation:?}, {changes}{}",
            self.images.len(),
            self.classes.len(),
            self.names_hash,
            self.order.describe()
        )
    }

    fn fingerprint(&self) -> Result<Option<String>, DataError> {
        let mut fingerprint = Fingerprint::new();
        let file = |n: usize| self.images.get(n).map(|(image, _)| self.file(image)).transpose();
        fingerprint.files(self.images.len(), file)?;
        Ok(Some(fingerprint.finish()))
    }
}
