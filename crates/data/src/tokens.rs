//! Token files, mapped into memory or streamed, and cut into windows of a sequence and its next token.

use std::ops::Range;
use std::path::PathBuf;

use tensor::{DType, Literal, Spec};

use super::Dataset;
use super::error::DataError;
use super::fingerprint::Fingerprint;
use super::order::{Batching, Order, Shard, Split};
use super::source::{Contents, DataFile};

/// Width of the tokens of a `.bin` file, which does not say it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenWidth {
    /// Two bytes, little-endian: vocabularies up to 65 536.
    U16,
    /// Four bytes, little-endian.
    U32,
}

impl TokenWidth {
    pub(crate) fn dtype(self) -> DType {
        match self {
            TokenWidth::U16 => DType::U16,
            TokenWidth::U32 => DType::U32,
        }
    }

    /// The narrowest width that holds tokens below this limit.
    pub(crate) fn for_vocabulary(tokens: u32) -> TokenWidth {
        if tokens <= 1 << 16 { TokenWidth::U16 } else { TokenWidth::U32 }
    }
}

/// Steps whose windows are fetched ahead, where the files are elsewhere.
const STEPS_AHEAD: u64 = 4;

/// How tokens become batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowOptions {
    /// Tokens of a row.
    pub sequence_length: usize,
    /// Rows of the model's embedding: larger tokens are an error.
    pub vocab_size: Option<u32>,
    /// The part of the windows that is taken. Validation windows are the last ones of the files in their order.
    pub split: Split,
    /// Rows of a batch, seed and shard.
    pub batching: Batching,
}

/// One file of tokens.
#[derive(Debug)]
struct TokenFile {
    contents: Contents,
    dtype: DType,
    data_offset: usize,
    tokens: u64,
}

impl TokenFile {
    fn open(file: &DataFile, width: TokenWidth) -> Result<TokenFile, DataError> {
        let (path, contents) = (file.path(), Contents::open(file)?);
        let (dtype, data_offset, data_bytes) = if path.extension().is_some_and(|extension| extension == "npy") {
            npy_layout(file, contents.len())?
        } else {
            (width.dtype(), 0, contents.len())
        };
        let width = dtype.size_bytes() as u64;
        if !data_bytes.is_multiple_of(width) {
            let message = format!("its {data_bytes} bytes are no whole number of tokens of {width} bytes");
            return Err(DataError::format(path, message));
        }
        Ok(TokenFile { contents, dtype, data_offset, tokens: data_bytes / width })
    }

    /// Where a window is in the file.
    fn bytes_of(&self, first: u64, sequence: usize) -> Range<u64> {
        let width = self.dtype.size_bytes() as u64;
        let begin = self.data_offset as u64 + first * width;
        begin..begin + (sequence as u64 + 1) * width
    }

    /// Appends a window's inputs and targets, which are the inputs one later, as bytes of i32.
    fn window(
        &self,
        first: u64,
        sequence: usize,
        limit: u32,
        inputs: &mut Vec<u8>,
        targets: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        let width = self.dtype.size_bytes();
        let window = self.contents.read(self.bytes_of(first, sequence))?;
        for (at, bytes) in window.chunks_exact(width).enumerate() {
            let token = integer(self.dtype, bytes);
            // `limit` is at most 2^31, so that what is below it is an i32.
            if !(0..i128::from(limit)).contains(&token) {
                let path = self.contents.path().to_path_buf();
                return Err(DataError::Token { path, position: first + at as u64, token, limit });
            }
            let token = (token as i32).to_le_bytes();
            if at < sequence {
                inputs.extend(token);
            }
            if at > 0 {
                targets.extend(token);
            }
        }
        Ok(())
    }
}

