//! Copies of contiguous runs and of single elements at fixed distances.
#![allow(unsafe_code)]

use super::super::machine::Machine;

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// Through the caches.
    Cached,
    /// Through the caches, which are asked for the places of later results early.
    Ahead,
    /// Around the caches, where the machine can and the alignment allows it. `finish` must follow.
    Streaming,
}

impl Store {
    /// How a machine stores results that are to go around the caches.
    #[inline]
    pub(crate) fn on(self, machine: &Machine) -> Store {
        if self == Store::Streaming && machine.stores_near { Store::Ahead } else { self }
    }
}

/// How far before a result its place is asked for, with [`Store::Ahead`].
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const STORES_AHEAD: usize = 1024;

/// The widest vectors a copy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    #[inline]
    pub(crate) fn of(machine: &Machine) -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            if machine.avx512 {
                return Level::Avx512;
            }
            if machine.avx2 {
                return Level::Avx2;
            }
        }
        let _ = machine;
        Level::Portable
    }
}

/// Makes streamed stores visible to other threads.
#[inline]
pub(crate) fn finish(store: Store) {
    #[cfg(target_arch = "x86_64")]
    if store == Store::Streaming {
        // SAFETY: every x86-64 has SSE.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
    let _ = store;
}

/// Asks for a run to be brought near, without waiting.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address has no effect that can be observed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    let _ = at;
}

/// Asks for the lines of a run.
#[inline(always)]
pub(crate) fn prefetch_run(at: *const u8, bytes: usize) {
    (0..bytes).step_by(64).for_each(|line| prefetch(at.wrapping_add(line)));
}

/// Runs that are copied before one whose start is asked for: memory answers by then.
const ROWS_AHEAD: isize = 4;
/// Bytes of a run that are asked for; processors follow longer runs by themselves.
const BYTES_AHEAD: usize = 512;

/// Asks for the run that is copied [`ROWS_AHEAD`] runs after this one, where processors do not foresee it.
#[inline(always)]
fn prefetch_row(from: *const u8, from_step: isize, bytes: usize) {
    if from_step != bytes as isize {
        prefetch_run(from.wrapping_offset(ROWS_AHEAD.wrapping_mul(from_step)), bytes.min(BYTES_AHEAD));
    }
}

/// Copies one run.
///
/// # Safety
/// `from` is readable and `to` writable for `bytes`, they do not overlap, and the machine has `level`.
#[inline]
pub(crate) unsafe fn run(level: Level, store: Store, from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { rows(level, store, 1, bytes, from, 0, to, 0) }
}

/// Copies `count` runs of `bytes` at distances `from_step` and `to_step`.
///
/// # Safety
/// As `run`, for each of the runs.
#[allow(clippy::too_many_arguments)]
#[inline]
pub(crate) unsafe fn rows(
    level: Level,
    store: Store,
    count: usize,
    bytes: usize,
    from: *const u8,
    from_step: isize,
    to: *mut u8,
    to_step: isize,
) {
    let _ = store;
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            Level::Portable => {
                let (mut from, mut to) = (from, to);
                for _ in 0..count {
                    prefetch_row(from, from_step, bytes);
                    std::ptr::copy_nonoverlapping(from, to, bytes);
                    (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::rows_avx2(store, count, bytes, from, from_step, to, to_step),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::rows_avx512(store, count, bytes, from, from_step, to, to_step),
        }
    }
}

/// Copies `count` elements of `unit` bytes (1, 2, 4, 8 or 16) at distances `from_step` and `to_step`.
///
/// # Safety
/// As `run`, for each of the elements.
#[inline]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn units(
    level: Level,
    store: Store,
    unit: usize,
    count: usize,
    from: *const u8,
    from_step: isize,
    to: *mut u8,
    to_step: isize,
) {
    let _ = store;
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            Level::Portable => units_of(unit, count, from, from_step, to, to_step),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::units_avx2(unit, count, from, from_step, to, to_step),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if from_step == 0 && to_step == unit as isize && store == Store::Streaming => {
                x86::splat_avx512(unit, count, from, to);
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::units_avx512(unit, count, from, from_step, to, to_step),
        }
    }
}

