//! Values of the interpreter: every number as the widest of its kind, rounded to its type after each op.

use std::sync::Arc;

use hlo::{ElementType, TensorType, Type, element_bytes};
use tensor::{DType, Literal, decode_float, encode_float};

use crate::error::Error;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// The elements of a tensor in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// `i1`.
    Bool(Vec<bool>),
    /// Every integer type, within its range; quantized tensors hold their stored integers.
    Int(Vec<i128>),
    /// Every real type, each value one the type can hold.
    Float(Vec<f64>),
    /// Complex types.
    Complex(Vec<Complex>),
}

impl Elements {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Elements::Bool(v) => v.len(),
            Elements::Int(v) => v.len(),
            Elements::Float(v) => v.len(),
            Elements::Complex(v) => v.len(),
        }
    }

    /// Memory the elements take.
    pub(crate) fn bytes(&self) -> u64 {
        self.len() as u64
            * match self {
                Elements::Bool(_) => 1,
                Elements::Float(_) => 8,
                Elements::Int(_) | Elements::Complex(_) => 16,
            }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements at the given positions, and the only element of `fill` where there is none.
    pub(crate) fn pick_or(
        &self,
        fill: &Elements,
        positions: impl Iterator<Item = Option<usize>>,
    ) -> Result<Elements, Error> {
        Ok(match (self, fill) {
            (Elements::Bool(v), Elements::Bool(f)) => {
                Elements::Bool(positions.map(|i| i.map_or(f[0], |i| v[i])).collect())
            }
            (Elements::Int(v), Elements::Int(f)) => {
                Elements::Int(positions.map(|i| i.map_or(f[0], |i| v[i])).collect())
            }
            (Elements::Float(v), Elements::Float(f)) => {
                Elements::Float(positions.map(|i| i.map_or(f[0], |i| v[i])).collect())
            }
            (Elements::Complex(v), Elements::Complex(f)) => {
                Elements::Complex(positions.map(|i| i.map_or(f[0], |i| v[i])).collect())
            }
            _ => return Err(kinds_differ()),
        })
    }

    /// Writes element `from` of `other` at `at`.
    pub(crate) fn set(&mut self, at: usize, other: &Elements, from: usize) -> Result<(), Error> {
        match (self, other) {
            (Elements::Bool(v), Elements::Bool(o)) => v[at] = o[from],
            (Elements::Int(v), Elements::Int(o)) => v[at] = o[from],
            (Elements::Float(v), Elements::Float(o)) => v[at] = o[from],
            (Elements::Complex(v), Elements::Complex(o)) => v[at] = o[from],
            _ => return Err(kinds_differ()),
        }
        Ok(())
    }

    /// Appends the elements of another of the same kind.
    pub(crate) fn append(&mut self, other: &Elements) -> Result<(), Error> {
        match (self, other) {
            (Elements::Bool(v), Elements::Bool(o)) => v.extend_from_slice(o),
            (Elements::Int(v), Elements::Int(o)) => v.extend_from_slice(o),
            (Elements::Float(v), Elements::Float(o)) => v.extend_from_slice(o),
            (Elements::Complex(v), Elements::Complex(o)) => v.extend_from_slice(o),
            _ => return Err(kinds_differ()),
        }
        Ok(())
    }

    /// The elements at the given positions, in that order.
    pub fn pick(&self, positions: impl Iterator<Item = usize>) -> Elements {
        match self {
            Elements::Bool(v) => Elements::Bool(positions.map(|i| v[i]).collect()),
            Elements::Int(v) => Elements::Int(positions.map(|i| v[i]).collect()),
            Elements::Float(v) => Elements::Float(positions.map(|i| v[i]).collect()),
            Elements::Complex(v) => Elements::Complex(positions.map(|i| v[i]).collect()),
        }
    }
}

fn kinds_differ() -> Error {
    Error::Internal("elements of different kinds".into())
}

/// A tensor. Its type is static: dynamic dimensions have the size they turned out to have.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorValue {
    /// Element type and sizes.
    pub ty: TensorType,
    /// The elements.
    pub elements: Elements,
}

