//! What calibration knows of a layer's inputs: their second moments and their magnitudes.

use crate::error::Error;
use crate::methods::linear_algebra::gram_of_rows;

/// Most input features whose second moments are kept: 16 GiB of them.
const MAX_INPUTS: usize = 1 << 16;

/// Moments and magnitudes of the inputs of a layer, over all rows that were seen.
#[derive(Clone, Debug, PartialEq)]
pub struct InputStatistics {
    name: String,
    in_features: usize,
    rows: usize,
    gram: Vec<f32>,
    mean_abs: Vec<f32>,
    max_abs: Vec<f32>,
}

impl InputStatistics {
    /// Statistics of a layer that saw no input yet; `name` is what errors call it.
    pub fn new(name: impl Into<String>, in_features: usize) -> Result<InputStatistics, Error> {
        let name = name.into();
        check_inputs(&name, in_features)?;
        let zeros = || vec![0.0; in_features];
        let gram = vec![0.0; in_features * in_features];
        Ok(InputStatistics { in_features, rows: 0, gram, mean_abs: zeros(), max_abs: zeros(), name })
    }

    /// Statistics that a device computed: `gram` is the sum of `x xᵀ` over `rows`, divided by their number.
    pub fn from_parts(
        name: impl Into<String>,
        rows: usize,
        gram: Vec<f32>,
        mean_abs: Vec<f32>,
        max_abs: Vec<f32>,
    ) -> Result<InputStatistics, Error> {
        let (name, in_features) = (name.into(), mean_abs.len());
        check_inputs(&name, in_features)?;
        if max_abs.len() != in_features || gram.len() != in_features * in_features {
            let message = format!(
                "{in_features} means, {} maxima and {} moments are no statistics of one input",
                max_abs.len(),
                gram.len()
            );
            return Err(Error::layer(&name, message, "give the statistics of one layer's inputs"));
        }
        let statistics = InputStatistics { name, in_features, rows, gram, mean_abs, max_abs };
        statistics.check_finite()?;
        Ok(statistics)
    }

    /// Adds rows of inputs, one after the other.
    pub fn add_rows(&mut self, rows: &[f32]) -> Result<(), Error> {
        if !rows.len().is_multiple_of(self.in_features) {
            let message = format!("{} values are no rows of {} inputs", rows.len(), self.in_features);
            return Err(Error::layer(&self.name, message, "give whole rows"));
        }
        if let Some(place) = rows.iter().position(|value| !value.is_finite()) {
            let (row, input) = (place / self.in_features, place % self.in_features);
            return Err(self.not_finite(&format!("input {input} of row {row} is {}", rows[place])));
        }
        let added = rows.len() / self.in_features;
        if added == 0 {
            return Ok(());
        }
        let (mut mean_abs, mut max_abs) = (vec![0.0f64; self.in_features], vec![0.0f32; self.in_features]);
        for row in rows.chunks_exact(self.in_features) {
            for ((value, mean), max) in row.iter().zip(&mut mean_abs).zip(&mut max_abs) {
                *mean += f64::from(value.abs());
                *max = max.max(value.abs());
            }
        }
        let mean_abs = mean_abs.iter().map(|sum| (sum / added as f64) as f32).collect();
        let gram = gram_of_rows(rows, self.in_features);
        let batch = InputStatistics { gram, mean_abs, max_abs, rows: added, ..self.without_values() };
        self.merge(&batch)
    }

