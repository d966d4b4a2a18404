//! Operations element by element, and their partial derivatives.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};
use std::panic::Location;

use hlo::{Attrs, Keyword, OpKind};
use tensor::DType;

use crate::Spec;
use crate::error::misuse;
use crate::line;
use crate::ops::{op, op_as};
use crate::region::comparison;
use crate::tensor::Tensor;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                #[must_use]
                pub fn $name(&self) -> Tensor {
                    op(OpKind::$kind, &[self], Attrs::new())
                }
            )*
        }
    };
}

unary! {
    /// Absolute value.
    abs Abs;
    /// Sign: -1, 0 or 1.
    sign Sign;
    /// e to the power of each element.
    exp Exponential;
    /// `exp(x) - 1`, exact near 0.
    exp_m1 ExponentialMinusOne;
    /// Natural logarithm.
    log Log;
    /// `log(1 + x)`, exact near 0.
    log_1p LogPlusOne;
    /// Square root.
    sqrt Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt Rsqrt;
    /// Cube root.
    cbrt Cbrt;
    /// Sine.
    sin Sine;
    /// Cosine.
    cos Cosine;
    /// Tangent.
    tan Tan;
    /// Hyperbolic tangent.
    tanh Tanh;
    /// `1 / (1 + exp(-x))`.
    logistic Logistic;
    /// Rounded down.
    floor Floor;
    /// Rounded up.
    ceil Ceil;
    /// Rounded to the nearest, halves to even.
    round RoundNearestEven;
    /// Rounded to the nearest, halves away from zero.
    round_half_away RoundNearestAfz;
    /// Whether neither infinite nor NaN.
    is_finite IsFinite;
    /// Bitwise or logical negation.
    not Not;
    /// Number of bits set.
    count_ones Popcnt;
    /// Number of leading zero bits.
    leading_zeros CountLeadingZeros;
    /// Error function.
    erf ChloErf;
    /// Complement of the error function.
    erfc ChloErfc;
    /// Inverse of the error function.
    erf_inv ChloErfInv;
    /// Logarithm of the gamma function.
    lgamma ChloLgamma;
    /// Derivative of [`Tensor::lgamma`].
    digamma ChloDigamma;
    /// Arc sine.
    asin ChloAsin;
    /// Arc cosine.
    acos ChloAcos;
    /// Arc tangent.
    atan ChloAtan;
    /// Hyperbolic sine.
    sinh ChloSinh;
    /// Hyperbolic cosine.
    cosh ChloCosh;
    /// Inverse hyperbolic sine.
    asinh ChloAsinh;
    /// Inverse hyperbolic cosine.
    acosh ChloAcosh;
    /// Inverse hyperbolic tangent.
    atanh ChloAtanh;
    /// Real part.
    real Real;
    /// Imaginary part.
    imag Imag;
    /// Complex conjugate.
    conj ChloConj;
}

/// Both tensors in their common shape; sizes match from the last axis on, or are 1.
#[track_caller]
pub(crate) fn together(name: &str, lhs: &Tensor, rhs: &Tensor) -> (Tensor, Tensor) {
    if lhs.dtype() != rhs.dtype() {
        let (l, r) = (lhs.spec(), rhs.spec());
        misuse(Location::caller(), format!("{name} of {l} and {r}: cast one of them; there are no implicit casts"));
    }
    if lhs.dims() == rhs.dims() {
        return (lhs.clone(), rhs.clone());
    }
    let dims = common_dims(name, &[lhs.spec(), rhs.spec()]);
    (lhs.broadcast_to(&dims), rhs.broadcast_to(&dims))
}

/// The shape several shapes broadcast to.
#[track_caller]
fn common_dims(name: &str, specs: &[&Spec]) -> Vec<usize> {
    let rank = specs.iter().map(|spec| spec.rank()).max().unwrap_or(0);
    let mut dims = vec![1; rank];
    for spec in specs {
        for (n, &size) in spec.dims.iter().rev().enumerate() {
            let slot = &mut dims[rank - 1 - n];
            match (*slot, size) {
                (1, size) => *slot = size,
                (have, size) if have == size || size == 1 => {}
                (have, size) => {
                    let given: Vec<String> = specs.iter().map(|spec| spec.to_string()).collect();
                    let message = format!(
                        "{name} of {}: sizes {have} and {size} of axis -{} do not match",
                        given.join(" and "),
                        n + 1
                    );
                    misuse(Location::caller(), message);
                }
            }
        }
    }
    dims
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                #[must_use]
                pub fn $name(&self, rhs: &Tensor) -> Tensor {
                    let (lhs, rhs) = together(stringify!($name), self, rhs);
                    op(OpKind::$kind, &[&lhs, &rhs], Attrs::new())
                }
            )*
        }
    };
}

