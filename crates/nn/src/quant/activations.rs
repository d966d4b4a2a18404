//! Activations quantized by rows, as a program runs.

use tensor::DType;
use trace::{Tensor, Tree};

use crate::quant::largest_code;

/// Vectors along a last axis, quantized.
#[derive(Clone, Debug, Tree)]
pub struct QuantizedRows {
    /// Codes, in the shape of the vectors.
    pub values: Tensor,
    /// Scales `f32`, with a last axis of 1.
    pub scales: Tensor,
}

/// Each vector along the last axis in a type of few bits, symmetric: its largest magnitude becomes the largest code. A vector of
/// zeros has scale 0.
#[track_caller]
pub fn quantized_rows(x: &Tensor, dtype: DType) -> QuantizedRows {
    let wide = x.cast(DType::F32);
    let largest = wide.abs().max(&[x.rank().saturating_sub(1)]).expand(-1);
    let scales = &largest * (1.0 / largest_code(dtype));
    QuantizedRows { values: codes(&wide, &scales, dtype), scales }
}

/// Codes of values for given scales: rounded to the nearest, clamped to the type.
#[track_caller]
pub(crate) fn codes(wide: &Tensor, scales: &Tensor, dtype: DType) -> Tensor {
    let none = Tensor::zeros(DType::F32, &[]);
    let one = Tensor::ones(DType::F32, &[]);
    let is_zero = scales.equals(&none.broadcast_to(scales.dims()));
    let inverse = is_zero.select(&scales.zeros_like(), &(&one / &is_zero.select(&scales.full_like(1.0), scales)));
    rounded(&(wide * &inverse), dtype)
}

/// Codes of values for a calibrated scale, which is above zero: no more than a division in the fusion that rounds.
#[track_caller]
pub(crate) fn codes_of_scale(wide: &Tensor, scale: &Tensor, dtype: DType) -> Tensor {
    rounded(&(wide / scale), dtype)
}

#[track_caller]
fn rounded(scaled: &Tensor, dtype: DType) -> Tensor {
    let most = largest_code(dtype);
    let clamped = scaled.clamp(&Tensor::scalar(DType::F32, -most), &Tensor::scalar(DType::F32, most));
    if dtype.is_float() { clamped.cast(dtype) } else { clamped.round().cast(dtype) }
}

/// Vectors again, in a type.
#[track_caller]
pub fn dequantized_rows(rows: &QuantizedRows, dtype: DType) -> Tensor {
    (&rows.values.cast(DType::F32) * &rows.scales).cast(dtype)
}
