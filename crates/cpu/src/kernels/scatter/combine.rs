//! How an update changes the element it meets, for every combination of operation and element type computed natively.
#![allow(unsafe_code)]

use tensor::DType;

use crate::kernels::copy::runs::{self, Level, Store};
use crate::kernels::copy::starts::OUTSIDE;

/// What the update computation does with the old element and the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combine {
    /// The update takes the element's place.
    Replace,
    Add,
    Multiply,
    Minimum,
    Maximum,
    And,
    Or,
    Xor,
}

/// Combines runs of `count` elements: those of `updates` at `sources` into those of `operand` at `places`, in order.
/// Places that are `OUTSIDE` are passed over.
pub(super) type Runs =
    unsafe fn(operand: *mut u8, places: &[isize], updates: *const u8, sources: &[isize], count: usize);

/// The kernels of one combiner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    portable: Runs,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    avx512: Runs,
    /// Elements the kernel sees per element of the array: two for complex numbers, bytes where only bytes move.
    pub(super) parts: usize,
}

impl Kernel {
    /// The kernel for a machine that has `level`.
    pub(super) fn at(&self, level: Level) -> Runs {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => self.avx512,
            _ => self.portable,
        }
    }

    /// `None` when the combination is not computed natively.
    pub(super) fn of(combine: Combine, dtype: DType) -> Option<Kernel> {
        use Combine::{Add, And, Maximum, Minimum, Multiply, Or, Replace, Xor};
        let combine = match (combine, dtype) {
            (Add | Maximum, DType::Bool) => Or,
            (Multiply | Minimum, DType::Bool) => And,
            (combine, _) => combine,
        };
        let bits = if dtype.is_bool() { 8 } else { dtype.bits() };
        let logical = dtype.is_bool() || dtype.is_integer();
        Some(match combine {
            Replace => Kernel { portable: replaced_portable, avx512: replaced_wide, parts: dtype.size_bytes() },
            // And, or and xor of sign- or zero-extended elements are extended again.
            And if logical => by_width::<AndOp>(dtype)?,
            Or if logical => by_width::<OrOp>(dtype)?,
            Xor if logical => by_width::<XorOp>(dtype)?,
            And | Or | Xor => return None,
            Add if dtype.is_integer() && bits >= 8 => by_width::<AddOp>(dtype)?,
            Multiply if dtype.is_integer() && bits >= 8 => by_width::<MultiplyOp>(dtype)?,
            Add => match dtype {
                DType::C64 => Kernel { parts: 2, ..kernel::<f32, AddOp>() },
                DType::C128 => Kernel { parts: 2, ..kernel::<f64, AddOp>() },
                _ => float::<AddOp>(dtype)?,
            },
            Multiply => float::<MultiplyOp>(dtype)?,
            Minimum => ordered::<MinimumOp>(dtype)?,
            Maximum => ordered::<MaximumOp>(dtype)?,
        })
    }
}

fn kernel<T: Copy, O: Op<T>>() -> Kernel {
    Kernel { portable: combined_portable::<T, O>, avx512: combined_wide::<T, O>, parts: 1 }
}

fn by_width<O: Op<u8> + Op<u16> + Op<u32> + Op<u64>>(dtype: DType) -> Option<Kernel> {
    Some(match dtype.size_bytes() {
        1 => kernel::<u8, O>(),
        2 => kernel::<u16, O>(),
        4 => kernel::<u32, O>(),
        8 => kernel::<u64, O>(),
        _ => return None,
    })
}

fn float<O: Op<f32> + Op<f64> + Op<Half> + Op<Brain>>(dtype: DType) -> Option<Kernel> {
    Some(match dtype {
        DType::F32 => kernel::<f32, O>(),
        DType::F64 => kernel::<f64, O>(),
        DType::F16 => kernel::<Half, O>(),
        DType::BF16 => kernel::<Brain, O>(),
        _ => return None,
    })
}