binary! {
    /// Sum; shapes are broadcast together.
    plus Add;
    /// Difference.
    minus Subtract;
    /// Product.
    times Multiply;
    /// Quotient.
    over Divide;
    /// Remainder, with the sign of the dividend.
    remainder Remainder;
    /// Power.
    pow Power;
    /// The larger of each pair; NaN if one is.
    maximum Maximum;
    /// The smaller of each pair; NaN if one is.
    minimum Minimum;
    /// Angle of the point `(rhs, self)`.
    atan2 Atan2;
    /// Bitwise or logical and.
    and And;
    /// Bitwise or logical or.
    or Or;
    /// Bitwise or logical exclusive or.
    xor Xor;
    /// Bits shifted up.
    shift_left ShiftLeft;
    /// Bits shifted down, zeros from above.
    shift_right ShiftRightLogical;
    /// Bits shifted down, the sign from above.
    shift_right_signed ShiftRightArithmetic;
}

macro_rules! compared {
    ($($(#[$doc:meta])* $name:ident $direction:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                #[must_use]
                pub fn $name(&self, rhs: &Tensor) -> Tensor {
                    let (lhs, rhs) = together(stringify!($name), self, rhs);
                    op(OpKind::Compare, &[&lhs, &rhs], comparison(Keyword::$direction, lhs.dtype()))
                }
            )*
        }
    };
}

compared! {
    /// Whether equal.
    equals Eq;
    /// Whether different.
    differs Ne;
    /// Whether less.
    less Lt;
    /// Whether less or equal.
    less_equal Le;
    /// Whether greater.
    greater Gt;
    /// Whether greater or equal.
    greater_equal Ge;
}

impl Tensor {
    /// With other elements: rounded, truncated or widened.
    #[track_caller]
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype() {
            return self.clone();
        }
        op_as(OpKind::Convert, &[self], Attrs::new(), Spec::new(dtype, self.dims()))
    }

    /// The same bits as another type. Of a narrower one, each element becomes several in a new last axis, the lowest bits first; of
    /// a wider one, the last axis becomes one element.
    #[track_caller]
    #[must_use]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        let mut dims = self.dims().to_vec();
        match self.dtype().bits().cmp(&dtype.bits()) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => dims.push((self.dtype().bits() / dtype.bits().max(1)) as usize),
            std::cmp::Ordering::Less => {
                let _ = dims.pop();
            }
        }
        op_as(OpKind::BitcastConvert, &[self], Attrs::new(), Spec::new(dtype, dims))
    }

    /// A complex tensor of two real ones.
    #[track_caller]
    #[must_use]
    pub fn complex(&self, imaginary: &Tensor) -> Tensor {
        op(OpKind::Complex, &[self, imaginary], Attrs::new())
    }

    /// Negated.
    #[track_caller]
    #[must_use]
    pub fn negate(&self) -> Tensor {
        op(OpKind::Negate, &[self], Attrs::new())
    }

    /// `self` where true, from boolean `self`: `on_true` else `on_false`.
    #[track_caller]
    #[must_use]
    pub fn select(&self, on_true: &Tensor, on_false: &Tensor) -> Tensor {
        let _line = line::of(Location::caller());
        let (on_true, on_false) = together("select", on_true, on_false);
        let dims = common_dims("select", &[self.spec(), on_true.spec()]);
        let [predicate, on_true, on_false] = [self, &on_true, &on_false].map(|tensor| tensor.broadcast_to(&dims));
        op(OpKind::Select, &[&predicate, &on_true, &on_false], Attrs::new())
    }

    /// Held between two tensors.
    #[track_caller]
    #[must_use]
    pub fn clamp(&self, low: &Tensor, high: &Tensor) -> Tensor {
        let (low, high) = (low.broadcast_to(self.dims()), high.broadcast_to(self.dims()));
        op(OpKind::Clamp, &[&low, self, &high], Attrs::new())
    }

    /// Squared.
    #[track_caller]
    #[must_use]
    pub fn square(&self) -> Tensor {
        self.times(self)
    }

    /// To a power given as a number.
    #[track_caller]
    #[must_use]
    pub fn powf(&self, exponent: f64) -> Tensor {
        self.pow(&self.scalar_like(exponent))
    }

    /// Whether NaN.
    #[track_caller]
    #[must_use]
    pub fn is_nan(&self) -> Tensor {
        self.differs(self)
    }

    /// `max(x, 0)`, with derivative 0 at 0.
    #[track_caller]
    #[must_use]
    pub fn relu(&self) -> Tensor {
        let zero = self.zeros_like();
        self.greater(&zero).select(self, &zero)
    }

    /// `x * logistic(x)`.
    #[track_caller]
    #[must_use]
    pub fn silu(&self) -> Tensor {
        self.times(&self.logistic())
    }

    /// The Gaussian error linear unit.
    #[track_caller]
    #[must_use]
    pub fn gelu(&self) -> Tensor {
        let half = self * 0.5;
        half.times(&(&(self * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0))
    }

    /// The unit's approximation by a hyperbolic tangent, as GPT-2 uses it.
    #[track_caller]
    #[must_use]
    pub fn gelu_tanh(&self) -> Tensor {
        let cube = self.times(self).times(self);
        let inner = &(self + &(&cube * 0.044_715)) * (2.0 / PI).sqrt();
        &(self * 0.5) * &(&inner.tanh() + 1.0)
    }

    /// `log(1 + exp(x))`.
    #[track_caller]
    #[must_use]
    pub fn softplus(&self) -> Tensor {
        let zero = self.zeros_like();
        // |x| with slope 0 at 0: the slope of the whole is then one half there.
        let size = self.times(&self.sign());
        self.maximum(&zero).plus(&size.negate().exp().log_1p())
    }
}

