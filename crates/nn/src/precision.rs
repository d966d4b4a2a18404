//! Which types numbers have: parameters, activations, and the islands that stay `f32`.

use serde::{Deserialize, Serialize};
use tensor::DType;

/// Types of parameters and of activations.
///
/// Layers follow one rule: weights are cast to the type of the activations where they are used, products of `bf16` are
/// summed in `f32` and rounded once, and norms, softmax and losses are computed in `f32`. So a model needs to choose
/// only the type its first activations have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in `f32`.
    #[default]
    F32,
    /// Parameters in `f32`, activations in `bf16`.
    Mixed,
    /// Parameters and activations in `bf16`: for inference, and for training with little memory.
    Bf16,
}

impl Precision {
    /// Type of parameters.
    pub fn params(self) -> DType {
        match self {
            Precision::F32 | Precision::Mixed => DType::F32,
            Precision::Bf16 => DType::BF16,
        }
    }

    /// Type of activations.
    pub fn compute(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::Mixed | Precision::Bf16 => DType::BF16,
        }
    }
}
