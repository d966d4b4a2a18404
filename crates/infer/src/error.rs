//! Errors of inference: the folder, the request, or the device.

use std::fmt;

/// What can go wrong between a folder of weights and text.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    // ---- the caller's input ----
    /// A request or an option cannot be used.
    Setting {
        /// Which, and why not.
        message: String,
        /// What helps.
        remedy: String,
    },
    /// A chat template cannot be read, or refuses the messages.
    Template {
        /// What it says.
        message: String,
    },
    /// A text or a tokenizer cannot be read.
    Data(data::DataError),
    /// The folder of a model cannot be used.
    Folder(Box<quantize::Error>),
    /// The folder of a training cannot be used.
    Training(Box<train::Error>),
    /// A model cannot be built or loaded.
    Model(nn::Error),
    // ---- the device ----
    /// The device, or a program for it.
    Runtime(runtime::Error),
}

impl Error {
    pub(crate) fn setting(message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Setting { message: message.into(), remedy: remedy.into() }
    }

    /// What helps; `None` where only the message does.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Error::Setting { remedy, .. } => Some(remedy.clone()),
            Error::Template { .. } => {
                Some("give messages as the model's template wants them, or a prompt as text".into())
            }
            Error::Data(error) => Some(error.remedy()),
            Error::Folder(error) => Some(error.remedy()),
            Error::Training(error) => error.remedy(),
            Error::Model(error) => Some(error.remedy()),
            Error::Runtime(error) => Some(error.remedy()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Setting { message, .. } => f.write_str(message),
            Error::Template { message } => write!(f, "the chat template: {message}"),
            Error::Data(error) => error.fmt(f),
            Error::Folder(error) => error.fmt(f),
            Error::Training(error) => error.fmt(f),
            Error::Model(error) => error.fmt(f),
            Error::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Setting { .. } | Error::Template { .. } => None,
            Error::Data(error) => error.source(),
            Error::Folder(error) => error.source(),
            Error::Training(error) => error.source(),
            Error::Model(error) => error.source(),
            Error::Runtime(error) => error.source(),
        }
    }
}

impl From<data::DataError> for Error {
    fn from(error: data::DataError) -> Error {
        Error::Data(error)
    }
}

impl From<quantize::Error> for Error {
    fn from(error: quantize::Error) -> Error {
        Error::Folder(Box::new(error))
    }
}

impl From<train::Error> for Error {
    fn from(error: train::Error) -> Error {
        Error::Training(Box::new(error))
    }
}

impl From<nn::Error> for Error {
    fn from(error: nn::Error) -> Error {
        Error::Model(error)
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Error {
        Error::Runtime(error)
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Error {
        Error::Runtime(error.into())
    }
}
