//! Weights quantized on the host, to the nearest codes: what a frozen model is loaded as.

use tensor::{DType, Literal, decode_float, encode_float};

use crate::quant::{InputAxis, QuantScheme, ZeroPoints, largest_code};

/// Codes and scales of a dense weight, to the bit as [`QuantizedTensor::nearest`](crate::quant::QuantizedTensor::nearest) has them;
/// `None` where the weight is no float, or groups do not divide its inputs.
pub fn nearest_codes(weight: &Literal, scheme: &QuantScheme, input_axis: InputAxis) -> Option<(Literal, Literal)> {
    let dims = weight.dims();
    let [.., first, last] = *dims else { return None };
    if scheme.zero_points != ZeroPoints::None {
        return None;
    }
    let inputs = if input_axis == InputAxis::First { first } else { last };
    let groups = scheme.groups(inputs);
    let group = scheme.group.unwrap_or(inputs);
    if group.checked_mul(groups) != Some(inputs) {
        return None;
    }
    let values = floats(weight)?;
    let (most, matrix) = (largest_code(scheme.values) as f32, first * last);
    let matrices = values.len().checked_div(matrix)?;
    // Where an element of a matrix has its scale.
    let scale_at = |row: usize, column: usize| match input_axis {
        InputAxis::First => (row / group) * last + column,
        InputAxis::Last => row * groups + column / group,
    };
    let per_matrix = matrix / group.max(1);
    let mut scales = vec![0f32; matrices * per_matrix];
    for (values, scales) in values.chunks_exact(matrix).zip(scales.chunks_exact_mut(per_matrix)) {
        for (n, value) in values.iter().enumerate() {
            let scale = scales.get_mut(scale_at(n / last, n % last))?;
            *scale = scale.max(value.abs());
        }
    }
    // As the traced function has it: times the inverse of the largest code.
    let inverse = (1.0 / largest_code(scheme.values)) as f32;
    scales.iter_mut().for_each(|scale| *scale *= inverse);
    let mut codes = Vec::with_capacity(values.len() * scheme.values.size_bytes());
    for (values, scales) in values.chunks_exact(matrix).zip(scales.chunks_exact(per_matrix)) {
        for (n, value) in values.iter().enumerate() {
            let scale = *scales.get(scale_at(n / last, n % last))?;
            let scaled = if scale == 0.0 { 0.0 } else { (value * (1.0 / scale)).clamp(-most, most) };
            match scheme.values.is_float() {
                true => {
                    let bits = encode_float(scheme.values, f64::from(scaled))?;
                    codes.extend_from_slice(bits.to_le_bytes().get(..scheme.values.size_bytes())?);
                }
                false => codes.push(scaled.round_ties_even() as i8 as u8),
            }
        }
    }
    let mut grouped = dims.to_vec();
    let axis = dims.len() - if input_axis == InputAxis::First { 2 } else { 1 };
    *grouped.get_mut(axis)? = groups;
    let scales = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    Some((Literal::new(scheme.values, dims, codes)?, Literal::new(DType::F32, grouped, scales)?))
}

fn floats(literal: &Literal) -> Option<Vec<f32>> {
    let (dtype, width) = (literal.dtype(), literal.dtype().size_bytes());
    if !dtype.is_float() || width == 0 {
        return None;
    }
    literal
        .bytes()
        .chunks_exact(width)
        .map(|element| {
            let mut bits = [0; 8];
            bits.get_mut(..width)?.copy_from_slice(element);
            Some(decode_float(dtype, u64::from_le_bytes(bits))? as f32)
        })
        .collect()
}
