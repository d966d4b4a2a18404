//! Run, train and plan models on Google TPUs from Rust: everything under one name.
//!
//! ```
//! use std::sync::Arc;
//! use tpubridge::prelude::*;
//!
//! let backend = Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu))?;
//! let program = Program::read(
//!     b"func.func @main(%x: tensor<f32>) -> tensor<f32> { %y = stablehlo.sine %x : tensor<f32> return %y : tensor<f32> }".to_vec(),
//! )?;
//! let model = backend.prepare_model(&Arc::new(program), &Parameters::none())?;
//! let x = Literal::new(DType::F32, [], 0f32.to_le_bytes().to_vec()).unwrap();
//! let y = model.run(&[backend.send(&Arc::new(x))?])?;
//! assert_eq!(y[0].to_host()?.bytes(), 0f32.to_le_bytes());
//! # Ok::<(), Error>(())
//! ```

pub use chips;
pub use hlo;
pub use nn;
pub use pjrt;
pub use runtime;
pub use tensor;
pub use trace;
pub use weights;

/// What most programs use.
pub mod prelude {
    pub use chips::{Generation, Slice};
    pub use compile::Program;
    pub use compile::optimize::Precision;
    pub use runtime::config::{Config, Mode, Target};
    pub use runtime::{
        Backend, BucketedModel, Bucketing, Buckets, Class, DeviceArray, DeviceInfo, DeviceManager, Dimension, Error,
        Feed, Input, Model, Parameters, Spec, Topology, Tree,
    };
    pub use runtime::{
        Distributed,
        distributed::{MultiHostConfig, Session},
    };
    pub use tensor::{DType, Literal};
    pub use weights::Checkpoint;
}

/// The guide of several processes, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/processes.md")]
struct Guide;
