//! The kernel of each computing instruction.

use super::ir::{Binary, Compare, Lane, Unary};
use super::math::*;
use super::math_f64::*;
use super::portable_formats::{max_f32, max_f64, min_f32, min_f64};
use super::portable_kernels::{Choose, FromExtra, Fused, Isa, Kernel, Map1, Map2, One, Splat, Two, kernel};

macro_rules! unary_ops {
    ($($name:ident $a:ty => $o:ty, |$x:ident| $value:expr;)*) => {$(
        struct $name;
        impl Map1 for $name {
            type A = $a;
            type O = $o;
            #[inline(always)]
            fn apply<const FMA: bool>($x: $a) -> $o {
                $value
            }
        }
    )*};
}

macro_rules! far_ops {
    ($($name:ident, $near:ident, $exact:expr;)*) => {$(
        struct $name;
        impl Map1 for $name {
            type A = f32;
            type O = f32;
            const FAR: bool = true;
            #[inline(always)]
            fn apply<const FMA: bool>(x: f32) -> f32 {
                $near::<FMA>(x)
            }
            #[inline(always)]
            fn is_far(x: f32) -> bool {
                turns_far(x)
            }
            fn exact(x: f32) -> f32 {
                let f: fn(f64) -> f64 = $exact;
                f(f64::from(x)) as f32
            }
        }
    )*};
}

macro_rules! sign_of_real {
    ($x:expr) => {
        if $x > 0.0 {
            1.0
        } else if $x < 0.0 {
            -1.0
        } else {
            $x
        }
    };
}

unary_ops! {
    NegF32 f32 => f32, |x| -x;
    AbsF32 f32 => f32, |x| x.abs();
    SignF32 f32 => f32, |x| sign_of_real!(x);
    FloorF32 f32 => f32, |x| x.floor();
    CeilF32 f32 => f32, |x| x.ceil();
    RoundEvenF32 f32 => f32, |x| x.round_ties_even();
    RoundAwayF32 f32 => f32, |x| {
        let cut = x.trunc();
        // The step away from zero is decided on the exact rest.
        let away = if (x - cut).abs() >= 0.5 { 1f32.copysign(x) } else { 0.0 };
        (cut + away).copysign(x)
    };
    SqrtF32 f32 => f32, |x| x.sqrt();
    RsqrtF32 f32 => f32, |x| rsqrt_f32(x);
    CbrtF32 f32 => f32, |x| cbrt_f32(x);
    ExpF32 f32 => f32, |x| exp_f32::<FMA>(x);
    Expm1F32 f32 => f32, |x| expm1_f32::<FMA>(x);
    LogF32 f32 => f32, |x| log_f32::<FMA>(x);
    Log1pF32 f32 => f32, |x| log1p_f32::<FMA>(x);
    TanhF32 f32 => f32, |x| tanh_f32::<FMA>(x);
    LogisticF32 f32 => f32, |x| logistic_f32::<FMA>(x);
    ErfF32 f32 => f32, |x| erf_f32::<FMA>(x);
    FiniteF32 f32 => u8, |x| u8::from(x.abs() < f32::INFINITY);
    NegF64 f64 => f64, |x| -x;
    AbsF64 f64 => f64, |x| x.abs();
    SignF64 f64 => f64, |x| sign_of_real!(x);
    FloorF64 f64 => f64, |x| x.floor();
    CeilF64 f64 => f64, |x| x.ceil();
    RoundEvenF64 f64 => f64, |x| x.round_ties_even();
    RoundAwayF64 f64 => f64, |x| x.round();
    SqrtF64 f64 => f64, |x| x.sqrt();
    RsqrtF64 f64 => f64, |x| 1.0 / x.sqrt();
    CbrtF64 f64 => f64, |x| x.cbrt();
    ExpF64 f64 => f64, |x| exp_f64::<FMA>(x);
    Expm1F64 f64 => f64, |x| x.exp_m1();
    LogF64 f64 => f64, |x| log_f64::<FMA>(x);
    Log1pF64 f64 => f64, |x| x.ln_1p();
    TanhF64 f64 => f64, |x| x.tanh();
    LogisticF64 f64 => f64, |x| logistic_f64::<FMA>(x);
    SinF64 f64 => f64, |x| x.sin();
    CosF64 f64 => f64, |x| x.cos();
    TanF64 f64 => f64, |x| x.tan();
    ErfF64 f64 => f64, |x| erf_f64(x);
    FiniteF64 f64 => u8, |x| u8::from(x.abs() < f64::INFINITY);
    NegI32 i32 => i32, |x| x.wrapping_neg();
    AbsI32 i32 => i32, |x| x.wrapping_abs();
    SignI32 i32 => i32, |x| x.signum();
    NotI32 i32 => i32, |x| !x;
    PopCountI32 i32 => i32, |x| x.count_ones() as i32;
    LeadingZerosI32 i32 => i32, |x| x.leading_zeros() as i32;
    NegI64 i64 => i64, |x| x.wrapping_neg();
    AbsI64 i64 => i64, |x| x.wrapping_abs();
    SignI64 i64 => i64, |x| x.signum();
    NotI64 i64 => i64, |x| !x;
    PopCountI64 i64 => i64, |x| i64::from(x.count_ones());
    LeadingZerosI64 i64 => i64, |x| i64::from(x.leading_zeros());
    NotMask u8 => u8, |x| u8::from(x == 0);
}
far_ops! {
    SinF32, sin_f32, f64::sin;
    CosF32, cos_f32, f64::cos;
    TanF32, tan_f32, f64::tan;
}

