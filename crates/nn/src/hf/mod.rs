//! Models in the form Hugging Face keeps them: `config.json`, and safetensors under their names.

mod config;
mod decoder;
mod defaults;
mod layout;
mod load;
mod names;
mod rope;
mod save;

pub use config::{Family, ModelConfig, read_config};
pub use load::load;
pub use save::save;
