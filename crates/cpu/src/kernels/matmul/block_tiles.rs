//! More than four rows of bf16 times a factor of blocks, with AMX: rows meet 16 outputs as tiles, 256 codes of each at a time.
#![allow(unsafe_code)]
// Rows, outputs and groups are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use tensor::{BlockFormat, DType};

use super::super::Cores;
use super::amx::{Amx, Bf16, pack, turn};
use super::block_rows::{Codes, GROUP, Q4K, Q6K, VECTOR, VECTORS, halves};
use super::blocks::{BlockMatMul, Numbers, Places, tasks};
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
/// The most tiles of codes for the largest block.
const TILES: usize = LONGEST / 16;

/// Rows of bf16 as tiles.
pub(super) struct Tall<'a> {
    problem: &'a BlockMatMul,
    places: &'a Places,
    rows: *const u8,
    /// Sums of groups of 32, for each group those of 32 rows.
    groups: Numbers,
}

// SAFETY: addresses of memory that outlives the run; tasks write disjoint outputs.
unsafe impl Sync for Tall<'_> {}

/// Codes of 16 outputs as tiles of bf16, and what the sums of each tile count.
#[repr(C, align(64))]
struct Room {
    codes: [[[u16; 32]; TILE]; TILES],
    scales: [[f32; TILE]; TILES],
    minima: [[f32; TILE]; TILES],
}

/// Two tiles of sums.
#[repr(C, align(64))]
struct Sums([f32; 2 * TILE * TILE]);

/// The bf16 of small numbers, from a first one on.
const fn small(first: i32) -> [u16; 32] {
    let mut bits = [0; 32];
    let mut n = 0;
    while n < 16 {
        bits[n] = ((first + n as i32) as f32).to_bits().wrapping_shr(16) as u16;
        n += 1;
    }
    bits
}

