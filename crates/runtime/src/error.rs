//! Errors of a backend: one hierarchy, by what failed. Each keeps its cause and says what helps.

use std::fmt;
use std::time::Duration;

use compile::CompileError;
use tensor::{Spec, ValueError};

use crate::config::ConfigError;
use crate::memory::MemoryError;

/// What can go wrong between a program and its results.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    // ---- the caller's input ----
    /// The configuration is wrong.
    Configuration(ConfigError),
    /// A program, its parameters or its inputs do not fit together.
    Validation(ValidationError),
    /// A function over tensors is wrong at a line of the user's source.
    Trace(trace::Error),
    /// A rewrite of a program failed, or changed its results more than it may.
    Optimization(String),

    // ---- the device or the machine ----
    /// No device can be used.
    NotAvailable(NotAvailable),
    /// A program could not be compiled.
    Compilation(CompileError),
    /// Device memory is exhausted or misused.
    Memory(MemoryError),
    /// The device failed while it ran a program or moved data.
    Device {
        /// What was being done.
        doing: &'static str,
        /// What the plugin said.
        source: pjrt::Error,
    },
    /// Waiting for a device failed or took too long.
    Synchronization {
        /// How long was waited.
        waited: Duration,
        /// What the plugin said, if it said anything.
        source: Option<pjrt::Error>,
    },
    /// Devices or processes do not act together.
    Distributed(String),
    /// A model cannot be saved or loaded.
    Checkpoint(weights::Error),
}

/// The classes of [`Error`], finer than its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ErrorClass {
    Configuration,
    Validation,
    Trace,
    Optimization,
    NotAvailable,
    Compilation,
    CompilationTimeout,
    Memory,
    OutOfMemory,
    Pool,
    Device,
    Synchronization,
    Distributed,
    Checkpoint,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [ErrorClass; 14] = [
        ErrorClass::Configuration,
        ErrorClass::Validation,
        ErrorClass::Trace,
        ErrorClass::Optimization,
        ErrorClass::NotAvailable,
        ErrorClass::Compilation,
        ErrorClass::CompilationTimeout,
        ErrorClass::Memory,
        ErrorClass::OutOfMemory,
        ErrorClass::Pool,
        ErrorClass::Device,
        ErrorClass::Synchronization,
        ErrorClass::Distributed,
        ErrorClass::Checkpoint,
    ];
}

/// What does not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidationError {
    /// Another number of inputs than the program takes.
    InputCount {
        /// Inputs the program takes beside its parameters.
        expected: usize,
        /// Inputs given.
        given: usize,
    },
    /// An input or parameter of another type or shape.
    Input {
        /// Its name or position.
        name: String,
        /// What the program takes.
        expected: String,
        /// What was given.
        given: String,
    },
    /// A parameter the program takes and nobody gave.
    MissingParameter {
        /// Its name.
        name: String,
        /// Parameters that were given and look alike.
        similar: Vec<String>,
    },
    /// A profile is being recorded; one is at a time.
    ProfileBusy,
    /// NaN or infinity where numbers are expected.
    NotFinite {
        /// The array.
        name: String,
        /// Where in it, as a flat index.
        index: usize,
    },
    /// A value that is not finite came out of this op.
    NotFiniteResult {
        /// The op.
        op: String,
        /// Where the op is in the source.
        location: String,
    },
    /// More devices than there are.
    DeviceCount {
        /// Devices the program needs.
        needed: usize,
        /// Devices there are.
        present: usize,
    },
    /// A size that no bucket holds.
    BeyondBuckets {
        /// The dimension's name.
        dimension: String,
        /// The size asked for.
        size: usize,
        /// The largest bucket.
        largest: usize,
    },
    /// Buckets, dimensions and program do not fit together.
    Buckets(String),
    /// A mesh the devices do not make up, or an array that does not lie on one.
    Mesh(String),
    /// A tensor known by its type and shape only, where a value is needed.
    NoValue {
        /// Its path in the structure.
        name: String,
        /// Its type and shape.
        spec: Spec,
    },
    /// A literal that is no value of the wanted type.
    Value(ValueError),
    /// An array of another backend.
    ForeignArray,
    /// Something that would be a warning, in strict mode.
    Strict(String),
    /// Anything else.
    Other(String),
}

