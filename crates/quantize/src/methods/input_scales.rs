//! Factors for the inputs of weights, which the layer before takes back: what AWQ and SmoothQuant find.

use crate::error::Error;
use crate::methods::matrix::Matrix;

/// The smallest factor, and one over the largest.
const SMALLEST: f64 = 1e-4;

/// A factor for each input: columns of the weights are multiplied by it, and the inputs divided.
#[derive(Clone, Debug, PartialEq)]
pub struct InputScales {
    factors: Vec<f32>,
}

impl InputScales {
    /// Of positive numbers; their geometric middle becomes 1, and what is not a positive number too.
    pub(crate) fn normalized(raw: &[f64]) -> InputScales {
        let usable = |value: &&f64| value.is_finite() && **value > 0.0;
        let (least, most) = raw
            .iter()
            .filter(usable)
            .fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(*value), most.max(*value)));
        let middle = (least * most).sqrt();
        let middle = if middle.is_finite() && middle > 0.0 { middle } else { 1.0 };
        let factor = |value: &f64| {
            let value = if usable(&value) { value / middle } else { 1.0 };
            value.clamp(SMALLEST, 1.0 / SMALLEST) as f32
        };
        InputScales { factors: raw.iter().map(factor).collect() }
    }

    /// What columns of the weights are multiplied by.
    pub fn factors(&self) -> &[f32] {
        &self.factors
    }

    /// What the inputs are multiplied by: the weight of the norm before, or the rows of the weight before.
    pub fn inverse_factors(&self) -> Vec<f32> {
        self.factors.iter().map(|factor| 1.0 / factor).collect()
    }

    /// Multiplies the columns of a weight.
    pub fn apply(&self, weight: &mut Matrix) -> Result<(), Error> {
        weight.scale_inputs(&self.factors)
    }
}

/// Refuses weights that do not share an input.
pub(crate) fn check_shared(weights: &[&Matrix], in_features: usize) -> Result<(), Error> {
    match weights.iter().find(|weight| weight.in_features() != in_features) {
        Some(weight) => {
            let message = format!("it has {} inputs, the weights beside it have {in_features}", weight.in_features());
            Err(Error::layer(weight.name(), message, "scale weights together that share an input"))
        }
        None if weights.is_empty() => {
            Err(Error::setting("no weights were given to find scales for", "give the weights that share an input"))
        }
        None => Ok(()),
    }
}
