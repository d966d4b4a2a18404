//! Run programs on the devices of a plugin, and compile for slices that are not here.
//!
//! A [`Backend`] is the devices of one plugin with their compiler and their memory: TPU, GPU or the built-in CPU device,
//! with the same code. A [`SliceCompiler`] is a plugin, a cache, and the way its process is started. It turns StableHLO
//! into a [`Report`] and an executable for any slice, on a machine that has none of its devices.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use runtime::cache::{Cache, CacheConfig};
//! use runtime::worker::{Launch, Limits};
//! use runtime::{CompileRequest, PluginFile, SliceCompiler};
//!
//! // The compiler runs in a child: this program, started again with this argument, must do nothing else.
//! if std::env::args().any(|arg| arg == "compile-worker") {
//!     std::process::exit(if runtime::worker::serve() == std::process::ExitCode::SUCCESS { 0 } else { 2 });
//! }
//! let compiler = SliceCompiler {
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

mod backend;
pub mod batch_size;
pub mod blob;
mod bucketed_jit;
pub mod cache;
mod compile;
mod compile_error;
mod compiler;
pub mod config;
pub mod data;
pub mod debug;
mod device_manager;
mod devices;
pub mod distributed;
mod element;
mod error;
pub mod flags;
mod jit;
pub mod log;
mod measure;
pub mod memory;
pub mod mesh;
pub mod metrics;
pub mod optimize;
mod plugin_file;
mod program;
mod recent;
mod refusal;
mod report;
mod signature;
pub mod trainer;
pub mod worker;

pub use backend::{
    Backend, Choice, DeviceArray, DeviceInfo, DeviceTree, Extras, Feed, HostTree, Input, MemoryStats, Model,
    Parameters, Peak, Platform, SliceDevices, Surroundings, Topology, Tree,
};
pub use bucketed_jit::{Axis, BucketedJit, BucketedResults, Given, Lengths, not_padding};
pub use compile::{CacheUse, Compilation, CompileRequest, Devices, Origin, SliceCompiler, probe};
pub use compile_error::{CompileError, OutOfMemory};
pub use compiler::{
    BucketReport, BucketUse, BucketedModel, Bucketing, Buckets, Compiler, CompilerStats, Dimension, Executable, Padded,
    Recompilation, Source, WarmUp, WarmUpStep,
};
pub use device_manager::{DeviceManager, DeviceMemory};
pub use element::{dtype, element_type};
pub use error::{Class, Error, NotAvailable, ValidationError, with_causes};
pub use jit::{Jit, LeafSharding, OnDevice, OnMesh};
pub use plugin_file::PluginFile;
pub use program::{Partitioner, Program};
pub use report::{Buffer, Collective, Memory, Mode, REPORT_VERSION, Report};
pub use signature::{ALIAS, DONOR, Port, Signature};
pub use tensor::Spec;
