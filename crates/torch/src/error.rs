//! What is wrong with an archive or a program, where, and what to do.

use std::fmt;

/// A failure to read or translate. It names the node and its line in the Python source where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    place: String,
    message: String,
    remedy: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error { place: String::new(), message: message.into(), remedy: remedy.into() }
    }

    /// A file that is cut, altered or made by hand.
    pub(crate) fn damaged(message: impl Into<String>) -> Error {
        Error::new(message, "export and save the model again")
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
        Error::new(error.to_string(), "an op has inputs that PyTorch would refuse: export and save the model again")
    }
}

impl From<tensor::ValueError> for Error {
    fn from(error: tensor::ValueError) -> Error {
        let remedy = error.remedy();
        Error::new(error.to_string(), remedy)
    }
}
