//! Five to 32 rows of bf16 times a factor of blocks, with AMX: blocks become tiles of bf16 as they are read, and sums stay in tiles.
//!
//! An element of the factor is rounded to bf16, as one of a dense factor is. While four outputs of 256 inputs are made tiles, tiles of the
//! inputs before them are multiplied.
#![allow(unsafe_code)]
// Rows, outputs and steps are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use tensor::{BlockFormat, DType};

use super::super::Cores;
use super::amx::{Amx, Bf16, pack, turn};
use super::block_rows::{Codes, Q4, Q4K, Q6K, Q8, VECTOR, VECTORS};
use super::blocks::{BlockMatMul, FEW_ROWS, Places, tasks};
use super::drive::Kernel;
use super::few::{load, multiply, store, zero};
use super::pack::Strip;
use super::scratch::{Loan, Slot};
use crate::memory::Packing;

/// Elements of the largest block.
const LONGEST: usize = 256;
/// Rows of a tile, bytes of a row, bytes of a tile.
const TILE: usize = 16;
const ROW: usize = 64;
const BYTES: usize = TILE * ROW;
/// Inputs of a tile, and tiles of the largest block.
const STEPS: usize = ROW / 2;
const TILES: usize = LONGEST / STEPS;
/// Outputs whose sums are in tiles at a time.
const SIDE: usize = 2 * TILE;

/// Rows of bf16 as tiles.
pub(super) struct Tall<'a> {
    problem: &'a BlockMatMul,
    places: &'a Places,
    /// For each [`STEPS`] inputs two tiles.
    rows: *const u8,
}

// SAFETY: addresses of memory that outlives the run; tasks write disjoint outputs.
unsafe impl Sync for Tall<'_> {}

/// 256 inputs of 32 outputs: for each 32 inputs two tiles.
#[repr(C, align(64))]
struct Room([[[u16; STEPS]; SIDE]; TILES]);

/// Four tiles of sums.
#[repr(C, align(64))]
struct Sums([[f32; TILE * TILE]; 4]);

/// Blocks of a format as numbers of bf16.
trait Rounded {
    /// Bytes of 256 elements.
    const BYTES: usize;

    /// Writes 256 elements, each 32 of them so many bytes after those before.
    ///
    /// # Safety
    /// The blocks are readable; `to` is at a multiple of 64 bytes and takes eight vectors; compiled for AVX-512 with bf16.
    unsafe fn round(at: *const u8, to: *mut u8, apart: usize);
}

