//! Text files tokenized once: the tokens are kept in a folder under a name made from the contents.

use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::DataError;
use super::hex::hex;
use super::source::{DataFile, DataReader};
use super::tokenizer::{Tokenizer, check_vocab_size};
use super::tokens::{TokenDataset, TokenWidth, WindowOptions};

/// Version of the token files and of the way text is cut before it is tokenized; part of their names.
const TOKENS_VERSION: u32 = 1;

/// Text is tokenized in pieces of about this size, so that memory does not grow with the files.
const PIECE_BYTES: usize = 256 << 10;

/// Most threads that tokenize.
const MAX_THREADS: usize = 16;

/// How text becomes tokens.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// What makes tokens.
    pub tokenizer: Tokenizer,
    /// A token put after each file, by name, such as `<|endoftext|>`.
    pub separator: Option<String>,
    /// The folder where tokens are kept.
    pub cache: PathBuf,
}

/// The tokens of some text files, in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizedText {
    /// The file: bare tokens, little-endian.
    pub path: PathBuf,
    /// Width of a token.
    pub width: TokenWidth,
    /// Number of tokens.
    pub tokens: u64,
    /// Whether it was there already.
    pub was_cached: bool,
}

/// What is kept beside the tokens.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Sidecar {
    version: u32,
    tokens: u64,
    width_bytes: usize,
    tokenizer: String,
}

/// Tokenizes text files in their order, or finds the tokens made of the same contents earlier.
///
/// Pieces end where one line ends and the next begins, with no other white space around. Tokenizers that put a mark at the begin of a
/// text, as those of Llama 2 do, put it at the begin of each piece of about 256 KiB.
///
/// Texts elsewhere are read once: what their contents are is known when their tokens are. The next run finds it written down.
pub fn tokenize_files(texts: &[DataFile], options: &TextOptions) -> Result<TokenizedText, DataError> {
    if texts.is_empty() {
        return Err(DataError::Options("data.files is empty".into()));
    }
    let TextOptions { tokenizer, separator, cache } = options;
    let separator = match separator {
        None => None,
        Some(name) => Some(tokenizer.token(name).ok_or_else(|| {
            DataError::Options(format!("the separator `{name}` is no token of tokenizer {tokenizer}"))
        })?),
    };
    let width = TokenWidth::for_vocabulary(tokenizer.vocab_size());
    let place = |hashes: &[[u8; 32]]| {
        let mut key = Sha256::new();
        key.update(format!("tokens {TOKENS_VERSION}\n{}\n{separator:?}\n", tokenizer.fingerprint()));
        hashes.iter().for_each(|hash| key.update(hash));
        let name = hex(key.finalize().get(..16).unwrap_or_default());
        (cache.join(format!("{name}.bin")), cache.join(format!("{name}.json")))
    };
    let known = texts.iter().map(|text| known_hash(text, cache)).collect::<Result<Vec<_>, _>>()?;
    if let Some(hashes) = known.iter().copied().collect::<Option<Vec<_>>>() {
        let (path, sidecar_path) = place(&hashes);
        if let Some(tokens) = cached_tokens(&path, &sidecar_path, width) {
            return Ok(TokenizedText { path, width, tokens, was_cached: true });
        }
    }

    std::fs::create_dir_all(cache).map_err(DataError::io("making", cache))?;
    let file = weights::unfinished_file(cache, ".tmp").map_err(DataError::io("writing", cache))?;
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get()).min(MAX_THREADS);
    let mut output = TokenWriter { output: BufWriter::new(file), path: cache, width, tokens: 0 };
    let mut hashes = Vec::with_capacity(texts.len());
    for (text, known) in texts.iter().zip(&known) {
        let mut pieces = Vec::new();
        let read = for_each_piece(text, PIECE_BYTES, |piece| {
            pieces.push(piece.to_string());
            if pieces.len() < threads { Ok(()) } else { output.tokenize(tokenizer, &std::mem::take(&mut pieces)) }
        })?;
        if known.is_some_and(|known| read != known) {
            return Err(DataError::format(text.path(), "it was changed while it was read"));
        }
        output.tokenize(tokenizer, &pieces)?;
        output.write(separator.as_slice())?;
        note_hash(text, cache, &read)?;
        hashes.push(read);
    }
    let (path, sidecar_path) = place(&hashes);
    let writing = || DataError::io("writing", &path);
    let tokens = output.tokens;
    let file = output.output.into_inner().map_err(|error| writing()(error.into_error()))?;
    file.as_file().sync_all().map_err(writing())?;
    file.persist(&path).map_err(|error| writing()(error.error))?;
    let width_bytes = width.dtype().size_bytes();
    let sidecar = Sidecar { version: TOKENS_VERSION, tokens, width_bytes, tokenizer: tokenizer.to_string() };
    write_whole(&sidecar_path, &serde_json::to_vec(&sidecar).unwrap_or_default())?;
    Ok(TokenizedText { path, width, tokens, was_cached: false })
}

