//! Quantized tensors as the reals they stand for, and back.

use hlo::{ElementType, Quantized, TensorType};

use super::positions;
use super::value::{Elements, TensorValue, round};
use crate::error::Error;

/// The type of the reals: itself where the element is not quantized.
pub(crate) fn expressed_type(element: &ElementType) -> ElementType {
    match element {
        ElementType::Quantized(q) => ElementType::Plain(q.expressed),
        other => other.clone(),
    }
}

/// The reals a tensor stands for: itself where it is not quantized.
pub(crate) fn expressed(tensor: &TensorValue) -> Result<TensorValue, Error> {
    let ElementType::Quantized(q) = &tensor.ty.element else { return Ok(tensor.clone()) };
    let Elements::Int(stored) = &tensor.elements else {
        return Err(Error::Internal("a quantized tensor does not hold integers".into()));
    };
    let channel = channels(q, &tensor.ty.dims);
    let values = stored
        .iter()
        .enumerate()
        .map(|(at, &x)| {
            let (scale, zero_point) = parameters(q, channel(at))?;
            // Each step of the specification's formula is rounded to the expressed type.
            Ok(round(q.expressed, round(q.expressed, (x - i128::from(zero_point)) as f64) * scale))
        })
        .collect::<Result<_, Error>>()?;
    Ok(TensorValue { ty: TensorType::new(tensor.ty.dims.clone(), q.expressed), elements: Elements::Float(values) })
}

/// A tensor of reals as `element` stores it: itself where the element is not quantized.
pub(crate) fn stored(tensor: &TensorValue, element: &ElementType) -> Result<TensorValue, Error> {
    let ElementType::Quantized(q) = element else { return Ok(tensor.clone()) };
    let Elements::Float(values) = &tensor.elements else {
        return Err(Error::Internal("reals are expected where a tensor is quantized".into()));
    };
    let channel = channels(q, &tensor.ty.dims);
    let stored = values
        .iter()
        .enumerate()
        .map(|(at, &x)| {
            let (scale, zero_point) = parameters(q, channel(at))?;
            let scaled = round(q.expressed, round(q.expressed, x / scale).round_ties_even() + zero_point as f64);
            Ok((scaled as i128).clamp(i128::from(q.storage_min), i128::from(q.storage_max)))
        })
        .collect::<Result<_, Error>>()?;
    Ok(TensorValue { ty: TensorType::new(tensor.ty.dims.clone(), element.clone()), elements: Elements::Int(stored) })
}

/// Which scale serves the element at a position.
fn channels(q: &Quantized, dims: &[i64]) -> impl Fn(usize) -> usize + use<> {
    let axis = q.axis.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < dims.len());
    let (stride, size) =
        axis.map_or((1, 1), |axis| (positions::strides(dims)[axis].max(1), dims[axis].max(1) as usize));
    move |at| (at / stride) % size
}

fn parameters(q: &Quantized, channel: usize) -> Result<(f64, i64), Error> {
    match (q.scales.get(channel), q.zero_points.get(channel)) {
        (Some(scale), Some(zero)) => Ok((round(q.expressed, scale.get()), *zero)),
        _ => Err(Error::Internal(format!("a quantized type has no scale {channel}"))),
    }
}

/// The stored integer that stands for zero, where an element is quantized for the whole tensor.
pub(crate) fn zero_point(element: &ElementType) -> Option<i64> {
    match element {
        ElementType::Quantized(q) => q.zero_points.first().copied(),
        _ => None,
    }
}
