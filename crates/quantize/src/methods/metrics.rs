//! How good and how small a quantized weight is.

use weights::quant::PackedMatrix;

use crate::error::Error;
use crate::methods::linear_algebra::quadratic_forms;
use crate::methods::matrix::Matrix;
use crate::methods::statistics::InputStatistics;

/// Signal over quantization noise in dB; infinite where nothing was lost.
pub fn sqnr_db(original: &[f32], quantized: &[f32]) -> f64 {
    let (mut signal, mut noise) = (0.0, 0.0);
    for (original, quantized) in original.iter().zip(quantized) {
        let (original, quantized) = (f64::from(*original), f64::from(*quantized));
        signal += original * original;
        noise += (original - quantized) * (original - quantized);
    }
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}

/// The mean squared change of a layer's outputs over their mean square: `tr(E H Eᵀ) / tr(W H Wᵀ)`, where `E` is the change
/// of the weight and `H` the Gram matrix of its inputs. 0 where nothing was lost.
pub fn relative_output_error(weight: &Matrix, quantized: &[f32], statistics: &InputStatistics) -> Result<f64, Error> {
    statistics.check_for(weight.name(), weight.in_features())?;
    if quantized.len() != weight.values().len() {
        let message = format!("{} values are compared with {}", quantized.len(), weight.values().len());
        return Err(Error::layer(weight.name(), message, "give all values of the quantized weight"));
    }
    let change: Vec<f32> = weight.values().iter().zip(quantized).map(|(old, new)| old - new).collect();
    let gram = statistics.gram();
    let power = |values: &[f32]| quadratic_forms(values, gram, weight.in_features()).iter().sum::<f64>().max(0.0);
    let (lost, all) = (power(&change), power(weight.values()));
    Ok(if lost == 0.0 { 0.0 } else { lost / all })
}

/// Bits a weight takes, with scales, zero points and orders of inputs.
pub fn bits_per_weight(packed: &PackedMatrix) -> f64 {
    packed.packed_bytes() as f64 * 8.0 / packed.codes().len() as f64
}

/// How many times smaller it is than weights of so many bits each.
pub fn compression_ratio(packed: &PackedMatrix, original_bits: u32) -> f64 {
    f64::from(original_bits) / bits_per_weight(packed)
}
