//! What is wrong with a model, at which node, and what to do.

use std::fmt;

/// A failure to read or translate. It names the node where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    place: String,
    message: String,
    remedy: String,
    needs_value: bool,
}

impl Error {
    /// Whether a value that is computed from the inputs would have to be known: [`crate::OnnxModel::with_constants`] may help.
    pub fn needs_value(&self) -> bool {
        self.needs_value
    }

    /// A value that is not known while the model is translated.
    pub(crate) fn unknown(message: impl Into<String>) -> Error {
        let remedy = "export with fixed shapes, or simplify the model with constant folding";
        Error { needs_value: true, ..Error::new(message, remedy) }
    }

    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { place: String::new(), message: message.into(), remedy: remedy.into(), needs_value: false }
    }

    /// A file that is cut, altered or made by hand.
    pub(crate) fn damaged(message: impl Into<String>) -> Error {
        Error::new(message, "`onnx.checker.check_model` says whether the file is a valid model; export it again")
    }

    /// Something that the model asks for and that is not here.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Error {
        Error::new(format!("{what} is not translated"), "export the model without it, or with other options")
    }

    /// The same, at a place; the innermost place stays.
    #[must_use]
    pub(crate) fn at(mut self, place: impl Into<String>) -> Error {
        if self.place.is_empty() {
            self.place = place.into();
        }
        self
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Error {
        Error::new(error.to_string(), "a node has inputs that ONNX does not allow, or sizes that do not fit the inputs")
    }
}

impl From<tensor::ValueError> for Error {
    fn from(error: tensor::ValueError) -> Error {
        let remedy = error.remedy();
        Error::new(error.to_string(), remedy)
    }
}