fn ordered<O>(dtype: DType) -> Option<Kernel>
where
    O: Op<u8> + Op<u16> + Op<u32> + Op<u64> + Op<i8> + Op<i16> + Op<i32> + Op<i64>,
    O: Op<f32> + Op<f64> + Op<Half> + Op<Brain>,
{
    Some(match dtype {
        DType::I2 | DType::I4 | DType::I8 => kernel::<i8, O>(),
        DType::I16 => kernel::<i16, O>(),
        DType::I32 => kernel::<i32, O>(),
        DType::I64 => kernel::<i64, O>(),
        dtype if dtype.is_unsigned_integer() => by_width::<O>(dtype)?,
        dtype => float::<O>(dtype)?,
    })
}

trait Op<T> {
    fn apply(old: T, update: T) -> T;
}

struct AddOp;
struct MultiplyOp;
struct MinimumOp;
struct MaximumOp;
struct AndOp;
struct OrOp;
struct XorOp;

macro_rules! ops {
    ($op:ident, $($ty:ty)*, |$a:ident, $b:ident| $body:expr) => {
        $(impl Op<$ty> for $op {
            #[inline(always)]
            fn apply($a: $ty, $b: $ty) -> $ty { $body }
        })*
    };
}

ops!(AddOp, u8 u16 u32 u64, |a, b| a.wrapping_add(b));
ops!(AddOp, f32 f64, |a, b| a + b);
ops!(MultiplyOp, u8 u16 u32 u64, |a, b| a.wrapping_mul(b));
ops!(MultiplyOp, f32 f64, |a, b| a * b);
ops!(MinimumOp, u8 u16 u32 u64 i8 i16 i32 i64, |a, b| a.min(b));
ops!(MaximumOp, u8 u16 u32 u64 i8 i16 i32 i64, |a, b| a.max(b));
ops!(AndOp, u8 u16 u32 u64, |a, b| a & b);
ops!(OrOp, u8 u16 u32 u64, |a, b| a | b);
ops!(XorOp, u8 u16 u32 u64, |a, b| a ^ b);

/// IEEE 754 `minimum` and `maximum`: NaN wins, and -0 is less than +0.
macro_rules! float_order {
    ($($ty:ident)*) => {
        $(
            ops!(MinimumOp, $ty, |a, b| if a < b { a } else if b < a { b } else if a == b {
                $ty::from_bits(a.to_bits() | b.to_bits())
            } else { a + b });
            ops!(MaximumOp, $ty, |a, b| if a > b { a } else if b > a { b } else if a == b {
                $ty::from_bits(a.to_bits() & b.to_bits())
            } else { a + b });
        )*
    };
}
float_order!(f32 f64);

/// An f16, computed with in f32.
#[derive(Clone, Copy)]
struct Half(u16);
/// A bf16, computed with in f32.
#[derive(Clone, Copy)]
struct Brain(u16);

impl<O: Op<f32>> Op<Half> for O {
    #[inline(always)]
    fn apply(old: Half, update: Half) -> Half {
        Half::rounded(O::apply(old.wide(), update.wide()))
    }
}

impl<O: Op<f32>> Op<Brain> for O {
    #[inline(always)]
    fn apply(old: Brain, update: Brain) -> Brain {
        Brain::rounded(O::apply(old.wide(), update.wide()))
    }
}

impl Brain {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    #[inline(always)]
    fn rounded(value: f32) -> Brain {
        let bits = value.to_bits();
        let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        Brain(if value.is_nan() { (bits >> 16) | 0x40 } else { nearest } as u16)
    }
}

impl Half {
    #[inline(always)]
    fn wide(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
        // Subnormals are counted in units of 2^-24 in integers: the flushed mode must not see them as f32 subnormals.
        let value = if magnitude >= 0x7c00 << 13 {
            f32::from_bits(magnitude + ((255 - 31) << 23))
        } else if magnitude >= 0x400 << 13 {
            f32::from_bits(magnitude + ((127 - 15) << 23))
        } else {
            (bits & 0x3ff) as i32 as f32 * (1.0 / (1 << 24) as f32)
        };
        f32::from_bits(value.to_bits() | sign)
    }

