//! One typed configuration: every option, its default for each mode, and where its value came from.
//!
//! An option is one line of `options!`: a field of [`Config`], a setter, and an entry of [`OPTIONS`] that files, the
//! environment and the command line set by name.

mod environment;
mod options;
mod refused;
mod setting;
mod sources;
mod tpu_flags;
mod values;
mod xla_flags;

pub use environment::{Host, configure_environment};
pub use options::{Config, OPTIONS, OptionInfo};
pub use refused::{REFUSED, RefusedOption};
pub use setting::Setting;
pub use sources::{Effective, SettingSource, Sources};
pub use tpu_flags::TpuOptions;
pub use values::{Fraction, Gibibytes, MemoryOptimization, Mode, Seconds, Switch, Target};
pub use xla_flags::XlaFlags;

/// Effort levels of compilers.
pub use pjrt::Effort;

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
        source: SettingSource,
    },
    /// The option exists elsewhere and is refused here.
    Refused {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
        /// Where it was given.
        source: SettingSource,
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
        source: SettingSource,
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
    /// A value that this device, this plugin or another option rules out.
    Unsupported {
        /// The option.
        name: &'static str,
        /// The value.
        value: String,
        /// Why not.
        reason: String,
    },
    /// An option that has no default was not given.
    Missing {
        /// The option.
        name: &'static str,
    },
    /// The folder of profiles cannot be written.
    ProfileFolder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
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
            Self::Unsupported { name, value, reason } => {
                write!(f, "option `{name}` cannot be `{value}` here: {reason}")
            }
            Self::Missing { name } => write!(f, "option `{name}` is not set"),
            Self::ProfileFolder { path, .. } => {
                write!(f, "the folder of profiles {} cannot be written", path.display())
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } | Self::ProfileFolder { source, .. } => Some(source),
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
            Self::Unsupported { name, .. } => format!("leave `{name}` out, or change what the message names"),
            Self::Missing { name } => {
                let variable = name.to_uppercase();
                format!("give it on the command line, as TPUBRIDGE_{variable}, or in the configuration file")
            }
            Self::ProfileFolder { .. } => "set `profile_dir` to a folder that can be written".into(),
            Self::Unreadable { .. } => "check the path and the permissions".into(),
            Self::Syntax { .. } => "write `option = value`, one a line".into(),
            Self::Flag { similar, .. } if !similar.is_empty() => format!("did you mean {}?", similar.join(" or ")),
            Self::Flag { .. } => "names are the compiler's own; `tpu config flags` lists them".into(),
        }
    }
}
