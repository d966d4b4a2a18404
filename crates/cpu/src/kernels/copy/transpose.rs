//! Transposes of matrices of 1, 2, 4, 8 or 16-byte elements, a vector register's worth of rows at a time.
#![allow(unsafe_code)]

use super::runs::{Level, Store};

/// Pieces of a matrix are cut at multiples of this many rows or columns.
pub(crate) const TILE: usize = 64;

/// A matrix read by rows and written by columns. Elements of a source row and of a result row are neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub(crate) unit: usize,
    /// Elements of a source row: rows of the result.
    pub(crate) columns: usize,
    /// Source rows: elements of a row of the result.
    pub(crate) rows: usize,
    /// Bytes between source rows.
    pub(crate) from: isize,
    /// Bytes between rows of the result.
    pub(crate) to: isize,
}

impl Matrix {
    /// Some of the columns, and where they start on both sides.
    pub(crate) fn columns_at(
        &self,
        at: usize,
        columns: usize,
        from: *const u8,
        to: *mut u8,
    ) -> (Matrix, *const u8, *mut u8) {
        let to = to.wrapping_offset(at as isize * self.to);
        (Matrix { columns, ..*self }, from.wrapping_add(at * self.unit), to)
    }

    /// Some of the rows, and where they start on both sides.
    pub(crate) fn rows_at(&self, at: usize, rows: usize, from: *const u8, to: *mut u8) -> (Matrix, *const u8, *mut u8) {
        let from = from.wrapping_offset(at as isize * self.from);
        (Matrix { rows, ..*self }, from, to.wrapping_add(at * self.unit))
    }
}

/// Writes the columns of `from` as the rows of `to`.
///
/// # Safety
/// Both sides hold the matrix, they do not overlap, and the machine has `level`.
pub(crate) unsafe fn run(level: Level, store: Store, matrix: &Matrix, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; `unit` names the element type.
    unsafe {
        match matrix.unit {
            1 => run_as::<u8>(level, store, matrix, from, to),
            2 => run_as::<u16>(level, store, matrix, from, to),
            4 => run_as::<u32>(level, store, matrix, from, to),
            8 => run_as::<u64>(level, store, matrix, from, to),
            _ => run_as::<u128>(level, store, matrix, from, to),
        }
    }
}

