//! Matmuls of a few rows with a large right factor that has scales by group, on machines with AVX-512 and AMX: the factor is
//! read once, and what a group adds up to never leaves the first cache before it is scaled.
//!
//! Up to four rows meet factors whose steps lie side by side, vector by vector. More rows, of bf16, meet factors of either order
//! as tiles; a group is a whole number of tiles, the last one filled up with zeros.
#![allow(unsafe_code)]
// Rows, outputs and groups are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use tensor::DType;

use super::super::Cores;
use super::super::machine::Machine;
use super::amx::{Amx, Bf16, pack, turn};
use super::avx512::{FromSigned, FromUnsigned, Wide};
use super::drive::Kernel;
use super::few::{load, multiply, store, zero};
use super::grouped::Scales;
use super::narrow::is_byte;
use super::pack::{self as panels, Strip};
use super::scratch::{Loan, Slot};
use super::skinny::sums_of_lanes;
use super::{MatMul, Operand};
use crate::memory::Packing;

const LANES: usize = 16;
/// The most rows that are vectors.
const VECTORS: usize = 4;
/// Outputs whose rows go by together.
const TOGETHER: usize = 4;
/// Rows of a tile, bytes of a row, bytes of a tile, and its steps of bf16.
const TILE: usize = 16;
const ROW: usize = 64;
const BYTES: usize = TILE * ROW;
const STEPS: usize = 32;
/// The most rows that are tiles.
const ROWS: usize = 2 * TILE;
/// Outputs whose sums wait in the second cache.
const WAITING: usize = 1024;
/// Bytes by which the factor is fetched before it is read.
const AHEAD: usize = 256;
/// The most steps of a group whose tiles stay near.
const LONGEST: usize = 512;

/// The ways there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows are vectors, outputs are rows of the factor.
    Vectors,
    /// Rows are tiles, outputs are rows of the factor.
    Turned,
    /// Rows are tiles, outputs lie side by side.
    Tiles,
}

impl Way {
    /// How a problem is computed here, if it is.
    pub(super) fn of(problem: &MatMul, machine: &Machine) -> Option<Way> {
        let MatMul { batch: groups, m, n, k, lhs, rhs, .. } = problem;
        let is_long = *n >= 512 && groups.saturating_mul(*k) >= 256 && *k <= LONGEST;
        if !machine.avx512 || !is_long || !is_byte(rhs.dtype) {
            return None;
        }
        let has_rows = rhs.row_stride == 1
            && rhs.packing == Packing::Bytes
            && rhs.batch_stride == *k as isize
            && k.is_multiple_of(LANES);
        let is_float = matches!(lhs.dtype, DType::F32 | DType::BF16 | DType::F16);
        let has_tiles = machine.amx && lhs.dtype == DType::BF16 && lhs.packing == Packing::Bytes && *m <= ROWS;
        match (has_rows, *m <= VECTORS) {
            (true, true) if is_float => Some(Way::Vectors),
            (true, false) if has_tiles => Some(Way::Turned),
            (false, false) if has_tiles && rhs.col_stride == 1 => Some(Way::Tiles),
            _ => None,
        }
    }

    /// Whether scales may lie in any order.
    pub(super) fn reads_any_scales(self) -> bool {
        self != Way::Tiles
    }
}

/// What is multiplied, and where it lies.
pub(super) struct ByGroup<'a> {
    pub(super) problem: &'a MatMul,
    pub(super) lhs: *const u8,
    pub(super) rhs: *const u8,
    pub(super) scales: *const f32,
    pub(super) strides: Scales,
    pub(super) out: *mut f32,
}

// SAFETY: addresses of arrays that outlive the run; tasks write disjoint outputs.
unsafe impl Sync for ByGroup<'_> {}

