//! SmoothQuant: the range of activations is moved into the weights, so that both can be quantized.

use crate::error::Error;
use crate::methods::input_scales::{InputScales, check_shared};
use crate::methods::matrix::Matrix;
use crate::methods::statistics::InputStatistics;

/// Factors `max|x|^strength / max|w|^(1 - strength)` for the inputs of weights that share them. The strength is the part
/// of the range that goes to the weights: 0.5 is usual, up to 0.9 where activations have large outliers.
pub fn scales(weights: &[&Matrix], statistics: &InputStatistics, strength: f64) -> Result<InputScales, Error> {
    check_shared(weights, statistics.in_features())?;
    for weight in weights {
        statistics.check_for(weight.name(), weight.in_features())?;
    }
    if !(0.0..=1.0).contains(&strength) {
        return Err(Error::setting(format!("a strength of {strength} is not possible"), "use a strength of 0 to 1"));
    }
    let mut largest = vec![0.0f32; statistics.in_features()];
    for row in weights.iter().flat_map(|weight| weight.values().chunks_exact(weight.in_features())) {
        largest.iter_mut().zip(row).for_each(|(largest, value)| *largest = largest.max(value.abs()));
    }
    let raw: Vec<f64> = largest
        .iter()
        .zip(statistics.max_abs())
        .map(|(weight, input)| f64::from(*input).powf(strength) / f64::from(*weight).powf(1.0 - strength))
        .collect();
    Ok(InputScales::normalized(&raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::examples::{correlated, gaussian};

    #[test]
    fn factors_equal_the_formula_and_even_out_the_ranges() {
        let (a, b, statistics) = (gaussian(5, 64, 1), gaussian(3, 64, 2), correlated(200, 64, 3));
        let found = scales(&[&a, &b], &statistics, 0.5).unwrap();
        let largest = |input: usize| {
            [&a, &b].iter().flat_map(|w| w.values().chunks(64)).fold(0.0f32, |most, row| most.max(row[input].abs()))
        };
        let raw = |input: usize| (statistics.max_abs()[input] / largest(input)).sqrt();
        // Input 7 is always zero.
        let ratio = found.factors()[0] / raw(0);
        for input in (0..64).filter(|input| *input != 7) {
            assert!((found.factors()[input] / raw(input) / ratio - 1.0).abs() < 1e-4);
            let (x, w) =
                (statistics.max_abs()[input] / found.factors()[input], largest(input) * found.factors()[input]);
            assert!((x / w * ratio * ratio - 1.0).abs() < 1e-3);
        }
        assert_eq!(found.factors()[7], 1.0);
        for (factor, inverse) in found.factors().iter().zip(found.inverse_factors()) {
            assert!((factor * inverse - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let statistics = correlated(20, 8, 1);
        assert!(scales(&[], &statistics, 0.5).is_err());
        assert!(scales(&[&gaussian(2, 9, 1)], &statistics, 0.5).is_err());
        for strength in [-0.1, 1.1, f64::NAN] {
            assert!(scales(&[&gaussian(2, 8, 1)], &statistics, strength).is_err());
        }
        let zeros = Matrix::new("zeros", 2, 8, vec![0.0; 16]).unwrap();
        assert!(scales(&[&zeros], &statistics, 0.5).unwrap().factors().iter().all(|factor| factor.is_normal()));
    }
}