impl Tall<'_> {
    pub(super) fn takes(problem: &BlockMatMul) -> bool {
        let has_rows = problem.m > VECTORS && problem.m <= FEW_ROWS;
        has_rows && problem.dtype == DType::BF16 && problem.k.is_multiple_of(LONGEST)
    }

    /// # Safety
    /// As [`BlockMatMul::run`], on a machine with AMX.
    pub(super) unsafe fn run(problem: &BlockMatMul, places: &Places, cores: &Cores) {
        let BlockMatMul { m, n, k, dtype, format, .. } = *problem;
        let loan = Loan::take(Slot::Shared, k / STEPS * 2 * BYTES);
        let (at, packing) = (places.x, Packing::Bytes);
        let strip = Strip { dtype, packing, at, lane: k as isize, step: 1, lanes: m, steps: k };
        // SAFETY: the rows are readable, and the loan has room for their tiles.
        unsafe { pack::<false>(&strip, loan.at()) };
        let tall = &Tall { problem, places, rows: loan.at() };
        tasks(n, cores, &|outputs| {
            // SAFETY: the outputs are this task's own; tiles are configured where they are used.
            unsafe {
                Amx::<Bf16>::begin();
                match format {
                    BlockFormat::Q4K => tall.all::<Q4K>(outputs),
                    BlockFormat::Q6K => tall.all::<Q6K>(outputs),
                    BlockFormat::Q4_0 => tall.all::<Q4>(outputs),
                    BlockFormat::Q8_0 => tall.all::<Q8>(outputs),
                }
                Amx::<Bf16>::end();
            }
        });
    }

    /// # Safety
    /// As [`Tall::run`]; no other thread writes these outputs, and tiles are configured.
    unsafe fn all<R: Rounded>(&self, outputs: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.problem.m > TILE {
                self.outputs::<R, 2>(outputs);
            } else {
                self.outputs::<R, 1>(outputs);
            }
        }
    }

    /// # Safety
    /// As [`Tall::all`], for at most `HALVES` tiles of rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c")]
    unsafe fn outputs<R: Rounded, const HALVES: usize>(&self, outputs: Range<usize>) {
        /// Outputs that become tiles between two dot products.
        const PART: usize = SIDE / TILES;
        let (k, row_bytes) = (self.problem.k, self.problem.row_bytes());
        let blocks = k / LONGEST;
        let mut rooms = [const { Room([[[0; STEPS]; SIDE]; TILES]) }; 2];
        let mut sums = Sums([[0.0; TILE * TILE]; 4]);
        for first in outputs.clone().step_by(SIDE) {
            let here = SIDE.min(outputs.end - first);
            // SAFETY: tiles are configured.
            unsafe {
                zero!("0");
                zero!("1");
                zero!("2");
                zero!("3");
            }
            for block in 0..=blocks {
                let [even, odd] = &mut rooms;
                let (to, from) = if block % 2 == 0 { (even, odd) } else { (odd, even) };
                for part in 0..TILES {
                    if block < blocks {
                        for j in part * PART..(part + 1) * PART {
                            // Past the last output the one before is read again.
                            let row = self.places.blocks.wrapping_add((first + j.min(here - 1)) * row_bytes);
                            let at = row.wrapping_add(block * R::BYTES);
                            for line in (0..R::BYTES).step_by(VECTOR) {
                                _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(R::BYTES + line).cast());
                                _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SIDE * row_bytes + line).cast());
                            }
                            let to = to.0.as_mut_ptr().cast::<u8>().wrapping_add(j * ROW);
                            // SAFETY: a part of an output's row, and a row of each tile.
                            unsafe { R::round(at, to, 2 * BYTES) };
                        }
                    }
                    if block > 0 {
                        let codes = from.0[part].as_ptr().cast::<u8>();
                        let rows = self.rows.wrapping_add(((block - 1) * TILES + part) * 2 * BYTES);
                        // SAFETY: tiles of outputs and of rows.
                        unsafe {
                            load!("4", codes, ROW);
                            load!("6", rows, ROW);
                            multiply!("0", "4", "6");
                            load!("5", codes.wrapping_add(BYTES), ROW);
                            multiply!("2", "5", "6");
                            if HALVES == 2 {
                                load!("7", rows.wrapping_add(BYTES), ROW);
                                multiply!("1", "4", "7");
                                multiply!("3", "5", "7");
                            }
                        }
                    }
                }
            }
            // SAFETY: room for four tiles; outputs of this thread.
            unsafe {
                store!("0", sums.0[0].as_mut_ptr());
                store!("1", sums.0[1].as_mut_ptr());
                store!("2", sums.0[2].as_mut_ptr());
                store!("3", sums.0[3].as_mut_ptr());
                for (tile, sums) in sums.0.iter().enumerate() {
                    let (start, row) = (first + tile / 2 * TILE, tile % 2 * TILE);
                    if start < first + here && row < HALVES * TILE {
                        self.store(sums, row, start..(start + TILE).min(first + here));
                    }
                }
            }
        }
    }

    /// Stores sums of outputs, a vector of rows for each, in the result.
    ///
    /// # Safety
    /// The outputs are this thread's, at most a tile of them.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store(&self, sums: &[f32; TILE * TILE], first_row: usize, outputs: Range<usize>) {
        let BlockMatMul { m, n, .. } = *self.problem;
        let mut rows = [_mm512_setzero_si512(); TILE];
        for (row, sums) in rows.iter_mut().zip(sums.chunks_exact(TILE)) {
            // SAFETY: 16 sums.
            *row = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
        }
        let mask = ((1u32 << outputs.len()) - 1) as u16;
        for (i, row) in turn(rows).into_iter().enumerate().take(m.saturating_sub(first_row)) {
            // SAFETY: the mask keeps to the outputs.
            unsafe {
                let to = self.places.out.add((first_row + i) * n + outputs.start);
                _mm512_mask_storeu_ps(to, mask, _mm512_castsi512_ps(row));
            }
        }
    }
}

/// Numbers as bf16, in the low half.
///
/// # Safety
/// Compiled for AVX-512 with bf16.
#[inline(always)]
unsafe fn narrow(numbers: __m512) -> __m512i {
    // SAFETY: as above; a vector of bf16 has the bits of one of integers.
    unsafe { _mm512_castsi256_si512(std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(numbers))) }
}

/// Signed bytes times scales as bf16.
///
/// # Safety
/// Compiled for AVX-512 with bf16.
#[inline(always)]
unsafe fn scaled(bytes: [__m128i; 2], scales: [__m512; 2]) -> __m512i {
    // SAFETY: as above.
    unsafe {
        let wide = |n: usize| _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes[n])), scales[n]);
        std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(wide(1), wide(0)))
    }
}

/// The numbers from 0 to 15.
const NUMBERS: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

impl Rounded for Q4K {
    const BYTES: usize = BlockFormat::Q4K.bytes();

