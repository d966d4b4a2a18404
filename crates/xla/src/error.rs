//! Why bytes could not be read as a compiled program. All are faults of the input.

use std::fmt;

/// The bytes are not the message they were taken for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The protobuf encoding is damaged.
    Wire {
        /// The message that was read.
        message: &'static str,
        /// What the decoder said.
        source: prost::DecodeError,
    },
    /// The zstd frame is damaged.
    Compression {
        /// What the decoder said.
        source: std::io::Error,
    },
    /// Decompression would exceed the limit.
    TooLarge {
        /// The limit in force.
        limit_bytes: u64,
    },
    /// The message decodes but contradicts itself.
    Malformed {
        /// Where: a computation, an instruction, an allocation.
        at: String,
        /// What is wrong.
        problem: String,
    },
}

impl Error {
    pub(crate) fn wire(message: &'static str) -> impl FnOnce(prost::DecodeError) -> Error {
        move |source| Error::Wire { message, source }
    }

    pub(crate) fn malformed(at: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Malformed { at: at.into(), problem: problem.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Wire { message, .. } => write!(f, "not a valid {message} message"),
            Error::Compression { .. } => write!(f, "damaged zstd data"),
            Error::TooLarge { limit_bytes } => write!(f, "decompressed data exceeds the limit of {limit_bytes} bytes"),
            Error::Malformed { at, problem } => write!(f, "inconsistent HLO at {at}: {problem}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Wire { source, .. } => Some(source),
            Error::Compression { source } => Some(source),
            _ => None,
        }
    }
}