/// The kernel of a unary operation; `None` where the lane does not have it.
pub(super) fn unary(op: Unary, lane: Lane, isa: Isa) -> Option<Kernel> {
    macro_rules! table {
        ($($op:ident $lane:ident $name:ident)*) => {
            match (op, lane) {
                $((Unary::$op, Lane::$lane) => kernel::<One<$name>>(isa),)*
                _ => return None,
            }
        };
    }
    Some(table! {
        Neg F32 NegF32 Abs F32 AbsF32 Sign F32 SignF32 Floor F32 FloorF32 Ceil F32 CeilF32
        RoundEven F32 RoundEvenF32 RoundAway F32 RoundAwayF32 Sqrt F32 SqrtF32 Rsqrt F32 RsqrtF32 Cbrt F32 CbrtF32
        Exp F32 ExpF32 ExpMinusOne F32 Expm1F32 Log F32 LogF32 LogPlusOne F32 Log1pF32 Tanh F32 TanhF32
        Logistic F32 LogisticF32 Sin F32 SinF32 Cos F32 CosF32 Tan F32 TanF32 Erf F32 ErfF32 IsFinite F32 FiniteF32
        Neg F64 NegF64 Abs F64 AbsF64 Sign F64 SignF64 Floor F64 FloorF64 Ceil F64 CeilF64
        RoundEven F64 RoundEvenF64 RoundAway F64 RoundAwayF64 Sqrt F64 SqrtF64 Rsqrt F64 RsqrtF64 Cbrt F64 CbrtF64
        Exp F64 ExpF64 ExpMinusOne F64 Expm1F64 Log F64 LogF64 LogPlusOne F64 Log1pF64 Tanh F64 TanhF64
        Logistic F64 LogisticF64 Sin F64 SinF64 Cos F64 CosF64 Tan F64 TanF64 Erf F64 ErfF64 IsFinite F64 FiniteF64
        Neg I32 NegI32 Abs I32 AbsI32 Sign I32 SignI32 Not I32 NotI32 PopCount I32 PopCountI32
        LeadingZeros I32 LeadingZerosI32
        Neg I64 NegI64 Abs I64 AbsI64 Sign I64 SignI64 Not I64 NotI64 PopCount I64 PopCountI64
        LeadingZeros I64 LeadingZerosI64
        Not Mask NotMask
    })
}

macro_rules! binary_ops {
    ($($name:ident $a:ty => $o:ty, |$x:ident, $y:ident| $value:expr;)*) => {$(
        struct $name;
        impl Map2 for $name {
            type A = $a;
            type O = $o;
            #[inline(always)]
            fn apply<const FMA: bool>($x: $a, $y: $a) -> $o {
                $value
            }
        }
    )*};
}