    #[inline(always)]
    unsafe fn round(at: *const u8, to: *mut u8, apart: usize) {
        // SAFETY: a block, and eight vectors.
        unsafe {
            let mut both = [0.0f32; 16];
            _mm512_storeu_ps(both.as_mut_ptr(), Q4K::scales(at));
            let both = in_memory(&both);
            let numbers = _mm512_loadu_ps(NUMBERS.as_ptr());
            for pair in 0..4 {
                let words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.add(16 + 32 * pair).cast()));
                let low = _mm512_and_si512(words, _mm512_set1_epi16(15));
                let codes = [low, _mm512_srli_epi16::<4>(words)];
                for half in 0..2 {
                    let group = 2 * pair + half;
                    let (scale, minimum) = (_mm512_set1_ps(both[group]), _mm512_set1_ps(both[8 + group]));
                    // What each of the 16 codes stands for.
                    let levels = narrow(_mm512_fmsub_ps(numbers, scale, minimum));
                    _mm512_store_si512(to.add(group * apart).cast(), _mm512_permutexvar_epi16(codes[half], levels));
                }
            }
        }
    }
}

impl Rounded for Q6K {
    const BYTES: usize = BlockFormat::Q6K.bytes();

    #[inline(always)]
    unsafe fn round(at: *const u8, to: *mut u8, apart: usize) {
        // SAFETY: a block, and eight vectors.
        unsafe {
            let scales = Q6K::scales(at);
            let mut each = [0.0f32; 16];
            _mm512_storeu_ps(each.as_mut_ptr(), scales);
            let each = in_memory(&each);
            let offset = _mm512_set1_epi8(32);
            for step in 0..2 {
                let (codes, _) = Q6K::step(at, step, scales);
                for half in 0..2 {
                    let numbers = _mm512_sub_epi8(codes[half], offset);
                    let low = [_mm512_castsi512_si128(numbers), _mm512_extracti32x4_epi32::<1>(numbers)];
                    let high = [_mm512_extracti32x4_epi32::<2>(numbers), _mm512_extracti32x4_epi32::<3>(numbers)];
                    for (n, bytes) in [low, high].into_iter().enumerate() {
                        let vector = step * 4 + half * 2 + n;
                        let scales = [_mm512_set1_ps(each[2 * vector]), _mm512_set1_ps(each[2 * vector + 1])];
                        _mm512_store_si512(to.add(vector * apart).cast(), scaled(bytes, scales));
                    }
                }
            }
        }
    }
}

impl Rounded for Q4 {
    const BYTES: usize = TILES * BlockFormat::Q4_0.bytes();

    #[inline(always)]
    unsafe fn round(at: *const u8, to: *mut u8, apart: usize) {
        // SAFETY: eight blocks, and eight vectors.
        unsafe {
            let numbers = _mm512_sub_ps(_mm512_loadu_ps(NUMBERS.as_ptr()), _mm512_set1_ps(8.0));
            let scales = eight_scales(at, BlockFormat::Q4_0.bytes());
            let scales = in_memory(&scales);
            for vector in 0..TILES {
                let at = at.add(vector * BlockFormat::Q4_0.bytes());
                let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(at.add(2).cast()));
                let low = _mm256_and_si256(words, _mm256_set1_epi16(15));
                let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), _mm256_srli_epi16::<4>(words));
                let levels = narrow(_mm512_mul_ps(numbers, _mm512_set1_ps(scales[vector])));
                _mm512_store_si512(to.add(vector * apart).cast(), _mm512_permutexvar_epi16(codes, levels));
            }
        }
    }
}

impl Rounded for Q8 {
    const BYTES: usize = TILES * BlockFormat::Q8_0.bytes();

    #[inline(always)]
    unsafe fn round(at: *const u8, to: *mut u8, apart: usize) {
        // SAFETY: eight blocks, and eight vectors.
        unsafe {
            let scales = eight_scales(at, BlockFormat::Q8_0.bytes());
            let scales = in_memory(&scales);
            for vector in 0..TILES {
                let at = at.add(vector * BlockFormat::Q8_0.bytes());
                let bytes = [_mm_loadu_si128(at.add(2).cast()), _mm_loadu_si128(at.add(18).cast())];
                let scale = _mm512_set1_ps(scales[vector]);
                _mm512_store_si512(to.add(vector * apart).cast(), scaled(bytes, [scale, scale]));
            }
        }
    }
}

/// The first numbers of eight blocks, of 16 bits.
///
/// # Safety
/// They are readable, so many bytes apart; compiled for AVX-512.
#[inline(always)]
unsafe fn eight_scales(at: *const u8, bytes: usize) -> [f32; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut bits = [0u64; 2];
        for n in 0..8 {
            bits[n / 4] |= u64::from(at.add(n * bytes).cast::<u16>().read_unaligned()) << (n % 4 * 16);
        }
        let mut scales = [0.0; 8];
        let halves = _mm_set_epi64x(bits[1] as i64, bits[0] as i64);
        _mm256_storeu_ps(scales.as_mut_ptr(), _mm256_cvtph_ps(halves));
        scales
    }
}

/// Numbers that the compiler reads from memory into all lanes. Where they are still in a register, it would move them there with the
/// instructions that this is short of.
#[inline(always)]
fn in_memory<T>(numbers: &T) -> &T {
    std::hint::black_box(numbers)
}