impl TensorValue {
    /// A tensor from its parts, which must fit each other.
    pub(crate) fn new(dims: impl Into<Vec<i64>>, element: impl Into<ElementType>, elements: Elements) -> TensorValue {
        let ty = TensorType::new(dims, element);
        debug_assert_eq!(ty.num_elements(), Some(elements.len() as u64));
        TensorValue { ty, elements }
    }

    /// The element at a position, as a rank-0 tensor.
    pub(crate) fn at(&self, position: usize) -> TensorValue {
        TensorValue::new([], self.ty.element.clone(), self.elements.pick(std::iter::once(position)))
    }

    /// Elements of an integer tensor, as positions and sizes are written.
    pub(crate) fn ints(&self) -> Result<Vec<i64>, Error> {
        match &self.elements {
            Elements::Int(values) => Ok(values.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect()),
            other => Err(Error::Internal(format!("integers were expected, not {other:?}"))),
        }
    }

    /// The only element of an integer tensor.
    pub(crate) fn int(&self) -> Result<i64, Error> {
        self.ints()?.first().copied().ok_or_else(|| Error::Internal("an integer was expected".into()))
    }

    /// The only element of a boolean tensor.
    pub(crate) fn bool(&self) -> Result<bool, Error> {
        match &self.elements {
            Elements::Bool(values) if !values.is_empty() => Ok(values[0]),
            other => Err(Error::Internal(format!("a boolean was expected, not {other:?}"))),
        }
    }

    /// Sizes.
    pub fn dims(&self) -> &[i64] {
        &self.ty.dims
    }

    /// The plain element type; of a quantized tensor, the type it stores.
    pub fn dtype(&self) -> DType {
        storage(&self.ty.element)
    }

    /// From the bytes of a literal.
    pub fn from_literal(literal: &Literal) -> TensorValue {
        let dims: Vec<i64> = literal.dims().iter().map(|&d| d as i64).collect();
        TensorValue { elements: decode(literal.dtype(), literal.bytes()), ty: TensorType::new(dims, literal.dtype()) }
    }

    /// As a literal of the stored type.
    pub fn to_literal(&self) -> Result<Literal, Error> {
        let dims: Vec<usize> = self.ty.dims.iter().map(|&d| d as usize).collect();
        Literal::new(self.dtype(), dims, encode(self.dtype(), &self.elements))
            .ok_or_else(|| Error::Internal(format!("{:?} holds {} elements", self.ty, self.elements.len())))
    }

    /// From a constant of the program.
    pub fn from_dense(dense: &hlo::Dense) -> Result<TensorValue, Error> {
        let count = dense.ty.num_elements().and_then(|n| usize::try_from(n).ok());
        let (Some(count), Some(width)) = (count, element_bytes(&dense.ty)) else {
            return Err(Error::Internal("a constant of unknown size".into()));
        };
        let bytes = match &dense.data {
            hlo::DenseData::Splat(element) => element.repeat(count),
            hlo::DenseData::Elements(bytes) => bytes.to_vec(),
            hlo::DenseData::Strings(_) => return Err(Error::Unsupported { what: "string constants".into() }),
        };
        debug_assert_eq!(bytes.len(), count * width);
        Ok(TensorValue { ty: dense.ty.clone(), elements: decode(storage(&dense.ty.element), &bytes) })
    }
}

/// The type whose bits hold an element.
pub(crate) fn storage(element: &ElementType) -> DType {
    match element {
        ElementType::Plain(dtype) => *dtype,
        ElementType::Quantized(quantized) => quantized.storage,
        ElementType::Index => DType::I64,
        ElementType::Tf32 => DType::F32,
    }
}

/// A value of the nearest number `dtype` can hold.
pub(crate) fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        _ => encode_float(dtype, value).and_then(|bits| decode_float(dtype, bits)).unwrap_or(value),
    }
}

/// An integer brought into the range of `dtype` by dropping high bits, as two's complement arithmetic does.
pub(crate) fn wrap(dtype: DType, value: i128) -> i128 {
    let unused = 128 - dtype.bits();
    if dtype.is_signed_integer() { (value << unused) >> unused } else { ((value as u128) << unused >> unused) as i128 }
}