/// # Safety
/// As `run`, with `T` of the element's width.
unsafe fn run_as<T: Element>(level: Level, store: Store, matrix: &Matrix, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match level {
            Level::Portable => {
                if !thin::<T>(matrix, from, to) {
                    scalar::<T>(store, matrix, from, to);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::wide_avx2::<T>(store, matrix, from, to),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::wide_avx512::<T>(store, matrix, from, to),
        }
    }
}

/// Two to four long rows woven into one, or one long row taken apart: `false` when the matrix is not of that form.
///
/// # Safety
/// As `run`, with `T` of the element's width.
#[inline(always)]
unsafe fn thin<T: Copy>(matrix: &Matrix, from: *const u8, to: *mut u8) -> bool {
    /// # Safety
    /// `from` holds `N` rows `step` bytes apart.
    #[inline(always)]
    unsafe fn weave<T: Copy, const N: usize>(count: usize, from: *const u8, step: isize, to: *mut u8) {
        for i in 0..count {
            for n in 0..N {
                let from = from.wrapping_offset(n as isize * step).cast::<T>().wrapping_add(i);
                // SAFETY: element `i` of row `n`, element `n` of row `i` of the result.
                unsafe { to.cast::<T>().wrapping_add(i * N + n).write_unaligned(from.read_unaligned()) };
            }
        }
    }
    /// # Safety
    /// `to` holds `N` rows `step` bytes apart.
    #[inline(always)]
    unsafe fn part<T: Copy, const N: usize>(count: usize, from: *const u8, to: *mut u8, step: isize) {
        for i in 0..count {
            for n in 0..N {
                let to = to.wrapping_offset(n as isize * step).cast::<T>().wrapping_add(i);
                // SAFETY: element `n` of row `i`, element `i` of row `n` of the result.
                unsafe { to.write_unaligned(from.cast::<T>().wrapping_add(i * N + n).read_unaligned()) };
            }
        }
    }
    let &Matrix { columns, rows, from: from_step, to: to_step, .. } = matrix;
    let width = size_of::<T>() as isize;
    // SAFETY: the caller's promise; rows that are as far apart as they are long follow one another.
    unsafe {
        match (rows, columns) {
            (2, _) if to_step == 2 * width => weave::<T, 2>(columns, from, from_step, to),
            (3, _) if to_step == 3 * width => weave::<T, 3>(columns, from, from_step, to),
            (4, _) if to_step == 4 * width => weave::<T, 4>(columns, from, from_step, to),
            (_, 2) if from_step == 2 * width => part::<T, 2>(rows, from, to, to_step),
            (_, 3) if from_step == 3 * width => part::<T, 3>(rows, from, to, to_step),
            (_, 4) if from_step == 4 * width => part::<T, 4>(rows, from, to, to_step),
            _ => return false,
        }
    }
    true
}

/// One element after another, in blocks whose lines stay in the nearest cache.
///
/// # Safety
/// As `run`, with `T` of the element's width.
unsafe fn scalar<T: Copy>(_store: Store, matrix: &Matrix, from: *const u8, to: *mut u8) {
    let &Matrix { unit, columns, rows, from: from_step, to: to_step } = matrix;
    const BLOCK: usize = 16;
    for first_column in (0..columns).step_by(BLOCK) {
        for first_row in (0..rows).step_by(BLOCK) {
            for column in first_column..columns.min(first_column + BLOCK) {
                for row in first_row..rows.min(first_row + BLOCK) {
                    let from = from.wrapping_offset(row as isize * from_step).wrapping_add(column * unit);
                    let to = to.wrapping_offset(column as isize * to_step).wrapping_add(row * unit);
                    // SAFETY: an element of the matrix.
                    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
                }
            }
        }
    }
}

/// An element type of a transpose.
trait Element: Copy + 'static {}
impl Element for u8 {}
impl Element for u16 {}
impl Element for u32 {}
impl Element for u64 {}
impl Element for u128 {}

/// Kernels that take 16 bytes from each of a group of source rows. Lane `k` of register `r` holds row `k * per + r`,
/// so that shuffles within 128-bit lanes alone make rows of the result as long as the register.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Element, Matrix, Store};

    /// Bytes of a source row that are taken before going on to the next rows: enough lines of a page for the cost of
    /// finding the page, few enough rows of the result for the write buffers.
    const STRIP_BYTES: usize = 512;

    // A line of the result is written at once, by as many blocks side by side as that takes: parts of lines that are left
    // open for long leave the write buffers one by one.
    macro_rules! kernels {
        ($wide:ident, $block:ident, $shuffled:ident, $rest:path, $features:literal, $vector:ty, $lanes:literal, $blocks:literal,
         $load:ident, $store:ident, $stream:ident, [$lo8:ident $hi8:ident $lo16:ident $hi16:ident $lo32:ident $hi32:ident $lo64:ident $hi64:ident]) => {
            /// # Safety
            /// As `run`, with `T` of the element's width, on a machine with the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $wide<T: Element>(store: Store, matrix: &Matrix, from: *const u8, to: *mut u8) {
                // SAFETY: the caller's promise.
                if unsafe { super::thin::<T>(matrix, from, to) } {
                    return;
                }
                let per = 16 / size_of::<T>();
                let (block_rows, strip) = (per * $lanes, STRIP_BYTES / size_of::<T>());
                let row_group = block_rows * $blocks;
                let (whole_rows, whole_columns) = (matrix.rows / row_group * row_group, matrix.columns / per * per);
                let aligned = (to as usize | matrix.to as usize) % (16 * $lanes) == 0;
                let streaming = aligned && store == Store::Streaming;
                let mut first = 0;
                while first < whole_columns {
                    let end = whole_columns.min(first + strip);
                    let mut row = 0;
                    while row < whole_rows {
                        let from = from.wrapping_offset(row as isize * matrix.from);
                        let to = to.wrapping_add(row * size_of::<T>());
                        let mut column = first;
                        while column < end {
                            for block in 0..$blocks {
                                let from = from
                                    .wrapping_add(column * size_of::<T>())
                                    .wrapping_offset((block * block_rows) as isize * matrix.from);
                                let to = to
                                    .wrapping_offset(column as isize * matrix.to)
                                    .wrapping_add(block * block_rows * size_of::<T>());
                                // SAFETY: `block_rows` rows of the group and `per` columns of the matrix; stores are
                                // aligned when they stream.
                                unsafe {
                                    if streaming {
                                        $block::<T, true>(from, matrix.from, to, matrix.to);
                                    } else {
                                        $block::<T, false>(from, matrix.from, to, matrix.to);
                                    }
                                }
                            }
                            column += per;
                        }
                        row += row_group;
                    }
                    first = end;
                }
                // SAFETY: the parts lie within the matrix.
                unsafe {
                    if whole_rows < matrix.rows {
                        let (part, from, to) = matrix.rows_at(whole_rows, matrix.rows - whole_rows, from, to);
                        let (part, from, to) = part.columns_at(0, whole_columns, from, to);
                        $rest(store, &part, from, to);
                    }
                    if whole_columns < matrix.columns {
                        let columns = matrix.columns - whole_columns;
                        let (part, from, to) = matrix.columns_at(whole_columns, columns, from, to);
                        super::scalar::<T>(store, &part, from, to);
                    }
                }
            }

            /// # Safety
            /// 16 bytes of each of the rows of a group are readable, as many rows of a register are writable.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn $block<T: Element, const STREAM: bool>(
                from: *const u8,
                from_step: isize,
                to: *mut u8,
                to_step: isize,
            ) {
                let per = 16 / size_of::<T>();
                // SAFETY: the caller's promise.
                unsafe {
                    let zero: $vector = std::mem::zeroed();
                    let mut v = [zero; 16];
                    for r in 0..per {
                        v[r] = $load(from.wrapping_offset(r as isize * from_step), per as isize * from_step);
                    }
                    // Interleaving the halves of the register file once per bit of the row number transposes it.
                    let mut span = 1;
                    while span < per {
                        let mut next = [zero; 16];
                        for r in 0..per / 2 {
                            (next[2 * r], next[2 * r + 1]) = $shuffled::<T>(v[r], v[r + per / 2]);
                        }
                        v = next;
                        span *= 2;
                    }
                    for r in 0..per {
                        let to = to.wrapping_offset(r as isize * to_step);
                        if STREAM { $stream(to.cast(), v[r]) } else { $store(to.cast(), v[r]) }
                    }
                }
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn $shuffled<T: Element>(a: $vector, b: $vector) -> ($vector, $vector) {
                match size_of::<T>() {
                    1 => ($lo8(a, b), $hi8(a, b)),
                    2 => ($lo16(a, b), $hi16(a, b)),
                    4 => ($lo32(a, b), $hi32(a, b)),
                    _ => ($lo64(a, b), $hi64(a, b)),
                }
            }
        };
    }

    /// # Safety
    /// 16 bytes at four places `step` apart are readable.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    unsafe fn load4(from: *const u8, step: isize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let at = |k: isize| _mm_loadu_si128(from.wrapping_offset(k * step).cast());
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(0)), at(1));
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(2)), at(3));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }

    /// # Safety
    /// 16 bytes at two places `step` apart are readable.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load2(from: *const u8, step: isize) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let at = |k: isize| _mm_loadu_si128(from.wrapping_offset(k * step).cast());
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(0)), at(1))
        }
    }

    /// # Safety
    /// 16 bytes are readable.
    #[inline]
    unsafe fn load1(from: *const u8, _step: isize) -> __m128i {
        // SAFETY: the caller's promise.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    kernels!(wide_avx512, block_avx512, shuffled_avx512, narrow::<T>, "avx512f,avx512bw,avx512vl", __m512i, 4, 1,
        load4, _mm512_storeu_si512, _mm512_stream_si512,
        [_mm512_unpacklo_epi8 _mm512_unpackhi_epi8 _mm512_unpacklo_epi16 _mm512_unpackhi_epi16
         _mm512_unpacklo_epi32 _mm512_unpackhi_epi32 _mm512_unpacklo_epi64 _mm512_unpackhi_epi64]);
    kernels!(wide_avx2, block_avx2, shuffled_avx2, narrow::<T>, "avx2", __m256i, 2, 2,
        load2, _mm256_storeu_si256, _mm256_stream_si256,
        [_mm256_unpacklo_epi8 _mm256_unpackhi_epi8 _mm256_unpacklo_epi16 _mm256_unpackhi_epi16
         _mm256_unpacklo_epi32 _mm256_unpackhi_epi32 _mm256_unpacklo_epi64 _mm256_unpackhi_epi64]);
    kernels!(narrow, block_sse2, shuffled_sse2, super::scalar::<T>, "sse2", __m128i, 1, 1,
        load1, _mm_storeu_si128, _mm_stream_si128,
        [_mm_unpacklo_epi8 _mm_unpackhi_epi8 _mm_unpacklo_epi16 _mm_unpackhi_epi16
         _mm_unpacklo_epi32 _mm_unpackhi_epi32 _mm_unpacklo_epi64 _mm_unpackhi_epi64]);
}