/// Tokens on their way into a file.
struct TokenWriter<'a, W: Write> {
    output: BufWriter<W>,
    path: &'a Path,
    width: TokenWidth,
    tokens: u64,
}

impl<W: Write> TokenWriter<'_, W> {
    /// Tokenizes pieces side by side and writes them in their order.
    fn tokenize(&mut self, tokenizer: &Tokenizer, pieces: &[String]) -> Result<(), DataError> {
        let encoded: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = pieces.iter().map(|piece| scope.spawn(|| tokenizer.encode(piece))).collect();
            workers.into_iter().map(|worker| worker.join()).collect()
        });
        encoded
            .into_iter()
            .try_for_each(|tokens| self.write(&tokens.unwrap_or(Err(DataError::Panicked { doing: "tokenizing" }))?))
    }

    fn write(&mut self, tokens: &[u32]) -> Result<(), DataError> {
        self.tokens += tokens.len() as u64;
        for token in tokens {
            let bytes = token.to_le_bytes();
            let bytes = bytes.get(..self.width.dtype().size_bytes()).unwrap_or(&bytes);
            self.output.write_all(bytes).map_err(DataError::io("writing", self.path))?;
        }
        Ok(())
    }
}

impl TokenDataset {
    /// Windows of text files, tokenized once. The tokenizer's tokens must fit the vocabulary the options name.
    pub fn from_text(
        texts: &[PathBuf],
        text_options: &TextOptions,
        options: WindowOptions,
    ) -> Result<TokenDataset, DataError> {
        let texts: Vec<DataFile> = texts.iter().map(|path| path.as_path().into()).collect();
        TokenDataset::from_text_files(&texts, text_options, options)
    }

    /// The same of text files that are on this machine or elsewhere.
    pub fn from_text_files(
        texts: &[DataFile],
        text_options: &TextOptions,
        options: WindowOptions,
    ) -> Result<TokenDataset, DataError> {
        if let Some(vocabulary) = options.vocab_size {
            check_vocab_size(&text_options.tokenizer, vocabulary)?;
        }
        let tokenized = tokenize_files(texts, text_options)?;
        TokenDataset::open_named(&[DataFile::Local(tokenized.path)], texts, tokenized.width, options)
    }
}