/// Why there is no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAvailable {
    /// What was asked for.
    pub wanted: String,
    /// What was looked at, and why it does not do.
    pub tried: Vec<(String, String)>,
}

impl Error {
    /// The class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Configuration(_) => ErrorClass::Configuration,
            Error::Validation(_) => ErrorClass::Validation,
            Error::Trace(_) => ErrorClass::Trace,
            Error::Optimization(_) => ErrorClass::Optimization,
            Error::NotAvailable(_) => ErrorClass::NotAvailable,
            Error::Compilation(CompileError::Timeout(_)) => ErrorClass::CompilationTimeout,
            Error::Compilation(_) => ErrorClass::Compilation,
            Error::Memory(MemoryError::OutOfMemory(_)) => ErrorClass::OutOfMemory,
            Error::Memory(MemoryError::Pool(_)) => ErrorClass::Pool,
            Error::Memory(_) => ErrorClass::Memory,
            Error::Device { .. } => ErrorClass::Device,
            Error::Synchronization { .. } => ErrorClass::Synchronization,
            Error::Distributed(_) => ErrorClass::Distributed,
            Error::Checkpoint(_) => ErrorClass::Checkpoint,
        }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Error::Configuration(error) => error.remedy(),
            Error::Validation(error) => error.remedy(),
            Error::Trace(error) => error.remedy().into(),
            Error::Optimization(_) => "lower `optimization`; at `none` programs stay as they are".into(),
            Error::NotAvailable(_) => {
                "use device `cpu`, which is always there; `tpu doctor` says what is missing".into()
            }
            Error::Compilation(error) => error.remedy(),
            Error::Memory(error) => error.remedy(),
            Error::Device { source, .. } if source.code() == Some(pjrt::Code::ResourceExhausted) => {
                "use a smaller batch, donate inputs that are no longer needed, or drop arrays earlier".into()
            }
            Error::Device { source, .. } if source.code() == Some(pjrt::Code::Unavailable) => {
                "look at the output of the process that is gone; started again, all go on from the last checkpoint"
                    .into()
            }
            Error::Device { .. } => "`tpu doctor` checks the device; the program itself runs with device `cpu`".into(),
            Error::Synchronization { .. } => "a device may hang: `tpu doctor` checks it; restart the process".into(),
            Error::Distributed(message) if message.contains("is gone") => {
                "look at the output of the process that is gone; started again, all go on from the last checkpoint"
                    .into()
            }
            Error::Distributed(message) if message.contains("secret") => format!(
                "make a secret with `tpu config secret`, and give every process the same one by {} or {}",
                channel::SECRET_FILE,
                channel::SECRET
            ),
            Error::Distributed(_) => "check the number of processes, their ranks and the coordinator's address".into(),
            Error::Checkpoint(error) => error.remedy(),
        }
    }

    /// Turns a failed call into ours.
    pub(crate) fn device(doing: &'static str) -> impl FnOnce(pjrt::Error) -> Error {
        move |source| Error::Device { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Configuration(_) => f.write_str("the configuration is wrong"),
            Error::Validation(error) => error.fmt(f),
            Error::Trace(error) => error.fmt(f),
            Error::Optimization(message) => write!(f, "the program could not be optimized: {message}"),
            Error::NotAvailable(error) => error.fmt(f),
            Error::Compilation(_) => f.write_str("the program could not be compiled"),
            Error::Memory(error) => error.fmt(f),
            Error::Device { doing, .. } => write!(f, "the device failed while {doing}"),
            Error::Synchronization { waited, .. } => {
                write!(f, "waiting for the device failed after {:.1} s", waited.as_secs_f64())
            }
            Error::Distributed(message) => f.write_str(message),
            Error::Checkpoint(_) => f.write_str("the checkpoint cannot be used"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Configuration(error) => Some(error),
            Error::Trace(error) => std::error::Error::source(error),
            Error::Compilation(error) => Some(error),
            Error::Device { source, .. } => Some(source),
            Error::Synchronization { source: Some(source), .. } => Some(source),
            Error::Checkpoint(error) => Some(error),
            _ => None,
        }
    }
}

