//! Element types in memory and in lanes, and the kernels that load, store, round and convert them.

use tensor::{DType, decode_float, encode_float};

use super::ir::{Fold, Lane};
use super::portable_kernels::{
    Combine, Copied, Fold as FoldInto, FoldEnd, FoldStart, Folding, Format, Isa, Kernel, Load, Map1, One, Store, kernel,
};

macro_rules! plain_format {
    ($name:ident, $raw:ty, $lane:ty) => {
        pub(super) struct $name;
        impl Format for $name {
            type Raw = $raw;
            type Lane = $lane;
            #[inline(always)]
            fn decode(raw: $raw) -> $lane {
                raw as $lane
            }
            #[inline(always)]
            fn encode(lane: $lane) -> $raw {
                lane as $raw
            }
        }
    };
}
plain_format!(Single, f32, f32);
plain_format!(Double, f64, f64);
plain_format!(Word, i32, i32);
plain_format!(Long, i64, i64);
plain_format!(Short, i16, i32);
plain_format!(ShortU, u16, i32);
plain_format!(Byte, i8, i32);
plain_format!(ByteU, u8, i32);

struct Boolean;
impl Format for Boolean {
    type Raw = u8;
    type Lane = u8;
    #[inline(always)]
    fn decode(raw: u8) -> u8 {
        u8::from(raw != 0)
    }
    #[inline(always)]
    fn encode(lane: u8) -> u8 {
        u8::from(lane != 0)
    }
}

/// Integers of less than a byte: `BITS` low bits count.
struct Narrow<const BITS: u32, const SIGNED: bool>;
impl<const BITS: u32, const SIGNED: bool> Format for Narrow<BITS, SIGNED> {
    type Raw = u8;
    type Lane = i32;
    #[inline(always)]
    fn decode(raw: u8) -> i32 {
        let high = (u32::from(raw) << (32 - BITS)) as i32;
        if SIGNED { high >> (32 - BITS) } else { (high as u32 >> (32 - BITS)) as i32 }
    }
    #[inline(always)]
    fn encode(lane: i32) -> u8 {
        Self::decode(lane as u8) as u8
    }
}

struct Brain;
impl Format for Brain {
    type Raw = u16;
    type Lane = f32;
    #[inline(always)]
    fn decode(raw: u16) -> f32 {
        f32::from_bits(u32::from(raw) << 16)
    }
    #[inline(always)]
    fn encode(lane: f32) -> u16 {
        let bits = lane.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 & 0x8000 | 0x7fc0;
        (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
    }
}

struct Half;
impl Format for Half {
    type Raw = u16;
    type Lane = f32;
    #[inline(always)]
    fn decode(raw: u16) -> f32 {
        let raw = u32::from(raw);
        let (sign, magnitude) = ((raw & 0x8000) << 16, raw & 0x7fff);
        // Numbers below the normal range go through an integer: they must not be flushed as small floats.
        let small = (magnitude as i32 as f32 * 5.960_464_5e-8).to_bits();
        let normal = (magnitude << 13).wrapping_add(112 << 23);
        let special = magnitude << 13 | 0x7f80_0000;
        let bits = if magnitude < 0x400 { small } else { normal };
        f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { bits })
    }
    #[inline(always)]
    fn encode(lane: f32) -> u16 {
        let bits = lane.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        // The last place of ½ is that of the smallest halves.
        let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let result = if magnitude < 0x3880_0000 { small } else { normal };
        let result = if magnitude >= 0x477f_f000 { 0x7c00 } else { result };
        (sign | if magnitude > 0x7f80_0000 { 0x7e00 } else { result }) as u16
    }
}

macro_rules! byte_floats {
    ($($name:ident)*) => {$(
        #[allow(non_camel_case_types)]
        struct $name;
        impl Format for $name {
            type Raw = u8;
            type Lane = f32;
            fn decode(raw: u8) -> f32 {
                decode_float(DType::$name, u64::from(raw)).unwrap_or(f64::NAN) as f32
            }
            fn encode(lane: f32) -> u8 {
                encode_float(DType::$name, f64::from(lane)).unwrap_or(0) as u8
            }
        }
    )*};
}
byte_floats!(F4E2M1FN F6E2M3FN F6E3M2FN F8E3M4 F8E4M3 F8E4M3B11FNUZ F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0FNU);

