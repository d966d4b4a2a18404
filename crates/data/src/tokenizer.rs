//! Text to tokens and back: the built-in tokenizer of bytes, or a `tokenizer.json`.

use std::collections::HashMap;
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

    /// The bytes that each token stands for, by its number; empty for those that are no text. An error where a token's bytes depend on
    /// its neighbours.
    pub fn token_bytes(&self) -> Result<Vec<Vec<u8>>, DataError> {
        match &self.kind {
            Kind::Bytes => Ok((0..=255).map(|byte| vec![byte]).collect()),
            Kind::File(file) => file.token_bytes(),
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

impl FileTokenizer {
    fn token_bytes(&self) -> Result<Vec<Vec<u8>>, DataError> {
        let decoder = self.tokenizer.get_decoder().map(serde_json::to_value);
        let decoder = decoder.transpose().map_err(|error| self.refuse(error.into()))?;
        let spelling = decoder.as_ref().and_then(Spelling::of).ok_or_else(|| {
            DataError::format(&self.path, "its decoder is neither of bytes nor with a fallback to bytes")
        })?;
        let added = self.tokenizer.get_added_tokens_decoder();
        let byte_of = bytes_of_letters();
        let bytes = (0..self.vocabulary).map(|token| match added.get(&token) {
            Some(added) if added.special => Vec::new(),
            Some(added) => added.content.clone().into_bytes(),
            None => {
                self.tokenizer.id_to_token(token).and_then(|name| spelling.bytes(&name, &byte_of)).unwrap_or_default()
            }
        });
        Ok(bytes.collect())
    }
}

/// How a vocabulary spells the bytes of its tokens.
enum Spelling {
    /// Each byte is a letter of its own, as GPT-2 began.
    Letters,
    /// Text with this letter for a space, and `<0x0A>` for bytes that are no letter.
    Text { space: String },
}

impl Spelling {
    /// That of a decoder, as its file has it.
    fn of(decoder: &serde_json::Value) -> Option<Spelling> {
        let parts = match decoder.get("decoders").and_then(serde_json::Value::as_array) {
            Some(parts) => parts.iter().collect(),
            None => vec![decoder],
        };
        let find = |name: &str| parts.iter().copied().find(|part| part.get("type").is_some_and(|kind| kind == name));
        if find("ByteLevel").is_some() {
            return Some(Spelling::Letters);
        }
        let replaced = find("Replace").filter(|part| part["content"] == " ");
        let space = replaced.and_then(|part| part["pattern"]["String"].as_str());
        let space = space.or_else(|| find("Metaspace").and_then(|part| part["replacement"].as_str()));
        let has_fallback = find("ByteFallback").is_some();
        match (space, has_fallback) {
            (Some(space), _) => Some(Spelling::Text { space: space.to_string() }),
            (None, true) => Some(Spelling::Text { space: "\u{2581}".into() }),
            (None, false) => None,
        }
    }

    fn bytes(&self, name: &str, byte_of: &HashMap<char, u8>) -> Option<Vec<u8>> {
        match self {
            Spelling::Letters => name.chars().map(|letter| byte_of.get(&letter).copied()).collect(),
            Spelling::Text { space } => {
                let byte = name.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                let byte =
                    byte.filter(|digits| digits.len() == 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                Some(byte.map_or_else(|| name.replace(space.as_str(), " ").into_bytes(), |byte| vec![byte]))
            }
        }
    }
}

/// The byte of each letter in vocabularies of bytes: letters that can be seen stand for themselves, the others follow from U+0100 on.
fn bytes_of_letters() -> HashMap<char, u8> {
    let is_seen = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let seen = (0..=255).filter(|byte| is_seen(*byte)).map(|byte| (char::from(byte), byte));
    let others = (0..=255).filter(|byte| !is_seen(*byte)).zip('\u{100}'..).map(|(byte, letter)| (letter, byte));
    seen.chain(others).collect()
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
    fn tokens_stand_for_bytes() {
        let open = |decoder: &str, vocabulary: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("tokenizer.json");
            let special = |id: u32, content: &str, is_special: bool| {
                format!(
                    r#"{{"id": {id}, "content": "{content}", "single_word": false, "lstrip": false, "rstrip": false,
                        "normalized": false, "special": {is_special}}}"#
                )
            };
            let (end, tool) = (special(4, "<end>", true), special(5, "<tool>", false));
            let text = format!(
                r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{end}, {tool}],
                    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {decoder},
                    "model": {{"type": "BPE", "vocab": {vocabulary}, "merges": [], "byte_fallback": true}}}}"#
            );
            std::fs::write(&path, text).unwrap();
            Tokenizer::open(&path).unwrap().token_bytes()
        };
        let texts = |found: &[Vec<u8>]| found.iter().map(|bytes| bytes.escape_ascii().to_string()).collect::<Vec<_>>();
        let byte_level = r#"{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}"#;
        let found = open(byte_level, r#"{"a": 0, "\u0120b": 1, "\u010a": 2, "\u00c3\u00b6": 3}"#).unwrap();
        assert_eq!(texts(&found), ["a", " b", "\\n", "\\xc3\\xb6", "", "<tool>"]);
        let fallback = r#"{"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]}"#;
        let found = open(fallback, r#"{"a": 0, "\u2581b": 1, "<0x0A>": 2, "\u00f6": 3}"#).unwrap();
        assert_eq!(texts(&found), ["a", " b", "\\n", "\\xc3\\xb6", "", "<tool>"]);
        let pieces = r###"{"type": "WordPiece", "prefix": "##", "cleanup": true}"###;
        assert!(open(pieces, r#"{"a": 0, "b": 1, "c": 2, "d": 3}"#).is_err());
        assert_eq!(Tokenizer::bytes().token_bytes().unwrap()[7], [7]);
    }

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
