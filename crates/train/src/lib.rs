//! Train models: the trainer, data, metrics, the batch-size search, training files, and the steps of models as programs.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use runtime::Backend;
//! use runtime::config::{Config, Mode, Target};
//! use train::{MeshChoice, Training};
//!
//! # std::env::set_current_dir("../..").unwrap();
//! // The changes make it short: one layer and two steps.
//! let changes = ["model.n_layer=1", "train.batch_size=2", "train.steps=2"].map(String::from);
//! let training = Training::read("examples/train/tiny-gpt.toml".as_ref(), &changes, &MeshChoice::default())?;
//! let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu))?;
//! let finished = training.run(&backend, &AtomicBool::new(false), &mut |_| {})?;
//! assert_eq!(finished.step, 2);
//! # Ok::<(), train::Error>(())
//! ```

mod audit;
pub mod batch_size;
pub mod config;
mod datasets;
mod egress;
mod error;
mod find_batch;
mod frozen;
mod imported;
mod language;
pub mod metrics;
mod model;
mod planned;
mod planned_quant;
mod pretrained;
pub mod profiler;
pub mod published;
mod sharding;
mod step;
mod task;
pub mod telemetry;
mod trained;
mod trained_model;
pub mod trainer;
mod training;

pub use data;
pub use datasets::{Datasets, tokenizer};
pub use egress::egress_warnings;
pub use error::Error;
pub use find_batch::{FoundBatch, TriedOn};
pub use imported::{ImportedModel, StateDict, state_dict};
pub use language::{LanguageCarried, LanguageParams};
pub use model::{TokenSizes, TrainModelConfig};
pub use planned::{Planned, PlannedStep};
pub use planned_quant::{PlannedCache, PlannedWeights, quality_cost, training_cost};
pub use sharding::{
    MeshChoice, ParameterShapes, StateSharding, WrappedModel, parameter_shapes, sharding_rules, step_leaves, wrap_model,
};
pub use step::{PlannedStepKind, StepShape, TPU_PAGE_SIZE, step_program};
pub use task::ModelTask;
pub use trained::{ExportedModel, export_model};
pub use trained_model::TrainedModel;
pub use training::{Finished, TaskVisitor, Training};
