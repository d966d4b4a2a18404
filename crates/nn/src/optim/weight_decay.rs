//! Which parameters decay: by words in their path, since stacked layers hide how many axes a parameter has.

use serde::{Deserialize, Serialize};
use trace::Tree;

/// Weight decay, and the parameters it leaves alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeightDecay {
    /// How much of a parameter is taken away at a learning rate of 1.
    pub rate: f64,
    /// Parameters with one of these words in their path do not decay.
    pub except: Vec<String>,
}

impl Default for WeightDecay {
    fn default() -> Self {
        WeightDecay::none()
    }
}

/// In a configuration file a number is the rate of all parameters, as PyTorch has it.
impl From<f64> for WeightDecay {
    fn from(rate: f64) -> Self {
        WeightDecay::all(rate)
    }
}

impl WeightDecay {
    /// None.
    pub fn none() -> WeightDecay {
        WeightDecay { rate: 0.0, except: Vec::new() }
    }

    /// At a rate, for everything.
    pub fn all(rate: f64) -> WeightDecay {
        WeightDecay { rate, except: Vec::new() }
    }

    /// At a rate, but not of norms, biases and embeddings.
    pub fn weights(rate: f64) -> WeightDecay {
        WeightDecay { rate, except: ["norm", "bias", "embedding"].map(str::to_owned).into() }
    }

    /// The rate of each parameter, in order.
    pub(crate) fn rates<P: Tree>(&self, params: &P) -> Vec<f64> {
        let is_spared = |path: &String| self.except.iter().any(|word| path.contains(word.as_str()));
        params.paths().iter().map(|path| if is_spared(path) { 0.0 } else { self.rate }).collect()
    }
}
