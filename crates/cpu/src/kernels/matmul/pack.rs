//! Matrices in the order a kernel reads them: panels of lanes, step after step, whatever the strides of the source.
#![allow(unsafe_code)]

use tensor::DType;

use super::narrow;
use crate::memory::Packing;

/// A part of a matrix that becomes one panel: lane `i` of step `p` is at `i·lane + p·step` elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) dtype: DType,
    pub(super) packing: Packing,
    pub(super) at: *const u8,
    pub(super) lane: isize,
    pub(super) step: isize,
    pub(super) lanes: usize,
    pub(super) steps: usize,
}

impl Strip {
    /// What is left after some steps of whole bytes that lie side by side.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn after(&self, steps: usize) -> Strip {
        Strip { at: self.at.wrapping_add(steps * self.dtype.size_bytes()), steps: self.steps - steps, ..*self }
    }

    /// Bytes of so many elements.
    pub(super) fn bytes(&self, elements: isize) -> isize {
        self.packing.bytes(self.dtype, elements)
    }
}

/// An element of a matrix as its bits and as a number.
pub(super) trait Source: Copy {
    /// What a panel holds.
    type Packed: Copy;
    fn packed(self) -> Self::Packed;
}

impl Source for f32 {
    type Packed = f32;
    #[inline(always)]
    fn packed(self) -> f32 {
        self
    }
}

impl Source for f64 {
    type Packed = f64;
    #[inline(always)]
    fn packed(self) -> f64 {
        self
    }
}

impl Source for i32 {
    type Packed = i32;
    #[inline(always)]
    fn packed(self) -> i32 {
        self
    }
}

impl Source for i8 {
    type Packed = i32;
    #[inline(always)]
    fn packed(self) -> i32 {
        i32::from(self)
    }
}

impl Source for u8 {
    type Packed = i32;
    #[inline(always)]
    fn packed(self) -> i32 {
        i32::from(self)
    }
}

/// A byte of a factor that is computed in f32.
macro_rules! narrow_float {
    ($name:ident, |$bits:ident| $value:expr) => {
        #[derive(Clone, Copy, Debug)]
        #[repr(transparent)]
        pub(super) struct $name(u8);

        impl Source for $name {
            type Packed = f32;
            #[inline(always)]
            fn packed(self) -> f32 {
                let $bits = self.0;
                $value
            }
        }
    };
}

narrow_float!(SignedByte, |bits| f32::from(bits as i8));
narrow_float!(UnsignedByte, |bits| f32::from(bits));
narrow_float!(E4M3, |bits| narrow::levels(DType::F8E4M3FN)[usize::from(bits)]);
narrow_float!(E5M2, |bits| narrow::levels(DType::F8E5M2)[usize::from(bits)]);

/// The bits of a bf16.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Bf16(pub(super) u16);

