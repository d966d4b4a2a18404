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
//! let model = backend.prepare_model(&Arc::new(Program::read(sine.into())?), &Parameters::none())?;
//! let x = Literal::new(DType::F32, [], 0f32.to_le_bytes().to_vec()).unwrap();
//! let y = model.run(&[backend.send(&Arc::new(x))?])?;
//! assert_eq!(y[0].to_host()?.bytes(), 0f32.to_le_bytes());
//! # Ok::<(), runtime::Error>(())
//! ```

mod backend;
mod bucketed_jit;
mod compiler;
pub mod config;
pub mod debug;
mod device_manager;
pub mod distributed;
mod element;
mod error;
mod jit;
pub mod log;
pub mod memory;
pub mod mesh;
pub mod optimize;
mod signature;

pub use backend::{
    Backend, Choice, DeviceArray, DeviceInfo, DeviceTree, Extras, Feed, HostTree, Input, MemoryStats, Model,
    Parameters, Peak, Platform, SliceDevices, Surroundings, Topology, Tree,
};
pub use bucketed_jit::{Axis, BucketedJit, BucketedResults, Given, Lengths, not_padding};
pub use compiler::{
    BucketReport, BucketUse, BucketedModel, Bucketing, Buckets, Compiler, CompilerStats, Dimension, Executable, Padded,
    Recompilation, Source, WarmUp, WarmUpStep,
};
pub use device_manager::{DeviceManager, DeviceMemory};
pub use element::{dtype, element_type};
pub use error::{Class, Error, NotAvailable, ValidationError};
pub use jit::{Host, Jit, LeafSharding, OnDevice, OnMesh, abstract_of};
pub use signature::{Port, Signature};
pub use tensor::Spec;
