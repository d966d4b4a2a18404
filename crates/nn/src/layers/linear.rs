//! A linear layer: a matmul with a weight, and a bias if there is one.

use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::quant::{Weight, joined_matmuls, map_weights};

/// `x · weight + bias`, over the last axis.
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// `[in, out]`.
    pub weight: Weight,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

map_weights!(Linear: weight);

/// Whether a layer adds a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bias {
    /// It does; it starts at zero.
    Zero,
    /// It does not.
    #[default]
    None,
}

impl Linear {
    /// A layer with a drawn weight.
    #[track_caller]
    pub fn init(key: &Key, input: usize, output: usize, bias: Bias, weight: Init) -> Linear {
        Linear {
            weight: weight.draw(key, DType::F32, &[input, output]).into(),
            bias: (bias == Bias::Zero).then(|| Tensor::zeros(DType::F32, &[output])),
        }
    }

    /// Applied to the last axis of `x`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        self.biased(self.weight.matmul_as(x, x.dtype()))
    }

    /// [`Linear::apply`] of a weight whose axes mean this to the mesh, if there is one.
    #[track_caller]
    pub(crate) fn apply_as(&self, x: &Tensor, logical_axes: [&str; 2]) -> Tensor {
        self.biased(self.weight.at_use(x.dtype(), &logical_axes).matmul_as(x, x.dtype()))
    }

    /// [`Linear::apply`] to `[batch, positions, width]`, giving heads of so many features: `[batch, positions, heads, size]`.
    ///
    /// The matmul itself gives heads: of one whose result is split into heads afterwards, TPU compilers copy layouts.
    #[track_caller]
    pub(crate) fn apply_to_heads(&self, x: &Tensor, size: usize) -> Tensor {
        let (width, heads) = (self.weight.dim(0), self.weight.dim(1) / size.max(1));
        let weight = self.weight.at_use(x.dtype(), &["embed", "heads"]);
        let y = weight.contract(x, "bsw,whd->bshd", &[width, heads, size]);
        match &self.bias {
            Some(bias) => y + bias.cast(x.dtype()).reshape(&[heads, size]),
            None => y,
        }
    }

    /// [`Linear::apply_to_heads`] of several layers; one matmul where their weights are joined.
    #[track_caller]
    pub(crate) fn all_to_heads<const N: usize>(layers: [&Linear; N], x: &Tensor, size: usize) -> [Tensor; N] {
        let Some(products) = joined_matmuls(layers.map(|layer| &layer.weight), x) else {
            return layers.map(|layer| layer.apply_to_heads(x, size));
        };
        let mut layers = layers.into_iter();
        products.map(|y| {
            let y = layers.next().map_or(y.clone(), |layer| layer.biased(y));
            y.reshape(&[x.dim(0), x.dim(1), y.dim(-1) / size.max(1), size])
        })
    }

    /// [`Linear::apply_as`] of several layers; one matmul where their weights are joined.
    #[track_caller]
    pub(crate) fn all_as<const N: usize>(layers: [&Linear; N], x: &Tensor, logical_axes: [&str; 2]) -> [Tensor; N] {
        let Some(products) = joined_matmuls(layers.map(|layer| &layer.weight), x) else {
            return layers.map(|layer| layer.apply_as(x, logical_axes));
        };
        let mut layers = layers.into_iter();
        products.map(|y| layers.next().map_or(y.clone(), |layer| layer.biased(y)))
    }

    /// [`Linear::apply`] to heads `[batch, positions, heads, size]`, all of them together, giving `[batch, positions, width]`.
    #[track_caller]
    pub(crate) fn apply_from_heads(&self, x: &Tensor) -> Tensor {
        let weight = self.weight.at_use(x.dtype(), &["heads", "embed"]);
        self.biased(weight.contract(x, "bshd,hdw->bsw", &[x.dim(2), x.dim(3), weight.dim(1)]))
    }

    /// With the bias, in the type of `y`.
    #[track_caller]
    pub(crate) fn biased(&self, y: Tensor) -> Tensor {
        match &self.bias {
            Some(bias) => {
                let bias = bias.cast(y.dtype());
                y + bias
            }
            None => y,
        }
    }
}