    /// Adds what another batch of the same layer's inputs gave.
    pub fn merge(&mut self, other: &InputStatistics) -> Result<(), Error> {
        if other.in_features != self.in_features {
            let message =
                format!("statistics of {} inputs were merged with those of {}", other.in_features, self.in_features);
            return Err(Error::layer(&self.name, message, "merge statistics of one layer"));
        }
        other.check_finite()?;
        let rows = self.rows.saturating_add(other.rows);
        if other.rows == 0 {
            return Ok(());
        }
        let (old, new) = (self.rows as f64 / rows as f64, other.rows as f64 / rows as f64);
        let mean = |to: &mut [f32], from: &[f32]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = (f64::from(*to) * old + f64::from(*from) * new) as f32;
            }
        };
        mean(&mut self.gram, &other.gram);
        mean(&mut self.mean_abs, &other.mean_abs);
        for (to, from) in self.max_abs.iter_mut().zip(&other.max_abs) {
            *to = to.max(*from);
        }
        self.rows = rows;
        Ok(())
    }

    /// What errors call the layer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Input features.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// Rows that were seen: tokens.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The mean of `x xᵀ`, row by row: the Gram matrix of the inputs over their number, symmetric.
    pub fn gram(&self) -> &[f32] {
        &self.gram
    }

    /// The diagonal of the Gram matrix: the mean square of each input.
    pub fn mean_square(&self) -> Vec<f32> {
        self.gram.iter().step_by(self.in_features + 1).map(|value| value.max(0.0)).collect()
    }

    /// The mean magnitude of each input.
    pub fn mean_abs(&self) -> &[f32] {
        &self.mean_abs
    }

    /// The largest magnitude of each input.
    pub fn max_abs(&self) -> &[f32] {
        &self.max_abs
    }

    /// Refuses statistics without rows, or of another number of inputs than a weight has.
    pub(crate) fn check_for(&self, name: &str, in_features: usize) -> Result<(), Error> {
        if self.in_features != in_features {
            let message = format!("it has {in_features} inputs, its statistics have {}", self.in_features);
            return Err(Error::layer(name, message, "give the statistics of this layer's inputs"));
        }
        if self.rows == 0 {
            return Err(Error::layer(name, "calibration saw none of its inputs", "give a longer calibration text"));
        }
        Ok(())
    }

    fn without_values(&self) -> InputStatistics {
        InputStatistics {
            name: self.name.clone(),
            in_features: self.in_features,
            rows: 0,
            gram: Vec::new(),
            mean_abs: Vec::new(),
            max_abs: Vec::new(),
        }
    }

    fn check_finite(&self) -> Result<(), Error> {
        let places = [("second moment", &self.gram), ("mean magnitude", &self.mean_abs), ("magnitude", &self.max_abs)];
        for (what, values) in places {
            if let Some(place) = values.iter().position(|value| !value.is_finite()) {
                let input = place % self.in_features;
                return Err(self.not_finite(&format!("the {what} of input {input} is {}", values[place])));
            }
        }
        Ok(())
    }

    fn not_finite(&self, message: &str) -> Error {
        let remedy = "look for NaN in the model, or calibrate in f32 or bf16 instead of f16";
        Error::layer(&self.name, message, remedy)
    }
}

fn check_inputs(name: &str, in_features: usize) -> Result<(), Error> {
    match in_features {
        1..=MAX_INPUTS => Ok(()),
        _ => Err(Error::layer(
            name,
            format!("statistics of {in_features} inputs are not kept"),
            format!("layers may have 1 to {MAX_INPUTS} inputs"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_merge_to_the_statistics_of_all_rows() {
        let rows: Vec<f32> = (0..60).map(|n| ((n * 7919 % 31) as f32 - 15.0) / 4.0).collect();
        let mut whole = InputStatistics::new("layer", 3).unwrap();
        whole.add_rows(&rows).unwrap();
        let mut parts = InputStatistics::new("layer", 3).unwrap();
        parts.add_rows(&rows[..9]).unwrap();
        let mut rest = InputStatistics::new("layer", 3).unwrap();
        rest.add_rows(&rows[9..]).unwrap();
        parts.merge(&rest).unwrap();
        assert_eq!((whole.rows(), parts.rows()), (20, 20));
        assert_eq!(whole.max_abs(), parts.max_abs());
        for i in 0..3 {
            let mean = rows.chunks(3).map(|row| row[i].abs()).sum::<f32>() / 20.0;
            assert!((whole.mean_abs()[i] - mean).abs() < 1e-5 && (parts.mean_abs()[i] - mean).abs() < 1e-5);
            for j in 0..3 {
                let moment = rows.chunks(3).map(|row| row[i] * row[j]).sum::<f32>() / 20.0;
                assert!((whole.gram()[i * 3 + j] - moment).abs() < 1e-4);
                assert!((parts.gram()[i * 3 + j] - moment).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn inputs_that_cannot_be_used_are_refused_by_layer() {
        let mut statistics = InputStatistics::new("mlp.down", 2).unwrap();
        let refused = statistics.add_rows(&[1.0, 2.0, 3.0, f32::INFINITY]).unwrap_err().to_string();
        assert_eq!(refused, "layer `mlp.down`: input 1 of row 1 is inf");
        assert!(statistics.add_rows(&[1.0]).unwrap_err().to_string().contains("no rows of 2 inputs"));
        assert!(InputStatistics::new("a", 0).is_err() && InputStatistics::new("a", usize::MAX).is_err());
        let parts = InputStatistics::from_parts("a", 1, vec![f32::NAN], vec![1.0], vec![1.0]);
        assert_eq!(parts.unwrap_err().to_string(), "layer `a`: the second moment of input 0 is NaN");
        assert!(statistics.check_for("mlp.down", 2).unwrap_err().to_string().contains("saw none"));
    }
}
