//! Weights and inputs for tests: Gaussian ones, with outliers, and with correlated inputs.

use crate::methods::{InputStatistics, Matrix, random::Random};

/// Inputs of an outlier weight that are 8 times larger than the others.
const OUTLIERS: usize = 20;

pub(crate) fn gaussian(out_features: usize, in_features: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed);
    let values = (0..out_features * in_features).map(|_| random.gaussian() as f32).collect();
    Matrix::new("gaussian", out_features, in_features, values).unwrap()
}

/// The same with 20 inputs 8 times larger.
pub(crate) fn with_outliers(out_features: usize, in_features: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed ^ 0xf00d);
    let mut factors = vec![1.0; in_features];
    let mut left = OUTLIERS;
    while left > 0 {
        let factor = &mut factors[random.below(in_features)];
        if *factor == 1.0 {
            *factor = 8.0;
            left -= 1;
        }
    }
    let mut weight = gaussian(out_features, in_features, seed);
    weight.scale_inputs(&factors).unwrap();
    weight
}

/// Rows of inputs that are correlated with their neighbours, some of them large, one always zero.
pub(crate) fn correlated_rows(rows: usize, in_features: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut values = Vec::with_capacity(rows * in_features);
    for _ in 0..rows {
        let mut last = 0.0;
        for input in 0..in_features {
            last = 0.9 * last + 0.44 * random.gaussian();
            let factor = match input % 16 {
                3 => 6.0,
                7 if input == 7 => 0.0,
                _ => 1.0,
            };
            values.push((last * factor) as f32);
        }
    }
    values
}

pub(crate) fn correlated(rows: usize, in_features: usize, seed: u64) -> InputStatistics {
    let mut statistics = InputStatistics::new("correlated", in_features).unwrap();
    statistics.add_rows(&correlated_rows(rows, in_features, seed)).unwrap();
    statistics
}