/// # Safety
/// As `units`.
#[inline(always)]
unsafe fn units_of(unit: usize, count: usize, from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
    // SAFETY: the caller's promise.
    unsafe {
        match unit {
            1 => units_as::<u8>(count, from, from_step, to, to_step),
            2 => units_as::<u16>(count, from, from_step, to, to_step),
            4 => units_as::<u32>(count, from, from_step, to, to_step),
            8 => units_as::<u64>(count, from, from_step, to, to_step),
            _ => units_as::<u128>(count, from, from_step, to, to_step),
        }
    }
}

/// # Safety
/// As `units`, with `T` of the element's width.
#[inline(always)]
unsafe fn units_as<T: Copy>(count: usize, from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
    let width = size_of::<T>() as isize;
    // SAFETY: each access is to one of the elements the caller vouches for.
    unsafe {
        // Constant distances let the compiler use whole vectors.
        if to_step == width && from_step == 0 {
            let value = from.cast::<T>().read_unaligned();
            (0..count).for_each(|i| to.cast::<T>().wrapping_add(i).write_unaligned(value));
        } else if to_step == width && from_step == -width {
            let from = from.cast::<T>();
            (0..count)
                .for_each(|i| to.cast::<T>().wrapping_add(i).write_unaligned(from.wrapping_sub(i).read_unaligned()));
        } else {
            let (mut from, mut to) = (from, to);
            for _ in 0..count {
                to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned());
                (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Store;

    /// # Safety
    /// As `units`, on a machine with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn units_avx2(
        unit: usize,
        count: usize,
        from: *const u8,
        from_step: isize,
        to: *mut u8,
        to_step: isize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { super::units_of(unit, count, from, from_step, to, to_step) }
    }

    /// # Safety
    /// As `units`, on a machine with AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn units_avx512(
        unit: usize,
        count: usize,
        from: *const u8,
        from_step: isize,
        to: *mut u8,
        to_step: isize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { super::units_of(unit, count, from, from_step, to, to_step) }
    }

    /// Streams copies of one element.
    ///
    /// # Safety
    /// `from` holds one element, `to` is writable for `count` of them, on a machine with AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn splat_avx512(unit: usize, count: usize, from: *const u8, to: *mut u8) {
        let bytes = count * unit;
        // SAFETY: `pattern` is a line of elements; stores lie within the result, and start at whole elements because
        // the line's start is a multiple of the element away from it.
        unsafe {
            if bytes < 256 || to as usize & (unit - 1) != 0 {
                return super::units_of(unit, count, from, 0, to, unit as isize);
            }
            let mut pattern = [0u8; 64];
            super::units_of(unit, 64 / unit, from, 0, pattern.as_mut_ptr(), unit as isize);
            let line = _mm512_loadu_si512(pattern.as_ptr().cast());
            let mut at = to as usize % 64;
            if at > 0 {
                _mm512_storeu_si512(to.cast(), line);
                at = 64 - at;
            }
            while at + 64 <= bytes {
                _mm512_stream_si512(to.add(at).cast(), line);
                at += 64;
            }
            if at < bytes {
                _mm512_storeu_si512(to.add(bytes - 64).cast(), line);
            }
        }
    }

    /// # Safety
    /// As `rows`, on a machine with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn rows_avx2(
        store: Store,
        count: usize,
        bytes: usize,
        mut from: *const u8,
        from_step: isize,
        mut to: *mut u8,
        to_step: isize,
    ) {
        for _ in 0..count {
            super::prefetch_row(from, from_step, bytes);
            // SAFETY: one of the runs the caller vouches for.
            unsafe { run_avx2(store, from, to, bytes) };
            (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
        }
    }

    /// # Safety
    /// As `run`, on a machine with AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn run_avx2(store: Store, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: every access lies within the run: the last vector is placed to end with it.
        unsafe {
            if bytes < 32 {
                if bytes >= 16 {
                    let (a, b) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(bytes - 16).cast()));
                    _mm_storeu_si128(to.cast(), a);
                    _mm_storeu_si128(to.add(bytes - 16).cast(), b);
                } else if bytes >= 8 {
                    let (a, b) =
                        (from.cast::<u64>().read_unaligned(), from.add(bytes - 8).cast::<u64>().read_unaligned());
                    to.cast::<u64>().write_unaligned(a);
                    to.add(bytes - 8).cast::<u64>().write_unaligned(b);
                } else if bytes >= 4 {
                    let (a, b) =
                        (from.cast::<u32>().read_unaligned(), from.add(bytes - 4).cast::<u32>().read_unaligned());
                    to.cast::<u32>().write_unaligned(a);
                    to.add(bytes - 4).cast::<u32>().write_unaligned(b);
                } else {
                    (0..bytes).for_each(|i| to.add(i).write(from.add(i).read()));
                }
                return;
            }
            let mut at = to as usize % 32;
            if at > 0 {
                _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(from.cast()));
                at = 32 - at;
            }
            if store == Store::Streaming {
                while at + 32 <= bytes {
                    _mm256_stream_si256(to.add(at).cast(), _mm256_loadu_si256(from.add(at).cast()));
                    at += 32;
                }
            } else {
                while at + 32 <= bytes {
                    if store == Store::Ahead {
                        super::prefetch(to.wrapping_add(at + super::STORES_AHEAD));
                    }
                    _mm256_storeu_si256(to.add(at).cast(), _mm256_loadu_si256(from.add(at).cast()));
                    at += 32;
                }
            }
            if at < bytes {
                _mm256_storeu_si256(to.add(bytes - 32).cast(), _mm256_loadu_si256(from.add(bytes - 32).cast()));
            }
        }
    }

    /// # Safety
    /// As `rows`, on a machine with AVX-512 F, BW and VL.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn rows_avx512(
        store: Store,
        count: usize,
        bytes: usize,
        mut from: *const u8,
        from_step: isize,
        mut to: *mut u8,
        to_step: isize,
    ) {
        if bytes <= 64 {
            let mask = if bytes == 64 { !0 } else { (1u64 << bytes) - 1 };
            for _ in 0..count {
                // SAFETY: the mask keeps the access within one of the runs the caller vouches for.
                unsafe { _mm512_mask_storeu_epi8(to.cast(), mask, _mm512_maskz_loadu_epi8(mask, from.cast())) };
                (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
            }
            return;
        }
        for _ in 0..count {
            super::prefetch_row(from, from_step, bytes);
            // SAFETY: one of the runs the caller vouches for, longer than a vector.
            unsafe {
                match store {
                    Store::Cached => run_avx512::<false, false>(from, to, bytes),
                    Store::Ahead => run_avx512::<false, true>(from, to, bytes),
                    Store::Streaming => run_avx512::<true, false>(from, to, bytes),
                }
            }
            (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
        }
    }

    /// # Safety
    /// As `run`, on a machine with AVX-512 F, BW and VL; `bytes` is at least 64.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    unsafe fn run_avx512<const STREAM: bool, const AHEAD: bool>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: every access lies within the run: the last vector is placed to end with it.
        unsafe {
            // A cached store to a line that is being streamed stalls both: ends get one only where they need it.
            let mut at = to as usize % 64;
            if at > 0 {
                _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast()));
                at = 64 - at;
            }
            let load = |at: usize| _mm512_loadu_si512(from.add(at).cast());
            let put = |at: usize, value: __m512i| {
                if STREAM {
                    _mm512_stream_si512(to.add(at).cast(), value)
                } else {
                    _mm512_storeu_si512(to.add(at).cast(), value)
                }
            };
            while at + 256 <= bytes {
                if AHEAD {
                    super::prefetch_run(to.wrapping_add(at + super::STORES_AHEAD), 256);
                }
                let (a, b, c, d) = (load(at), load(at + 64), load(at + 128), load(at + 192));
                put(at, a);
                put(at + 64, b);
                put(at + 128, c);
                put(at + 192, d);
                at += 256;
            }
            while at + 64 <= bytes {
                put(at, load(at));
                at += 64;
            }
            if at < bytes {
                _mm512_storeu_si512(to.add(bytes - 64).cast(), load(bytes - 64));
            }
        }
    }
}
