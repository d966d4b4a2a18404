//! Everything that can go wrong in this crate, and who must act on it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pjrt::ErrorFamily;

/// A failure of setup or of the managed folder. A failed check of the doctor is not an error but a line of its report.
#[derive(Debug)]
pub enum Error {
    /// No package of this name is known.
    UnknownPackage {
        /// The name asked for.
        name: String,
        /// Names that are known.
        known: Vec<&'static str>,
    },
    /// The text is not a version.
    BadVersion {
        /// The text.
        text: String,
    },
    /// The text is not a sha256 in hexadecimal.
    BadHash {
        /// The text.
        text: String,
    },
    /// The package is not published for this kind of machine.
    Unsupported {
        /// The package.
        package: &'static str,
        /// The machine, such as `aarch64`.
        machine: String,
    },
    /// Neither `$TPUBRIDGE_HOME`, `$XDG_DATA_HOME` nor `$HOME` is set.
    NoHome,
    /// The file is not a wheel, or not of the package and version asked for.
    Wheel {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What the archive reader said.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A file's sha256 is not the expected one.
    HashMismatch {
        /// The file.
        path: PathBuf,
        /// The hashes that would have been accepted.
        expected: Vec<String>,
        /// The hash it has.
        found: String,
    },
    /// No uv and no pip on `$PATH`.
    NoInstaller,
    /// The installer asked for is not on `$PATH`.
    InstallerMissing {
        /// What was looked for.
        name: &'static str,
    },
    /// The installer could not be started, or ended with a failure.
    Installer {
        /// The command line.
        command: String,
        /// How it ended, with the end of what it printed.
        what: String,
        /// Why it did not start.
        source: Option<io::Error>,
    },
    /// The disk has too little room.
    Space {
        /// A path on the disk.
        path: PathBuf,
        /// Room that is needed.
        needed_bytes: u64,
        /// Room there is.
        available_bytes: u64,
    },
    /// The operating system refused something.
    Io {
        /// What was being done, as in "cannot {doing} {path}".
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Processes cannot be launched.
    Launch {
        /// Why not.
        what: String,
    },
    /// The cancellation flag was raised.
    Cancelled,
    /// Something this crate wrote itself cannot be encoded.
    Encode {
        /// Why not.
        source: serde_json::Error,
    },
}

impl Error {
    /// Who must act.
    pub fn family(&self) -> ErrorFamily {
        match self {
            Self::UnknownPackage { .. }
            | Self::BadVersion { .. }
            | Self::BadHash { .. }
            | Self::Unsupported { .. }
            | Self::Wheel { .. }
            | Self::HashMismatch { .. }
            | Self::Launch { .. }
            | Self::Cancelled => ErrorFamily::Input,
            Self::NoHome
            | Self::NoInstaller
            | Self::InstallerMissing { .. }
            | Self::Installer { .. }
            | Self::Space { .. }
            | Self::Io { .. } => ErrorFamily::Machine,
            Self::Encode { .. } => ErrorFamily::Bug,
        }
    }

    /// What to do about it, where one thing helps in most cases.
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::UnknownPackage { known, .. } => format!("known packages: {}", known.join(", ")),
            Self::BadVersion { .. } => "give a version as the package index shows it, such as 0.0.51".into(),
            Self::BadHash { .. } => "give 64 hexadecimal digits".into(),
            Self::Unsupported { .. } => "run on an x86_64 Linux machine".into(),
            Self::NoHome => "set TPUBRIDGE_HOME to a folder".into(),
            Self::Wheel { .. } => "download the wheel again".into(),
            Self::HashMismatch { .. } => {
                "do not use this file; download it again, or give its hash if you trust where it came from".into()
            }
            Self::NoInstaller => "install uv or Python's pip, or download the wheel elsewhere and give the file".into(),
            Self::InstallerMissing { name } => format!("install {name}, or let setup choose the installer"),
            Self::Installer { .. } => {
                "check the network and the package index pip or uv is configured with, or give a wheel file".into()
            }
            Self::Space { .. } => "free some space, or set TPUBRIDGE_HOME to another disk".into(),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "set TPUBRIDGE_HOME to a folder you may write to".into()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space, or set TPUBRIDGE_HOME to another disk".into()
                }
                _ => return None,
            },
            Self::Launch { .. } | Self::Cancelled | Self::Encode { .. } => return None,
        })
    }

    /// An adapter for `map_err`: what was being done, to which path.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn wheel(path: &Path, what: impl Into<String>) -> Self {
        Self::Wheel { path: path.to_owned(), what: what.into(), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPackage { name, .. } => write!(f, "no plugin package is called {name:?}"),
            Self::BadVersion { text } => write!(f, "{text:?} is not a version"),
            Self::BadHash { text } => write!(f, "{text:?} is not a sha256"),
            Self::Unsupported { package, machine } => write!(f, "{package} is not published for {machine} machines"),
            Self::NoHome => f.write_str("no folder for plugins: neither TPUBRIDGE_HOME, XDG_DATA_HOME nor HOME is set"),
            Self::Wheel { path, what, .. } => write!(f, "{}: {what}", path.display()),
            Self::HashMismatch { path, expected, found } => {
                write!(f, "{} has sha256 {found}, expected ", path.display())?;
                match expected.as_slice() {
                    [one] => f.write_str(one),
                    many => write!(f, "one of {}", many.join(", ")),
                }
            }
            Self::NoInstaller => f.write_str("neither uv nor pip was found on PATH"),
            Self::InstallerMissing { name } => write!(f, "{name} was not found on PATH"),
            Self::Installer { command, what, .. } => write!(f, "`{command}` {what}"),
            Self::Space { path, needed_bytes, available_bytes } => {
                write!(f, "{} has {available_bytes} bytes free, {needed_bytes} bytes are needed", path.display())
            }
            Self::Io { doing, path, .. } => write!(f, "cannot {doing} {}", path.display()),
            Self::Launch { what } => f.write_str(what),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Encode { .. } => f.write_str("cannot encode the plugin record"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Wheel { source, .. } => source.as_deref().map(|s| s as _),
            Self::Installer { source, .. } => source.as_ref().map(|s| s as _),
            Self::Io { source, .. } => Some(source),
            Self::Encode { source } => Some(source),
            _ => None,
        }
    }
}
