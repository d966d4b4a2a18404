//! Dtype policies: which types a model's parameters and activations have, and how configuration files write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tensor::DType;

/// Types of parameters, of activations, and of the operands of matmuls.
///
/// Layers follow one rule: weights are cast to the type of the activations where they are used, matmuls of `bf16` are
/// summed in `f32` and rounded once, and norms, softmax and losses are computed in `f32`. So a model needs to choose
/// only the type its first activations have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DTypePolicy {
    /// Everything in `f32`.
    #[default]
    F32,
    /// Parameters in `f32`, activations in `bf16`.
    Mixed,
    /// Parameters and activations in `bf16`: for inference, and for training with little memory.
    Bf16,
    /// As [`DTypePolicy::Mixed`], with the matmuls of linear layers in training on operands of 8-bit floats: `f8E4M3FN` forward, and
    /// gradients `f8E5M2` backward.
    Fp8,
    /// As [`DTypePolicy::Mixed`], with the matmuls of linear layers in training on operands of 8-bit integers.
    Int8,
}

impl DTypePolicy {
    /// All of them.
    pub const ALL: [DTypePolicy; 5] =
        [DTypePolicy::F32, DTypePolicy::Mixed, DTypePolicy::Bf16, DTypePolicy::Fp8, DTypePolicy::Int8];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            DTypePolicy::F32 => "f32",
            DTypePolicy::Mixed => "mixed",
            DTypePolicy::Bf16 => "bf16",
            DTypePolicy::Fp8 => "fp8",
            DTypePolicy::Int8 => "int8",
        }
    }

    /// Type of parameters.
    pub fn params(self) -> DType {
        match self {
            DTypePolicy::F32 | DTypePolicy::Mixed | DTypePolicy::Fp8 | DTypePolicy::Int8 => DType::F32,
            DTypePolicy::Bf16 => DType::BF16,
        }
    }

    /// Type of activations.
    pub fn compute(self) -> DType {
        match self {
            DTypePolicy::F32 => DType::F32,
            DTypePolicy::Mixed | DTypePolicy::Bf16 | DTypePolicy::Fp8 | DTypePolicy::Int8 => DType::BF16,
        }
    }

    /// Type of the operands of matmuls in linear layers, in training.
    pub fn matmul(self) -> DType {
        match self {
            DTypePolicy::Fp8 => DType::F8E4M3FN,
            DTypePolicy::Int8 => DType::I8,
            DTypePolicy::F32 | DTypePolicy::Mixed | DTypePolicy::Bf16 => self.compute(),
        }
    }
}

impl fmt::Display for DTypePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no [`DTypePolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDTypePolicyError {
    word: String,
}

impl fmt::Display for ParseDTypePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = DTypePolicy::ALL.map(DTypePolicy::name).join(", ");
        write!(f, "`{}` is not a precision; precisions are {known}", self.word)
    }
}

impl std::error::Error for ParseDTypePolicyError {}

impl FromStr for DTypePolicy {
    type Err = ParseDTypePolicyError;

    fn from_str(text: &str) -> Result<DTypePolicy, ParseDTypePolicyError> {
        DTypePolicy::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| ParseDTypePolicyError { word: text.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_they_are_read() {
        for policy in DTypePolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{policy}\""));
        }
        let refused = "f16".parse::<DTypePolicy>().unwrap_err().to_string();
        assert_eq!(refused, "`f16` is not a precision; precisions are f32, mixed, bf16, fp8, int8");
    }
}
