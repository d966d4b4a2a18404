//! A weight on the host: a matrix of finite numbers with the name of its layer.

use crate::error::Error;

/// A weight `[out_features, in_features]`, row by row, that is not empty and has finite values only.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    name: String,
    out_features: usize,
    in_features: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// A weight; `name` is what errors call it.
    pub fn new(
        name: impl Into<String>,
        out_features: usize,
        in_features: usize,
        values: Vec<f32>,
    ) -> Result<Matrix, Error> {
        let name = name.into();
        if values.is_empty() || out_features.checked_mul(in_features) != Some(values.len()) {
            let message = format!("a weight of [{out_features}, {in_features}] has {} values", values.len());
            return Err(Error::layer(&name, message, "give every element of a weight that is not empty"));
        }
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            let (row, column) = (place / in_features, place % in_features);
            let message = format!("its weight at [{row}, {column}] is {}", values[place]);
            return Err(Error::layer(&name, message, "the model is damaged, or its training diverged: use another"));
        }
        Ok(Matrix { name, out_features, in_features, values })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Outputs: rows.
    pub fn out_features(&self) -> usize {
        self.out_features
    }

    /// Inputs: columns.
    pub fn in_features(&self) -> usize {
        self.in_features
    }

    /// The elements, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The largest magnitude.
    pub(crate) fn largest(&self) -> f32 {
        self.values.iter().fold(0.0, |most, value| most.max(value.abs()))
    }

    /// The elements, without the rest.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }

    /// The elements of an output.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.in_features..][..self.in_features]
    }

    /// Multiplies each column, an input, by a factor: what folding the scales of inputs into a weight does.
    pub fn scale_inputs(&mut self, factors: &[f32]) -> Result<(), Error> {
        self.check_factors(factors, self.in_features, "inputs")?;
        let columns = self.in_features;
        self.change(|values| {
            for row in values.chunks_exact_mut(columns) {
                row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
            }
            Ok(())
        })
    }

    /// Multiplies each row, an output, by a factor.
    pub fn scale_outputs(&mut self, factors: &[f32]) -> Result<(), Error> {
        self.check_factors(factors, self.out_features, "outputs")?;
        let columns = self.in_features;
        self.change(|values| {
            for (row, factor) in values.chunks_exact_mut(columns).zip(factors) {
                row.iter_mut().for_each(|value| *value *= factor);
            }
            Ok(())
        })
    }

    fn check_factors(&self, factors: &[f32], expected: usize, what: &str) -> Result<(), Error> {
        if factors.len() == expected {
            return Ok(());
        }
        let message = format!("{} factors were given for its {expected} {what}", factors.len());
        Err(Error::layer(&self.name, message, "give one factor for each"))
    }

    /// Changes the elements, which must stay finite.
    pub(crate) fn change(&mut self, f: impl FnOnce(&mut [f32]) -> Result<(), Error>) -> Result<(), Error> {
        f(&mut self.values)?;
        if self.values.iter().all(|value| value.is_finite()) {
            return Ok(());
        }
        Err(Error::layer(&self.name, "its weight overflows when it is scaled or rotated", "use smaller factors"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_cannot_be_used_are_refused_by_name() {
        let refused = |rows, columns, values| Matrix::new("mlp.up", rows, columns, values).unwrap_err().to_string();
        assert_eq!(refused(1, 2, vec![0.0, f32::NAN]), "layer `mlp.up`: its weight at [0, 1] is NaN");
        assert_eq!(refused(0, 2, vec![]), "layer `mlp.up`: a weight of [0, 2] has 0 values");
        assert_eq!(
            refused(usize::MAX, 2, vec![1.0]),
            format!("layer `mlp.up`: a weight of [{}, 2] has 1 values", usize::MAX)
        );
    }
}
