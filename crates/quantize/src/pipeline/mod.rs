//! Models from folder to folder: calibration on a device, layer by layer, methods, evaluation.

mod calibration;
mod evaluation;
mod folder;
mod layers;
mod plan;
mod run;
mod scales;
mod sensitivity;
mod text;

pub use evaluation::{EvaluateOptions, Evaluation, evaluate_folder};
pub use folder::ModelFolder;
pub use plan::{Method, MethodName, ParseMethodError, QuantizePlan};
pub use run::{LayerReport, QuantizedModel, WeightReport, quantize_folder};
pub use text::{read_tokens, tokenizer_of};