/// What is done with a type, as a kernel.
trait Use {
    fn of<F: Format + 'static>(self, isa: Isa) -> Kernel;
}

fn with_format(dtype: DType, isa: Isa, then: impl Use) -> Kernel {
    match dtype {
        DType::Bool => then.of::<Boolean>(isa),
        DType::I2 => then.of::<Narrow<2, true>>(isa),
        DType::I4 => then.of::<Narrow<4, true>>(isa),
        DType::U2 => then.of::<Narrow<2, false>>(isa),
        DType::U4 => then.of::<Narrow<4, false>>(isa),
        DType::I8 => then.of::<Byte>(isa),
        DType::U8 => then.of::<ByteU>(isa),
        DType::I16 => then.of::<Short>(isa),
        DType::U16 => then.of::<ShortU>(isa),
        DType::I32 | DType::U32 => then.of::<Word>(isa),
        DType::I64 | DType::U64 => then.of::<Long>(isa),
        DType::F4E2M1FN => then.of::<F4E2M1FN>(isa),
        DType::F6E2M3FN => then.of::<F6E2M3FN>(isa),
        DType::F6E3M2FN => then.of::<F6E3M2FN>(isa),
        DType::F8E3M4 => then.of::<F8E3M4>(isa),
        DType::F8E4M3 => then.of::<F8E4M3>(isa),
        DType::F8E4M3B11FNUZ => then.of::<F8E4M3B11FNUZ>(isa),
        DType::F8E4M3FN => then.of::<F8E4M3FN>(isa),
        DType::F8E4M3FNUZ => then.of::<F8E4M3FNUZ>(isa),
        DType::F8E5M2 => then.of::<F8E5M2>(isa),
        DType::F8E5M2FNUZ => then.of::<F8E5M2FNUZ>(isa),
        DType::F8E8M0FNU => then.of::<F8E8M0FNU>(isa),
        DType::BF16 => then.of::<Brain>(isa),
        DType::F16 => then.of::<Half>(isa),
        // The language of loops has no complex types.
        DType::F32 | DType::C64 => then.of::<Single>(isa),
        DType::F64 | DType::C128 => then.of::<Double>(isa),
    }
}

struct Loading(isize);
impl Use for Loading {
    fn of<F: Format + 'static>(self, isa: Isa) -> Kernel {
        if self.0 == 1 { kernel::<Load<F, true>>(isa) } else { kernel::<Load<F, false>>(isa) }
    }
}

struct Storing(isize);
impl Use for Storing {
    fn of<F: Format + 'static>(self, isa: Isa) -> Kernel {
        if self.0 == 1 { kernel::<Store<F, true>>(isa) } else { kernel::<Store<F, false>>(isa) }
    }
}

/// Encoded and decoded again.
struct Rounded<F>(std::marker::PhantomData<F>);
impl<F: Format> Map1 for Rounded<F> {
    type A = F::Lane;
    type O = F::Lane;
    #[inline(always)]
    fn apply<const FMA: bool>(a: F::Lane) -> F::Lane {
        F::decode(F::encode(a))
    }
}

struct Rounding;
impl Use for Rounding {
    fn of<F: Format + 'static>(self, isa: Isa) -> Kernel {
        kernel::<One<Rounded<F>>>(isa)
    }
}

/// The kernel that loads a type at a stride.
pub(super) fn load(dtype: DType, stride: isize, isa: Isa) -> Kernel {
    with_format(dtype, isa, Loading(stride))
}

/// The kernel that stores a type at a stride.
pub(super) fn store(dtype: DType, stride: isize, isa: Isa) -> Kernel {
    with_format(dtype, isa, Storing(stride))
}

