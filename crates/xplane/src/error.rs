//! Why a file could not be read as a profile. But for `Io`, all are faults of the input.

use std::fmt;

/// The file is no XSpace, or cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Io {
        /// Where in the file.
        offset: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A message claims more bytes than what holds it has left.
    Truncated {
        /// The message.
        message: &'static str,
        /// Where its length or value stands.
        offset: u64,
        /// How many bytes it claims.
        claimed_bytes: u64,
        /// How many there are.
        present_bytes: u64,
    },
    /// The bytes are not the message they should be.
    Malformed {
        /// The message.
        message: &'static str,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// Reading on would need more memory than allowed.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Where in the file.
        offset: u64,
        /// The limit in force.
        limit_bytes: u64,
    },
}

impl Error {
    pub(crate) fn malformed(message: &'static str, offset: u64, problem: &'static str) -> Error {
        Error::Malformed { message, offset, problem }
    }

    /// Where in the file reading stopped.
    pub fn offset(&self) -> u64 {
        match self {
            Error::Io { offset, .. }
            | Error::Truncated { offset, .. }
            | Error::Malformed { offset, .. }
            | Error::TooLarge { offset, .. } => *offset,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { offset, .. } => write!(f, "the profile cannot be read at byte {offset}"),
            Error::Truncated { message, offset, claimed_bytes, present_bytes } => write!(
                f,
                "the profile is cut or damaged at byte {offset}: {message} claims {claimed_bytes} bytes, \
                 {present_bytes} are left"
            ),
            Error::Malformed { message, offset, problem } => {
                write!(f, "the profile is damaged at byte {offset}: {problem} in {message}")
            }
            Error::TooLarge { what, offset, limit_bytes } => {
                write!(f, "{what} at byte {offset} of the profile needs more than the limit of {limit_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