/// The number of tokens in a cached file, if it is whole. What cannot be read is made again.
fn cached_tokens(path: &Path, sidecar_path: &Path, width: TokenWidth) -> Option<u64> {
    let text = std::fs::read(sidecar_path).ok()?;
    let found = std::fs::metadata(path).ok()?.len();
    let width_bytes = width.dtype().size_bytes();
    match serde_json::from_slice::<Sidecar>(&text) {
        Ok(sidecar)
            if sidecar.version == TOKENS_VERSION
                && sidecar.width_bytes == width_bytes
                && sidecar.tokens.checked_mul(width_bytes as u64) == Some(found) =>
        {
            Some(sidecar.tokens)
        }
        _ => {
            tracing::warn!(path = %path.display(), "cached tokens are damaged and are made again");
            None
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let writing = || DataError::io("writing", path);
    let mut file = weights::unfinished_file(path.parent().unwrap_or(Path::new(".")), ".tmp").map_err(writing())?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(writing())?;
    file.persist(path).map_err(|error| writing()(error.error))?;
    Ok(())
}

/// The hash of a text: of a file here that of its contents, of one elsewhere what an earlier run wrote down of this version.
fn known_hash(text: &DataFile, cache: &Path) -> Result<Option<[u8; 32]>, DataError> {
    match text {
        DataFile::Local(path) => {
            let mut file = text.reader()?;
            let mut hash = Sha256::new();
            let mut buffer = vec![0; PIECE_BYTES];
            loop {
                let count = file.read(&mut buffer).map_err(DataError::io("reading", path))?;
                if count == 0 {
                    return Ok(Some(hash.finalize().into()));
                }
                hash.update(buffer.get(..count).unwrap_or_default());
            }
        }
        DataFile::Remote(file) => {
            let noted = file.version_key().and_then(|key| std::fs::read(cache.join(format!("{key}.sha256"))).ok());
            Ok(noted.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()))
        }
    }
}

/// Writes down the hash of a version of a text elsewhere.
fn note_hash(text: &DataFile, cache: &Path, hash: &[u8; 32]) -> Result<(), DataError> {
    match text {
        DataFile::Remote(file) if let Some(key) = file.version_key() => {
            write_whole(&cache.join(format!("{key}.sha256")), hash)
        }
        _ => Ok(()),
    }
}

/// Reads a text in pieces of about a size and gives the hash of all of it. Where there is no line to end a piece at for
/// eight times the size, it is cut anywhere.
fn for_each_piece(
    text: &DataFile,
    piece_bytes: usize,
    mut action: impl FnMut(&str) -> Result<(), DataError>,
) -> Result<[u8; 32], DataError> {
    let path = text.path();
    let mut file: DataReader = text.reader()?;
    let mut hash = Sha256::new();
    let mut pending = Vec::new();
    let mut offset_bytes = 0;
    loop {
        let kept = pending.len();
        let wanted = piece_bytes.saturating_sub(kept).max(piece_bytes / 2) as u64;
        let read = (&mut file).take(wanted).read_to_end(&mut pending);
        let count = read.map_err(|error| file.failed(path, error))?;
        hash.update(pending.get(kept..).unwrap_or_default());
        let at_end = count == 0;
        let text = match std::str::from_utf8(&pending) {
            Ok(text) => text,
            // The last letter may be cut off by the end of what was read.
            Err(error) if error.error_len().is_none() && !at_end => {
                std::str::from_utf8(pending.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
            Err(error) => {
                let offset_bytes = offset_bytes + error.valid_up_to() as u64;
                return Err(DataError::Utf8 { path: path.to_path_buf(), offset_bytes });
            }
        };
        let end = match last_line_end(text) {
            _ if at_end => text.len(),
            Some(end) => end,
            None if pending.len() < 8 * piece_bytes => 0,
            None => text.len(),
        };
        if end > 0 {
            action(text.get(..end).unwrap_or_default())?;
        }
        pending.drain(..end);
        offset_bytes += end as u64;
        if at_end {
            return Ok(hash.finalize().into());
        }
    }
}

/// The end of the last line that has no white space at its end and after it. Tokenizers join several line ends and spaces
/// differently where more text follows.
fn last_line_end(text: &str) -> Option<usize> {
    let is_letter = |letter: Option<char>| letter.is_some_and(|letter| !letter.is_whitespace());
    let mut line_ends = text.rmatch_indices('\n').map(|(at, _)| (at, at + 1));
    let found = line_ends.find(|(end, next)| {
        is_letter(text.get(..*end).and_then(|line| line.chars().next_back()))
            && is_letter(text.get(*next..).and_then(|rest| rest.chars().next()))
    });
    found.map(|(_, next)| next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stories;

    const PIECE: usize = 4096;

    fn pieces(bytes: &[u8]) -> Result<Vec<String>, DataError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut pieces = Vec::new();
        let text = DataFile::from(file.path());
        let hash = for_each_piece(&text, PIECE, |piece| {
            pieces.push(piece.to_string());
            Ok(())
        })?;
        assert_eq!(Some(hash), known_hash(&text, file.path()).unwrap());
        Ok(pieces)
    }

    #[test]
    fn pieces_are_the_whole_text() {
        for text in ["", "a", "line\n\n  indented\nline\n", "no line ends here é"] {
            assert_eq!(pieces(text.as_bytes()).unwrap().concat(), text);
        }
        // Letters of two bytes at odd places, in lines and in one line longer than the longest piece.
        let lines = format!("a{}\n", "é".repeat(100)).repeat(150);
        let found = pieces(lines.as_bytes()).unwrap();
        assert!(found.len() > 2 && found.iter().all(|piece| piece.ends_with('\n') && piece.len() <= 2 * PIECE));
        assert_eq!(found.concat(), lines);
        let line = format!("a{}", "é".repeat(10 * PIECE));
        let found = pieces(line.as_bytes()).unwrap();
        assert!(found.len() > 1 && found.concat() == line);
    }

    #[test]
    fn what_is_not_utf8_is_found() {
        let check = |bytes: &[u8], expected: u64| match pieces(bytes) {
            Err(DataError::Utf8 { offset_bytes, .. }) => assert_eq!(offset_bytes, expected),
            other => panic!("{other:?}"),
        };
        check(b"ab\xff", 2);
        check(b"ab\xc3", 2);
        check(b"\x80", 0);
        let mut long = "line\n".repeat(5000).into_bytes();
        long.extend(b"abc\xc3\x28");
        check(&long, 25_003);
    }

    /// A tokenizer of bytes with a few merges that cuts text as GPT-2 does, with a regular expression that looks ahead.
    fn byte_level_tokenizer() -> Tokenizer {
        // Bytes that have no letter of their own get one past 255.
        let is_letter = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let others = (0..256).filter(|byte| !is_letter(byte)).zip(256..).map(|(_, past)| past);
        let letters =
            (0..256).filter(is_letter).chain(others).map(|letter| char::from_u32(letter).unwrap().to_string());
        let merges = ["t h", "th e", "\u{120} the", "\u{120} w", "a s", "\u{120}w as", "\u{10a} \u{10a}"];
        let tokens = letters.chain(merges.iter().map(|merge| merge.replace(' ', "")));
        let vocabulary: serde_json::Map<_, _> = tokens.zip(0..).map(|(token, id)| (token, id.into())).collect();
        let level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let json = serde_json::json!({"version": "1.0", "pre_tokenizer": level, "decoder": level, "added_tokens": [],
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}});
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json.to_string()).unwrap();
        Tokenizer::open(file.path()).unwrap()
    }

    #[test]
    fn pieces_have_the_tokens_of_the_whole_text() {
        let tokenizer = byte_level_tokenizer();
        assert_eq!(tokenizer.encode(" the was\n\n").unwrap(), [258, 261, 262]);
        // Letters of several bytes, runs of spaces, empty lines.
        let text = stories(1, 40_000).replace("was", "was —  ");
        let whole = tokenizer.encode(&text).unwrap();
        assert!(tokenizer.decode(&whole).unwrap() == text);
        let pieces = pieces(text.as_bytes()).unwrap();
        let output = BufWriter::new(Vec::new());
        let mut output = TokenWriter { output, path: "tokens".as_ref(), width: TokenWidth::U16, tokens: 0 };
        output.tokenize(&tokenizer, &pieces).unwrap();
        assert!(pieces.len() > 5 && output.tokens == whole.len() as u64);
        let bytes: Vec<u8> = whole.iter().flat_map(|token| (*token as u16).to_le_bytes()).collect();
        assert!(output.output.into_inner().unwrap() == bytes, "pieces have other tokens");
    }
}