/// The derivative of output 0 by operand `n`, times `v`: linear in `v`, so it serves both directions. `None` where it is zero.
pub(crate) fn partial(kind: OpKind, ins: &[Tensor], out: &Tensor, n: usize, v: &Tensor) -> Option<Tensor> {
    let x = &ins[0];
    Some(match (kind, n) {
        (OpKind::Negate, _) => v.negate(),
        // At 0 as to the right of it, which is JAX's choice too.
        (OpKind::Abs, _) => x.greater_equal(&x.zeros_like()).select(v, &v.negate()),
        (OpKind::Exponential, _) => v * out,
        (OpKind::ExponentialMinusOne, _) => v * &(out + 1.0),
        (OpKind::Log, _) => v / x,
        (OpKind::LogPlusOne, _) => v / &(x + 1.0),
        (OpKind::Sqrt, _) => v / &(out * 2.0),
        (OpKind::Rsqrt, _) => v * &(&(out / x) * -0.5),
        (OpKind::Cbrt, _) => v * &(out / &(x * 3.0)),
        (OpKind::Sine, _) => v * &x.cos(),
        (OpKind::Cosine, _) => (v * &x.sin()).negate(),
        (OpKind::Tan | OpKind::ChloTan, _) => v * &(&out.square() + 1.0),
        (OpKind::Tanh, _) => v * &(1.0 - &out.square()),
        (OpKind::Logistic, _) => v * &(out * &(1.0 - out)),
        (OpKind::ChloErf, _) => v * &(&x.square().negate().exp() * FRAC_2_SQRT_PI),
        (OpKind::ChloErfc, _) => v * &(&x.square().negate().exp() * -FRAC_2_SQRT_PI),
        (OpKind::ChloErfInv, _) => v * &(&out.square().exp() * (PI.sqrt() / 2.0)),
        (OpKind::ChloLgamma, _) => v * &x.digamma(),
        (OpKind::ChloDigamma, _) => {
            let one = x.full_like(1.0);
            v * &op(OpKind::ChloPolygamma, &[&one, x], Attrs::new())
        }
        (OpKind::ChloAsin, _) => v * &(1.0 - &x.square()).rsqrt(),
        (OpKind::ChloAcos, _) => (v * &(1.0 - &x.square()).rsqrt()).negate(),
        (OpKind::ChloAtan, _) => v / &(&x.square() + 1.0),
        (OpKind::ChloSinh, _) => v * &x.cosh(),
        (OpKind::ChloCosh, _) => v * &x.sinh(),
        (OpKind::ChloAsinh, _) => v * &(&x.square() + 1.0).rsqrt(),
        (OpKind::ChloAcosh, _) => v * &(&(x - 1.0).rsqrt() * &(x + 1.0).rsqrt()),
        (OpKind::ChloAtanh, _) => v / &(1.0 - &x.square()),
        (OpKind::Add, _) | (OpKind::Subtract, 0) => v.clone(),
        (OpKind::Subtract, _) => v.negate(),
        (OpKind::Multiply, 0) => v * &ins[1],
        (OpKind::Multiply, _) => v * x,
        (OpKind::Divide, 0) => v / &ins[1],
        (OpKind::Divide, _) => (&(v * out) / &ins[1]).negate(),
        (OpKind::Remainder, 0) => v.clone(),
        (OpKind::Remainder, _) => {
            let quotient = x / &ins[1];
            let whole = &quotient.sign() * &quotient.abs().floor();
            (v * &whole).negate()
        }
        (OpKind::Maximum | OpKind::Minimum, _) => {
            let other = &ins[1 - n];
            let wins = if kind == OpKind::Maximum { ins[n].greater(other) } else { ins[n].less(other) };
            let ties = ins[n].equals(other);
            let share = ties.select(&(v * 0.5), &v.zeros_like());
            wins.select(v, &share)
        }
        (OpKind::Power, 0) => {
            // At an exponent of 0 the power is the constant 1.
            let y = &ins[1];
            let is_zero = y.equals(&y.zeros_like());
            let lowered = is_zero.select(&y.full_like(1.0), &(y - 1.0));
            v * &is_zero.select(&y.zeros_like(), &(y * &x.pow(&lowered)))
        }
        (OpKind::Power, _) => {
            // 0 to a power does not change with the power.
            let is_zero = x.equals(&x.zeros_like());
            let safe = is_zero.select(&x.full_like(1.0), x);
            v * &(&safe.log() * out)
        }
        (OpKind::Atan2, 0) => v * &(&ins[1] / &(&x.square() + &ins[1].square())),
        (OpKind::Atan2, _) => (v * &(x / &(&x.square() + &ins[1].square()))).negate(),
        (OpKind::Select, 1) => x.select(v, &v.zeros_like()),
        (OpKind::Select, 2) => x.select(&v.zeros_like(), v),
        (OpKind::Clamp, 1) => {
            let (low, high) = (&ins[0], &ins[2]);
            let is_inside = ins[1].greater(low).and(&ins[1].less(high));
            is_inside.select(v, &v.zeros_like())
        }
        (OpKind::Clamp, 0) => ins[1].less(&ins[0]).select(v, &v.zeros_like()),
        (OpKind::Clamp, 2) => ins[1].greater(&ins[2]).select(v, &v.zeros_like()),
        _ => return None,
    })
}

