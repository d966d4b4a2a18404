//! Errors of trainings: the training file, the data, the weights a model starts from, the plan, or the run itself.

use std::fmt;

use crate::data::DataError;

/// What can go wrong between a training file and a trained model.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    // ---- the caller's input ----
    /// A setting of the training cannot be used.
    Setting {
        /// Which, and why not.
        message: String,
        /// What helps.
        remedy: String,
    },
    /// Data cannot be read or does not fit the model.
    Data(DataError),
    /// A model or its weights cannot be used.
    Model(nn::Error),
    /// A program of PyTorch cannot be read or translated.
    Program(torch::Error),
    /// A function over tensors is wrong at a line of the user's source, or a model does not lie on its mesh.
    Trace(trace::Error),

    // ---- the device or the machine ----
    /// A slice cannot be asked for what was asked.
    Plan(Box<plan::Error>),
    /// The backend failed.
    Runtime(runtime::Error),
}

impl Error {
    /// A setting that cannot be used.
    pub(crate) fn new(message: impl fmt::Display) -> Error {
        Error::Setting { message: message.to_string(), remedy: String::new() }
    }

    /// The same with what helps.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Error {
        match self {
            Error::Setting { message, .. } => Error::Setting { message, remedy: hint.into() },
            other => other,
        }
    }

    /// What helps; `None` where only the message does.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::Setting { remedy, .. } => Some(remedy.clone()).filter(|remedy| !remedy.is_empty()),
            Error::Data(error) => Some(error.remedy()),
            Error::Model(error) => Some(error.remedy()),
            Error::Program(error) => Some(error.remedy().into()),
            Error::Trace(error) => Some(error.remedy().into()),
            Error::Plan(error) => Some(error.remedy()),
            Error::Runtime(error) => Some(error.remedy()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { message, .. } => f.write_str(message),
            Error::Data(_) => f.write_str("the data cannot be used"),
            Error::Model(error) => error.fmt(f),
            Error::Program(error) => error.fmt(f),
            Error::Trace(error) => error.fmt(f),
            Error::Plan(error) => error.fmt(f),
            Error::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Setting { .. } => None,
            Error::Data(error) => Some(error),
            Error::Model(error) => std::error::Error::source(error),
            Error::Program(error) => std::error::Error::source(error),
            Error::Trace(error) => std::error::Error::source(error),
            Error::Plan(error) => std::error::Error::source(&**error),
            Error::Runtime(error) => std::error::Error::source(error),
        }
    }
}

impl From<DataError> for Error {
    fn from(error: DataError) -> Self {
        Error::Data(error)
    }
}

impl From<nn::Error> for Error {
    fn from(error: nn::Error) -> Self {
        Error::Model(error)
    }
}

impl From<torch::Error> for Error {
    fn from(error: torch::Error) -> Self {
        Error::Program(error)
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Self {
        Error::Trace(error)
    }
}

impl From<plan::Error> for Error {
    fn from(error: plan::Error) -> Self {
        Error::Plan(Box::new(error))
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Error::Runtime(error)
    }
}

impl From<runtime::ValidationError> for Error {
    fn from(error: runtime::ValidationError) -> Self {
        Error::Runtime(error.into())
    }
}

impl From<compile::CompileError> for Error {
    fn from(error: compile::CompileError) -> Self {
        Error::Runtime(error.into())
    }
}

impl From<weights::Error> for Error {
    fn from(error: weights::Error) -> Self {
        Error::Runtime(error.into())
    }
}
