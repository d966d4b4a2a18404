//! What is wrong with a file of tensors, or with the place it is kept.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tensor::DType;
use trust::{SealError, SignatureError};

/// The cause of an error that another library or a caller's function made.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What is wrong with a file of tensors, or with the place it is kept.
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
    /// The file or object is damaged, missing from its checkpoint, or of another format.
    Format {
        /// The file, or the address of the object.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The file was written by a newer release.
    Newer {
        /// The file, or the address of the object.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version this release reads.
        supported: u64,
    },
    /// There is no tensor of this name.
    Missing {
        /// The file, or the address of the checkpoint.
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
    /// A tensor cannot be read as the asked type.
    Cast {
        /// The name.
        name: String,
        /// Its type.
        from: DType,
        /// The asked type.
        to: DType,
    },
    /// Quantized weights that cannot be read or written.
    Quantized {
        /// The file and the tensor or setting, or the matrix.
        place: String,
        /// What is wrong.
        message: String,
        /// What would do.
        help: String,
    },
    /// A part was asked for that the tensor does not have.
    OutOfRange {
        /// The name.
        name: String,
        /// The part and the tensor.
        message: String,
    },
    /// This is not a location for files.
    Location {
        /// The path or address as it was given.
        location: String,
        /// What is wrong with it.
        message: String,
    },
    /// An object store refused or failed.
    Store {
        /// What was being done.
        doing: &'static str,
        /// The address of the object.
        object: String,
        /// Why it failed, as far as it can be told apart.
        failure: StoreFailure,
        /// What the store said.
        source: Cause,
    },
    /// There is no checkpoint of this step, or none at all.
    NoCheckpoint {
        /// Where they would be.
        location: String,
        /// The step that was asked for.
        step: Option<u64>,
    },
    /// The file cannot be decrypted, or is not encrypted.
    Sealed {
        /// The file, or the address of the object.
        path: PathBuf,
        /// Why not.
        source: SealError,
    },
    /// The file is encrypted and there is no key.
    NoKey {
        /// The file, or the address of the object.
        path: PathBuf,
    },
    /// The checkpoint must be signed and is not.
    Unsigned {
        /// The manifest.
        path: PathBuf,
    },
    /// The checkpoint's signature is not that of a trusted key.
    Signature {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        source: SignatureError,
    },
    /// The store ignores the conditions of puts, which keep two runs apart.
    Unconditional {
        /// Where.
        location: String,
    },
    /// Another process saves checkpoints here.
    Busy {
        /// Where.
        location: String,
        /// Which one, where that is known.
        by: Option<String>,
    },
    /// Another run has taken these checkpoints over: this one can neither save nor delete any more.
    Replaced {
        /// Where.
        location: String,
        /// The run that did.
        by: String,
    },
    /// The processes that save together could not tell each other: one of them is gone.
    Group {
        /// Which one, and how that was noticed.
        source: Cause,
    },
    /// Another process of those that save together could not write its part.
    Peer {
        /// Its number.
        process: usize,
        /// What it said.
        message: String,
        /// Whether it was replaced by another run.
        is_replaced: bool,
    },
    /// The function that was to give a tensor did not.
    NotProduced {
        /// The tensor.
        name: String,
        /// Why not.
        source: Cause,
    },
    /// A thread could not be started, or ended although it should not have: a mistake of this library or no threads left.
    Thread {
        /// What it was for.
        doing: &'static str,
        /// Why not, when it is known.
        source: Option<io::Error>,
    },
}

/// Why an object store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFailure {
    /// Bucket or object do not exist.
    NotFound,
    /// The credentials are missing, wrong, or do not allow it.
    NotAllowed,
    /// The object is no longer the one that was opened.
    Changed,
    /// Anything else, after the retries: the network, the server, the configuration.
    Other,
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { doing, path, source }
    }

    pub(crate) fn format(path: impl AsRef<Path>, message: impl Into<String>) -> Error {
        Error::Format { path: path.as_ref().to_path_buf(), message: message.into() }
    }

    /// Whether what was read is damaged, as opposed to a place that cannot be reached now or a mistake of the caller's.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Format { .. } | Error::Quantized { .. })
            || matches!(self, Error::Sealed { source, .. } if source.is_damage())
    }

    /// Whether another run has taken the checkpoints over: saving again is of no use.
    pub fn is_replaced(&self) -> bool {
        matches!(self, Error::Replaced { .. } | Error::Peer { is_replaced: true, .. })
    }

    /// The error and what caused it, in one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
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
            Error::Format { .. } => "the file is damaged or of another format; use an older copy".into(),
            Error::Newer { .. } => "update tpubridge, or save the model again with this release".into(),
            Error::Missing { .. } => "the file belongs to another model; its names are in its header".into(),
            Error::Tensor { .. } => "convert the tensor to a type that the format has, or rename it".into(),
            Error::Cast { .. } => "only floats are converted, to floats; ask for the type it was saved in".into(),
            Error::Quantized { help, .. } => help.clone(),
            Error::OutOfRange { .. } => "ask for a part that lies inside the tensor".into(),
            Error::Location { .. } => {
                "give a path, or an address file:///, s3://bucket/prefix or gs://bucket/prefix".into()
            }
            Error::Store { failure: StoreFailure::NotFound, .. } => {
                "check the address: the bucket, and the object in it".into()
            }
            Error::Store { failure: StoreFailure::NotAllowed, object, .. } if object.starts_with("gs://") => {
                "check GOOGLE_APPLICATION_CREDENTIALS and the account's rights on the bucket".into()
            }
            Error::Store { failure: StoreFailure::NotAllowed, object, .. } if object.starts_with("http") => {
                "check the address; one that was signed may have expired".into()
            }
            Error::Store { failure: StoreFailure::NotAllowed, .. } => {
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights on the bucket".into()
            }
            Error::Store { failure: StoreFailure::Changed, .. } => {
                "put the old version back, or begin again with the new one".into()
            }
            Error::Store { object, .. } if object.starts_with("http") => {
                "check the address and the network; the server must answer requests for ranges".into()
            }
            Error::Store { object, .. } if object.starts_with("gs://") => {
                "check the network and GOOGLE_*; complete checkpoints are untouched".into()
            }
            Error::Store { .. } => {
                "check the network, AWS_ENDPOINT_URL and AWS_REGION; complete checkpoints are untouched".into()
            }
            Error::NoCheckpoint { .. } => "check the path; a checkpoint that was not finished does not count".into(),
            Error::Sealed { source, .. } => source.remedy().into(),
            Error::NoKey { .. } => "give the key it was written with: train.encryption_key, or --encryption-key".into(),
            Error::Unsigned { .. } => {
                "if you know who wrote it, leave out train.trusted_keys; else do not use it: weights decide what a model does".into()
            }
            Error::Signature { source: SignatureError::UnknownKey(_), .. } => {
                "if you know whose key it is, add it to train.trusted_keys, or give it with --trusted-key".into()
            }
            Error::Signature { source, .. } => source.remedy().into(),
            Error::Unconditional { .. } => "save to a store whose puts honour If-Match and If-None-Match (Amazon S3, Google \
                Cloud Storage and most others do), update the server, or save to a disk"
                .into(),
            Error::Busy { .. } => "stop the other process, or save somewhere else".into(),
            Error::Replaced { .. } | Error::Peer { is_replaced: true, .. } => {
                "let the other run go on, or stop it and start this one again: it goes on from the newest checkpoint"
                    .into()
            }
            Error::Group { .. } => {
                "see the output of the process that is gone; started again, all go on from the newest checkpoint".into()
            }
            Error::Peer { .. } => "see what that process says; complete checkpoints are untouched".into(),
            Error::NotProduced { .. } => "see the cause; complete checkpoints are untouched".into(),
            Error::Thread { .. } => "allow more threads; if there are enough, report this as a bug".into(),
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
            Error::Cast { name, from, to } => write!(f, "tensor `{name}` is {from} and cannot be read as {to}"),
            Error::Quantized { place, message, .. } => write!(f, "{place}: {message}"),
            Error::OutOfRange { name, message } => write!(f, "tensor `{name}`: {message}"),
            Error::Location { location, message } => write!(f, "`{location}` is not a location for files: {message}"),
            Error::Store { doing, object, .. } => write!(f, "{doing} {object} failed"),
            Error::NoCheckpoint { location, step: None } => write!(f, "{location} has no checkpoint"),
            Error::NoCheckpoint { location, step: Some(step) } => {
                write!(f, "{location} has no checkpoint of step {step}")
            }
            Error::Sealed { path, .. } => write!(f, "{} cannot be decrypted", path.display()),
            Error::NoKey { path } => write!(f, "{} is encrypted, and there is no key", path.display()),
            Error::Unsigned { path } => write!(f, "{} is not signed, or not all of it", path.display()),
            Error::Signature { path, .. } => write!(f, "{} is not taken", path.display()),
            Error::Unconditional { location } => {
                write!(f, "the store of {location} ignores the conditions of puts: two runs could overwrite each other")
            }
            Error::Busy { location, by: None } => write!(f, "another process is saving into {location}"),
            Error::Busy { location, by: Some(by) } => write!(f, "another process is saving into {location}: {by}"),
            Error::Replaced { location, by } => write!(f, "the checkpoints in {location} were taken over by {by}"),
            Error::Group { .. } => write!(f, "the processes cannot finish the checkpoint together"),
            Error::Peer { process, message, .. } => write!(f, "process {process} could not save its part: {message}"),
            Error::NotProduced { name, .. } => write!(f, "tensor `{name}` could not be fetched for saving"),
            Error::Thread { doing, .. } => write!(f, "the thread for {doing} could not start or has ended"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::Thread { source: Some(source), .. } => Some(source),
            Error::Sealed { source, .. } => Some(source),
            Error::Signature { source, .. } => Some(source),
            Error::Store { source, .. } | Error::NotProduced { source, .. } | Error::Group { source } => {
                Some(source.as_ref())
            }
            _ => None,
        }
    }
}