impl Tall<'_> {
    pub(super) fn takes(problem: &BlockMatMul) -> bool {
        let has_rows = problem.m > VECTORS && problem.m <= 2 * TILE;
        has_rows && problem.dtype == DType::BF16 && problem.k.is_multiple_of(LONGEST)
    }

    /// Inputs that share a scale, each a tile.
    fn group(format: BlockFormat) -> usize {
        if format == BlockFormat::Q6K { 16 } else { GROUP }
    }

    /// # Safety
    /// As [`BlockMatMul::run`], on a machine with AMX.
    pub(super) unsafe fn run(problem: &BlockMatMul, places: &Places, cores: &Cores) {
        let BlockMatMul { m, n, k, dtype, format, .. } = *problem;
        let group = Self::group(format);
        let tiles = k / group;
        let sums = if format == BlockFormat::Q4K { tiles * 2 * TILE } else { 0 };
        let loan = Loan::take(Slot::Shared, tiles * 2 * BYTES + (sums + k) * size_of::<f32>());
        let groups = loan.at::<u8>().wrapping_add(tiles * 2 * BYTES).cast::<f32>();
        let wide = groups.wrapping_add(sums);
        for tile in 0..tiles {
            let at = places.x.wrapping_add(tile * group * dtype.size_bytes());
            let strip = Strip { dtype, packing: Packing::Bytes, at, lane: k as isize, step: 1, lanes: m, steps: group };
            // SAFETY: the rows are readable, and the loan has room for their tiles.
            unsafe { pack::<false>(&strip, loan.at::<u8>().add(tile * 2 * BYTES)) };
        }
        if sums > 0 {
            // SAFETY: the loan has room for sums of 32 rows, and for a row of floats.
            unsafe {
                std::ptr::write_bytes(groups, 0, sums);
                for row in 0..m {
                    problem.widen(places, row, wide);
                    for tile in 0..tiles {
                        let numbers = std::slice::from_raw_parts(wide.add(tile * group), group);
                        *groups.add(tile * 2 * TILE + row) = numbers.iter().sum();
                    }
                }
            }
        }
        let tall = &Tall { problem, places, rows: loan.at(), groups: Numbers(groups) };
        tasks(n, cores, &|outputs| {
            // SAFETY: the outputs are this task's own; tiles are configured where they are used.
            unsafe {
                Amx::<Bf16>::begin();
                if m > TILE {
                    tall.outputs::<2>(outputs);
                } else {
                    tall.outputs::<1>(outputs);
                }
                Amx::<Bf16>::end();
            }
        });
    }

    /// # Safety
    /// As [`Tall::run`], for at most `HALVES` tiles of rows; no other thread writes these outputs, and tiles are configured.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")]
    unsafe fn outputs<const HALVES: usize>(&self, outputs: Range<usize>) {
        let BlockMatMul { format, k, .. } = *self.problem;
        let row_bytes = self.problem.row_bytes();
        let (bytes, tiles) = (LONGEST / format.elements() * format.bytes(), LONGEST / Self::group(format));
        let mut room =
            Room { codes: [[[0; 32]; TILE]; TILES], scales: [[0.0; TILE]; TILES], minima: [[0.0; TILE]; TILES] };
        let mut sums = Sums([0.0; 2 * TILE * TILE]);
        for output in outputs.clone().step_by(TILE) {
            let here = TILE.min(outputs.end - output);
            let mut totals = [[_mm512_setzero_ps(); TILE]; HALVES];
            for block in 0..k / LONGEST {
                for j in 0..TILE {
                    // Past the last output the one before is read again.
                    let row = self.places.blocks.wrapping_add((output + j.min(here - 1)) * row_bytes);
                    let at = row.wrapping_add(block * bytes);
                    for line in 0..bytes.div_ceil(VECTOR) {
                        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(bytes + line * VECTOR).cast());
                    }
                    // SAFETY: a part of an output's row.
                    unsafe {
                        match format {
                            BlockFormat::Q4K => q4k_tiles(at, j, &mut room),
                            BlockFormat::Q6K => q6k_tiles(at, j, &mut room),
                            BlockFormat::Q4_0 => q4_tiles(at, j, &mut room),
                            BlockFormat::Q8_0 => q8_tiles(at, j, &mut room),
                        }
                    }
                }
                for tile in 0..tiles {
                    let at = self.rows.wrapping_add((block * tiles + tile) * 2 * BYTES);
                    // SAFETY: tiles of codes and of rows; sums with room for two.
                    unsafe {
                        zero!("0");
                        load!("4", room.codes[tile].as_ptr(), ROW);
                        load!("6", at, ROW);
                        multiply!("0", "4", "6");
                        store!("0", sums.0.as_mut_ptr());
                        if HALVES == 2 {
                            zero!("1");
                            load!("7", at.add(BYTES), ROW);
                            multiply!("1", "4", "7");
                            store!("1", sums.0.as_mut_ptr().add(TILE * TILE));
                        }
                        for half in 0..HALVES {
                            for j in 0..TILE {
                                let sum = _mm512_load_ps(sums.0.as_ptr().add((half * TILE + j) * TILE));
                                let scale = _mm512_set1_ps(room.scales[tile][j]);
                                totals[half][j] = _mm512_fmadd_ps(sum, scale, totals[half][j]);
                            }
                            if format == BlockFormat::Q4K {
                                let of_rows = self.groups.at().add((block * tiles + tile) * 2 * TILE + half * TILE);
                                let of_rows = _mm512_loadu_ps(of_rows);
                                for j in 0..TILE {
                                    let minimum = _mm512_set1_ps(room.minima[tile][j]);
                                    totals[half][j] = _mm512_fnmadd_ps(of_rows, minimum, totals[half][j]);
                                }
                            }
                        }
                    }
                }
            }
            for half in 0..HALVES {
                let mut rows = [_mm512_setzero_si512(); TILE];
                for j in 0..TILE {
                    rows[j] = _mm512_castps_si512(totals[half][j]);
                }
                // SAFETY: rows of the result, and outputs of this thread.
                unsafe { self.store(rows, half * TILE, output..output + here) };
            }
        }
    }

    /// Stores sums of outputs, a vector of rows for each, in the result.
    ///
    /// # Safety
    /// The outputs are this thread's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store(&self, totals: [__m512i; TILE], first_row: usize, outputs: Range<usize>) {
        let BlockMatMul { m, n, .. } = *self.problem;
        let mask = ((1u32 << outputs.len()) - 1) as u16;
        for (i, row) in turn(totals).into_iter().enumerate().take(m.saturating_sub(first_row)) {
            // SAFETY: the mask keeps to the outputs.
            unsafe {
                let to = self.places.out.add((first_row + i) * n + outputs.start);
                _mm512_mask_storeu_ps(to, mask, _mm512_castsi512_ps(row));
            }
        }
    }
}