pub(crate) fn decode(dtype: DType, bytes: &[u8]) -> Elements {
    let width = dtype.size_bytes();
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let chunks = bytes.chunks_exact(width);
    if dtype.is_bool() {
        Elements::Bool(chunks.map(|c| c[0] & 1 == 1).collect())
    } else if dtype.is_integer() {
        Elements::Int(chunks.map(|c| wrap(dtype, i128::from(word(c)))).collect())
    } else if let Some(part) = dtype.complex_part() {
        let half = |c: &[u8]| decode_float(part, word(c)).unwrap_or(f64::NAN);
        Elements::Complex(chunks.map(|c| Complex { re: half(&c[..width / 2]), im: half(&c[width / 2..]) }).collect())
    } else if dtype == DType::F32 {
        Elements::Float(chunks.map(|c| f64::from(f32::from_le_bytes([c[0], c[1], c[2], c[3]]))).collect())
    } else {
        Elements::Float(chunks.map(|c| decode_float(dtype, word(c)).unwrap_or(f64::NAN)).collect())
    }
}

pub(crate) fn encode(dtype: DType, elements: &Elements) -> Vec<u8> {
    let width = dtype.size_bytes();
    let mut bytes = Vec::with_capacity(elements.len() * width);
    match elements {
        Elements::Bool(values) => bytes.extend(values.iter().map(|&b| u8::from(b))),
        Elements::Int(values) => values.iter().for_each(|v| bytes.extend(&v.to_le_bytes()[..width])),
        Elements::Float(values) if dtype == DType::F32 => {
            bytes.resize(values.len() * width, 0);
            for (to, value) in bytes.chunks_exact_mut(width).zip(values) {
                to.copy_from_slice(&(*value as f32).to_le_bytes());
            }
        }
        Elements::Float(values) => {
            values.iter().for_each(|v| bytes.extend(&encode_float(dtype, *v).unwrap_or(0).to_le_bytes()[..width]))
        }
        Elements::Complex(values) => {
            let part = dtype.complex_part().unwrap_or(DType::F64);
            for value in values {
                for half in [value.re, value.im] {
                    bytes.extend(&encode_float(part, half).unwrap_or(0).to_le_bytes()[..width / 2]);
                }
            }
        }
    }
    bytes
}

/// A value of the program.
#[derive(Clone, Debug, PartialEq)]
pub enum InterpreterValue {
    /// A tensor.
    Tensor(TensorValue),
    /// A token: order only.
    Token,
    /// A tuple.
    Tuple(Vec<InterpreterValue>),
    /// Results of a computation in the background.
    Future(Vec<InterpreterValue>),
    /// An array as it lies in memory, which processes hand to each other.
    Stored(Arc<Literal>),
}

impl InterpreterValue {
    /// Memory the elements take.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            InterpreterValue::Tensor(tensor) => tensor.elements.bytes(),
            InterpreterValue::Token => 0,
            InterpreterValue::Stored(literal) => literal.bytes().len() as u64,
            InterpreterValue::Tuple(values) | InterpreterValue::Future(values) => {
                values.iter().map(InterpreterValue::bytes).sum()
            }
        }
    }

    /// The tensor, or an internal error: the verifier has checked kinds.
    pub fn tensor(&self) -> Result<&TensorValue, Error> {
        match self {
            InterpreterValue::Tensor(tensor) => Ok(tensor),
            other => Err(Error::Internal(format!("a tensor was expected, not {other:?}"))),
        }
    }
}

impl From<TensorValue> for InterpreterValue {
    fn from(tensor: TensorValue) -> Self {
        InterpreterValue::Tensor(tensor)
    }
}

/// Whether a value may stand where `ty` is written: same kind, same element type, sizes equal where known.
pub(crate) fn fits(value: &InterpreterValue, ty: &Type) -> bool {
    match (value, ty) {
        (InterpreterValue::Tensor(tensor), Type::Tensor(ty)) => {
            tensor.ty.element == ty.element
                && tensor.ty.dims.len() == ty.dims.len()
                && tensor.ty.dims.iter().zip(&ty.dims).all(|(have, want)| *want == hlo::DYNAMIC || have == want)
        }
        (InterpreterValue::Token, Type::Token) => true,
        (InterpreterValue::Tuple(values), Type::Tuple(types))
        | (InterpreterValue::Future(values), Type::Future(types)) => {
            values.len() == types.len() && values.iter().zip(types.iter()).all(|(v, t)| fits(v, t))
        }
        _ => false,
    }
}