/// The cotangent of operand `n` of an op between real and complex numbers, by JAX's convention: products are not conjugated.
pub(crate) fn transposed_complex(kind: OpKind, ins: &[Tensor], out: &Tensor, n: usize, ct: &Tensor) -> Option<Tensor> {
    Some(match kind {
        OpKind::Real => ct.complex(&ct.zeros_like()),
        OpKind::Imag => ct.zeros_like().complex(&ct.negate()),
        OpKind::Complex if n == 0 => ct.real(),
        OpKind::Complex => ct.imag().negate(),
        OpKind::ChloConj if ins[0].dtype().is_complex() => ct.conj(),
        OpKind::Abs if ins[0].dtype().is_complex() => ct.complex(&ct.zeros_like()).times(&unit_conjugate(&ins[0], out)),
        _ => return None,
    })
}

/// The tangent of the result of an op between real and complex numbers.
pub(crate) fn pushed_complex(
    kind: OpKind,
    ins: &[Tensor],
    out: &Tensor,
    tangents: &[Option<Tensor>],
) -> Option<Tensor> {
    let given = |n: usize| tangents[n].clone().unwrap_or_else(|| ins[n].zeros_like());
    Some(match kind {
        OpKind::Real => given(0).real(),
        OpKind::Imag => given(0).imag(),
        OpKind::Complex => given(0).complex(&given(1)),
        OpKind::ChloConj if ins[0].dtype().is_complex() => given(0).conj(),
        OpKind::Abs if ins[0].dtype().is_complex() => given(0).times(&unit_conjugate(&ins[0], out)).real(),
        _ => return None,
    })
}

/// `conj(x) / |x|`, 0 at 0.
fn unit_conjugate(x: &Tensor, abs: &Tensor) -> Tensor {
    let is_zero = abs.equals(&abs.zeros_like());
    let safe = is_zero.select(&abs.full_like(1.0), abs);
    x.conj().over(&safe.cast(x.dtype()))
}

/// Whether an op works element by element and has rules here: a `Tensor` never writes the others.
pub(crate) fn is_elementwise(kind: OpKind) -> bool {
    use OpKind::*;
    let never_written = matches!(
        kind,
        ChloAsinAcosKernel
            | ChloBesselI1e
            | ChloIsInf
            | ChloIsNegInf
            | ChloIsPosInf
            | ChloMulhi
            | ChloNextAfter
            | ChloSquare
            | ChloZeta
    );
    kind.is_elementwise() && !never_written
}
