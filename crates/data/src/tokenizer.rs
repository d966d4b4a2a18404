//! Text to tokens and back: the built-in tokenizer of bytes, or a `tokenizer.json`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::error::DataError;
use super::hex::hex;
use super::source::DataFile;

/// Largest `tokenizer.json` that is read.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// Text to tokens and back.
#[derive(Clone)]
pub struct Tokenizer {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Bytes,
    File(Arc<FileTokenizer>),
}

/// Tokens that are no text, such as those that mark its begin and end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    With,
    Without,
}

struct FileTokenizer {
    path: PathBuf,
    tokenizer: tokenizers::Tokenizer,
    vocabulary: u32,
    content_hash: String,
}

impl Tokenizer {
    /// Each byte of UTF-8 is a token: 256 of them, no file.
    pub fn bytes() -> Tokenizer {
        Tokenizer { kind: Kind::Bytes }
    }

    /// Reads a `tokenizer.json`. Truncation and padding it asks for are left out: they are not for training text.
    pub fn open(path: &Path) -> Result<Tokenizer, DataError> {
        Tokenizer::open_file(&path.into())
    }

    /// Reads a `tokenizer.json` that is on this machine or elsewhere.
    pub fn open_file(file: &DataFile) -> Result<Tokenizer, DataError> {
        let path = file.path();
        let refuse =
            |source: Box<dyn std::error::Error + Send + Sync>| DataError::Tokenizer { path: path.into(), source };
        let bytes = file.read_all(MAX_TOKENIZER_BYTES)?;
        // From text and not from bytes: of the two readers that would be built, this one is in the library already.
        let text = std::str::from_utf8(&bytes).map_err(|error| refuse(error.into()))?;
        let mut tokenizer =
            guarded("reading a tokenizer", || text.parse::<tokenizers::Tokenizer>())?.map_err(refuse)?;
        tokenizer.with_truncation(None).map_err(refuse)?;
        tokenizer.with_padding(None);
        let largest = tokenizer.get_vocab(true).into_values().max();
        let vocabulary = largest.and_then(|largest| largest.checked_add(1)).unwrap_or(0);
        if vocabulary == 0 || vocabulary > 1 << 31 {
            return Err(DataError::format(path, "its vocabulary is empty or too large"));
        }
        let content_hash = hex(&Sha256::digest(&bytes));
        let file = FileTokenizer { path: path.to_path_buf(), tokenizer, vocabulary, content_hash };
        Ok(Tokenizer { kind: Kind::File(Arc::new(file)) })
    }

    /// One more than the largest token: rows a model's embedding must have.
    pub fn vocab_size(&self) -> u32 {
        match &self.kind {
            Kind::Bytes => 256,
            Kind::File(file) => file.vocabulary,
        }
    }

    /// The tokens of a text, without tokens that mark its begin or end.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        self.encoded(text, Special::Without)
    }

    /// The tokens of a prompt, with those that mark its begin where the tokenizer adds them.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, DataError> {
        self.encoded(text, Special::With)
    }

    fn encoded(&self, text: &str, special: Special) -> Result<Vec<u32>, DataError> {
        match &self.kind {
            Kind::Bytes => Ok(text.bytes().map(u32::from).collect()),
            Kind::File(file) => {
                let encoded = guarded("tokenizing", || file.tokenizer.encode_fast(text, special == Special::With))?;
                Ok(encoded.map_err(|source| file.refuse(source))?.get_ids().to_vec())
            }
        }
    }

    /// The text of tokens. Bytes that are not UTF-8, as of a text that ends within a letter, become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, DataError> {
        self.decoded(tokens, Special::With)
    }

    /// The text of tokens without those that mark the parts of a text; numbers that are no token are left out.
    pub fn decode_text(&self, tokens: &[u32]) -> Result<String, DataError> {
        let vocabulary = self.vocab_size();
        let known: Vec<u32> = tokens.iter().copied().filter(|&token| token < vocabulary).collect();
        self.decoded(&known, Special::Without)
    }

    fn decoded(&self, tokens: &[u32], special: Special) -> Result<String, DataError> {
        match &self.kind {
            Kind::Bytes => {
                let bytes = tokens.iter().map(|&token| {
                    let wrong = || DataError::Options(format!("token {token} is no byte"));
                    u8::try_from(token).map_err(|_| wrong())
                });
                Ok(String::from_utf8_lossy(&bytes.collect::<Result<Vec<_>, _>>()?).into_owned())
            }
            Kind::File(file) => {
                let decoded =
                    guarded("decoding tokens", || file.tokenizer.decode(tokens, special == Special::Without))?;
                decoded.map_err(|source| file.refuse(source))
            }
        }
    }

    /// The token of this name, such as `<|endoftext|>`; bytes have none.
    pub fn token(&self, name: &str) -> Option<u32> {
        match &self.kind {
            Kind::Bytes => None,
            Kind::File(file) => file.tokenizer.token_to_id(name),
        }
    }

    /// Differs between tokenizers that may give different tokens.
    pub(crate) fn fingerprint(&self) -> &str {
        match &self.kind {
            Kind::Bytes => "bytes",
            Kind::File(file) => &file.content_hash,
        }
    }
}

impl FileTokenizer {
    fn refuse(&self, source: Box<dyn std::error::Error + Send + Sync>) -> DataError {
        DataError::Tokenizer { path: self.path.clone(), source }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Bytes => f.write_str("`bytes`"),
            Kind::File(file) => write!(f, "{}", file.path.display()),
        }
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({self}, {} tokens)", self.vocab_size())
    }
}

/// Whether every token of a tokenizer has a row in a model's embedding.
pub fn check_vocab_size(tokenizer: &Tokenizer, model_vocabulary: u32) -> Result<(), DataError> {
    let tokens = tokenizer.vocab_size();
    if tokens <= model_vocabulary {
        return Ok(());
    }
    Err(DataError::Vocabulary { tokenizer: tokenizer.to_string(), tokens, model: model_vocabulary })
}

/// Tokenizer files are programs of a kind, and the library that runs them panics on some that make no sense.
fn guarded<T>(doing: &'static str, action: impl FnOnce() -> T) -> Result<T, DataError> {
    catch_unwind(AssertUnwindSafe(action)).map_err(|_| DataError::Panicked { doing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokenizers_without_an_end_or_a_bottom_are_refused() {
        assert!(matches!(Tokenizer::open(Path::new("/dev/zero")), Err(DataError::Format { .. })));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        for text in [r#"{"a":"#.repeat(100_000), "[".repeat(100_000), r#"{"model":"#.repeat(100_000)] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Tokenizer::open(&path), Err(DataError::Tokenizer { .. })));
        }
    }
}