/// The kernel of [`super::ir::Inst::Round`].
pub(super) fn round(dtype: DType, isa: Isa) -> Kernel {
    with_format(dtype, isa, Rounding)
}

macro_rules! map1 {
    ($name:ident, $a:ty => $o:ty, $f:expr) => {
        struct $name;
        impl Map1 for $name {
            type A = $a;
            type O = $o;
            #[inline(always)]
            fn apply<const FMA: bool>(a: $a) -> $o {
                let f: fn($a) -> $o = $f;
                f(a)
            }
        }
    };
}

/// A real to an integer type of at most 32 bits: what a cast to `$via` gives, brought into the type's range.
macro_rules! to_narrow {
    ($($name:ident $real:ty, $via:ty, $low:expr, $high:expr;)*) => {$(
        map1!($name, $real => i32, |x| (x as $via).clamp($low, $high) as i32);
    )*};
}
to_narrow! {
    F32I2 f32, i32, -2, 1; F32I4 f32, i32, -8, 7; F32I8 f32, i32, -128, 127; F32I16 f32, i32, -32768, 32767;
    F32I32 f32, i32, i32::MIN, i32::MAX; F32U2 f32, u32, 0, 3; F32U4 f32, u32, 0, 15; F32U8 f32, u32, 0, 255;
    F32U16 f32, u32, 0, 65535; F32U32 f32, u32, 0, u32::MAX;
    F64I2 f64, i32, -2, 1; F64I4 f64, i32, -8, 7; F64I8 f64, i32, -128, 127; F64I16 f64, i32, -32768, 32767;
    F64I32 f64, i32, i32::MIN, i32::MAX; F64U2 f64, u32, 0, 3; F64U4 f64, u32, 0, 15; F64U8 f64, u32, 0, 255;
    F64U16 f64, u32, 0, 65535; F64U32 f64, u32, 0, u32::MAX;
}
map1!(F32I64, f32 => i64, |x| x as i64);
map1!(F32U64, f32 => i64, |x| x as u64 as i64);
map1!(F64I64, f64 => i64, |x| x as i64);
map1!(F64U64, f64 => i64, |x| x as u64 as i64);
map1!(F32F64, f32 => f64, f64::from);
map1!(F64F32, f64 => f32, |x| x as f32);
map1!(I32F32, i32 => f32, |x| x as f32);
map1!(U32F32, i32 => f32, |x| x as u32 as f32);
map1!(I32F64, i32 => f64, f64::from);
map1!(U32F64, i32 => f64, |x| f64::from(x as u32));
map1!(I64F32, i64 => f32, |x| x as f32);
map1!(U64F32, i64 => f32, |x| x as u64 as f32);
map1!(I64F64, i64 => f64, |x| x as f64);
map1!(U64F64, i64 => f64, |x| x as u64 as f64);
map1!(I32I64, i32 => i64, i64::from);
map1!(U32I64, i32 => i64, |x| i64::from(x as u32));
map1!(I64I32, i64 => i32, |x| x as i32);
map1!(MaskI32, u8 => i32, i32::from);
map1!(MaskI64, u8 => i64, i64::from);
map1!(MaskF32, u8 => f32, f32::from);
map1!(MaskF64, u8 => f64, f64::from);
map1!(F32Mask, f32 => u8, |x| u8::from(x != 0.0));
map1!(F64Mask, f64 => u8, |x| u8::from(x != 0.0));
map1!(I32Mask, i32 => u8, |x| u8::from(x != 0));
map1!(I64Mask, i64 => u8, |x| u8::from(x != 0));
/// To the nearest f32, or the odd one of the two around it: a second rounding to fewer bits is then right.
fn odd_single(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if back == x || !nearest.is_finite() && !x.is_finite() || x.is_nan() {
        return nearest;
    }
    let bits = nearest.to_bits();
    let towards_zero = if back.abs() > x.abs() { bits - 1 } else { bits };
    f32::from_bits(towards_zero | 1)
}
map1!(F64Odd, f64 => f32, odd_single);
map1!(I32Odd, i32 => f32, |x| odd_single(f64::from(x)));
map1!(U32Odd, i32 => f32, |x| odd_single(f64::from(x as u32)));
/// A magnitude cut to 62 bits or fewer with a sticky last bit is exact in what follows.
fn odd_of_long(magnitude: u64) -> f32 {
    let drop = (64 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> drop;
    let sticky = u64::from(kept << drop != magnitude);
    odd_single((kept | sticky) as f64 * (1u64 << drop) as f64)
}
map1!(I64Odd, i64 => f32, |x| odd_of_long(x.unsigned_abs()).copysign(if x < 0 { -1.0 } else { 1.0 }));
map1!(U64Odd, i64 => f32, |x| odd_of_long(x as u64));

/// The kernels of [`super::ir::Inst::Convert`], the second after the first.
pub(super) fn convert(source: DType, target: DType, isa: Isa) -> (Option<Kernel>, Option<Kernel>) {
    macro_rules! one {
        ($name:ident) => {
            Some(kernel::<One<$name>>(isa))
        };
    }
    let (Some(from), Some(to)) = (Lane::of(source), Lane::of(target)) else { return (None, None) };
    let unsigned = source.is_unsigned_integer();
    let narrow_real = target.is_float() && target.bits() < 32;
    let rounded = Some(round(target, isa));
    match (from, to) {
        (Lane::Mask, Lane::Mask) => (None, None),
        (Lane::Mask, Lane::I32) => (one!(MaskI32), None),
        (Lane::Mask, Lane::I64) => (one!(MaskI64), None),
        (Lane::Mask, Lane::F32) => (one!(MaskF32), if narrow_real { rounded } else { None }),
        (Lane::Mask, Lane::F64) => (one!(MaskF64), None),
        (Lane::F32, Lane::Mask) => (one!(F32Mask), None),
        (Lane::F64, Lane::Mask) => (one!(F64Mask), None),
        (Lane::I32, Lane::Mask) => (one!(I32Mask), None),
        (Lane::I64, Lane::Mask) => (one!(I64Mask), None),
        (Lane::F32, Lane::F32) => (if narrow_real { rounded } else { None }, None),
        (Lane::F32, Lane::F64) => (one!(F32F64), None),
        (Lane::F64, Lane::F32) if narrow_real => (one!(F64Odd), rounded),
        (Lane::F64, Lane::F32) => (one!(F64F32), None),
        (Lane::F64, Lane::F64) => (None, None),
        (Lane::I32, Lane::F32) if narrow_real => (if unsigned { one!(U32Odd) } else { one!(I32Odd) }, rounded),
        (Lane::I64, Lane::F32) if narrow_real => (if unsigned { one!(U64Odd) } else { one!(I64Odd) }, rounded),
        (Lane::I32, Lane::F32) => (if unsigned { one!(U32F32) } else { one!(I32F32) }, None),
        (Lane::I64, Lane::F32) => (if unsigned { one!(U64F32) } else { one!(I64F32) }, None),
        (Lane::I32, Lane::F64) => (if unsigned { one!(U32F64) } else { one!(I32F64) }, None),
        (Lane::I64, Lane::F64) => (if unsigned { one!(U64F64) } else { one!(I64F64) }, None),
        (Lane::I32, Lane::I32) => (if target.bits() < 32 { rounded } else { None }, None),
        (Lane::I32, Lane::I64) => (if unsigned { one!(U32I64) } else { one!(I32I64) }, None),
        (Lane::I64, Lane::I32) => (one!(I64I32), if target.bits() < 32 { rounded } else { None }),
        (Lane::I64, Lane::I64) => (None, None),
        (Lane::F32, Lane::I64) => (if target.is_unsigned_integer() { one!(F32U64) } else { one!(F32I64) }, None),
        (Lane::F64, Lane::I64) => (if target.is_unsigned_integer() { one!(F64U64) } else { one!(F64I64) }, None),
        (Lane::F32, Lane::I32) => {
            let first = match target {
                DType::I2 => one!(F32I2),
                DType::I4 => one!(F32I4),
                DType::I8 => one!(F32I8),
                DType::I16 => one!(F32I16),
                DType::U2 => one!(F32U2),
                DType::U4 => one!(F32U4),
                DType::U8 => one!(F32U8),
                DType::U16 => one!(F32U16),
                DType::U32 => one!(F32U32),
                _ => one!(F32I32),
            };
            (first, None)
        }
        (Lane::F64, Lane::I32) => {
            let first = match target {
                DType::I2 => one!(F64I2),
                DType::I4 => one!(F64I4),
                DType::I8 => one!(F64I8),
                DType::I16 => one!(F64I16),
                DType::U2 => one!(F64U2),
                DType::U4 => one!(F64U4),
                DType::U8 => one!(F64U8),
                DType::U16 => one!(F64U16),
                DType::U32 => one!(F64U32),
                _ => one!(F64I32),
            };
            (first, None)
        }
    }
}

/// The same bits, in a tile of its own.
pub(super) fn copied(lane: Lane, isa: Isa) -> Kernel {
    match lane {
        Lane::F32 | Lane::I32 => kernel::<Copied<u32>>(isa),
        Lane::F64 | Lane::I64 => kernel::<Copied<u64>>(isa),
        Lane::Mask => kernel::<Copied<u8>>(isa),
    }
}

/// NaN wins, and +0 is larger than -0.
macro_rules! real_order {
    ($max:ident, $min:ident, $type:ty) => {
        #[inline(always)]
        pub(super) fn $max(a: $type, b: $type) -> $type {
            let larger = if a > b { a } else { b };
            let larger = if a == b { <$type>::from_bits(a.to_bits() & b.to_bits()) } else { larger };
            if a.is_nan() { a } else { larger }
        }
        #[inline(always)]
        pub(super) fn $min(a: $type, b: $type) -> $type {
            let smaller = if a < b { a } else { b };
            let smaller = if a == b { <$type>::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
            if a.is_nan() { a } else { smaller }
        }
    };
}
real_order!(max_f32, min_f32, f32);
real_order!(max_f64, min_f64, f64);

macro_rules! folding {
    ($name:ident, $type:ty, $neutral:expr, $f:expr) => {
        struct $name;
        impl Folding for $name {
            type A = $type;
            const NEUTRAL: $type = $neutral;
            #[inline(always)]
            fn fold(a: $type, b: $type) -> $type {
                let f: fn($type, $type) -> $type = $f;
                f(a, b)
            }
        }
    };
}
folding!(SumF32, f32, -0.0, |a, b| a + b);
folding!(SumF64, f64, -0.0, |a, b| a + b);
folding!(ProductF32, f32, 1.0, |a, b| a * b);
folding!(ProductF64, f64, 1.0, |a, b| a * b);
folding!(MaxF32, f32, f32::NEG_INFINITY, max_f32);
folding!(MaxF64, f64, f64::NEG_INFINITY, max_f64);
folding!(MinF32, f32, f32::INFINITY, min_f32);
folding!(MinF64, f64, f64::INFINITY, min_f64);
macro_rules! integer_foldings {
    ($type:ty, $unsigned:ty, $sum:ident $product:ident $max:ident $min:ident $maxu:ident $minu:ident $and:ident $or:ident
     $xor:ident) => {
        folding!($sum, $type, 0, <$type>::wrapping_add);
        folding!($product, $type, 1, <$type>::wrapping_mul);
        folding!($max, $type, <$type>::MIN, |a, b| if a > b { a } else { b });
        folding!($min, $type, <$type>::MAX, |a, b| if a < b { a } else { b });
        folding!($maxu, $type, 0, |a, b| if a as $unsigned > b as $unsigned { a } else { b });
        folding!($minu, $type, -1, |a, b| if (a as $unsigned) < b as $unsigned { a } else { b });
        folding!($and, $type, -1, |a, b| a & b);
        folding!($or, $type, 0, |a, b| a | b);
        folding!($xor, $type, 0, |a, b| a ^ b);
    };
}
integer_foldings!(i32, u32, SumI32 ProductI32 MaxI32 MinI32 MaxU32 MinU32 AndI32 OrI32 XorI32);
integer_foldings!(i64, u64, SumI64 ProductI64 MaxI64 MinI64 MaxU64 MinU64 AndI64 OrI64 XorI64);
folding!(AndMask, u8, 1, |a, b| a & b);
folding!(OrMask, u8, 0, |a, b| a | b);
folding!(XorMask, u8, 0, |a, b| a ^ b);

/// The kernels of a reduction.
pub(super) struct FoldKernels {
    pub(super) start: Kernel,
    pub(super) fold: Kernel,
    pub(super) end: Kernel,
    pub(super) combine: Kernel,
}

fn fold_kernels<F: Folding>(isa: Isa) -> FoldKernels {
    FoldKernels {
        start: kernel::<FoldStart<F>>(isa),
        fold: kernel::<FoldInto<F>>(isa),
        end: kernel::<FoldEnd<F>>(isa),
        combine: kernel::<Combine<F>>(isa),
    }
}

/// How a lane is folded. A mask is a number of one bit: its sum and maximum are "or", its product and minimum "and".
pub(super) fn fold(fold: Fold, lane: Lane, isa: Isa) -> FoldKernels {
    match (lane, fold) {
        (Lane::F32, Fold::Sum) => fold_kernels::<SumF32>(isa),
        (Lane::F32, Fold::Product) => fold_kernels::<ProductF32>(isa),
        (Lane::F32, Fold::Min | Fold::MinU | Fold::And) => fold_kernels::<MinF32>(isa),
        (Lane::F32, _) => fold_kernels::<MaxF32>(isa),
        (Lane::F64, Fold::Sum) => fold_kernels::<SumF64>(isa),
        (Lane::F64, Fold::Product) => fold_kernels::<ProductF64>(isa),
        (Lane::F64, Fold::Min | Fold::MinU | Fold::And) => fold_kernels::<MinF64>(isa),
        (Lane::F64, _) => fold_kernels::<MaxF64>(isa),
        (Lane::I32, Fold::Sum) => fold_kernels::<SumI32>(isa),
        (Lane::I32, Fold::Product) => fold_kernels::<ProductI32>(isa),
        (Lane::I32, Fold::Min) => fold_kernels::<MinI32>(isa),
        (Lane::I32, Fold::Max) => fold_kernels::<MaxI32>(isa),
        (Lane::I32, Fold::MinU) => fold_kernels::<MinU32>(isa),
        (Lane::I32, Fold::MaxU) => fold_kernels::<MaxU32>(isa),
        (Lane::I32, Fold::And) => fold_kernels::<AndI32>(isa),
        (Lane::I32, Fold::Or) => fold_kernels::<OrI32>(isa),
        (Lane::I32, Fold::Xor) => fold_kernels::<XorI32>(isa),
        (Lane::I64, Fold::Sum) => fold_kernels::<SumI64>(isa),
        (Lane::I64, Fold::Product) => fold_kernels::<ProductI64>(isa),
        (Lane::I64, Fold::Min) => fold_kernels::<MinI64>(isa),
        (Lane::I64, Fold::Max) => fold_kernels::<MaxI64>(isa),
        (Lane::I64, Fold::MinU) => fold_kernels::<MinU64>(isa),
        (Lane::I64, Fold::MaxU) => fold_kernels::<MaxU64>(isa),
        (Lane::I64, Fold::And) => fold_kernels::<AndI64>(isa),
        (Lane::I64, Fold::Or) => fold_kernels::<OrI64>(isa),
        (Lane::I64, Fold::Xor) => fold_kernels::<XorI64>(isa),
        (Lane::Mask, Fold::And | Fold::Product | Fold::Min | Fold::MinU) => fold_kernels::<AndMask>(isa),
        (Lane::Mask, Fold::Xor) => fold_kernels::<XorMask>(isa),
        (Lane::Mask, _) => fold_kernels::<OrMask>(isa),
    }
}
