//! What can be done with values while a body is written: operators and methods, with sizes of 1 repeated where needed.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use tensor::{DType, Spec};

use crate::ir::{BinaryOp, CompareOp, KernelOp, Number, ReduceOp, UnaryOp};
use crate::writer::{Checked, Val, scalar, vector};

/// The right side of an operator: a value, or a number of the left side's type.
pub trait Operand<'k> {
    /// As a value of the left side's element type.
    #[track_caller]
    fn value(self, left: Val<'k>) -> Val<'k>;
}

impl<'k> Operand<'k> for Val<'k> {
    fn value(self, _: Val<'k>) -> Val<'k> {
        self
    }
}

impl<'k> Operand<'k> for f32 {
    fn value(self, left: Val<'k>) -> Val<'k> {
        let dtype = left.dtype();
        let checked = if dtype.is_float() { Ok(scalar(dtype)) } else { Err(format!("a float beside {dtype}")) };
        left.k.write(KernelOp::Constant(Number::Float(self)), checked, &[])
    }
}

impl<'k> Operand<'k> for i32 {
    fn value(self, left: Val<'k>) -> Val<'k> {
        let dtype = left.dtype();
        let checked = if dtype.is_float() { Err(format!("an integer beside {dtype}")) } else { Ok(scalar(dtype)) };
        left.k.write(KernelOp::Constant(Number::Int(self)), checked, &[])
    }
}

/// The shape two values share after repetition.
fn joined(a: &[usize], b: &[usize]) -> Checked<Vec<usize>> {
    if a.is_empty() || b.is_empty() {
        return Ok(if a.is_empty() { b.to_vec() } else { a.to_vec() });
    }
    let one = |(&a, &b): (&usize, &usize)| match (a, b) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    };
    let dims: Option<Vec<usize>> = (a.len() == b.len()).then(|| a.iter().zip(b).map(one).collect()).flatten();
    dims.ok_or_else(|| format!("shapes {a:?} and {b:?} do not go together"))
}

impl<'k> Val<'k> {
    #[track_caller]
    fn repeated(self, dims: &[usize]) -> Val<'k> {
        if self.dims() == dims { self } else { self.broadcast(dims.to_vec()) }
    }

    /// Both values in one shape, or what is wrong.
    #[track_caller]
    fn pair(self, other: Val<'k>) -> Checked<(Val<'k>, Val<'k>, Spec)> {
        let (a, b) = (self.spec(), other.spec());
        if a.dtype != b.dtype {
            return Err(format!("{a} and {b} are of two types"));
        }
        let dims = joined(&a.dims, &b.dims)?;
        Ok((self.repeated(&dims), other.repeated(&dims), Spec::new(a.dtype, dims)))
    }

    #[track_caller]
    fn binary(self, op: BinaryOp, other: impl Operand<'k>) -> Val<'k> {
        let other = other.value(self);
        let checked = self.pair(other).and_then(|(a, b, spec)| {
            let dtype = spec.dtype;
            let fits = match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !dtype.is_float(),
                BinaryOp::Rem | BinaryOp::ShiftRight => dtype == DType::I32,
                _ => !dtype.is_bool(),
            };
            if fits { Ok((a, b, spec)) } else { Err(format!("{op:?} of {dtype}")) }
        });
        match checked {
            Ok((a, b, spec)) => self.k.write(KernelOp::Binary(op, a.id(), b.id()), Ok(spec), &[a.id(), b.id()]),
            Err(message) => self.k.write(KernelOp::Binary(op, self.id(), other.id()), Err(message), &[]),
        }
    }

