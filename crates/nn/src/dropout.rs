//! Dropout: a random part of the activations is zero in training.

use trace::{Key, Tensor};

use crate::stacked::rows_of;

/// `x` with elements zeroed at a rate and the others scaled up; without a key, or at rate 0, `x` itself.
#[track_caller]
pub fn dropout(x: &Tensor, rate: f64, key: Option<&Key>) -> Tensor {
    match key {
        Some(key) if rate > 0.0 => trace::scope("dropout", || {
            let kept = match rows_of(x.dims()) {
                Some(rows) => key.bernoulli_rows(1.0 - rate, x.dims(), &rows),
                None => key.bernoulli(1.0 - rate, x.dims()),
            };
            kept.select(&(x / (1.0 - rate).max(f64::EPSILON)), &Tensor::zeros(x.dtype(), &[]))
        }),
        _ => x.clone(),
    }
}
