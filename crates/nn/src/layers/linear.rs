//! A product with a weight, and a bias if there is one.

use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::init::Init;

/// `x · weight + bias`, over the last axis.
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// `[in, out]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

/// Whether a layer adds a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bias {
    /// It does; it starts at zero.
    Zero,
    /// It does not.
    None,
}

impl Linear {
    /// A layer with a drawn weight.
    #[track_caller]
    pub fn init(key: &Key, input: usize, output: usize, bias: Bias, weight: Init) -> Linear {
        Linear {
            weight: weight.draw(key, DType::F32, &[input, output]),
            bias: (bias == Bias::Zero).then(|| Tensor::zeros(DType::F32, &[output])),
        }
    }

    /// Applied to the last axis of `x`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        // A product of bf16 is summed in f32 by every device and rounded once, so its result need not be wider.
        let y = x.matmul(&self.weight.cast(x.dtype()));
        match &self.bias {
            Some(bias) => y + bias.cast(x.dtype()),
            None => y,
        }
    }
}
