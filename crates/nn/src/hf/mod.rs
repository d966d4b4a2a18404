//! Models in the form Hugging Face keeps them: `config.json`, and safetensors under their names.

mod config;
mod decoder;
mod defaults;
mod device_form;
mod encoder;
mod gemma4;
mod layout;
mod load;
mod masks;
mod names;
mod packed;
mod peft;
mod raw;
mod reader;
mod rope;
mod save;
mod source;
mod speech;
mod style;
mod tables;
mod vision;
mod vision_tables;

pub use crate::models::Family;
pub use config::{ModelConfig, read_config};
pub use encoder::AnyEncoderConfig;
pub use load::{load, load_layer, tensor_names};
pub use packed::{FileBlocks, LoadedWeight, PackedForms, WeightChange, load_report};
pub use peft::{AdapterTensors, is_target, load_adapter, merged_weight, of_whole_stacks, save_adapter, target_modules};
pub use reader::{DenseOrder, LoadedModel, ParameterReader, load_packed};
pub use save::save;
pub use source::TensorSource;
pub use speech::read_whisper_config;
pub use vision::{AnyClassifierConfig, read_clip_config, read_llava_config};
