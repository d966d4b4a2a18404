//! ONNX models, read and translated to our traced graph, without Python; for inference.
//!
//! [`OnnxModel::open`] reads a `.onnx` file with its external data. [`OnnxModel::trace`] gives its StableHLO for inputs of known shapes:
//! what a graph computes from shapes alone is computed while it is translated, so that sizes are numbers afterwards.
//!
//! ```
//! let damaged = onnx::OnnxModel::read(b"no model".to_vec(), None).unwrap_err();
//! assert!(damaged.to_string().contains("not an ONNX model"));
//! ```

mod call;
mod data;
mod error;
mod fold;
mod model;
mod ops;
mod proto;
mod translate;

pub use data::read_tensor;
pub use error::Error;
pub use model::{ModelInput, OnnxModel};
pub use ops::op_names;
pub use translate::{ModelInputs, ModelOutputs};
