//! Everything that can go wrong with a plugin, and who must act on it.

use std::fmt;
use std::path::PathBuf;

use crate::version::ApiVersion;

/// A failure of this crate or of the plugin behind it.
#[derive(Debug)]
pub enum Error {
    /// An argument cannot be passed to any plugin.
    Input {
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be opened as a shared library.
    Open {
        /// The file.
        path: PathBuf,
        /// What the dynamic loader said.
        source: libloading::Error,
    },
    /// The library does not export `GetPjrtApi`.
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// What the dynamic loader said.
        source: libloading::Error,
    },
    /// The plugin answered a table that cannot be used.
    Table {
        /// The file, unless the table was given directly.
        path: Option<PathBuf>,
        /// What is wrong with the table.
        what: String,
    },
    /// The plugin is of another major version of the interface.
    Version {
        /// The file, unless the table was given directly.
        path: Option<PathBuf>,
        /// The plugin's version.
        found: ApiVersion,
    },
    /// The plugin has no such function.
    Unsupported {
        /// C name of the function.
        call: &'static str,
        /// The plugin's version.
        plugin: ApiVersion,
    },
    /// The plugin answered a call with an error.
    Pjrt {
        /// C name of the function.
        call: &'static str,
        /// What kind of failure.
        code: Code,
        /// What the plugin said.
        message: String,
        /// What the plugin attached.
        payloads: Vec<Payload>,
    },
    /// The plugin answered something that breaks the interface's rules.
    Answer {
        /// C name of the function.
        call: &'static str,
        /// Which rule.
        what: &'static str,
    },
    /// Bytes are not the message they should be.
    Decode {
        /// C name of the function that answered them.
        call: &'static str,
        /// Where decoding stopped.
        source: prost::DecodeError,
    },
}

/// Who must act on an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFamily {
    /// The caller: another program, file, option or argument is needed.
    Input,
    /// Whoever runs the machine: the plugin, the device, a tool, the network or a resource is at fault.
    Machine,
    /// The authors of the plugin or of this project.
    Bug,
}

/// Data a plugin attached to an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// What it is, usually a type URL.
    pub key: String,
    /// The data.
    pub value: Vec<u8>,
}

macro_rules! codes {
    ($($value:literal $variant:ident $name:literal $doc:literal,)*) => {
        /// What kind of failure a plugin reported: the canonical status codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $doc] $variant,)*
            /// A code this crate does not know.
            Other(u32),
        }

        impl Code {
            /// The code of a number.
            pub fn from_number(number: u32) -> Self {
                match number {
                    $($value => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The number of the code.
            pub fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $value,)*
                    Self::Other(number) => number,
                }
            }

            /// The code's canonical name, such as `INVALID_ARGUMENT`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(_) => "OTHER",
                }
            }
        }
    };
}

codes! {
    1 Cancelled "CANCELLED" "The call was cancelled.",
    2 Unknown "UNKNOWN" "No better code; compilers use it for programs that do not parse or verify.",
    3 InvalidArgument "INVALID_ARGUMENT" "An argument is wrong whatever the state of the system.",
    4 DeadlineExceeded "DEADLINE_EXCEEDED" "Time is over.",
    5 NotFound "NOT_FOUND" "Something named does not exist; clients answer it where there is no device.",
    6 AlreadyExists "ALREADY_EXISTS" "Something to be made exists.",
    7 PermissionDenied "PERMISSION_DENIED" "The caller may not do this.",
    8 ResourceExhausted "RESOURCE_EXHAUSTED" "Out of memory, of the device or of the host.",
    9 FailedPrecondition "FAILED_PRECONDITION" "The system is not in the state this needs.",
    10 Aborted "ABORTED" "Aborted by a conflict, for instance another process that holds the device.",
    11 OutOfRange "OUT_OF_RANGE" "Past the valid range.",
    12 Unimplemented "UNIMPLEMENTED" "The plugin does not implement this.",
    13 Internal "INTERNAL" "An invariant of the plugin is broken.",
    14 Unavailable "UNAVAILABLE" "The service is away; a retry may help.",
    15 DataLoss "DATA_LOSS" "Data is lost or corrupted.",
    16 Unauthenticated "UNAUTHENTICATED" "The caller is not known.",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "code {number}"),
            known => f.write_str(known.name()),
        }
    }
}

impl Error {
    pub(crate) fn input(what: impl Into<String>) -> Self {
        Self::Input { what: what.into() }
    }

    /// Who must act.
    pub fn family(&self) -> ErrorFamily {
        match self {
            Self::Input { .. } => ErrorFamily::Input,
            Self::Open { .. } | Self::NotAPlugin { .. } | Self::Table { .. } | Self::Version { .. } => {
                ErrorFamily::Machine
            }
            Self::Unsupported { .. } => ErrorFamily::Machine,
            Self::Pjrt { code, .. } => match code {
                Code::Unknown
                | Code::InvalidArgument
                | Code::AlreadyExists
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented => ErrorFamily::Input,
                Code::Internal | Code::Other(_) => ErrorFamily::Bug,
                _ => ErrorFamily::Machine,
            },
            Self::Answer { .. } | Self::Decode { .. } => ErrorFamily::Bug,
        }
    }

    /// The plugin's code, where the plugin answered with an error.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Pjrt { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// A path, or words for a table that came without one.
struct Origin<'a>(&'a Option<PathBuf>);

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => path.display().fmt(f),
            None => f.write_str("the plugin"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { what } => f.write_str(what),
            Self::Open { path, .. } => write!(f, "cannot open {} as a shared library", path.display()),
            Self::NotAPlugin { path, .. } => {
                write!(f, "{} is not a PJRT plugin: it does not export GetPjrtApi", path.display())
            }
            Self::Table { path, what } => write!(f, "{} has no usable PJRT table: {what}", Origin(path)),
            Self::Version { path, found } => {
                write!(f, "{} has PJRT API {found}; only major version 0 is known", Origin(path))
            }
            Self::Unsupported { call, plugin } => write!(f, "the plugin (PJRT API {plugin}) has no {call}"),
            Self::Pjrt { call, code, message, .. } => write!(f, "{call}: {code}: {message}"),
            Self::Answer { call, what } => write!(f, "{call}: the plugin broke the PJRT contract: {what}"),
            Self::Decode { call, .. } => write!(f, "{call}: malformed message"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } | Self::NotAPlugin { source, .. } => Some(source),
            Self::Decode { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_their_numbers() {
        for number in 1..=20 {
            assert_eq!(Code::from_number(number).number(), number);
        }
        assert_eq!(Code::from_number(8), Code::ResourceExhausted);
        assert_eq!(Code::from_number(99).to_string(), "code 99");
    }

    #[test]
    fn display_names_the_call_and_the_code() {
        let error = Error::Pjrt {
            call: "PJRT_Compile",
            code: Code::InvalidArgument,
            message: "No such compile option: 'x'".into(),
            payloads: vec![],
        };
        assert_eq!(error.to_string(), "PJRT_Compile: INVALID_ARGUMENT: No such compile option: 'x'");
        assert_eq!(error.family(), ErrorFamily::Input);
    }
}
