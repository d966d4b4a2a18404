//! One element of a tensor, and the arithmetic that recognised regions apply to it directly.

use std::cmp::Ordering;

use hlo::{Keyword, Op, OpKind};
use tensor::DType;

use super::value::{Complex, Elements, round, wrap};
use crate::attributes;
use crate::error::Error;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// `i1`.
    Bool(bool),
    /// An integer within the range of its type.
    Int(i128),
    /// A real number its type can hold.
    Float(f64),
    /// A complex number.
    Complex(Complex),
}

impl Scalar {
    /// Element `at`.
    pub(crate) fn get(elements: &Elements, at: usize) -> Scalar {
        match elements {
            Elements::Bool(v) => Scalar::Bool(v[at]),
            Elements::Int(v) => Scalar::Int(v[at]),
            Elements::Float(v) => Scalar::Float(v[at]),
            Elements::Complex(v) => Scalar::Complex(v[at]),
        }
    }

    /// Stores into element `at`.
    pub(crate) fn set(self, elements: &mut Elements, at: usize) -> Result<(), Error> {
        match (elements, self) {
            (Elements::Bool(v), Scalar::Bool(x)) => v[at] = x,
            (Elements::Int(v), Scalar::Int(x)) => v[at] = x,
            (Elements::Float(v), Scalar::Float(x)) => v[at] = x,
            (Elements::Complex(v), Scalar::Complex(x)) => v[at] = x,
            (_, other) => return Err(Error::Internal(format!("{other:?} stored among elements of another kind"))),
        }
        Ok(())
    }

    /// `count` copies.
    pub(crate) fn repeat(self, count: usize) -> Elements {
        match self {
            Scalar::Bool(x) => Elements::Bool(vec![x; count]),
            Scalar::Int(x) => Elements::Int(vec![x; count]),
            Scalar::Float(x) => Elements::Float(vec![x; count]),
            Scalar::Complex(x) => Elements::Complex(vec![x; count]),
        }
    }

    /// The zero of a type.
    pub(crate) fn zero(dtype: DType) -> Scalar {
        if dtype.is_bool() {
            Scalar::Bool(false)
        } else if dtype.is_integer() {
            Scalar::Int(0)
        } else if dtype.is_complex() {
            Scalar::Complex(Complex::default())
        } else {
            Scalar::Float(0.0)
        }
    }
}

impl Complex {
    pub(crate) fn new(re: f64, im: f64) -> Complex {
        Complex { re, im }
    }

    pub(crate) fn plus(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }

    pub(crate) fn minus(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }

    pub(crate) fn times(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    pub(crate) fn scaled(self, factor: f64) -> Complex {
        Complex { re: self.re * factor, im: self.im * factor }
    }

    pub(crate) fn conjugate(self) -> Complex {
        Complex { re: self.re, im: -self.im }
    }

    pub(crate) fn magnitude(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// The quotient, by Smith's method: no overflow where the result is representable.
    pub(crate) fn over(self, other: Complex) -> Complex {
        if other.im == 0.0 {
            return Complex { re: self.re / other.re, im: self.im / other.re };
        }
        if other.re.abs() >= other.im.abs() {
            let ratio = other.im / other.re;
            let scale = other.re + other.im * ratio;
            Complex { re: (self.re + self.im * ratio) / scale, im: (self.im - self.re * ratio) / scale }
        } else {
            let ratio = other.re / other.im;
            let scale = other.re * ratio + other.im;
            Complex { re: (self.re * ratio + self.im) / scale, im: (self.im * ratio - self.re) / scale }
        }
    }

    pub(crate) fn rounded(self, dtype: DType) -> Complex {
        let part = dtype.complex_part().unwrap_or(DType::F64);
        Complex { re: round(part, self.re), im: round(part, self.im) }
    }
}

/// The result of a binary op on two elements of type `dtype`; `None` where this file does not know the op or the type.
pub(crate) fn binary(kind: OpKind, dtype: DType, a: Scalar, b: Scalar) -> Option<Scalar> {
    use Scalar::{Bool, Complex as C, Float, Int};
    Some(match (kind, a, b) {
        (OpKind::Add | OpKind::Or | OpKind::Maximum, Bool(a), Bool(b)) => Bool(a | b),
        (OpKind::Multiply | OpKind::And | OpKind::Minimum, Bool(a), Bool(b)) => Bool(a & b),
        (OpKind::Xor, Bool(a), Bool(b)) => Bool(a ^ b),
        (OpKind::Add, Int(a), Int(b)) => Int(wrap(dtype, a + b)),
        (OpKind::Multiply, Int(a), Int(b)) => Int(wrap(dtype, a.wrapping_mul(b))),
        (OpKind::Maximum, Int(a), Int(b)) => Int(a.max(b)),
        (OpKind::Minimum, Int(a), Int(b)) => Int(a.min(b)),
        (OpKind::And, Int(a), Int(b)) => Int(wrap(dtype, a & b)),
        (OpKind::Or, Int(a), Int(b)) => Int(wrap(dtype, a | b)),
        (OpKind::Xor, Int(a), Int(b)) => Int(wrap(dtype, a ^ b)),
        (OpKind::Add, Float(a), Float(b)) => Float(round(dtype, a + b)),
        (OpKind::Multiply, Float(a), Float(b)) => Float(round(dtype, a * b)),
        (OpKind::Maximum, Float(a), Float(b)) => Float(maximum(a, b)),
        (OpKind::Minimum, Float(a), Float(b)) => Float(-maximum(-a, -b)),
        (OpKind::Add, C(a), C(b)) => C(a.plus(b).rounded(dtype)),
        (OpKind::Multiply, C(a), C(b)) => C(complex_product(dtype, a, b)),
        _ => return None,
    })
}

/// A product whose four partial products and two sums are each rounded to the type of the parts.
pub(crate) fn complex_product(dtype: DType, a: Complex, b: Complex) -> Complex {
    let part = dtype.complex_part().unwrap_or(DType::F64);
    let times = |x: f64, y: f64| round(part, x * y);
    Complex {
        re: round(part, times(a.re, b.re) - times(a.im, b.im)),
        im: round(part, times(a.re, b.im) + times(a.im, b.re)),
    }
}

/// IEEE 754 `maximum`: NaN wins, and +0 is larger than -0.
pub(crate) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        a.max(b)
    }
}

/// The answer of a comparison; `None` for kinds of elements that have no order.
pub(crate) fn compare(direction: Keyword, total_order: TotalOrder, a: Scalar, b: Scalar) -> Option<bool> {
    let order = match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(&b)),
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(&b)),
        (Scalar::Float(a), Scalar::Float(b)) if total_order == TotalOrder::Yes => Some(a.total_cmp(&b)),
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        _ => return None,
    };
    Some(match direction {
        Keyword::Eq => order == Some(Ordering::Equal),
        Keyword::Ne => order != Some(Ordering::Equal),
        Keyword::Lt => order == Some(Ordering::Less),
        Keyword::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Keyword::Gt => order == Some(Ordering::Greater),
        Keyword::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => return None,
    })
}

/// Whether floats are compared by IEEE 754 `totalOrder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TotalOrder {
    /// By `totalOrder`.
    Yes,
    /// By value; NaN is unordered.
    No,
}

impl TotalOrder {
    /// The order a comparison asks for.
    pub(crate) fn of(op: &Op) -> TotalOrder {
        if attributes::is_total_order(op) { TotalOrder::Yes } else { TotalOrder::No }
    }
}
