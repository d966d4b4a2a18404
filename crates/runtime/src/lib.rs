//! Compile for a slice in a child process, and the compile cache.
//!
//! A [`Compiler`] is a plugin, a cache, and the way its process is started. It turns StableHLO into a [`Report`] and an
//! executable for any slice, on a machine that has none of its devices.

pub mod blob;
pub mod cache;
mod compile;
mod devices;
mod error;
pub mod flags;
mod measure;
mod plugin_file;
mod program;
mod refusal;
mod report;
pub mod worker;

pub use compile::{CacheUse, Compilation, CompileRequest, Compiler, Devices, Origin, probe};
pub use error::{Error, OutOfMemory};
pub use plugin_file::PluginFile;
pub use program::{Partitioner, Program};
pub use report::{Buffer, Collective, Memory, Mode, REPORT_VERSION, Report};
