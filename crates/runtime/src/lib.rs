//! Run programs on the devices of a plugin: TPU, GPU or the built-in CPU device, with the same code.
//!
//! A [`Backend`] is the devices of one plugin with their compiler and their memory.
//!
//! ```
//! use std::sync::Arc;
//!
//! use compile::Program;
//! use runtime::config::{Config, Mode, Target};
//! use runtime::{Backend, Parameters};
//! use tensor::{DType, Literal};
//!
//! let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu))?;
//! let sine = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %y = stablehlo.sine %x : tensor<f32> return %y : tensor<f32> }";
//! let model = backend.prepare_program(&Arc::new(Program::read(sine.into())?), &Parameters::none())?;
//! let x = Literal::new(DType::F32, [], 0f32.to_le_bytes().to_vec()).unwrap();
//! let y = model.run(&[backend.send(&Arc::new(x))?])?;
//! assert_eq!(y[0].to_host()?.bytes(), 0f32.to_le_bytes());
//! # Ok::<(), runtime::Error>(())
//! ```

mod backend;
mod bucketed_jit;
mod buckets;
mod compiler;
pub mod config;
pub mod debug;
mod device;
mod device_manager;
mod device_telemetry;
pub mod distributed;
mod element;
mod error;
mod host;
mod jit;
pub mod log;
pub mod memory;
pub mod mesh;
mod monitor;
pub mod optimize;
mod process_group;
mod profile;
mod reshard;
mod signature;
mod values;

pub use backend::{
    Backend, Choice, DeviceArray, Extras, Feed, GlobalTopology, Input, LoadedProgram, MemoryStats, Nested,
    NestedArrays, NestedLiterals, Parameters, Pool, PoolStats, SliceDevices, Surroundings,
};
pub use bucketed_jit::{BucketedAxis, BucketedJit, BucketedResults, Lengths, not_padding};
pub use buckets::{BucketReport, BucketSource, BucketUse, BucketedProgram, Bucketing, Buckets, Dimension, Padded};
pub use compiler::{BackendExecutable, Compiler, CompilerStats, Recompilation, WarmUp, WarmUpStep};
pub use device::{DeviceInfo, PeakRates, Platform};
pub use device_manager::{DeviceManager, DeviceMemory};
pub use device_telemetry::{DeviceTelemetry, OtherMetrics};
pub use element::{dtype, element_type};
pub use error::{Error, ErrorClass, NotAvailable, ValidationError};
pub use host::{Variable, chips_on_bus};
pub use jit::{Jit, JitSharding, LeafSharding, shapes_of_specs};
pub use monitor::{Monitor, Reading, TimeSeries};
pub use process_group::Distributed;
pub use profile::{BackendProfiler, HostSpan, Profile, Stopped};
pub use signature::{Port, Signature};
pub use tensor::Spec;
pub use values::{LeafValue, ReadTensor, TreeArrays};
