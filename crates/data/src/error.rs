//! What is wrong with data, and what helps.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// What is wrong with data.
#[derive(Debug)]
#[non_exhaustive]
pub enum DataError {
    // ---- the caller's input ----
    /// Options that do not fit together.
    Options(String),
    /// A file is damaged or of another format.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Text that is not UTF-8.
    Utf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong.
        offset_bytes: u64,
    },
    /// A token that is no index into the vocabulary.
    Token {
        /// The file.
        path: PathBuf,
        /// Which token of the file, from 0.
        position: u64,
        /// The token.
        token: i128,
        /// Tokens must be below this.
        limit: u32,
    },
    /// A tokenizer with more tokens than the model has.
    Vocabulary {
        /// The tokenizer.
        tokenizer: String,
        /// One more than its largest token.
        tokens: u32,
        /// Rows of the model's embedding.
        model: u32,
    },
    /// Less data than one batch needs.
    TooSmall {
        /// What was counted, with where it was found.
        what: String,
        /// How many there are.
        found: u64,
        /// How many there must be.
        needed: u64,
    },
    /// A tokenizer cannot be read or refuses a text.
    Tokenizer {
        /// The tokenizer's file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An image cannot be decoded.
    Image {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    // ---- the machine ----
    /// A file cannot be read or written.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file became shorter while it was in use.
    Shrunk {
        /// The file.
        path: PathBuf,
    },

    /// Data elsewhere cannot be read.
    Remote {
        /// What happened, to what.
        message: String,
        /// What helps.
        remedy: String,
    },
    /// Data elsewhere was replaced while it was in use.
    Changed {
        /// Its address.
        address: String,
    },

    // ---- our bug ----
    /// Preparing data panicked.
    Panicked {
        /// What was being done.
        doing: &'static str,
    },
}

impl DataError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataError {
        let path = path.to_path_buf();
        move |source| DataError::Io { doing, path, source }
    }

    pub(crate) fn format(path: &Path, message: impl Into<String>) -> DataError {
        DataError::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Self::Options(_) => "change the options as the message says".into(),
            Self::Format { .. } => "use another copy of the file, or state its format".into(),
            Self::Utf8 { .. } => "convert the file to UTF-8, or give its bytes as tokens (`.npy` of type u1)".into(),
            Self::Token { .. } => "use the tokenizer the tokens were made for, or a model with a larger vocabulary; \
                                   a wrong width (u16, u32) also looks like this"
                .into(),
            Self::Vocabulary { tokens, .. } => {
                format!("set the model's vocabulary to {tokens} or more, or use the model's own tokenizer")
            }
            Self::TooSmall { .. } => {
                "use more data, a smaller batch, a shorter sequence, or another validation fraction".into()
            }
            Self::Tokenizer { .. } => {
                "the file must be a `tokenizer.json` as Hugging Face's tokenizers write it".into()
            }
            Self::Image { .. } => "replace or remove the image; PNG and JPEG are read".into(),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => "check the permissions".into(),
                io::ErrorKind::StorageFull => "free some disk space".into(),
                _ => "check the disk".into(),
            },
            Self::Shrunk { .. } => "do not change data while a training reads it; start again".into(),
            Self::Remote { remedy, .. } => remedy.clone(),
            Self::Changed { .. } => {
                "a run needs the same data from begin to end: put the old version back, or start a new run".into()
            }
            Self::Panicked { .. } => "report it with the data that provokes it".into(),
        }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(message) => f.write_str(message),
            Self::Format { path, message } => write!(f, "{} cannot be read: {message}", path.display()),
            Self::Utf8 { path, offset_bytes } => {
                write!(f, "{} is not UTF-8 text: byte {offset_bytes} is wrong", path.display())
            }
            Self::Token { path, position, token, limit } => {
                write!(f, "token {position} of {} is {token}; it must be from 0 to below {limit}", path.display())
            }
            Self::Vocabulary { tokenizer, tokens, model } => {
                write!(f, "tokenizer {tokenizer} has {tokens} tokens, the model's vocabulary only {model}")
            }
            Self::TooSmall { what, found, needed } => write!(f, "{what}: there are {found}, {needed} are needed"),
            Self::Tokenizer { path, .. } => write!(f, "tokenizer {} cannot be used", path.display()),
            Self::Image { path, .. } => write!(f, "image {} cannot be decoded", path.display()),
            Self::Io { doing, path, .. } => write!(f, "{doing} {} failed", path.display()),
            Self::Shrunk { path } => write!(f, "{} became shorter while it was read", path.display()),
            Self::Remote { message, .. } => f.write_str(message),
            Self::Changed { address } => write!(f, "{address} was changed while the training reads it"),
            Self::Panicked { doing } => write!(f, "{doing} panicked"),
        }
    }
}

impl std::error::Error for DataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Tokenizer { source, .. } | Self::Image { source, .. } => Some(source.as_ref()),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
