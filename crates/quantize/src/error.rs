//! Errors of quantization: weights, statistics and options that a method cannot use.

use std::fmt;

/// What can go wrong while a model is quantized.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    // ---- the caller's input ----
    /// A layer cannot be quantized as asked.
    Layer {
        /// The layer, or the weight.
        layer: String,
        /// What is wrong with it.
        message: String,
        /// What helps.
        remedy: String,
    },
    /// An option cannot be used, whatever the layer.
    Setting {
        /// Which, and why not.
        message: String,
        /// What helps.
        remedy: String,
    },
    /// Weights or codebooks cannot be read, written or packed.
    Weights(weights::Error),
    /// A text or a tokenizer cannot be read.
    Data(data::DataError),
    /// A model cannot be built or loaded.
    Model(nn::Error),
    // ---- the device ----
    /// The device, or a program for it.
    Runtime(runtime::Error),
}

impl Error {
    pub(crate) fn layer(layer: &str, message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Layer { layer: layer.into(), message: message.into(), remedy: remedy.into() }
    }

    pub(crate) fn setting(message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::Setting { message: message.into(), remedy: remedy.into() }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Error::Layer { remedy, .. } | Error::Setting { remedy, .. } => remedy.clone(),
            Error::Weights(error) => error.remedy(),
            Error::Data(error) => error.remedy(),
            Error::Model(error) => error.remedy(),
            Error::Runtime(error) => error.remedy(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Layer { layer, message, .. } => write!(f, "layer `{layer}`: {message}"),
            Error::Setting { message, .. } => f.write_str(message),
            Error::Weights(error) => error.fmt(f),
            Error::Data(error) => error.fmt(f),
            Error::Model(error) => error.fmt(f),
            Error::Runtime(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Layer { .. } | Error::Setting { .. } => None,
            Error::Weights(error) => std::error::Error::source(error),
            Error::Data(error) => std::error::Error::source(error),
            Error::Model(error) => std::error::Error::source(error),
            Error::Runtime(error) => std::error::Error::source(error),
        }
    }
}

impl From<weights::Error> for Error {
    fn from(error: weights::Error) -> Self {
        Error::Weights(error)
    }
}

impl From<data::DataError> for Error {
    fn from(error: data::DataError) -> Self {
        Error::Data(error)
    }
}

impl From<nn::Error> for Error {
    fn from(error: nn::Error) -> Self {
        Error::Model(error)
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Self {
        Error::Runtime(error)
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Self {
        Error::Runtime(error.into())
    }
}

impl From<tensor::ValueError> for Error {
    fn from(error: tensor::ValueError) -> Self {
        Error::Runtime(error.into())
    }
}
