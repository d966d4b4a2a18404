//! Quantization-aware training (QAT): values that a scheme can represent in the forward pass, gradients straight through.

use tensor::DType;
use trace::{Tensor, custom_vjp};

use crate::quant::{
    ActivationQuant, InputAxis, QuantScheme, QuantizedTensor, ZeroPoints, dequantized_rows, quantized_rows,
};

/// A weight rounded to the values of a scheme, as [`QuantizedTensor::nearest`] quantizes it, in its own type. Its gradient is
/// that of the result: no value is clipped.
#[track_caller]
pub fn fake_quantized(weight: &Tensor, scheme: &QuantScheme, input_axis: InputAxis) -> Tensor {
    let scheme = *scheme;
    custom_vjp(
        weight,
        |weight| QuantizedTensor::nearest(weight, &scheme, input_axis).dequantized(weight.dtype()),
        |_: &Tensor, _: &Tensor, gradient: &Tensor| gradient.clone(),
    )
}

/// Activations rounded to the values that a scheme's codes with a scale for each row have, in their own type. Their gradient is
/// that of the result.
#[track_caller]
pub fn fake_quantized_rows(x: &Tensor, scheme: &QuantScheme) -> Tensor {
    let dtype = scheme.activation_dtype();
    custom_vjp(
        x,
        |x| dequantized_rows(&quantized_rows(x, dtype), x.dtype()),
        |_: &Tensor, _: &Tensor, gradient: &Tensor| gradient.clone(),
    )
}

/// Refuses schemes that have no training.
pub(crate) fn check(scheme: &QuantScheme) -> Result<(), String> {
    let remedy = "choose one such as w4a16-g128, w8a8 or w4a8";
    if scheme.zero_points != ZeroPoints::None {
        return Err(format!(
            "run.qat = \"{scheme}\": quantization-aware training is symmetric, without zero points; {remedy}"
        ));
    }
    if scheme.activations == ActivationQuant::Static {
        return Err(format!(
            "run.qat = \"{scheme}\": scales of activations are found in training, not before it; {remedy}"
        ));
    }
    let is_signed = scheme.values.is_float() || !matches!(scheme.values, DType::U2 | DType::U4 | DType::U8);
    if !is_signed {
        return Err(format!("run.qat = \"{scheme}\": unsigned values need zero points; {remedy}"));
    }
    Ok(())
}