/// Type, place and bytes of the elements of NumPy's file of this length.
fn npy_layout(file: &DataFile, file_bytes: u64) -> Result<(DType, usize, u64), DataError> {
    let path = file.path();
    let mut from = file.reader()?;
    let header = weights::read_npy_header_from(&mut from, path).map_err(|error| match error {
        _ if from.is_failed() => from.failed(path, std::io::Error::other("reading failed")),
        weights::Error::Io { doing, path, source } => DataError::Io { doing, path, source },
        weights::Error::Format { path, message } => DataError::Format { path, message },
        other => DataError::format(path, other.to_string()),
    })?;
    let [tokens] = *header.dims.as_slice() else {
        return Err(DataError::format(
            path,
            format!("its array has {} dimensions, tokens have one", header.dims.len()),
        ));
    };
    let integers = [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];
    if !integers.contains(&header.dtype) {
        return Err(DataError::format(path, format!("its elements are {}, tokens are integers", header.dtype)));
    }
    let data_bytes = (tokens as u64).checked_mul(header.dtype.size_bytes() as u64);
    let expected = data_bytes.and_then(|bytes| bytes.checked_add(header.data_offset_bytes));
    match (data_bytes, expected) {
        (Some(data_bytes), Some(expected)) if expected <= file_bytes => {
            Ok((header.dtype, header.data_offset_bytes as usize, data_bytes))
        }
        _ => Err(DataError::format(path, format!("its header speaks of {tokens} tokens, it is too short for them"))),
    }
}

/// The value of a little-endian integer.
fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let unsigned = bytes.iter().rev().fold(0i128, |value, byte| (value << 8) | i128::from(*byte));
    if negative { unsigned - (1 << (8 * bytes.len())) } else { unsigned }
}

/// Windows of tokens from files: inputs and targets, `i32[batch, sequence]` each.
///
/// Window `w` of a file begins at its token `w * sequence` and has one token more than the sequence, so that each token is
/// a target once in an epoch. Windows do not reach from one file into the next.
#[derive(Debug)]
pub struct TokenDataset {
    files: Vec<TokenFile>,
    /// For each file, the number of the first window after it.
    window_ends: Vec<u64>,
    options: WindowOptions,
    rows: usize,
    order: Order,
}

impl TokenDataset {
    /// Opens files of tokens: `.npy` with one dimension of integers, anything else as bare tokens of this width.
    pub fn open(paths: &[PathBuf], width: TokenWidth, options: WindowOptions) -> Result<TokenDataset, DataError> {
        let files: Vec<DataFile> = paths.iter().map(|path| path.as_path().into()).collect();
        TokenDataset::open_files(&files, width, options)
    }

    /// Opens files of tokens that are on this machine or elsewhere.
    pub fn open_files(
        files: &[DataFile],
        width: TokenWidth,
        options: WindowOptions,
    ) -> Result<TokenDataset, DataError> {
        TokenDataset::open_named(files, files, width, options)
    }

    /// Opens files of tokens; `sources` are the files the caller named, for errors.
    pub(crate) fn open_named(
        files: &[DataFile],
        sources: &[DataFile],
        width: TokenWidth,
        options: WindowOptions,
    ) -> Result<TokenDataset, DataError> {
        let row_tokens = options.sequence_length.checked_add(1).filter(|_| options.sequence_length > 0);
        let row_tokens = row_tokens.ok_or_else(|| DataError::Options("the sequence length is 0".into()))?;
        let rows = options.batching.rows(row_bytes(options.sequence_length))?;
        let what = match sources {
            [] => return Err(DataError::Options("no token file is named".into())),
            [one] => format!("windows of {row_tokens} tokens in {}", one.path().display()),
            [one, ..] => {
                format!("windows of {row_tokens} tokens in {} and {} more", one.path().display(), sources.len() - 1)
            }
        };
        let files = files.iter().map(|file| TokenFile::open(file, width)).collect::<Result<Vec<_>, _>>()?;
        let mut windows = 0;
        let mut window_ends = Vec::with_capacity(files.len());
        for file in &files {
            windows += file.tokens.saturating_sub(1) / options.sequence_length as u64;
            window_ends.push(windows);
        }
        let order = Order::new(windows, options.split, options.batching, &what)?;
        Ok(TokenDataset { files, window_ends, options, rows, order })
    }