macro_rules! integer_ops {
    ($type:ty, $unsigned:ty, $bits:expr, $($add:ident $sub:ident $mul:ident $div:ident $rem:ident $min:ident $max:ident
     $divu:ident $remu:ident $minu:ident $maxu:ident $and:ident $or:ident $xor:ident $shl:ident $shrl:ident $shra:ident
     $ltu:ident $leu:ident)*) => {
        $(binary_ops! {
            $add $type => $type, |x, y| x.wrapping_add(y);
            $sub $type => $type, |x, y| x.wrapping_sub(y);
            $mul $type => $type, |x, y| x.wrapping_mul(y);
            $div $type => $type, |x, y| if y == 0 { -1 } else { x.wrapping_div(y) };
            $rem $type => $type, |x, y| if y == 0 { x } else { x.wrapping_rem(y) };
            $min $type => $type, |x, y| if x < y { x } else { y };
            $max $type => $type, |x, y| if x > y { x } else { y };
            $divu $type => $type, |x, y| if y == 0 { -1 } else { (x as $unsigned / y as $unsigned) as $type };
            $remu $type => $type, |x, y| if y == 0 { x } else { (x as $unsigned % y as $unsigned) as $type };
            $minu $type => $type, |x, y| if (x as $unsigned) < y as $unsigned { x } else { y };
            $maxu $type => $type, |x, y| if x as $unsigned > y as $unsigned { x } else { y };
            $and $type => $type, |x, y| x & y;
            $or $type => $type, |x, y| x | y;
            $xor $type => $type, |x, y| x ^ y;
            $shl $type => $type, |x, y| {
                let shifted = ((x as $unsigned) << (y & ($bits - 1))) as $type;
                if (y as $unsigned) < $bits { shifted } else { 0 }
            };
            $shrl $type => $type, |x, y| {
                let shifted = (x as $unsigned >> (y & ($bits - 1))) as $type;
                if (y as $unsigned) < $bits { shifted } else { 0 }
            };
            $shra $type => $type, |x, y| x >> (if (y as $unsigned) < $bits { y } else { $bits - 1 });
            $ltu $type => u8, |x, y| u8::from((x as $unsigned) < y as $unsigned);
            $leu $type => u8, |x, y| u8::from(x as $unsigned <= y as $unsigned);
        })*
    };
}

binary_ops! {
    AddF32 f32 => f32, |x, y| x + y;
    SubF32 f32 => f32, |x, y| x - y;
    MulF32 f32 => f32, |x, y| x * y;
    DivF32 f32 => f32, |x, y| x / y;
    RemF32 f32 => f32, |x, y| x % y;
    MinF32 f32 => f32, |x, y| min_f32(x, y);
    MaxF32 f32 => f32, |x, y| max_f32(x, y);
    Atan2F32 f32 => f32, |x, y| atan2_f32::<FMA>(x, y);
    AddF64 f64 => f64, |x, y| x + y;
    SubF64 f64 => f64, |x, y| x - y;
    MulF64 f64 => f64, |x, y| x * y;
    DivF64 f64 => f64, |x, y| x / y;
    RemF64 f64 => f64, |x, y| x % y;
    MinF64 f64 => f64, |x, y| min_f64(x, y);
    MaxF64 f64 => f64, |x, y| max_f64(x, y);
    PowF64 f64 => f64, |x, y| x.powf(y);
    Atan2F64 f64 => f64, |x, y| x.atan2(y);
    AndMask u8 => u8, |x, y| x & y;
    OrMask u8 => u8, |x, y| x | y;
    XorMask u8 => u8, |x, y| x ^ y;
    EqF32 f32 => u8, |x, y| u8::from(x == y);
    NeF32 f32 => u8, |x, y| u8::from(x != y);
    LtF32 f32 => u8, |x, y| u8::from(x < y);
    LeF32 f32 => u8, |x, y| u8::from(x <= y);
    EqF64 f64 => u8, |x, y| u8::from(x == y);
    NeF64 f64 => u8, |x, y| u8::from(x != y);
    LtF64 f64 => u8, |x, y| u8::from(x < y);
    LeF64 f64 => u8, |x, y| u8::from(x <= y);
    EqI32 i32 => u8, |x, y| u8::from(x == y);
    NeI32 i32 => u8, |x, y| u8::from(x != y);
    LtI32 i32 => u8, |x, y| u8::from(x < y);
    LeI32 i32 => u8, |x, y| u8::from(x <= y);
    EqI64 i64 => u8, |x, y| u8::from(x == y);
    NeI64 i64 => u8, |x, y| u8::from(x != y);
    LtI64 i64 => u8, |x, y| u8::from(x < y);
    LeI64 i64 => u8, |x, y| u8::from(x <= y);
}
integer_ops!(i32, u32, 32, AddI32 SubI32 MulI32 DivI32 RemI32 MinI32 MaxI32 DivU32 RemU32 MinU32 MaxU32 AndI32 OrI32
    XorI32 ShlI32 ShrLI32 ShrAI32 LtU32 LeU32);
