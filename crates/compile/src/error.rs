//! Errors of the crate, by who must act: the caller's input, the machine, or us.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

/// What can go wrong while compiling for a slice or keeping results.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompileError {
    // ---- the caller's input ----
    /// The program is not StableHLO, or breaks its rules.
    Program(hlo::Error),
    /// The program is StableHLO, but the TPU compiler cannot take it.
    Unsupported(Vec<hlo::Finding>),
    /// Partitions, replicas or device ids do not fit the slice.
    Devices(String),
    /// A compiler flag is unknown or its value is refused.
    Flag {
        /// What the compiler said.
        message: String,
        /// Known flags that look alike.
        similar: Vec<String>,
    },
    /// The compiler refused the program or the options.
    Refused {
        /// Status, as in `INVALID_ARGUMENT`.
        code: String,
        /// What it said.
        message: String,
    },
    /// What is said of a program's arguments does not fit it.
    Arguments(String),
    /// The program does not fit into device memory.
    OutOfMemory(OutOfMemory),
    /// A bundle cannot be read.
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// Nobody signed a bundle.
    Unsigned(PathBuf),
    /// A bundle's signature is not that of a trusted key.
    Signature {
        /// The bundle, or its signature's file.
        path: PathBuf,
        /// What is wrong.
        source: trust::SignatureError,
    },
    /// The operation needs a cache on disk and there is none.
    NoCacheFolder,
    /// Somebody else may have written to the cache folder.
    CacheFolder(trust::Distrusted),

    // ---- the device or the machine ----
    /// The plugin cannot be loaded or lacks a function.
    Plugin(String),
    /// The compiler took longer than allowed.
    Timeout(Duration),
    /// The compiler used more memory than allowed.
    MemoryLimit {
        /// Bytes it held.
        used: u64,
        /// Bytes it may hold.
        limit: u64,
    },
    /// The compiler's process died.
    Crashed {
        /// How: a signal's name or an exit code.
        how: String,
        /// The last lines it wrote.
        log: String,
    },
    /// The caller asked to stop.
    Interrupted,
    /// A file or process could not be used.
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    // ---- us ----
    /// The compiler answered something we cannot read.
    Protocol(String),
}

/// Which memory overflowed, and by how much, as far as the compiler says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OutOfMemory {
    /// `HBM` or `VMEM`.
    pub space: String,
    /// Bytes needed, to the precision of the compiler's message.
    pub needed_bytes: Option<u64>,
    /// Bytes available.
    pub available_bytes: Option<u64>,
    /// The compiler's message.
    pub message: String,
}

impl CompileError {
    /// What helps.
    pub fn remedy(&self) -> String {
        let fixed = match self {
            CompileError::Program(_) => "export the program again; `tpu hlo FILE` shows what is wrong with it",
            CompileError::Unsupported(_) => {
                "change the program as the findings say; the TPU compiler would abort on it"
            }
            CompileError::Arguments(_) => "`tpu hlo FILE` shows what the program takes",
            CompileError::Devices(_) => "use a larger slice, or fewer partitions or replicas",
            CompileError::Flag { similar, .. } if !similar.is_empty() => {
                return format!("did you mean {}?", similar.join(" or "));
            }
            CompileError::Flag { .. } => "names and values of flags are the compiler's own",
            CompileError::Refused { .. } => "the compiler names the op; change it, or run it on another device",
            CompileError::OutOfMemory(_) => {
                "a larger slice, more partitions, a smaller batch, rematerialization or donated arguments"
            }
            CompileError::Bundle { .. } => "make the bundle again with `tpu cache export`",
            CompileError::Unsigned(_) => {
                "ask for its signature (FILE.minisig), or vouch for it yourself: a bundle is machine code that runs as you"
            }
            CompileError::Signature { source, .. } => source.remedy(),
            CompileError::NoCacheFolder => "set $HOME or $TPUBRIDGE_CACHE",
            CompileError::CacheFolder(distrusted) => return distrusted.remedy(),
            CompileError::Plugin(_) => {
                "`tpu doctor` says what is wrong with the plugin; `tpu setup` installs a tested one"
            }
            CompileError::Timeout(_) => "raise `compilation_timeout_seconds`, or lower `xla_optimization_level`",
            CompileError::MemoryLimit { .. } => "raise the limit of host memory, or use the quick mode",
            CompileError::Crashed { .. } => {
                "nothing was kept of this compilation; its log has the compiler's last words"
            }
            CompileError::Interrupted => "nothing was kept of this compilation",
            CompileError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => "free some disk space",
            CompileError::Io { .. } => "check the path and the permissions",
            CompileError::Protocol(_) => "this is a bug; please report it with the program",
        };
        fixed.to_string()
    }

    /// A file or process that could not be used.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> CompileError {
        CompileError::Io { doing, path: path.to_path_buf(), source }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Program(_) => f.write_str("the program cannot be compiled"),
            CompileError::Unsupported(findings) => {
                f.write_str("the TPU compiler cannot take this program")?;
                findings.iter().take(10).try_for_each(|finding| write!(f, "\n  {finding}"))
            }
            CompileError::Devices(message) | CompileError::Arguments(message) => f.write_str(message),
            CompileError::Flag { message, .. } => write!(f, "the compiler refused a flag: {message}"),
            CompileError::Refused { code, message } => {
                write!(f, "the compiler refused the program ({code}): {message}")
            }
            CompileError::OutOfMemory(oom) => write!(f, "the program does not fit into {}: {}", oom.space, oom.message),
            CompileError::Bundle { path, message } => write!(f, "{} cannot be imported: {message}", path.display()),
            CompileError::Unsigned(path) => write!(f, "{} is not signed", path.display()),
            CompileError::Signature { path, .. } => write!(f, "{} is not taken", path.display()),
            CompileError::NoCacheFolder => f.write_str("there is no cache folder"),
            CompileError::CacheFolder(_) => f.write_str("the cache folder is not used: an entry is machine code"),
            CompileError::Plugin(message) => f.write_str(message),
            CompileError::Timeout(limit) => write!(f, "the compiler did not finish within {} s", limit.as_secs_f64()),
            CompileError::MemoryLimit { used, limit } => {
                write!(
                    f,
                    "the compiler used {} MiB of host memory, more than the limit of {} MiB",
                    used >> 20,
                    limit >> 20
                )
            }
            CompileError::Crashed { how, .. } => write!(f, "the compiler's process died ({how})"),
            CompileError::Interrupted => f.write_str("interrupted"),
            CompileError::Io { doing, path, .. } => write!(f, "{doing} failed: {}", path.display()),
            CompileError::Protocol(message) => write!(f, "unreadable answer from the compiler's process: {message}"),
        }
    }
}

impl std::error::Error for CompileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CompileError::Program(error) => Some(error),
            CompileError::Io { source, .. } => Some(source),
            CompileError::CacheFolder(distrusted) => Some(distrusted),
            CompileError::Signature { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<hlo::Error> for CompileError {
    fn from(error: hlo::Error) -> Self {
        CompileError::Program(error)
    }
}

/// An error and its causes in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
