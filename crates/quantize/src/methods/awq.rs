//! AWQ: inputs that matter get larger weights, which lose less in rounding; how much larger is searched.

use crate::error::Error;
use crate::methods::input_scales::{InputScales, check_shared};
use crate::methods::linear_algebra::quadratic_forms;
use crate::methods::matrix::Matrix;
use crate::methods::nearest;
use crate::methods::rounding::{Clip, Rounding};
use crate::methods::statistics::InputStatistics;

/// Options of AWQ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AwqOptions {
    /// Exponents that are tried: equal steps from 0, which changes nothing, to 1.
    pub steps: usize,
    /// Outputs of each weight, at equal distances, whose error is computed.
    pub sampled_outputs: usize,
}

impl Default for AwqOptions {
    fn default() -> AwqOptions {
        AwqOptions { steps: 20, sampled_outputs: 256 }
    }
}

/// What AWQ found.
#[derive(Clone, Debug, PartialEq)]
pub struct AwqScales {
    /// Factors for the inputs.
    pub scales: InputScales,
    /// The exponent of the mean magnitudes that they are.
    pub exponent: f64,
    /// Mean squared change of the sampled outputs over their mean square.
    pub error: f64,
    /// The same without factors.
    pub error_without: f64,
}

/// Searches factors `mean|x|^exponent` for the inputs of weights that share them, so that the outputs change least when
/// the weights are rounded to nearest.
pub fn search(
    weights: &[&Matrix],
    rounding: &Rounding,
    statistics: &InputStatistics,
    options: &AwqOptions,
) -> Result<AwqScales, Error> {
    let inputs = statistics.in_features();
    check_shared(weights, inputs)?;
    let mut sampled = Vec::new();
    for weight in weights {
        statistics.check_for(weight.name(), inputs)?;
        let step = weight.out_features().div_ceil(options.sampled_outputs.max(1));
        let rows: Vec<f32> =
            (0..weight.out_features()).step_by(step).flat_map(|row| weight.row(row)).copied().collect();
        sampled.push(Matrix::new(weight.name(), rows.len() / inputs, inputs, rows)?);
    }
    let power = |values: &[f32]| quadratic_forms(values, statistics.gram(), inputs).iter().sum::<f64>().max(0.0);
    let whole: f64 = sampled.iter().map(|weight| power(weight.values())).sum();
    let error_with = |scales: &InputScales| -> Result<f64, Error> {
        let inverse = scales.inverse_factors();
        let mut lost = 0.0;
        for weight in &sampled {
            let mut scaled = weight.clone();
            scales.apply(&mut scaled)?;
            // Without the search for a clip, as in the paper: it would take most of the time.
            let mut change = nearest::quantize(&scaled, &rounding.clip(Clip::None), None)?.dequantize();
            for (change, row) in change.chunks_exact_mut(inputs).zip(weight.values().chunks_exact(inputs)) {
                for ((change, inverse), value) in change.iter_mut().zip(&inverse).zip(row) {
                    *change = *change * inverse - value;
                }
            }
            lost += power(&change);
        }
        Ok(if lost == 0.0 { 0.0 } else { lost / whole })
    };
    let steps = options.steps.clamp(1, 1000);
    let mut best: Option<AwqScales> = None;
    for step in 0..=steps {
        let exponent = step as f64 / steps as f64;
        let raw: Vec<f64> = statistics.mean_abs().iter().map(|mean| f64::from(*mean).powf(exponent)).collect();
        let scales = InputScales::normalized(&raw);
        let error = error_with(&scales)?;
        let error_without = best.as_ref().map_or(error, |best| best.error_without);
        if best.as_ref().is_none_or(|best| error < best.error) {
            best = Some(AwqScales { scales, exponent, error, error_without });
        }
    }
    best.ok_or_else(|| Error::setting("no exponent was tried", "search with one step or more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::examples::{correlated, gaussian};
    use crate::methods::metrics;

    #[test]
    fn the_best_exponent_is_found_for_weights_that_share_an_input() {
        let (a, b, statistics) = (gaussian(24, 128, 1), gaussian(8, 128, 2), correlated(600, 128, 3));
        let rounding = Rounding::new("w4a16-g64".parse().unwrap()).clip(Clip::None);
        let found = search(&[&a, &b], &rounding, &statistics, &AwqOptions::default()).unwrap();
        assert!(found.exponent > 0.0 && found.error < 0.9 * found.error_without, "{found:?}");
        let error = |exponent: f64| {
            let raw: Vec<f64> = statistics.mean_abs().iter().map(|mean| f64::from(*mean).powf(exponent)).collect();
            let scales = InputScales::normalized(&raw);
            let (mut lost, mut whole) = (0.0, 0.0);
            for weight in [&a, &b] {
                let mut scaled = weight.clone();
                scales.apply(&mut scaled).unwrap();
                let values = nearest::quantize(&scaled, &rounding, None).unwrap().dequantize();
                let mut back = Matrix::new("back", weight.out_features(), 128, values).unwrap();
                back.scale_inputs(&scales.inverse_factors()).unwrap();
                let share = metrics::relative_output_error(weight, back.values(), &statistics).unwrap();
                let power: f64 = quadratic_forms(weight.values(), statistics.gram(), 128).iter().sum();
                (lost, whole) = (lost + share * power, whole + power);
            }
            lost / whole
        };
        assert!((error(0.0) / found.error_without - 1.0).abs() < 1e-3);
        let best = (0..=20).map(|step| error(f64::from(step) / 20.0)).fold(f64::INFINITY, f64::min);
        assert!((best / found.error - 1.0).abs() < 1e-3, "{best} {}", found.error);
        assert_eq!(found, search(&[&a, &b], &rounding, &statistics, &AwqOptions::default()).unwrap());
    }

    #[test]
    fn degenerate_inputs_change_nothing() {
        let weight = gaussian(3, 4, 1);
        let rounding = Rounding::new("w4a16".parse().unwrap());
        let none = InputStatistics::from_parts("x", 1, vec![0.0; 16], vec![0.0; 4], vec![0.0; 4]).unwrap();
        let found = search(&[&weight], &rounding, &none, &AwqOptions { steps: 0, sampled_outputs: 0 }).unwrap();
        assert_eq!((found.scales.factors(), found.error), (&[1.0f32; 4][..], 0.0));
        assert!(search(&[], &rounding, &none, &AwqOptions::default()).is_err());
        assert!(search(&[&gaussian(2, 5, 1)], &rounding, &none, &AwqOptions::default()).is_err());
    }
}
