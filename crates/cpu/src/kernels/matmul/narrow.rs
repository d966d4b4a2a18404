//! Factors of a byte or less an element: which there are, what they stand for, and how packed bits become bytes.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use tensor::DType;

use super::pack::Strip;
use crate::memory::Packing;

/// Whether elements of a type are read as they are by matmuls of wider floats, which have every value of it.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    is_byte(dtype) || matches!(dtype, DType::F8E4M3FN | DType::F8E5M2)
}

/// Whether an element is an integer of at most a byte. In a byte of its own a smaller one is the number that the byte is.
pub(crate) fn is_byte(dtype: DType) -> bool {
    dtype.is_integer() && dtype.bits() <= 8
}

/// What each byte of an 8-bit float stands for.
pub(super) fn levels(dtype: DType) -> &'static [f32; 256] {
    static E4M3: OnceLock<[f32; 256]> = OnceLock::new();
    static E5M2: OnceLock<[f32; 256]> = OnceLock::new();
    let (table, dtype) = if dtype == DType::F8E5M2 { (&E5M2, dtype) } else { (&E4M3, DType::F8E4M3FN) };
    let level = |bits: usize| tensor::decode_float(dtype, bits as u64).unwrap_or(f64::NAN) as f32;
    table.get_or_init(|| std::array::from_fn(level))
}

/// What the bits of an element of 2 or 4 bits stand for; those of 2 bits again and again.
#[cfg(target_arch = "x86_64")]
pub(super) fn small_levels(dtype: DType) -> [f32; 16] {
    let bits = dtype.bits().min(4);
    std::array::from_fn(|n| {
        let code = n as i32 & ((1 << bits) - 1);
        let is_negative = dtype.is_signed_integer() && code >> (bits - 1) != 0;
        (if is_negative { code - (1 << bits) } else { code }) as f32
    })
}

/// Steps and lanes of the largest strip of packed bits.
const STEPS: usize = 64;
const LANES: usize = 32;
/// Elements of 4 bits that are unpacked together.
#[cfg(target_arch = "x86_64")]
const GROUP: usize = 16;

/// Room for the bytes of a strip.
pub(super) struct Room(MaybeUninit<[[u8; LANES]; STEPS]>);

impl Room {
    #[inline(always)]
    pub(super) fn new() -> Room {
        Room(MaybeUninit::uninit())
    }

    fn row(&mut self, step: usize) -> *mut u8 {
        self.0.as_mut_ptr().cast::<[u8; LANES]>().wrapping_add(step).cast()
    }

    /// The strip with each element in a byte of its own.
    ///
    /// # Safety
    /// The strip is readable. One of packed bits has its lanes side by side from the start of a byte, at most 32 of them, and
    /// at most 64 steps, each a whole number of bytes from the one before.
    #[inline(always)]
    pub(super) unsafe fn in_bytes(&mut self, strip: &Strip) -> Strip {
        if strip.packing == Packing::Bytes {
            return *strip;
        }
        debug_assert!(strip.lane == 1 && strip.lanes <= LANES && strip.steps <= STEPS, "{strip:?}");
        let (lanes, steps) = (strip.lanes.min(LANES), strip.steps.min(STEPS));
        #[cfg(target_arch = "x86_64")]
        if strip.dtype.bits() == 4 && lanes.is_multiple_of(GROUP) && has_avx2() {
            // SAFETY: whole groups of each step, and a row of the room for each.
            unsafe { unpack_steps(&Strip { steps, ..*strip }, self.row(0)) };
            return Strip { at: self.row(0).cast_const(), step: LANES as isize, packing: Packing::Bytes, ..*strip };
        }
        for step in 0..steps {
            let from = strip.at.wrapping_offset(strip.bytes(step as isize * strip.step));
            // SAFETY: the lanes of a step, and a row of the room.
            unsafe { unpack(strip.dtype, from, lanes, self.row(step)) };
        }
        Strip { at: self.row(0).cast_const(), step: LANES as isize, packing: Packing::Bytes, ..*strip }
    }

    /// The strip with its lanes side by side, each element in a byte of its own.
    ///
    /// # Safety
    /// As [`Room::in_bytes`], for a strip of at most 32 lanes and 64 steps of one-byte elements.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn side_by_side(&mut self, strip: &Strip) -> Strip {
        debug_assert!(strip.lanes <= LANES && strip.steps <= STEPS, "{strip:?}");
        for step in 0..strip.steps.min(STEPS) {
            for lane in 0..strip.lanes.min(LANES) {
                let at = lane as isize * strip.lane + step as isize * strip.step;
                // SAFETY: an element of the strip, and of a row of the room.
                unsafe { self.row(step).add(lane).write(*strip.at.wrapping_offset(at)) };
            }
        }
        Strip { at: self.row(0).cast_const(), lane: 1, step: LANES as isize, ..*strip }
    }
}

/// Packed elements, each into a byte of its own.
///
/// # Safety
/// `from` holds `lanes` packed elements, at most 32; `to` has room for as many bytes.
unsafe fn unpack(dtype: DType, from: *const u8, lanes: usize, to: *mut u8) {
    let bits = dtype.bits() as usize;
    for lane in 0..lanes {
        // SAFETY: a byte that holds an element, and the byte it becomes.
        unsafe { to.add(lane).write(element(dtype, *from.add(lane * bits / 8) >> (lane * bits % 8))) };
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// The byte that stands for the element in the low bits of another.
fn element(dtype: DType, bits: u8) -> u8 {
    let spare = 8 - dtype.bits();
    if dtype.is_signed_integer() { (((bits << spare) as i8) >> spare) as u8 } else { (bits << spare) >> spare }
}

/// Steps of elements of 4 bits, each element into a byte of its own.
///
/// # Safety
/// The steps are readable, 16 or 32 elements each, and 32 bytes for each are writable; the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn unpack_steps(strip: &Strip, to: *mut u8) {
    use std::arch::x86_64::*;
    let low_bits = _mm_set1_epi8(0xf);
    let sign = _mm_set1_epi8(if strip.dtype.is_signed_integer() { 8 } else { 0 });
    let row = strip.bytes(strip.step);
    for step in 0..strip.steps {
        for group in 0..strip.lanes / GROUP {
            let from = strip.at.wrapping_offset(step as isize * row).wrapping_add(group * GROUP / 2);
            // SAFETY: eight bytes of 16 elements, and the bytes they become.
            unsafe {
                let packed = _mm_loadl_epi64(from.cast());
                let codes = _mm_unpacklo_epi8(packed, _mm_srli_epi16::<4>(packed));
                let codes = _mm_and_si128(codes, low_bits);
                let values = _mm_sub_epi8(_mm_xor_si128(codes, sign), sign);
                _mm_storeu_si128(to.add(step * LANES + group * GROUP).cast(), values);
            }
        }
    }
}
