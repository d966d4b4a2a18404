//! Types of results as PyTorch promotes them: numbers and tensors without axes do not widen within a category.

use tensor::{DType, Literal};
use trace::Tensor;

/// A Python number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }

    /// The type that PyTorch gives a tensor of it.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }

    /// A tensor without axes; integers keep all their bits.
    pub(crate) fn tensor(self, dtype: DType) -> Tensor {
        match self {
            Scalar::Int(value) if dtype == DType::I64 => match Literal::from_slice(&[value], []) {
                Ok(literal) => Tensor::constant(&literal),
                Err(_) => Tensor::scalar(dtype, value as f64),
            },
            // Out of range, integers wrap as PyTorch's do.
            Scalar::Int(value) if category(dtype) == 1 && dtype.bits() < 64 => {
                let (count, half) = (1i64 << dtype.bits(), 1i64 << (dtype.bits() - 1));
                let low = if dtype.is_signed_integer() { half } else { 0 };
                Tensor::scalar(dtype, (value.wrapping_add(low).rem_euclid(count) - low) as f64)
            }
            _ => Tensor::scalar(dtype, self.as_f64()),
        }
    }
}

/// A tensor or a number.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Tensor(Tensor),
    Scalar(Scalar),
}

impl Operand {
    pub(crate) fn cast(&self, dtype: DType) -> Tensor {
        match self {
            Operand::Tensor(tensor) => cast(tensor, dtype),
            // Out of an integer's range, floats saturate; comparisons and clamps want that.
            Operand::Scalar(scalar) => scalar.tensor(dtype),
        }
    }

    fn dtype(&self) -> DType {
        match self {
            Operand::Tensor(tensor) => tensor.dtype(),
            Operand::Scalar(scalar) => scalar.dtype(),
        }
    }

    /// 2: a tensor with axes, 1: one without, 0: a number.
    fn rank(&self) -> u8 {
        match self {
            Operand::Tensor(tensor) if tensor.rank() > 0 => 2,
            Operand::Tensor(_) => 1,
            Operand::Scalar(_) => 0,
        }
    }
}

/// A tensor in another type: to booleans it is whether it differs from 0.
pub(crate) fn cast(tensor: &Tensor, dtype: DType) -> Tensor {
    match dtype {
        _ if tensor.dtype() == dtype => tensor.clone(),
        DType::Bool => tensor.differs(&Tensor::scalar(tensor.dtype(), 0.0)),
        _ => tensor.cast(dtype),
    }
}

/// 0: boolean, 1: integer, 2: float, 3: complex.
fn category(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        dtype if dtype.is_complex() => 3,
        dtype if dtype.is_float() => 2,
        _ => 1,
    }
}

/// The type in which two operands are compared or combined.
pub(crate) fn promoted(a: &Operand, b: &Operand) -> DType {
    let (one, other) = (a.dtype(), b.dtype());
    let (strong, weak) = if a.rank() >= b.rank() { (a, b) } else { (b, a) };
    if a.rank() != b.rank() && category(strong.dtype()) >= category(weak.dtype()) {
        return strong.dtype();
    }
    if strong.rank() != weak.rank() {
        // A number of a higher category: its own default type, of the category.
        return match weak.dtype() {
            DType::F64 if weak.rank() == 0 => DType::F32,
            dtype => dtype,
        };
    }
    join(one, other)
}

/// The narrowest type that holds both.
pub(crate) fn join(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    let (high, low) = if category(a) >= category(b) { (a, b) } else { (b, a) };
    if category(high) != category(low) {
        return high;
    }
    if category(a) >= 2 {
        // bf16 and f16 have no common half.
        return match a.bits().cmp(&b.bits()) {
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Equal => DType::F32,
        };
    }
    let signed = |dtype: DType| dtype.is_signed_integer();
    match (signed(a), signed(b)) {
        (true, true) | (false, false) => {
            if a.bits() >= b.bits() {
                a
            } else {
                b
            }
        }
        _ => {
            let (signed, unsigned) = if signed(a) { (a, b) } else { (b, a) };
            if signed.bits() > unsigned.bits() {
                return signed;
            }
            match unsigned.bits() {
                0..=8 => DType::I16,
                9..=16 => DType::I32,
                _ => DType::I64,
            }
        }
    }
}

/// The type that sums and norms of a type are computed in.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        dtype if dtype.is_float() && dtype.bits() < 32 => DType::F32,
        dtype => dtype,
    }
}
