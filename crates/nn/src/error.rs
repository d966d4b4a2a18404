//! What can be wrong with a model's configuration or files.

use std::fmt;
use std::path::PathBuf;

/// What can be wrong with a model's configuration or files.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The caller's configuration has a value that does not fit.
    Config {
        /// Which, and why.
        message: String,
    },
    /// A configuration file cannot be read.
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tensors of a file are not those of the model.
    Tensors {
        /// Tensors the model needs and the file does not have.
        missing: Vec<String>,
        /// Tensors the file has and the model does not know.
        unexpected: Vec<String>,
        /// Tensors of another shape, each with both shapes.
        mismatched: Vec<String>,
    },
    /// A file of tensors cannot be read or written.
    Weights(weights::Error),
    /// A model could not be traced.
    Trace(trace::Error),
    /// A model does not lie on a mesh as was wished: which parameter, and what would work.
    Mesh(String),
}

impl Error {
    pub(crate) fn config(message: impl Into<String>) -> Error {
        Error::Config { message: message.into() }
    }

    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Error::Config { .. } => "correct the configuration".into(),
            Error::ConfigFile { .. } => "check that it is the config.json of a Hugging Face model".into(),
            Error::Tensors { .. } => {
                "check that configuration and weights belong to the same model, and that no shard is left out".into()
            }
            Error::Weights(error) => error.remedy(),
            Error::Trace(_) => "correct the line that is named".into(),
            Error::Mesh(_) => "choose a mesh whose axes divide the model's sizes, or another strategy".into(),
        }
    }
}

impl From<weights::Error> for Error {
    fn from(error: weights::Error) -> Error {
        Error::Weights(error)
    }
}

impl From<trace::Error> for Error {
    fn from(error: trace::Error) -> Error {
        Error::Trace(error)
    }
}

/// The first few names and how many more.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config { message } => write!(f, "{message}"),
            Error::ConfigFile { path, .. } => write!(f, "{} cannot be read as a configuration", path.display()),
            Error::Tensors { missing, unexpected, mismatched } => {
                let parts: Vec<String> =
                    [("missing", missing), ("unexpected", unexpected), ("of another shape", mismatched)]
                        .into_iter()
                        .filter(|(_, names)| !names.is_empty())
                        .map(|(what, names)| format!("{what}: {}", few(names)))
                        .collect();
                write!(f, "the tensors are not those of the model; {}", parts.join("; "))
            }
            Error::Weights(_) => write!(f, "the weights cannot be used"),
            Error::Trace(_) => write!(f, "the model cannot be traced"),
            Error::Mesh(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::ConfigFile { source, .. } => Some(&**source),
            Error::Weights(error) => Some(error),
            Error::Trace(error) => Some(error),
            _ => None,
        }
    }
}
