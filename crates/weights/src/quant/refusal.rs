//! Why a quantized weight is not taken, before it is known which file and tensor it is of.

use std::borrow::Cow;
use std::path::Path;

use crate::error::Error;

/// What is wrong and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) help: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { message: message.into(), help: help.into() }
    }

    /// The file contradicts itself.
    pub(crate) fn damaged(message: impl Into<String>) -> Refusal {
        Refusal::new(message, "the file is damaged or was written by a faulty tool; quantize the model again")
    }

    /// As an error about a tensor of a file.
    pub(crate) fn of_tensor(self, path: &Path, name: &str) -> Error {
        self.at(format!("{}: tensor `{name}`", path.display()))
    }

    /// As an error about the configuration beside a model.
    pub(crate) fn of_config(self, path: &Path) -> Error {
        self.at(format!("{}: quantization_config", path.display()))
    }

    /// As an error about a matrix that is in no file.
    pub(crate) fn of_matrix(self) -> Error {
        self.at("quantized matrix".into())
    }

    fn at(self, place: String) -> Error {
        Error::Quantized { place, message: self.message, help: self.help.into_owned() }
    }
}
