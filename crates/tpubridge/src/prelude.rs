//! What most programs use: `use tpubridge::prelude::*`.

// Slices, and what they make of a program.
pub use crate::slices::{compile_worker, fit, lower, plan};
pub use chips::{Generation, Slice};
pub use compile::Program;
pub use plan::search::{Answer, Goal, SearchOptions};
pub use plan::{Fit, FitRequest};
pub use train::{Planned, PlannedStep};

// Values, and functions over them.
pub use tensor::{DType, Element, Literal, Spec};
pub use trace::{
    Donate, Key, Mesh, Reduction, RematPolicy, Tensor, Tree, checkpoint, cond, custom_call, custom_vjp, grad, jvp,
    random, scan, shapes_of, shard_map, value_and_grad, value_and_grad_with, vjp, vmap, while_loop,
};

// Layers, models, losses and optimizers.
pub use nn::layers::{
    Activation, BatchNorm, Bias, Conv1d, Conv2d, Embedding, FeedForward, GatedFeedForward, GroupNorm, Gru, LayerNorm,
    Linear, Lstm, MultiHeadAttention, RmsNorm, Rope, dropout,
};
pub use nn::models::{Gpt2, Gpt2Config, LanguageModel, Llama, LlamaConfig, Mlp, MlpConfig, RunOptions, TokenBatch};
pub use nn::optim::{Adafactor, Adam, Lion, Moments, Muon, Optimizer, Schedule, Sgd, clipped, global_norm};
pub use nn::{
    CrossEntropy, Init, ShardingRules, StepMetrics, StepOptions, Strategy, TrainState, binary_cross_entropy,
    mean_squared_error, trace_init, trace_train_step, train_step,
};

// Devices.
pub use runtime::config::{Config, Mode, Target};
pub use runtime::distributed::{MultiHostConfig, Session};
pub use runtime::{
    Backend, BucketedJit, BucketedProgram, Buckets, DeviceArray, Distributed, Feed, Jit, LoadedProgram, Parameters,
    ReadTensor, TreeArrays,
};

// Inference.
pub use infer::{Engine, InferenceOptions, OpenOptions, OpenedModel, Request, SamplingOptions};

// Training.
pub use train::data::Dataset;
pub use train::trainer::{Measures, Task, TrainEvent, TrainOptions, Trained, Trainer};
pub use train::{Finished, MeshChoice, Training};
pub use weights::Checkpoint;

pub use crate::error::{Error, Result};