    #[track_caller]
    fn unary(self, op: UnaryOp, fits: impl Fn(DType) -> bool) -> Val<'k> {
        let spec = self.spec();
        let checked = if fits(spec.dtype) { Ok(spec) } else { Err(format!("{op:?} of {spec}")) };
        self.k.write(KernelOp::Unary(op, self.id()), checked, &[self.id()])
    }

    #[track_caller]
    fn compare(self, how: CompareOp, other: impl Operand<'k>) -> Val<'k> {
        let other = other.value(self);
        match self.pair(other) {
            Ok((a, b, spec)) => {
                let spec = Spec::new(DType::Bool, spec.dims);
                self.k.write(KernelOp::Compare(how, a.id(), b.id()), Ok(spec), &[a.id(), b.id()])
            }
            Err(message) => self.k.write(KernelOp::Compare(how, self.id(), other.id()), Err(message), &[]),
        }
    }

    /// Exponential.
    #[track_caller]
    pub fn exp(self) -> Val<'k> {
        self.unary(UnaryOp::Exp, |dtype| dtype.is_float())
    }

    /// Power of two.
    #[track_caller]
    pub fn exp2(self) -> Val<'k> {
        self.unary(UnaryOp::Exp2, |dtype| dtype.is_float())
    }

    /// Natural logarithm.
    #[track_caller]
    pub fn log(self) -> Val<'k> {
        self.unary(UnaryOp::Log, |dtype| dtype.is_float())
    }

    /// Reciprocal square root.
    #[track_caller]
    pub fn rsqrt(self) -> Val<'k> {
        self.unary(UnaryOp::Rsqrt, |dtype| dtype.is_float())
    }

    /// Hyperbolic tangent.
    #[track_caller]
    pub fn tanh(self) -> Val<'k> {
        self.unary(UnaryOp::Tanh, |dtype| dtype.is_float())
    }

    /// Absolute value.
    #[track_caller]
    pub fn abs(self) -> Val<'k> {
        self.unary(UnaryOp::Abs, |dtype| dtype.is_float())
    }

    /// The larger of two.
    #[track_caller]
    pub fn max(self, other: impl Operand<'k>) -> Val<'k> {
        self.binary(BinaryOp::Max, other)
    }

    /// The smaller of two.
    #[track_caller]
    pub fn min(self, other: impl Operand<'k>) -> Val<'k> {
        self.binary(BinaryOp::Min, other)
    }

    /// Whether equal.
    #[track_caller]
    pub fn equals(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Eq, other)
    }

    /// Whether different.
    #[track_caller]
    pub fn differs(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Ne, other)
    }

    /// Whether less.
    #[track_caller]
    pub fn less(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Lt, other)
    }

    /// Whether less or equal.
    #[track_caller]
    pub fn at_most(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Le, other)
    }

    /// Whether greater.
    #[track_caller]
    pub fn greater(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Gt, other)
    }

    /// Whether greater or equal.
    #[track_caller]
    pub fn at_least(self, other: impl Operand<'k>) -> Val<'k> {
        self.compare(CompareOp::Ge, other)
    }

    /// Where this is true the first, else the second.
    #[track_caller]
    pub fn select(self, yes: Val<'k>, no: impl Operand<'k>) -> Val<'k> {
        let no = no.value(yes);
        let checked = yes.pair(no).and_then(|(yes, no, spec)| {
            if !self.dtype().is_bool() {
                return Err(format!("a condition of type {}", self.spec()));
            }
            let dims = joined(&self.dims(), &spec.dims)?;
            let condition = if self.dims().is_empty() { self } else { self.repeated(&dims) };
            Ok((condition, yes.repeated(&dims), no.repeated(&dims), Spec::new(spec.dtype, dims)))
        });
        match checked {
            Ok((c, a, b, spec)) => {
                self.k.write(KernelOp::Select(c.id(), a.id(), b.id()), Ok(spec), &[c.id(), a.id(), b.id()])
            }
            Err(message) => self.k.write(KernelOp::Select(self.id(), yes.id(), no.id()), Err(message), &[]),
        }
    }

    /// In another element type.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Val<'k> {
        let from = self.spec();
        if from.dtype == dtype {
            return self;
        }
        let is_code = matches!(dtype, DType::I4 | DType::F8E4M3FN | DType::F8E5M2);
        let checked = if is_code || (dtype.is_bool() && from.dtype != DType::I32) {
            Err(format!("{from} is not converted to {dtype}"))
        } else {
            Ok(Spec::new(dtype, from.dims))
        };
        self.k.write(KernelOp::Cast(self.id()), checked, &[self.id()])
    }

    /// Repeated to a shape: a scalar, or along dimensions of size 1.
    #[track_caller]
    pub fn broadcast(self, dims: impl Into<Vec<usize>>) -> Val<'k> {
        let (from, dims) = (self.spec(), dims.into());
        let checked = match joined(&from.dims, &dims) {
            Ok(shape) if shape == dims => vector(from.dtype, dims),
            _ => Err(format!("{from} is not repeated to {dims:?}")),
        };
        self.k.write(KernelOp::Broadcast(self.id()), checked, &[self.id()])
    }

    /// Copies side by side along the last axis.
    #[track_caller]
    pub fn repeat(self, times: usize) -> Val<'k> {
        let mut spec = self.spec();
        if times == 1 {
            return self;
        }
        let checked = match spec.dims.last_mut() {
            Some(size) if times > 0 => {
                *size = size.saturating_mul(times);
                vector(spec.dtype, spec.dims)
            }
            _ => Err(format!("{times} copies of {spec}")),
        };
        self.k.write(KernelOp::Repeat(self.id(), times as u32), checked, &[self.id()])
    }

    /// In another shape.
    #[track_caller]
    pub fn reshape(self, dims: impl Into<Vec<usize>>) -> Val<'k> {
        let from = self.spec();
        let checked = vector(from.dtype, dims.into()).and_then(|spec| {
            if spec.num_elements() == from.num_elements() && from.rank() > 0 {
                Ok(spec)
            } else {
                Err(format!("{from} in the shape of {spec}"))
            }
        });
        self.k.write(KernelOp::Reshape(self.id()), checked, &[self.id()])
    }

    /// A matrix transposed.
    #[track_caller]
    pub fn transpose(self) -> Val<'k> {
        let from = self.spec();
        let checked = match from.dims[..] {
            [rows, columns] => Ok(Spec::new(from.dtype, [columns, rows])),
            _ => Err(format!("{from} is no matrix")),
        };
        self.k.write(KernelOp::Transpose(self.id()), checked, &[self.id()])
    }

    /// The same bits in another type. A word of 32 bits has as many elements of one column as fit, the first in its lowest bits.
    #[track_caller]
    pub fn reinterpret(self, dtype: DType) -> Val<'k> {
        let from = self.spec();
        let bits = |rows: usize, dtype: DType| rows.saturating_mul(dtype.bits() as usize);
        let checked = match from.dims[..] {
            [rows, columns]
                if bits(rows, from.dtype).is_multiple_of(32) && !from.dtype.is_bool() && !dtype.is_bool() =>
            {
                vector(dtype, vec![bits(rows, from.dtype) / dtype.bits() as usize, columns])
            }
            _ => Err(format!("the bits of {from} as {dtype}: rows are not whole words of 32 bits")),
        };
        self.k.write(KernelOp::Reinterpret(self.id()), checked, &[self.id()])
    }

    /// As many rows of a matrix, from one on.
    #[track_caller]
    pub fn rows(self, first: usize, count: usize) -> Val<'k> {
        let from = self.spec();
        let checked = match from.dims[..] {
            [rows, columns] if count > 0 && first.checked_add(count).is_some_and(|end| end <= rows) => {
                Ok(Spec::new(from.dtype, [count, columns]))
            }
            _ => Err(format!("rows {first}..+{count} of {from}")),
        };
        if self.dims() == [count, from.dims.last().copied().unwrap_or(1)] && first == 0 {
            return self;
        }
        self.k.write(KernelOp::Rows(self.id(), first as u32), checked, &[self.id()])
    }

    /// Bits moved down, zeros coming in.
    #[track_caller]
    pub fn shift_right(self, bits: i32) -> Val<'k> {
        self.binary(BinaryOp::ShiftRight, bits)
    }

    /// The sum along an axis, which stays with size 1.
    #[track_caller]
    pub fn sum(self, axis: usize) -> Val<'k> {
        self.reduce(ReduceOp::Sum, axis)
    }

    /// The maximum along an axis, which stays with size 1.
    #[track_caller]
    pub fn maximum(self, axis: usize) -> Val<'k> {
        self.reduce(ReduceOp::Max, axis)
    }

    #[track_caller]
    fn reduce(self, how: ReduceOp, axis: usize) -> Val<'k> {
        let mut spec = self.spec();
        let is_number = matches!(spec.dtype, DType::F32 | DType::I32);
        let checked = match spec.dims.get_mut(axis) {
            Some(size) if is_number => {
                *size = 1;
                Ok(spec)
            }
            _ => Err(format!("no reduction of {spec} along axis {axis}: f32 or i32 along an axis it has")),
        };
        self.k.write(KernelOp::Reduce(how, self.id(), axis as u32), checked, &[self.id()])
    }

    /// The same integer, promised to be a multiple of a number.
    #[track_caller]
    pub fn multiple_of(self, number: u32) -> Val<'k> {
        let spec = self.spec();
        let checked =
            if spec == scalar(DType::I32) && number > 0 { Ok(spec) } else { Err(format!("{spec} as a multiple")) };
        self.k.write(KernelOp::AssumeMultiple(self.id(), number), checked, &[self.id()])
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident, $op:ident;)*) => {$(
        impl<'k, R: Operand<'k>> $trait<R> for Val<'k> {
            type Output = Val<'k>;

            #[track_caller]
            fn $method(self, other: R) -> Val<'k> {
                self.binary(BinaryOp::$op, other)
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Rem;
    BitAnd, bitand, And;
    BitOr, bitor, Or;
    BitXor, bitxor, Xor;
}

impl<'k> Neg for Val<'k> {
    type Output = Val<'k>;

    #[track_caller]
    fn neg(self) -> Val<'k> {
        self.unary(UnaryOp::Neg, |dtype| !dtype.is_bool())
    }
}

impl<'k> Not for Val<'k> {
    type Output = Val<'k>;

    #[track_caller]
    fn not(self) -> Val<'k> {
        self.unary(UnaryOp::Not, |dtype| dtype.is_bool())
    }
}