impl ValidationError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Self::InputCount { .. } | Self::Input { .. } => "`tpu hlo FILE` shows what the program takes".into(),
            Self::MissingParameter { similar, .. } if !similar.is_empty() => {
                format!("did you mean {}?", similar.join(" or "))
            }
            Self::MissingParameter { .. } => "give every parameter the program names".into(),
            Self::ProfileBusy => "wait until the other profile is complete".into(),
            Self::NotFinite { .. } => "clean the data, or turn `strict_validation` off".into(),
            Self::NotFiniteResult { .. } => {
                "look at the operands of that op; `tpu run --interpret` shows values".into()
            }
            Self::DeviceCount { .. } => {
                "use more devices (`cpu_device_count` for the CPU device) or fewer partitions".into()
            }
            Self::BeyondBuckets { dimension, size, .. } => {
                format!("add a bucket of at least {size} to `{dimension}`, or split the input")
            }
            Self::Mesh(_) => "choose a mesh of as many devices as there are, or another number of devices".into(),
            Self::Buckets(_) => "name each dimension that varies with its arguments and results".into(),
            Self::NoValue { .. } => {
                "give it a value: `Tensor::from([1.0f32, 2.0])`, or a result of a jitted function".into()
            }
            Self::Value(error) => error.remedy(),
            Self::ForeignArray => "prepare the data with the backend that runs the program".into(),
            Self::Strict(_) => "mend it, or turn `strict_validation` off".into(),
            Self::Other(_) => "change the input as the message says".into(),
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputCount { expected, given } => {
                write!(f, "the program takes {expected} inputs, {given} were given")
            }
            Self::Input { name, expected, given } => write!(f, "{name} is {given}; the program takes {expected}"),
            Self::MissingParameter { name, .. } => write!(f, "parameter `{name}` is missing"),
            Self::ProfileBusy => write!(f, "another profile is being recorded"),
            Self::NotFinite { name, index } => write!(f, "{name} is not finite at element {index}"),
            Self::NotFiniteResult { op, location } => {
                write!(f, "the first value that is not finite came from {op} at {location}")
            }
            Self::DeviceCount { needed, present } => {
                write!(f, "the program needs {needed} devices, there are {present}")
            }
            Self::BeyondBuckets { dimension, size, largest } => {
                write!(f, "`{dimension}` is {size}, and its largest bucket is {largest}")
            }
            Self::Buckets(message) | Self::Mesh(message) => f.write_str(message),
            Self::NoValue { name, spec } => {
                write!(f, "`{name}`, {spec}, has no value: only its type and shape are known")
            }
            Self::Value(error) => error.fmt(f),
            Self::ForeignArray => f.write_str("an array belongs to another backend"),
            Self::Strict(message) | Self::Other(message) => f.write_str(message),
        }
    }
}

impl fmt::Display for NotAvailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no device for `{}`", self.wanted)?;
        self.tried.iter().try_for_each(|(what, why)| write!(f, "\n  {what}: {why}"))
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Error::Configuration(error)
    }
}

impl From<ValidationError> for Error {
    fn from(error: ValidationError) -> Self {
        Error::Validation(error)
    }
}

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Self {
        Error::Validation(ValidationError::Value(error))
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Self {
        Error::Trace(error)
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Error::Compilation(error)
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Error::Memory(error)
    }
}

impl From<weights::Error> for Error {
    fn from(error: weights::Error) -> Self {
        Error::Checkpoint(error)
    }
}

impl From<hlo::Error> for Error {
    fn from(error: hlo::Error) -> Self {
        Error::Compilation(CompileError::Program(error))
    }
}
