//! Compile for slices that are not here: the real TPU compiler in a child process, its report, and the compile cache.
//!
//! A [`SliceCompiler`] is a plugin, a cache, and the way its process is started. It turns StableHLO into a [`Report`] and an
//! executable for any slice, on a machine that has none of its devices. The example needs libtpu, so it is not run.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use compile::cache::{Cache, CacheConfig};
//! use compile::worker::{WorkerCommand, WorkerLimits};
//! use compile::{CompileRequest, PluginFile, SliceCompiler};
//!
//! // The compiler runs in a child: this program, started again with this argument, must do nothing else.
//! if std::env::args().any(|arg| arg == "compile-worker") {
//!     std::process::exit(if compile::worker::serve() == std::process::ExitCode::SUCCESS { 0 } else { 2 });
//! }
//! let compiler = SliceCompiler {
//!     plugin: PluginFile::open("libtpu.so".as_ref())?,
//!     cache: Cache::open(&CacheConfig::default())?,
//!     launch: WorkerCommand::this_program(["compile-worker"])?,
//!     limits: WorkerLimits::default(),
//! };
//! let program = std::fs::read("step.mlir")?;
//! let request = CompileRequest::new("v5e-16".parse()?);
//! let compilation = compiler.compile(&program, &request, &AtomicBool::new(false), &mut |step| eprintln!("{step}"))?;
//! println!("{} bytes of HBM free", compilation.entry.report.headroom());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod blob;
mod bundle;
pub mod cache;
mod devices;
mod environment;
mod error;
pub mod flags;
mod measure;
pub mod optimize;
mod optimized;
mod plugin_file;
mod program;
mod recent;
pub mod refusal;
mod report;
mod slice_compiler;
pub mod worker;

pub use bundle::{BundleTrust, Moved};
pub use environment::{compiler_environment, environment_here};
pub use error::{CompileError, OutOfMemory, with_causes};
pub use optimized::OptimizedProgram;
pub use plugin_file::PluginFile;
pub use program::{Partitioner, Program};
pub use recent::Recent;
pub use report::{CompileMode, REPORT_VERSION, Report, ReportBuffer, ReportCollective, ReportMemory};
pub use slice_compiler::{CacheUse, Compilation, CompileRequest, Devices, Origin, SliceCompiler, probe, with_kernels};
