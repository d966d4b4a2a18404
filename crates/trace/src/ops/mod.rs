//! Operations on tensors, one file per family: what they write, their derivative, and how they act on a batch.

pub(crate) mod collective;
pub(crate) mod constraint;
pub(crate) mod contract;
pub(crate) mod convolve;
pub(crate) mod elementwise;
pub(crate) mod index;
pub(crate) mod lane;
pub(crate) mod linear;
mod operators;
pub(crate) mod order;
pub(crate) mod reduce;
mod scattered;
pub(crate) mod shape;
pub(crate) mod softmax;
pub(crate) mod window;

use std::panic::Location;
use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, OpKind, TensorType};
use tensor::{DType, Literal};

use crate::Spec;
use crate::error::misuse;
use crate::graph::{Combine, Prim};
use crate::tensor::Tensor;
use crate::{region, stack};

/// Attributes from a list.
pub(crate) fn attrs<const N: usize>(list: [(&'static str, Attr); N]) -> Attrs {
    list.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// Sizes or axes as an attribute.
pub(crate) fn i64s(values: &[usize]) -> Attr {
    Attr::i64s(values.iter().map(|&value| value as i64).collect::<Vec<_>>())
}

/// Writes an op; its result types are inferred unless given.
#[track_caller]
pub(crate) fn write(
    (kind, attrs, combine): (OpKind, Attrs, Option<Combine>),
    inputs: &[&Tensor],
    results: Option<Vec<Spec>>,
) -> Vec<Tensor> {
    let at = Location::caller();
    let specs: Vec<&Spec> = inputs.iter().map(|input| input.spec()).collect();
    match region::infer((kind, &attrs, combine), &specs, results.as_deref()) {
        Ok(results) => stack::push(Prim::Op { kind, attrs, combine }, inputs, results, at),
        Err(violation) => {
            let given: Vec<String> = specs.iter().map(|spec| spec.to_string()).collect();
            misuse(at, format!("{} of {}: {}", kind.name(), given.join(", "), violation.message))
        }
    }
}

/// Writes an op of one result, whose type is inferred.
#[track_caller]
pub(crate) fn op(kind: OpKind, inputs: &[&Tensor], attrs: Attrs) -> Tensor {
    only(write((kind, attrs, None), inputs, None))
}

/// Writes an op of one result of the given type.
#[track_caller]
pub(crate) fn op_as(kind: OpKind, inputs: &[&Tensor], attrs: Attrs, result: Spec) -> Tensor {
    only(write((kind, attrs, None), inputs, Some(vec![result])))
}

/// The one result of an op.
#[track_caller]
pub(crate) fn only(mut results: Vec<Tensor>) -> Tensor {
    match (results.pop(), results.is_empty()) {
        (Some(only), true) => only,
        _ => misuse(Location::caller(), "an operation of one result was expected"),
    }
}

/// Bytes of one element, rounded to its type.
#[track_caller]
pub(crate) fn element(dtype: DType, value: f64) -> Vec<u8> {
    let width = dtype.size_bytes();
    let bits: u64 = if dtype.is_float() {
        match tensor::encode_float(dtype, value) {
            Some(bits) => bits,
            None => misuse(Location::caller(), format!("{value} cannot be written as {dtype}")),
        }
    } else if dtype.is_complex() {
        let half = if dtype == DType::C64 { DType::F32 } else { DType::F64 };
        let mut bytes = element(half, value);
        bytes.extend(element(half, 0.0));
        return bytes;
    } else if dtype == DType::Bool {
        u64::from(value != 0.0)
    } else if value < 0.0 {
        (value as i64) as u64
    } else {
        value as u64
    };
    bits.to_le_bytes()[..width.min(8)].to_vec()
}

impl Tensor {
    /// A constant.
    #[track_caller]
    pub fn constant(literal: &Literal) -> Tensor {
        match Prim::constant(literal) {
            Ok((prim, spec)) => only(stack::push(prim, &[], vec![spec], Location::caller())),
            Err(message) => misuse(Location::caller(), message),
        }
    }

    /// A tensor filled with one number, rounded to the type.
    #[track_caller]
    pub fn full(dtype: DType, dims: &[usize], value: f64) -> Tensor {
        let scalar = TensorType::new(Vec::new(), dtype);
        let Some(dense) = Dense::splat(scalar, &element(dtype, value)) else {
            misuse(Location::caller(), format!("{dtype} has no constants"));
        };
        let scalar = constant(dense, Spec::new(dtype, []));
        if dims.is_empty() { scalar } else { scalar.broadcast_along(dims, &[]) }
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(dtype: DType, dims: &[usize]) -> Tensor {
        Tensor::full(dtype, dims, 0.0)
    }

    /// Ones.
    #[track_caller]
    pub fn ones(dtype: DType, dims: &[usize]) -> Tensor {
        Tensor::full(dtype, dims, 1.0)
    }

    /// A scalar.
    #[track_caller]
    pub fn scalar(dtype: DType, value: f64) -> Tensor {
        Tensor::full(dtype, &[], value)
    }

    /// Numbers from host memory, as `f32`.
    #[track_caller]
    pub fn from_f32s(dims: &[usize], values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        match Literal::new(DType::F32, dims, bytes) {
            Some(literal) => Tensor::constant(&literal),
            None => misuse(Location::caller(), format!("{} numbers do not fill {dims:?}", values.len())),
        }
    }

    /// `0, 1, 2, …` along an axis.
    #[track_caller]
    pub fn iota(dtype: DType, dims: &[usize], axis: usize) -> Tensor {
        let attrs = attrs([("iota_dimension", Attr::i64(axis as i64))]);
        op_as(OpKind::Iota, &[], attrs, Spec::new(dtype, dims))
    }

    /// Zeros of the same type and shape.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        Tensor::zeros(self.dtype(), self.dims())
    }

    /// A tensor of the same type and shape filled with one number.
    #[track_caller]
    pub fn full_like(&self, value: f64) -> Tensor {
        Tensor::full(self.dtype(), self.dims(), value)
    }

    /// A scalar of the same type.
    #[track_caller]
    pub(crate) fn scalar_like(&self, value: f64) -> Tensor {
        Tensor::scalar(self.dtype(), value)
    }
}

#[track_caller]
fn constant(dense: Dense, spec: Spec) -> Tensor {
    let attrs = attrs([("value", Attr::Dense(Arc::new(dense)))]);
    only(stack::push(Prim::Op { kind: OpKind::Constant, attrs, combine: None }, &[], vec![spec], Location::caller()))
}
