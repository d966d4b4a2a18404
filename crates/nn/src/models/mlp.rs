//! A multi-layer perceptron (MLP): linear layers with an activation between them.

use serde::{Deserialize, Serialize};
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Activation, Bias, Linear};

/// Sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MlpConfig {
    /// Features in.
    pub input: usize,
    /// Widths of the layers between.
    pub hidden: Vec<usize>,
    /// Features out.
    pub output: usize,
    /// Between layers.
    pub activation: Activation,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Mlp {
    /// Layers in order.
    pub layers: Vec<Linear>,
    /// Between layers.
    #[tree(skip)]
    pub activation: Activation,
}

impl Mlp {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &MlpConfig) -> Mlp {
        let mut sizes = vec![config.input];
        sizes.extend(&config.hidden);
        sizes.push(config.output);
        let keys = key.split(sizes.len() - 1);
        let layers = keys.iter().zip(sizes.windows(2));
        let layers = layers.map(|(key, pair)| Linear::init(key, pair[0], pair[1], Bias::Zero, Init::KaimingNormal));
        Mlp { layers: layers.collect(), activation: config.activation }
    }

    /// Applied to `[..., features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("mlp", || {
            let mut x = x.clone();
            for (n, layer) in self.layers.iter().enumerate() {
                let from = if n == 0 { x } else { self.activation.apply(&x) };
                x = layer.apply(&from);
            }
            x
        })
    }
}