impl Source for Bf16 {
    type Packed = f32;
    #[inline(always)]
    fn packed(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// The bits of an f16.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct F16(pub(super) u16);

impl Source for F16 {
    type Packed = f32;
    #[inline(always)]
    fn packed(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let (exponent, fraction) = (u32::from(self.0 >> 10 & 0x1f), u32::from(self.0 & 0x3ff));
        match exponent {
            0 => {
                let magnitude = fraction as f32 * f32::from_bits((127 - 24) << 23);
                f32::from_bits(sign | magnitude.to_bits())
            }
            31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
        }
    }
}

/// Packs `width` lanes a step; the lanes the strip does not have are `zero`.
///
/// # Safety
/// The strip is of `S` and readable; `to` takes `width·steps` elements.
#[inline(always)]
pub(super) unsafe fn pack<S: Source>(strip: &Strip, width: usize, zero: S::Packed, to: *mut S::Packed) {
    let at = strip.at.cast::<S>();
    for step in 0..strip.steps {
        let from = at.wrapping_offset(step as isize * strip.step);
        if strip.lane == 1 && strip.lanes == width {
            for lane in 0..width {
                // SAFETY: a whole step of the strip and of the panel.
                unsafe { to.add(step * width + lane).write((*from.add(lane)).packed()) };
            }
            continue;
        }
        for lane in 0..width {
            // SAFETY: lanes below `lanes` are the strip's; the caller promises room for all of them.
            unsafe {
                let value = if lane < strip.lanes {
                    (*from.wrapping_offset(lane as isize * strip.lane)).packed()
                } else {
                    zero
                };
                to.add(step * width + lane).write(value);
            }
        }
    }
}

/// Packs a strip of any type that is computed in f32.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
pub(super) unsafe fn pack_f32(strip: &Strip, width: usize, to: *mut f32) {
    let mut room = narrow::Room::new();
    // SAFETY: the caller's promise; the type is the strip's own.
    unsafe {
        let strip = &room.in_bytes(strip);
        match strip.dtype {
            DType::F8E4M3FN => pack::<E4M3>(strip, width, 0.0, to),
            DType::F8E5M2 => pack::<E5M2>(strip, width, 0.0, to),
            dtype if narrow::is_byte(dtype) && dtype.is_signed_integer() => pack::<SignedByte>(strip, width, 0.0, to),
            dtype if narrow::is_byte(dtype) => pack::<UnsignedByte>(strip, width, 0.0, to),
            DType::BF16 => pack::<Bf16>(strip, width, 0.0, to),
            DType::F16 => pack::<F16>(strip, width, 0.0, to),
            _ => pack::<f32>(strip, width, 0.0, to),
        }
    }
}

/// Packs a strip of f64.
///
/// # Safety
/// As [`pack`].
pub(super) unsafe fn pack_f64(strip: &Strip, width: usize, to: *mut f64) {
    // SAFETY: the caller's promise.
    unsafe { pack::<f64>(strip, width, 0.0, to) }
}

/// Packs a strip of any type that is computed in i32.
///
/// # Safety
/// As [`pack`].
pub(super) unsafe fn pack_i32(strip: &Strip, width: usize, to: *mut i32) {
    let mut room = narrow::Room::new();
    // SAFETY: the caller's promise; the type is the strip's own.
    unsafe {
        let strip = &room.in_bytes(strip);
        match strip.dtype {
            dtype if narrow::is_byte(dtype) && dtype.is_signed_integer() => pack::<i8>(strip, width, 0, to),
            dtype if narrow::is_byte(dtype) => pack::<u8>(strip, width, 0, to),
            _ => pack::<i32>(strip, width, 0, to),
        }
    }
}

/// Sums in a kernel's own type, rows `row` elements apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) at: *const f32,
    pub(super) row: usize,
}

/// A block of the result in its own type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounded {
    pub(super) at: *mut u8,
    pub(super) dtype: DType,
    pub(super) row: isize,
}

/// Rounds a block of sums to bf16 or f16.
///
/// # Safety
/// The sums are readable, the result is writable for the block.
pub(super) unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
    for row in 0..rows {
        for col in 0..cols {
            // SAFETY: within the block.
            unsafe {
                let value = *sums.at.add(row * sums.row + col);
                let bits = if out.dtype == DType::BF16 { bf16_bits(value) } else { f16_bits(value) };
                out.at.cast::<u16>().offset(row as isize * out.row + col as isize).write(bits);
            }
        }
    }
}

/// Rounds to nearest, ties to even; NaN stays NaN.
pub(super) fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Rounds to nearest, ties to even; NaN stays NaN.
pub(super) fn f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | (magnitude >> 13) as u16 & 0x3ff;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    // The value as a multiple of the smallest step of its binade, or of the denormals.
    let exponent = (magnitude >> 23).max(113);
    let scaled = f32::from_bits(magnitude);
    let step = f32::from_bits((exponent - 10) << 23);
    let count = (scaled / step).round_ties_even() as u32;
    let base = if magnitude >> 23 < 113 { 0 } else { (exponent - 113) << 10 };
    sign | (base + count) as u16
}