integer_ops!(i64, u64, 64, AddI64 SubI64 MulI64 DivI64 RemI64 MinI64 MaxI64 DivU64 RemU64 MinU64 MaxU64 AndI64 OrI64
    XorI64 ShlI64 ShrLI64 ShrAI64 LtU64 LeU64);

struct PowF32;
impl Map2 for PowF32 {
    type A = f32;
    type O = f32;
    const FAR: bool = true;
    #[inline(always)]
    fn apply<const FMA: bool>(x: f32, y: f32) -> f32 {
        pow_f32::<FMA>(x, y)
    }
    #[inline(always)]
    fn is_far(x: f32, y: f32) -> bool {
        pow_is_special(x, y)
    }
    fn exact(x: f32, y: f32) -> f32 {
        f64::from(x).powf(f64::from(y)) as f32
    }
}

/// Which operands are one value for all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    None,
    First,
    Second,
}

/// The kernel of a binary operation; `None` where the lane does not have it, or has it only for [`Spread::None`].
pub(super) fn binary(op: Binary, lane: Lane, spread: Spread, isa: Isa) -> Option<Kernel> {
    macro_rules! table {
        ($($op:ident $lane:ident $name:ident)*; $($rare:ident $rare_lane:ident $rare_name:ident)*) => {
            match (op, lane, spread) {
                $((Binary::$op, Lane::$lane, Spread::None) => kernel::<Two<$name, false, false>>(isa),
                  (Binary::$op, Lane::$lane, Spread::First) => kernel::<Two<$name, true, false>>(isa),
                  (Binary::$op, Lane::$lane, Spread::Second) => kernel::<Two<$name, false, true>>(isa),)*
                $((Binary::$rare, Lane::$rare_lane, Spread::None) => kernel::<Two<$rare_name, false, false>>(isa),)*
                _ => return None,
            }
        };
    }
    Some(table! {
        Add F32 AddF32 Sub F32 SubF32 Mul F32 MulF32 Div F32 DivF32 Min F32 MinF32 Max F32 MaxF32
        Add I32 AddI32 Sub I32 SubI32 Mul I32 MulI32 And I32 AndI32 Or I32 OrI32 Xor I32 XorI32
        Shl I32 ShlI32 ShrL I32 ShrLI32;
        Rem F32 RemF32 Pow F32 PowF32 Atan2 F32 Atan2F32
        Add F64 AddF64 Sub F64 SubF64 Mul F64 MulF64 Div F64 DivF64 Rem F64 RemF64 Min F64 MinF64 Max F64 MaxF64
        Pow F64 PowF64 Atan2 F64 Atan2F64
        Div I32 DivI32 Rem I32 RemI32 Min I32 MinI32 Max I32 MaxI32 DivU I32 DivU32 RemU I32 RemU32 MinU I32 MinU32
        MaxU I32 MaxU32 ShrA I32 ShrAI32
        Add I64 AddI64 Sub I64 SubI64 Mul I64 MulI64 Div I64 DivI64 Rem I64 RemI64 Min I64 MinI64 Max I64 MaxI64
        DivU I64 DivU64 RemU I64 RemU64 MinU I64 MinU64 MaxU I64 MaxU64 And I64 AndI64 Or I64 OrI64 Xor I64 XorI64
        Shl I64 ShlI64 ShrL I64 ShrLI64 ShrA I64 ShrAI64
        And Mask AndMask Or Mask OrMask Xor Mask XorMask
    })
}