impl ByGroup<'_> {
    /// # Safety
    /// As [`super::Grouped::run`]; the way is that of the problem and the machine.
    pub(super) unsafe fn run(&self, way: Way, cores: &Cores) {
        let MatMul { batch: groups, m, n, k, .. } = *self.problem;
        let blocks = k.div_ceil(STEPS);
        let bytes = match way {
            Way::Vectors => m * groups * k * size_of::<f32>(),
            Way::Turned | Way::Tiles => groups * blocks * 2 * BYTES,
        };
        let loan = Loan::take(Slot::Shared, bytes);
        for group in 0..groups {
            // SAFETY: the rows are readable, and the loan has room for them.
            unsafe {
                match way {
                    Way::Vectors => {
                        for row in 0..m {
                            let to = loan.at::<f32>().add(row * groups * k + group * k);
                            panels::pack_f32(&self.rows_of(group, row..row + 1), 1, to);
                        }
                    }
                    Way::Turned => {
                        pack::<false>(&self.rows_of(group, 0..m), loan.at::<u8>().add(group * blocks * 2 * BYTES));
                    }
                    Way::Tiles => {
                        pack::<true>(&self.rows_of(group, 0..m), loan.at::<u8>().add(group * blocks * 2 * BYTES));
                    }
                }
            }
        }
        let rows = Rows(loan.at::<u8>());
        let threads = cores.pool.threads();
        let units = n.div_ceil(ROWS);
        let parts = if threads == 1 { 1 } else { (4 * threads).min(units) };
        cores.pool.run(parts, &|_, part| {
            let outputs = units * part / parts * ROWS..(units * (part + 1) / parts * ROWS).min(n);
            // SAFETY: the outputs are this task's own; tiles are configured where they are used.
            unsafe {
                match way {
                    Way::Vectors => self.vectors(rows.at().cast(), outputs),
                    Way::Turned | Way::Tiles => {
                        Amx::<Bf16>::begin();
                        if way == Way::Tiles {
                            self.tiles(rows.at(), outputs)
                        } else {
                            self.turned(rows.at(), outputs)
                        };
                        Amx::<Bf16>::end();
                    }
                }
            }
        });
    }

    /// Some rows of a group of the left factor.
    fn rows_of(&self, group: usize, rows: Range<usize>) -> Strip {
        let Operand { dtype, packing, row_stride, col_stride, batch_stride } = self.problem.lhs;
        let at = self.problem.lhs.bytes(group as isize * batch_stride + rows.start as isize * row_stride);
        let at = self.lhs.wrapping_offset(at);
        Strip { dtype, packing, at, lane: row_stride, step: col_stride, lanes: rows.len(), steps: self.problem.k }
    }

    /// The address of an output's row of the right factor.
    fn row_of(&self, output: usize) -> *const u8 {
        self.rhs.wrapping_offset(output as isize * self.problem.rhs.col_stride)
    }

    /// The address of an output's first scale.
    fn scales_of(&self, output: usize) -> *const f32 {
        self.scales.wrapping_offset(output as isize * self.strides.column)
    }

    /// # Safety
    /// As [`ByGroup::run`]; no other thread writes these outputs.
    unsafe fn vectors(&self, rows: *const f32, outputs: Range<usize>) {
        // SAFETY: the caller's promise; the type is the factor's own.
        unsafe {
            match (self.problem.rhs.dtype.is_signed_integer(), self.problem.m) {
                (true, 1) => self.vectors_as::<FromSigned, 1>(rows, outputs),
                (true, 2) => self.vectors_as::<FromSigned, 2>(rows, outputs),
                (true, 3) => self.vectors_as::<FromSigned, 3>(rows, outputs),
                (true, _) => self.vectors_as::<FromSigned, 4>(rows, outputs),
                (false, 1) => self.vectors_as::<FromUnsigned, 1>(rows, outputs),
                (false, 2) => self.vectors_as::<FromUnsigned, 2>(rows, outputs),
                (false, 3) => self.vectors_as::<FromUnsigned, 3>(rows, outputs),
                (false, _) => self.vectors_as::<FromUnsigned, 4>(rows, outputs),
            }
        }
    }

    /// # Safety
    /// As [`ByGroup::vectors`], with `M` rows and the factor's type.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn vectors_as<S: Wide<Elem = u8>, const M: usize>(&self, rows: *const f32, outputs: Range<usize>) {
        let MatMul { batch: groups, n, k, .. } = *self.problem;
        let inputs = groups * k;
        for output in outputs.clone().step_by(TOGETHER) {
            let here = TOGETHER.min(outputs.end - output);
            // Past the last output the one before is read again.
            let of = |j: usize| output + j.min(here - 1);
            let from: [*const u8; TOGETHER] = std::array::from_fn(|j| self.row_of(of(j)));
            let scales: [*const f32; TOGETHER] = std::array::from_fn(|j| self.scales_of(of(j)));
            let mut totals = [[_mm512_setzero_ps(); TOGETHER]; M];
            for group in 0..groups {
                let mut sums = [[_mm512_setzero_ps(); TOGETHER]; M];
                for step in (group * k..(group + 1) * k).step_by(LANES) {
                    // SAFETY: whole vectors of the rows and of the factor.
                    unsafe {
                        let mut x = [_mm512_setzero_ps(); M];
                        for i in 0..M {
                            x[i] = _mm512_loadu_ps(rows.add(i * inputs + step));
                        }
                        for j in 0..TOGETHER {
                            _mm_prefetch::<_MM_HINT_T0>(from[j].wrapping_add(step + AHEAD).cast());
                            let codes = S::wide(from[j].add(step), u16::MAX);
                            for i in 0..M {
                                sums[i][j] = _mm512_fmadd_ps(x[i], codes, sums[i][j]);
                            }
                        }
                    }
                }
                for j in 0..TOGETHER {
                    // SAFETY: the scale of an output and a group.
                    let scale = unsafe { *scales[j].offset(group as isize * self.strides.group) };
                    let scale = _mm512_set1_ps(scale);
                    for i in 0..M {
                        totals[i][j] = _mm512_fmadd_ps(sums[i][j], scale, totals[i][j]);
                    }
                }
            }
            let mut all = [_mm512_setzero_ps(); LANES];
            // One by one: what is copied as memory is kept there all the time.
            for i in 0..M {
                for j in 0..TOGETHER {
                    all[i * TOGETHER + j] = totals[i][j];
                }
            }
            let mut sums = [0.0f32; LANES];
            // SAFETY: an array of one vector's length; outputs of this thread.
            unsafe {
                _mm512_storeu_ps(sums.as_mut_ptr(), sums_of_lanes(&all));
                for i in 0..M {
                    for j in 0..here {
                        *self.out.add(i * n + output + j) = sums[i * TOGETHER + j];
                    }
                }
            }
        }
    }

    /// Outputs are rows of the factor: tiles of it are left factors, and sums are turned at the end.
    ///
    /// # Safety
    /// As [`ByGroup::vectors`]; tiles are configured.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn turned(&self, rows: *const u8, outputs: Range<usize>) {
        let MatMul { batch: groups, m, k, .. } = *self.problem;
        let (blocks, halves) = (k.div_ceil(STEPS), m.div_ceil(TILE));
        let mut sums = Tiles([0.0; 2 * TILE * TILE]);
        let mut codes = Codes([0; BYTES / 2]);
        for output in outputs.clone().step_by(TILE) {
            let here = TILE.min(outputs.end - output);
            let mut totals = [[_mm512_setzero_ps(); TILE]; 2];
            for group in 0..groups {
                // SAFETY: tiles of this group; rows of the factor and scales of these outputs.
                unsafe {
                    zero!("0");
                    zero!("1");
                    for block in 0..blocks {
                        let step = group * k + block * STEPS;
                        self.codes_of(output, here, step..(step + STEPS).min((group + 1) * k), &mut codes);
                        let at = rows.add((group * blocks + block) * 2 * BYTES);
                        load!("4", codes.0.as_ptr(), ROW);
                        load!("6", at, ROW);
                        multiply!("0", "4", "6");
                        if halves == 2 {
                            load!("7", at.add(BYTES), ROW);
                            multiply!("1", "4", "7");
                        }
                    }
                    store!("0", sums.0.as_mut_ptr());
                    store!("1", sums.0.as_mut_ptr().add(TILE * TILE));
                    for j in 0..here {
                        let scale = *self.scales_of(output + j).offset(group as isize * self.strides.group);
                        let scale = _mm512_set1_ps(scale);
                        for half in 0..halves {
                            let sum = _mm512_load_ps(sums.0.as_ptr().add((half * TILE + j) * TILE));
                            totals[half][j] = _mm512_fmadd_ps(sum, scale, totals[half][j]);
                        }
                    }
                }
            }
            for half in 0..halves {
                // SAFETY: rows of the result, and outputs of this thread.
                unsafe { self.store_turned(totals[half], half * TILE, output..output + here) };
            }
        }
    }

    /// Some steps of up to 16 outputs as a tile of bf16; zeros where there are no more.
    ///
    /// # Safety
    /// The outputs and the steps are the factor's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn codes_of(&self, output: usize, here: usize, steps: Range<usize>, to: &mut Codes) {
        let is_signed = self.problem.rhs.dtype.is_signed_integer();
        for j in 0..here {
            let from = self.row_of(output + j).wrapping_add(steps.start);
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast());
            for half in 0..2 {
                let mut bits = _mm256_setzero_si256();
                if steps.start + half * LANES < steps.end {
                    // SAFETY: a whole vector of steps: groups are a multiple of it.
                    let wide = unsafe {
                        let from = from.wrapping_add(half * LANES);
                        if is_signed { FromSigned::wide(from, u16::MAX) } else { FromUnsigned::wide(from, u16::MAX) }
                    };
                    // Codes of a byte are bf16 without rounding.
                    bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_castps_si512(wide)));
                }
                // SAFETY: half a row of the tile.
                unsafe { _mm256_store_si256(to.0.as_mut_ptr().add(j * STEPS + half * LANES).cast(), bits) };
            }
        }
    }

    /// Stores sums of outputs, a vector of rows for each, in the result.
    ///
    /// # Safety
    /// The outputs are this thread's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_turned(&self, totals: [__m512; TILE], first_row: usize, outputs: Range<usize>) {
        let MatMul { m, n, .. } = *self.problem;
        let mask = ((1u32 << outputs.len()) - 1) as u16;
        let mut rows = [_mm512_setzero_si512(); TILE];
        for i in 0..TILE {
            rows[i] = _mm512_castps_si512(totals[i]);
        }
        let rows = turn(rows);
        for (i, row) in rows.into_iter().enumerate().take(m - first_row) {
            // SAFETY: the mask keeps to the outputs.
            unsafe {
                let to = self.out.add((first_row + i) * n + outputs.start);
                _mm512_mask_storeu_ps(to, mask, _mm512_castsi512_ps(row));
            }
        }
    }

    /// Outputs lie side by side.
    ///
    /// # Safety
    /// As [`ByGroup::turned`].
    unsafe fn tiles(&self, rows: *const u8, outputs: Range<usize>) {
        let MatMul { batch: groups, k, ref rhs, .. } = *self.problem;
        let blocks = k.div_ceil(STEPS);
        let room = Loan::take(Slot::Right, 2 * blocks * 2 * BYTES);
        for first in outputs.clone().step_by(WAITING) {
            let block = first..(first + WAITING).min(outputs.end);
            let mut sums = Tiles4([0.0; 4 * TILE * TILE]);
            // Tiles are multiplied one turn after they were written: what was just stored cannot be read at once.
            let mut waiting: Option<(usize, Range<usize>, *const u8)> = None;
            let mut turn = 0;
            for group in 0..groups {
                for output in block.clone().step_by(ROWS) {
                    let here = output..(output + ROWS).min(block.end);
                    let to = room.at::<u8>().wrapping_add(turn % 2 * blocks * 2 * BYTES);
                    turn += 1;
                    // Not more steps at a time than packed bits have room for.
                    for (n, step) in (0..k).step_by(2 * STEPS).enumerate() {
                        let at = group as isize * rhs.batch_stride + step as isize * rhs.row_stride + output as isize;
                        let strip = Strip {
                            dtype: rhs.dtype,
                            packing: rhs.packing,
                            at: self.rhs.wrapping_offset(rhs.bytes(at)),
                            lane: 1,
                            step: rhs.row_stride,
                            lanes: here.len(),
                            steps: (k - step).min(2 * STEPS),
                        };
                        // SAFETY: a part of the factor; the room holds two tiles for each block of steps.
                        unsafe { Amx::<Bf16>::pack_right(&strip, to.wrapping_add(n * 4 * BYTES).cast()) };
                    }
                    // SAFETY: tiles that were packed a turn ago; the sums are this task's.
                    unsafe {
                        if let Some((group, here, right)) = waiting.replace((group, here, to.cast_const())) {
                            self.add_tiles(rows, group, here, right, &mut sums);
                        }
                    }
                }
            }
            if let Some((group, here, right)) = waiting {
                // SAFETY: as above.
                unsafe { self.add_tiles(rows, group, here, right, &mut sums) };
            }
        }
    }

    /// Multiplies the tiles of a group, and adds them with their scales to the result.
    ///
    /// # Safety
    /// As [`ByGroup::tiles`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add_tiles(
        &self,
        rows: *const u8,
        group: usize,
        outputs: Range<usize>,
        right: *const u8,
        sums: &mut Tiles4,
    ) {
        let MatMul { m, n, k, .. } = *self.problem;
        let blocks = k.div_ceil(STEPS);
        let is_tall = m > TILE;
        let scales = self.scales.wrapping_offset(group as isize * self.strides.group);
        // SAFETY: packed tiles, and sums with room for four; the masks keep to the outputs, which are this thread's.
        unsafe {
            zero!("0");
            zero!("1");
            zero!("2");
            zero!("3");
            for block in 0..blocks {
                let left = rows.add((group * blocks + block) * 2 * BYTES);
                let right = right.add(block * 2 * BYTES);
                load!("4", left, ROW);
                load!("6", right, ROW);
                load!("7", right.add(BYTES), ROW);
                multiply!("0", "4", "6");
                multiply!("1", "4", "7");
                if is_tall {
                    load!("5", left.add(BYTES), ROW);
                    multiply!("2", "5", "6");
                    multiply!("3", "5", "7");
                }
            }
            let to = sums.0.as_mut_ptr();
            store!("0", to);
            store!("1", to.add(TILE * TILE));
            store!("2", to.add(2 * TILE * TILE));
            store!("3", to.add(3 * TILE * TILE));
            for half in 0..2 {
                let left = outputs.len().saturating_sub(half * TILE).min(TILE);
                let mask = ((1u32 << left) - 1) as u16;
                let first = outputs.start + half * TILE;
                let scale = match self.strides.column {
                    0 => _mm512_set1_ps(*scales),
                    _ => _mm512_maskz_loadu_ps(mask, scales.wrapping_add(first)),
                };
                for row in 0..m {
                    let at = (row / TILE * 2 + half) * TILE * TILE + row % TILE * TILE;
                    let sum = _mm512_load_ps(sums.0.as_ptr().add(at));
                    let to = self.out.wrapping_add(row * n + first);
                    let before = if group == 0 { _mm512_setzero_ps() } else { _mm512_maskz_loadu_ps(mask, to) };
                    _mm512_mask_storeu_ps(to, mask, _mm512_fmadd_ps(sum, scale, before));
                }
            }
        }
    }
}

/// The rows in the order of a way.
struct Rows(*const u8);

// SAFETY: an address of memory that tasks read only.
unsafe impl Sync for Rows {}

impl Rows {
    fn at(&self) -> *const u8 {
        self.0
    }
}

/// Tiles of sums.
#[repr(C, align(64))]
struct Tiles([f32; 2 * TILE * TILE]);
#[repr(C, align(64))]
struct Tiles4([f32; 4 * TILE * TILE]);

/// A tile of bf16.
#[repr(C, align(64))]
struct Codes([u16; BYTES / 2]);
