//! Which types numbers have: parameters, activations, and the islands that stay `f32`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tensor::DType;

use crate::error::Error;

/// Types of parameters and of activations.
///
/// Layers follow one rule: weights are cast to the type of the activations where they are used, matmuls of `bf16` are
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
    /// All of them.
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Mixed, Precision::Bf16];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Mixed => "mixed",
            Precision::Bf16 => "bf16",
        }
    }

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

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Precision, Error> {
        let known = Precision::ALL.map(Precision::name).join(", ");
        Precision::ALL
            .into_iter()
            .find(|precision| precision.name() == text)
            .ok_or_else(|| Error::config(format!("`{text}` is not a precision; precisions are {known}")))
    }
}
