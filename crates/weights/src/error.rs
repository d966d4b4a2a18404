//! What is wrong with a file of tensors.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a file of tensors.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is damaged or of another format.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The file was written by a newer release.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version this release reads.
        supported: u64,
    },
    /// There is no tensor of this name.
    Missing {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A tensor cannot be written.
    Tensor {
        /// The name.
        name: String,
        /// Why not.
        message: String,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { doing, path, source }
    }

    pub(crate) fn format(path: &Path, message: impl Into<String>) -> Error {
        Error::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => "check the permissions".into(),
                io::ErrorKind::StorageFull => "free some disk space; what was there before is untouched".into(),
                _ => "check the disk; what was there before is untouched".into(),
            },
            Error::Format { .. } => "the file is damaged or not safetensors; use an older copy".into(),
            Error::Newer { .. } => "update tpubridge, or save the model again with this release".into(),
            Error::Missing { .. } => "the file belongs to another model; its names are in its header".into(),
            Error::Tensor { .. } => "convert the tensor to a type that safetensors has".into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, path, .. } => write!(f, "{doing} {} failed", path.display()),
            Error::Format { path, message } => write!(f, "{} cannot be read: {message}", path.display()),
            Error::Newer { path, found, supported } => {
                write!(f, "{} has version {found}; this release reads up to {supported}", path.display())
            }
            Error::Missing { path, name } => write!(f, "{} has no tensor `{name}`", path.display()),
            Error::Tensor { name, message } => write!(f, "tensor `{name}` cannot be written: {message}"),
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