    /// The windows of a step: their file, and their first token in it.
    fn windows(&self, step: u64, shard: Shard) -> impl Iterator<Item = (&TokenFile, u64)> {
        self.order.examples(step, shard).filter_map(|window| {
            let file = self.window_ends.partition_point(|end| *end <= window);
            let before = file.checked_sub(1).and_then(|before| self.window_ends.get(before)).copied().unwrap_or(0);
            Some((self.files.get(file)?, (window - before) * self.options.sequence_length as u64))
        })
    }

    /// Asks for all windows of a step at once, and for those of the next steps after them.
    fn expect(&self, step: u64, shard: Shard) {
        if !self.files.iter().any(|file| matches!(file.contents, Contents::Remote(_))) {
            return;
        }
        for ahead in 0..=STEPS_AHEAD {
            let Some(step) = step.checked_add(ahead) else { return };
            for (file, first) in self.windows(step, shard) {
                let Contents::Remote(remote) = &file.contents else { continue };
                let bytes = file.bytes_of(first, self.options.sequence_length);
                if ahead == 0 { remote.expect(bytes) } else { remote.prefetch(bytes) }
            }
        }
    }

    /// Tokens in all files.
    pub fn tokens(&self) -> u64 {
        self.files.iter().map(|file| file.tokens).sum()
    }
}

impl Dataset for TokenDataset {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec::new(DType::I32, [self.rows, self.options.sequence_length]); 2]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        Some(self.order.batches_per_epoch())
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        self.rows(step, self.options.batching.shard)
    }

    fn rows(&self, step: u64, shard: Shard) -> Result<Vec<Literal>, DataError> {
        let sequence = self.options.sequence_length;
        let rows = Batching { shard, ..self.options.batching }.rows(row_bytes(sequence))?;
        let limit = self.options.vocab_size.unwrap_or(u32::MAX).min(1 << 31);
        let bytes = rows * sequence * size_of::<i32>();
        let (mut inputs, mut targets) = (Vec::with_capacity(bytes), Vec::with_capacity(bytes));
        self.expect(step, shard);
        for (file, first) in self.windows(step, shard) {
            file.window(first, sequence, limit, &mut inputs, &mut targets)?;
        }
        let array = |bytes| Literal::new(DType::I32, [rows, sequence], bytes);
        array(inputs).zip(array(targets)).map(|(inputs, targets)| vec![inputs, targets]).ok_or_else(wrong_size)
    }

    fn describe(&self) -> String {
        // Names without folders: data may be elsewhere on the next machine. Cached tokens are named by their contents.
        let files = self.files.iter().map(|file| {
            let name = file.contents.path().file_name().unwrap_or_default().to_string_lossy();
            format!("{name}: {} {}", file.tokens, file.dtype)
        });
        let files: Vec<String> = files.collect();
        let sequence = self.options.sequence_length;
        format!("tokens [{}], sequence {sequence}, {}", files.join(", "), self.order.describe())
    }

    fn fingerprint(&self) -> Result<Option<String>, DataError> {
        let mut fingerprint = Fingerprint::new();
        for file in &self.files {
            fingerprint.contents(&file.contents)?;
        }
        Ok(Some(fingerprint.finish()))
    }
}

/// Bytes of inputs and targets of a row, with the token that is read beyond them.
fn row_bytes(sequence_length: usize) -> Option<usize> {
    sequence_length.checked_add(1)?.checked_mul(2 * size_of::<i32>())
}

/// Our arithmetic of sizes is wrong.
pub(crate) fn wrong_size() -> DataError {
    DataError::Panicked { doing: "making a batch of its stated size" }
}