/// # Safety
/// A block is readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn q4k_tiles(at: *const u8, output: usize, room: &mut Room) {
    const NUMBERS: [u16; 32] = small(0);
    // SAFETY: a block, and a row of each tile.
    unsafe {
        let mut both = [0.0f32; 16];
        _mm512_storeu_ps(both.as_mut_ptr(), Q4K::scales(at));
        let numbers = _mm512_loadu_si512(NUMBERS.as_ptr().cast());
        for pair in 0..4 {
            let words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.add(16 + 32 * pair).cast()));
            let low = _mm512_and_si512(words, _mm512_set1_epi16(15));
            let codes = [low, _mm512_srli_epi16::<4>(words)];
            for half in 0..2 {
                let tile = 2 * pair + half;
                let to = room.codes[tile][output].as_mut_ptr();
                _mm512_store_si512(to.cast(), _mm512_permutexvar_epi16(codes[half], numbers));
                room.scales[tile][output] = both[tile];
                room.minima[tile][output] = both[8 + tile];
            }
        }
    }
}

/// # Safety
/// A block is readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn q6k_tiles(at: *const u8, output: usize, room: &mut Room) {
    // SAFETY: a block, and half a row of each tile: the other half stays zeros.
    unsafe {
        let scales = Q6K::scales(at);
        let mut each = [0.0f32; 16];
        _mm512_storeu_ps(each.as_mut_ptr(), scales);
        let offset = _mm512_set1_epi8(32);
        for step in 0..2 {
            let (codes, _) = Q6K::step(at, step, scales);
            for half in 0..2 {
                let numbers = _mm512_sub_epi8(codes[half], offset);
                let quarters = [
                    _mm512_castsi512_si128(numbers),
                    _mm512_extracti32x4_epi32::<1>(numbers),
                    _mm512_extracti32x4_epi32::<2>(numbers),
                    _mm512_extracti32x4_epi32::<3>(numbers),
                ];
                for quarter in 0..4 {
                    let tile = step * 8 + half * 4 + quarter;
                    let to = room.codes[tile][output].as_mut_ptr();
                    _mm256_store_si256(to.cast(), bf16_of(quarters[quarter]));
                    room.scales[tile][output] = each[tile];
                }
            }
        }
    }
}

/// # Safety
/// Eight blocks are readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn q4_tiles(at: *const u8, output: usize, room: &mut Room) {
    const NUMBERS: [u16; 32] = small(-8);
    // SAFETY: eight blocks, and a row of each tile.
    unsafe {
        let numbers = _mm512_loadu_si512(NUMBERS.as_ptr().cast());
        for tile in 0..8 {
            let at = at.add(tile * BlockFormat::Q4_0.bytes());
            let words = _mm256_cvtepu8_epi16(_mm_loadu_si128(at.add(2).cast()));
            let low = _mm256_and_si256(words, _mm256_set1_epi16(15));
            let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), _mm256_srli_epi16::<4>(words));
            let to = room.codes[tile][output].as_mut_ptr();
            _mm512_store_si512(to.cast(), _mm512_permutexvar_epi16(codes, numbers));
            room.scales[tile][output] = scale_of(at);
        }
    }
}

/// # Safety
/// Eight blocks are readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn q8_tiles(at: *const u8, output: usize, room: &mut Room) {
    // SAFETY: eight blocks, and a row of each tile.
    unsafe {
        for tile in 0..8 {
            let at = at.add(tile * BlockFormat::Q8_0.bytes());
            let to = room.codes[tile][output].as_mut_ptr();
            _mm256_store_si256(to.cast(), bf16_of(_mm_loadu_si128(at.add(2).cast())));
            _mm256_store_si256(to.add(16).cast(), bf16_of(_mm_loadu_si128(at.add(18).cast())));
            room.scales[tile][output] = scale_of(at);
        }
    }
}

/// The first number of a block, of 16 bits.
///
/// # Safety
/// It is readable; compiled for AVX-512.
#[inline(always)]
unsafe fn scale_of(at: *const u8) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_cvtss_f32(halves(u64::from(at.cast::<u16>().read_unaligned()))) }
}

/// Signed bytes as bf16, which has all of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn bf16_of(bytes: __m128i) -> __m256i {
    let wide = _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(wide))
}
