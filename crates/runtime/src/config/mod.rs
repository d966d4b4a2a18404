//! One typed configuration: every option, its default for each mode, and where its value came from.
//!
//! An option is one line of [`options!`](options): a field of [`Config`], a setter, and an entry of [`OPTIONS`] that files, the
//! environment and the command line set by name.

mod options;
mod refused;
mod setting;
mod sources;
mod values;

pub use options::{Config, OPTIONS, OptionInfo};
pub use refused::{REFUSED, Refused};
pub use setting::Setting;
pub use sources::{Effective, Source, Sources};
pub use values::{Fraction, Gibibytes, MemoryOptimization, Mode, Precision, Seconds, Switch, Target};

use std::fmt;
use std::path::PathBuf;

/// What is wrong with a configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no option of this name.
    Unknown {
        /// The name.
        name: String,
        /// Options that look alike.
        similar: Vec<&'static str>,
        /// Where it was given.
        source: Source,
    },
    /// The option exists elsewhere and is refused here.
    Refused {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
        /// Where it was given.
        source: Source,
    },
    /// The value is not one the option takes.
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// What it takes.
        expected: String,
        /// Where it was given.
        source: Source,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not TOML.
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        message: String,
    },
    /// A compiler flag that the compiler does not have.
    Flag {
        /// The flag.
        name: String,
        /// Flags that look alike.
        similar: Vec<String>,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, source, .. } => write!(f, "there is no option `{name}` (from {source})"),
            Self::Refused { name, reason, source } => write!(f, "option `{name}` (from {source}) is refused: {reason}"),
            Self::Value { name, value, expected, source } => {
                write!(f, "option `{name}` does not take `{value}` (from {source}); it takes {expected}")
            }
            Self::Unreadable { path, .. } => write!(f, "the configuration {} cannot be read", path.display()),
            Self::Syntax { path, message } => write!(f, "the configuration {} is not TOML: {message}", path.display()),
            Self::Flag { name, .. } => write!(f, "the compiler has no flag `{name}`"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl ConfigError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unknown { similar, .. } if !similar.is_empty() => format!("did you mean {}?", similar.join(" or ")),
            Self::Unknown { .. } | Self::Value { .. } | Self::Refused { .. } => {
                "`tpu config show` lists every option with its value and what it takes".into()
            }
            Self::Unreadable { .. } => "check the path and the permissions".into(),
            Self::Syntax { .. } => "write `option = value`, one a line".into(),
            Self::Flag { similar, .. } if !similar.is_empty() => format!("did you mean {}?", similar.join(" or ")),
            Self::Flag { .. } => "names are the compiler's own; `tpu config show --flags` lists them".into(),
        }
    }
}
