//! What can go wrong while a run is looked at.

use std::fmt;
use std::path::PathBuf;

/// Why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file cannot be written.
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder holds no profile.
    NoProfile {
        /// Which.
        path: PathBuf,
    },
    /// A file is no XSpace, or is damaged.
    Profile {
        /// Which.
        path: PathBuf,
        /// Where and what.
        source: xplane::Error,
    },
    /// A file is no Chrome trace, or is damaged.
    Trace {
        /// Which.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
    /// A file grows beyond what is read when it is unpacked.
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
}

impl Error {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Error::Read { .. } => "check the path and its permissions".into(),
            Error::Write { .. } => "check that the folder exists and the disk has room".into(),
            Error::NoProfile { .. } => {
                "give a folder that a profiler wrote, such as the one of jax.profiler.trace, or a file in it".into()
            }
            Error::Profile { source: xplane::Error::TooLarge { .. }, .. } => {
                "the file may be damaged; if it is not, record fewer steps".into()
            }
            Error::Profile { .. } => "the file is cut or damaged: copy it again, or record again".into(),
            Error::Trace { .. } => "the file is cut or damaged: give the *.xplane.pb beside it".into(),
            Error::TooLarge { .. } => "give the *.xplane.pb beside it, which may have any size".into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, .. } => write!(f, "{} cannot be read", path.display()),
            Error::Write { path, .. } => write!(f, "{} cannot be written", path.display()),
            Error::NoProfile { path } => {
                write!(f, "{} holds no profile: no *.xplane.pb and no *.trace.json.gz", path.display())
            }
            Error::Profile { path, .. } => write!(f, "{} is not a readable profile", path.display()),
            Error::Trace { path, .. } => write!(f, "{} is not a readable Chrome trace", path.display()),
            Error::TooLarge { path, limit_bytes } => {
                write!(f, "{} unpacks to more than {limit_bytes} bytes", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read { source, .. } | Error::Write { source, .. } => Some(source),
            Error::Profile { source, .. } => Some(source),
            Error::Trace { source, .. } => Some(source),
            Error::NoProfile { .. } | Error::TooLarge { .. } => None,
        }
    }
}