    #[inline(always)]
    fn rounded(value: f32) -> Half {
        let bits = value.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let half = if magnitude > 0x7f80_0000 {
            0x7e00
        } else if magnitude >= 0x477f_f000 {
            0x7c00
        } else if magnitude < 0x3880_0000 {
            // Adding 0.5 leaves the bits below 2^-24 to the rounding of the sum.
            (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
        } else {
            (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13
        };
        Half((half | sign) as u16)
    }
}

/// # Safety
/// Every place that is not `OUTSIDE`, and every source, is that of a run of `count` elements of type `T`.
unsafe fn combined_portable<T: Copy, O: Op<T>>(
    operand: *mut u8,
    places: &[isize],
    updates: *const u8,
    sources: &[isize],
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { combined::<T, O>(operand, places, updates, sources, count) }
}

/// # Safety
/// As `combined_portable`, on a machine with AVX-512 where there is such a thing.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl"))]
unsafe fn combined_wide<T: Copy, O: Op<T>>(
    operand: *mut u8,
    places: &[isize],
    updates: *const u8,
    sources: &[isize],
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { combined::<T, O>(operand, places, updates, sources, count) }
}

/// Runs ahead that are asked for early.
const AHEAD: usize = 2;

/// # Safety
/// As `combined_portable`.
#[inline(always)]
unsafe fn combined<T: Copy, O: Op<T>>(
    operand: *mut u8,
    places: &[isize],
    updates: *const u8,
    sources: &[isize],
    count: usize,
) {
    if count == 1 {
        for (&place, &source) in places.iter().zip(sources) {
            if place != OUTSIDE {
                let to = operand.wrapping_offset(place).cast::<T>();
                let from = updates.wrapping_offset(source).cast::<T>();
                // SAFETY: the caller's promise.
                unsafe { to.write_unaligned(O::apply(to.read_unaligned(), from.read_unaligned())) };
            }
        }
        return;
    }
    for (i, (&place, &source)) in places.iter().zip(sources).enumerate() {
        if let Some(&ahead) = places.get(i + AHEAD).filter(|&&ahead| ahead != OUTSIDE) {
            let ahead = operand.wrapping_offset(ahead);
            (0..(count * size_of::<T>()).min(1024)).step_by(64).for_each(|at| runs::prefetch(ahead.wrapping_add(at)));
        }
        if place == OUTSIDE {
            continue;
        }
        let to = operand.wrapping_offset(place).cast::<T>();
        let from = updates.wrapping_offset(source).cast::<T>();
        for i in 0..count {
            let (to, from) = (to.wrapping_add(i), from.wrapping_add(i));
            // SAFETY: the caller's promise.
            unsafe { to.write_unaligned(O::apply(to.read_unaligned(), from.read_unaligned())) };
        }
    }
}

/// # Safety
/// As `combined_portable`, counted in bytes.
unsafe fn replaced_portable(operand: *mut u8, places: &[isize], updates: *const u8, sources: &[isize], count: usize) {
    // SAFETY: the caller's promise.
    unsafe { replaced(Level::Portable, operand, places, updates, sources, count) }
}

/// # Safety
/// As `combined_portable`, counted in bytes, on a machine with AVX-512 where there is such a thing.
unsafe fn replaced_wide(operand: *mut u8, places: &[isize], updates: *const u8, sources: &[isize], count: usize) {
    #[cfg(target_arch = "x86_64")]
    let level = Level::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    let level = Level::Portable;
    // SAFETY: the caller's promise.
    unsafe { replaced(level, operand, places, updates, sources, count) }
}

/// # Safety
/// As `combined_portable`, counted in bytes, on a machine with `level`.
#[inline(always)]
unsafe fn replaced(
    level: Level,
    operand: *mut u8,
    places: &[isize],
    updates: *const u8,
    sources: &[isize],
    count: usize,
) {
    for (&place, &source) in places.iter().zip(sources).filter(|&(&place, _)| place != OUTSIDE) {
        let (from, to) = (updates.wrapping_offset(source), operand.wrapping_offset(place));
        // SAFETY: the caller's promise.
        unsafe {
            match count {
                1 => to.write(from.read()),
                2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
                _ => runs::run(level, Store::Cached, from, to, count),
            }
        }
    }
}
