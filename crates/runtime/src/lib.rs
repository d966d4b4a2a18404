//! Compile for a slice in a child process, and the compile cache.
//!
//! A [`Compiler`] is a plugin, a cache, and the way its process is started. It turns StableHLO into a [`Report`] and an
//! executable for any slice, on a machine that has none of its devices.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use runtime::cache::{Cache, CacheConfig};
//! use runtime::worker::{Launch, Limits};
//! use runtime::{CompileRequest, Compiler, PluginFile};
//!
//! // The compiler runs in a child: this program, started again with this argument, must do nothing else.
//! if std::env::args().any(|arg| arg == "compile-worker") {
//!     std::process::exit(if runtime::worker::serve() == std::process::ExitCode::SUCCESS { 0 } else { 2 });
//! }
//! let compiler = Compiler {
//!     plugin: PluginFile::open("libtpu.so".as_ref())?,
//!     cache: Cache::open(&CacheConfig::default()),
//!     launch: Launch::this_program(["compile-worker"])?,
//!     limits: Limits::default(),
//! };
//! let program = std::fs::read("step.mlir")?;
//! let request = CompileRequest::new("v5e-16".parse()?);
//! let compilation = compiler.compile(&program, &request, &AtomicBool::new(false), &mut |step| eprintln!("{step}"))?;
//! println!("{} bytes of HBM free", compilation.entry.report.headroom());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