/// The kernel of a comparison, as for [`binary`].
pub(super) fn compare(op: Compare, lane: Lane, spread: Spread, isa: Isa) -> Option<Kernel> {
    macro_rules! two {
        ($name:ident) => {
            match spread {
                Spread::None => kernel::<Two<$name, false, false>>(isa),
                Spread::First => kernel::<Two<$name, true, false>>(isa),
                Spread::Second => kernel::<Two<$name, false, true>>(isa),
            }
        };
    }
    Some(match (op, lane) {
        (Compare::Eq, Lane::F32) => two!(EqF32),
        (Compare::Ne, Lane::F32) => two!(NeF32),
        (Compare::Lt, Lane::F32) => two!(LtF32),
        (Compare::Le, Lane::F32) => two!(LeF32),
        (Compare::Eq, Lane::I32) => two!(EqI32),
        (Compare::Ne, Lane::I32) => two!(NeI32),
        (Compare::Lt, Lane::I32) => two!(LtI32),
        (Compare::Le, Lane::I32) => two!(LeI32),
        _ if spread != Spread::None => return None,
        (Compare::Eq, Lane::F64) => kernel::<Two<EqF64, false, false>>(isa),
        (Compare::Ne, Lane::F64) => kernel::<Two<NeF64, false, false>>(isa),
        (Compare::Lt, Lane::F64) => kernel::<Two<LtF64, false, false>>(isa),
        (Compare::Le, Lane::F64) => kernel::<Two<LeF64, false, false>>(isa),
        (Compare::Eq, Lane::I64) => kernel::<Two<EqI64, false, false>>(isa),
        (Compare::Ne, Lane::I64) => kernel::<Two<NeI64, false, false>>(isa),
        (Compare::Lt, Lane::I64) => kernel::<Two<LtI64, false, false>>(isa),
        (Compare::Le, Lane::I64) => kernel::<Two<LeI64, false, false>>(isa),
        (Compare::LtU, Lane::I32) => kernel::<Two<LtU32, false, false>>(isa),
        (Compare::LeU, Lane::I32) => kernel::<Two<LeU32, false, false>>(isa),
        (Compare::LtU, Lane::I64) => kernel::<Two<LtU64, false, false>>(isa),
        (Compare::LeU, Lane::I64) => kernel::<Two<LeU64, false, false>>(isa),
        // The others are these with the operands exchanged: `portable` does that.
        _ => return None,
    })
}

/// The kernel of a choice between values of a lane that are each one for all elements or not.
pub(super) fn select(lane: Lane, splat_a: Splatted, splat_b: Splatted, isa: Isa) -> Option<Kernel> {
    use Splatted::{No, Yes};
    Some(match (lane, splat_a, splat_b) {
        (Lane::F32 | Lane::I32, No, No) => kernel::<Choose<u32, false, false>>(isa),
        (Lane::F32 | Lane::I32, No, Yes) => kernel::<Choose<u32, false, true>>(isa),
        (Lane::F32 | Lane::I32, Yes, No) => kernel::<Choose<u32, true, false>>(isa),
        (Lane::F32 | Lane::I32, Yes, Yes) => kernel::<Choose<u32, true, true>>(isa),
        (Lane::F64 | Lane::I64, No, No) => kernel::<Choose<u64, false, false>>(isa),
        (Lane::Mask, No, No) => kernel::<Choose<u8, false, false>>(isa),
        _ => return None,
    })
}

/// Whether an operand is one value for all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splatted {
    Yes,
    No,
}

/// The kernel of [`super::ir::Inst::Fma`].
pub(super) fn fused(lane: Lane, isa: Isa) -> Kernel {
    if lane == Lane::F64 { kernel::<Fused<f64>>(isa) } else { kernel::<Fused<f32>>(isa) }
}

/// The kernel that fills a tile with one value.
pub(super) fn splat(lane: Lane, isa: Isa) -> Kernel {
    match lane {
        Lane::F32 | Lane::I32 => kernel::<Splat<u32>>(isa),
        Lane::F64 | Lane::I64 => kernel::<Splat<u64>>(isa),
        Lane::Mask => kernel::<Splat<u8>>(isa),
    }
}

/// The kernel that fills lanes with the bits of a constant or with a position.
pub(super) fn from_extra(lane: Lane, isa: Isa) -> Kernel {
    match lane {
        Lane::F32 | Lane::I32 => kernel::<FromExtra<i32, false>>(isa),
        Lane::F64 | Lane::I64 => kernel::<FromExtra<i64, false>>(isa),
        Lane::Mask => kernel::<FromExtra<u8, false>>(isa),
    }
}

/// The kernel that counts positions along a row.
pub(super) fn counting(lane: Lane, isa: Isa) -> Kernel {
    if lane == Lane::I64 { kernel::<FromExtra<i64, true>>(isa) } else { kernel::<FromExtra<i32, true>>(isa) }
}
