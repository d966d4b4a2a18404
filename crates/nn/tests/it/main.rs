//! Layers, models and optimizers against formulas, against each other, and against PyTorch and transformers.

mod attention;
mod composites;
mod device_forms;
mod gemma4;
mod gpt_oss;
mod harness;
mod hugging_face;
mod jax_reference;
mod layers;
mod losses;
mod low_precision;
mod optimizers;
mod peft;
mod quant;
mod quantized_files;
mod remat;
mod slices;
mod statistics;
mod training;
