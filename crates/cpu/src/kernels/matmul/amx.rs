//! The matmul on AMX tiles: 32 by 32 sums in four tiles, bf16 or bytes, packed so that a tile is one run of memory.
//!
//! A tile is 16 rows of 64 bytes. Of the left matrix a row holds 64 bytes of steps of one lane; of the right matrix it
//! holds, for each of 16 lanes, four bytes of steps side by side.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

use tensor::DType;

use super::ahead::Ahead;
use super::avx512::{
    FromBf16, FromE4M3, FromE5M2, FromF16, FromF32, FromSigned, FromUnsigned, Wide, round_sums, transpose, with_wide,
};
use super::drive::{Block, Kernel};
use super::lanes::Start;
use super::narrow::{Room, is_byte};
use super::pack::{Rounded, Strip, Sums};

/// Rows of a tile, and groups of four bytes in one.
const TILE: usize = 16;
const SIDE: usize = 2 * TILE;
/// Bytes of a row of a tile, and of a tile.
const ROW_BYTES: usize = 64;
const TILE_BYTES: usize = TILE * ROW_BYTES;
/// Bytes by which rows of steps that lie side by side are fetched before they are packed.
const AHEAD: usize = 512;

/// A panel of the left matrix: bytes from one row of a tile to the next, and from one pair of tiles to the next.
#[derive(Clone, Copy)]
pub(super) struct LeftPanel {
    at: *const u8,
    row: isize,
    step: isize,
}

/// The dot-product instruction of a pair of types.
pub(super) trait DotProduct {
    type Elem: Copy;
    type Sum: Copy;
    const SUM: DType;
    /// Four tiles of sums over `blocks` pairs of tiles of each factor.
    ///
    /// # Safety
    /// Tiles are configured, `left` is readable as it says, `right` is packed, and 32 rows of 128 bytes at `sum` are writable.
    unsafe fn dot_product(
        blocks: usize,
        left: LeftPanel,
        right: *const u8,
        sum: *mut u8,
        sum_row_bytes: isize,
        start: Start,
    );
}

pub(super) struct Bf16;
pub(super) struct SignedSigned;
pub(super) struct SignedUnsigned;
pub(super) struct UnsignedSigned;
pub(super) struct UnsignedUnsigned;

/// Brings one row of the result near.
macro_rules! near {
    () => {
        "prefetchw [{p}]\nprefetchw [{p} + 64]\nadd {p}, {s}"
    };
}

/// Keeps instructions of tiles apart. Side by side they wait for each other in the core's queues, most of all while its other
/// hardware thread is busy: 410 → 640 GFLOP/s then, 1,550 → 1,660 while it is idle.
macro_rules! apart {
    () => {
        "nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop"
    };
}

/// The walk along both panels, and the store of the sums. `$more` goes between the last loads.
macro_rules! walk {
    ($instruction:literal, $more:expr, $left:ident, $right:ident, $blocks:ident, $near:ident, $sum:ident, $second:ident,
     $row:ident) => {
        asm!(
            "2:",
            "tileloadd tmm6, [{b} + {r}]",
            apart!(),
            near!(),
            "tileloaddt1 tmm4, [{a} + {t}]",
            apart!(),
            near!(),
            "tileloadd tmm7, [{b} + {r} + 1024]",
            apart!(),
            $more,
            "tileloaddt1 tmm5, [{e} + {t}]",
            apart!(),
            $more,
            concat!($instruction, " tmm0, tmm4, tmm6"),
            apart!(),
            concat!($instruction, " tmm1, tmm4, tmm7"),
            apart!(),
            concat!($instruction, " tmm2, tmm5, tmm6"),
            apart!(),
            concat!($instruction, " tmm3, tmm5, tmm7"),
            apart!(),
            "add {a}, {f}",
            "add {e}, {f}",
            "add {b}, 2048",
            "dec {n}",
            "jnz 2b",
            "tilestored [{c} + {s}], tmm0",
            "tilestored [{c} + {s} + 64], tmm1",
            "tilestored [{d} + {s}], tmm2",
            "tilestored [{d} + {s} + 64], tmm3",
            a = inout(reg) $left.at => _, e = inout(reg) $left.at.wrapping_offset(TILE as isize * $left.row) => _,
            t = in(reg) $left.row, f = in(reg) $left.step, b = inout(reg) $right => _, n = inout(reg) $blocks => _,
            p = inout(reg) $near => _,
            r = in(reg) ROW_BYTES, c = in(reg) $sum, d = in(reg) $second, s = in(reg) $row,
            options(nostack)
        )
    };
}

macro_rules! dot_product {
    ($name:ident, $elem:ty, $sum:ty, $dtype:expr, $instruction:literal) => {
        impl DotProduct for $name {
            type Elem = $elem;
            type Sum = $sum;
            const SUM: DType = $dtype;

            unsafe fn dot_product(
                blocks: usize,
                left: LeftPanel,
                right: *const u8,
                sum: *mut u8,
                sum_row_bytes: isize,
                start: Start,
            ) {
                let second = sum.wrapping_offset(TILE as isize * sum_row_bytes);
                // Rows of the result are brought near with each pair of tiles: of this block, or of the one below it
                // when this one was just read.
                let near = if start == Start::Result { second.wrapping_offset(TILE as isize * sum_row_bytes) } else { sum };
                // Left tiles pass by L1, which keeps the right panel that all rows meet.
                // SAFETY: the caller's promise; tiles 0 to 3 are set before the loop, `blocks` is not 0.
                unsafe {
                    if start == Start::Result {
                        asm!(
                            "tileloadd tmm0, [{c} + {s}]",
                            "tileloadd tmm1, [{c} + {s} + 64]",
                            "tileloadd tmm2, [{d} + {s}]",
                            "tileloadd tmm3, [{d} + {s} + 64]",
                            c = in(reg) sum, d = in(reg) second, s = in(reg) sum_row_bytes,
                            options(nostack, preserves_flags)
                        );
                    } else {
                        asm!(
                            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                            options(nostack, preserves_flags, nomem)
                        );
                    }
                    // With fewer pairs of tiles, each brings more rows.
                    if blocks * 2 < SIDE {
                        walk!($instruction, near!(), left, right, blocks, near, sum, second, sum_row_bytes);
                    } else {
                        walk!($instruction, "", left, right, blocks, near, sum, second, sum_row_bytes);
                    }
                }
            }
        }
    };
}

dot_product!(Bf16, u16, f32, DType::F32, "tdpbf16ps");
dot_product!(SignedSigned, u8, i32, DType::I32, "tdpbssd");
dot_product!(SignedUnsigned, u8, i32, DType::I32, "tdpbsud");
dot_product!(UnsignedSigned, u8, i32, DType::I32, "tdpbusd");
dot_product!(UnsignedUnsigned, u8, i32, DType::I32, "tdpbuud");

/// The kernel of a dot-product instruction.
pub(super) struct Amx<P>(PhantomData<P>);

impl<P: DotProduct> Kernel for Amx<P> {
    type Left = P::Elem;
    type Right = P::Elem;
    type Sum = P::Sum;
    const ROWS: usize = SIDE;
    const COLS: usize = SIDE;
    const STEP: usize = ROW_BYTES / size_of::<P::Elem>();
    /// 32 KiB of a right panel.
    const PIECE: usize = 16 * ROW_BYTES / size_of::<P::Elem>();
    const DIRECT_PANELS: usize = 16;
    /// Machines with tiles have 2 MiB of L2: a piece of 20 panels, its sums and 8 panels of the right matrix.
    const ALONE_BYTES: usize = 16 << 20;
    const WHOLE_ROWS: bool = true;
    const SUM: DType = P::SUM;

    unsafe fn pack_left(strip: &Strip, to: *mut P::Elem) {
        // SAFETY: the caller's promise.
        unsafe { pack::<true>(strip, to.cast()) }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut P::Elem) {
        let mut room = Room::new();
        // SAFETY: the caller's promise.
        unsafe {
            let strip = &room.in_bytes(strip);
            if strip.dtype.size_bytes() < size_of::<P::Elem>() {
                with_wide!(strip.dtype, S => pack_widened::<S>(strip, to.cast()))
            } else {
                pack::<false>(strip, to.cast())
            }
        }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        ahead.fetch(usize::MAX);
        let blocks = b.steps.div_ceil(Self::STEP);
        let left = match b.left_row {
            None => LeftPanel { at: b.left.cast(), row: ROW_BYTES as isize, step: 2 * TILE_BYTES as isize },
            Some(row) => {
                LeftPanel { at: b.left.cast(), row: row * size_of::<P::Elem>() as isize, step: ROW_BYTES as isize }
            }
        };
        if b.rows == SIDE && b.cols == SIDE && blocks > 0 {
            // SAFETY: the caller's promise, and the whole block belongs to the result.
            return unsafe { P::dot_product(blocks, left, b.right.cast(), b.sum.cast(), b.sum_row * 4, b.start) };
        }
        let mut sums = Aligned([0; SIDE * SIDE]);
        if blocks > 0 {
            let at = sums.0.as_mut_ptr().cast();
            // SAFETY: the panels are packed; the sums are 32 rows of 128 bytes.
            unsafe { P::dot_product(blocks, left, b.right.cast(), at, SIDE as isize * 4, Start::Zero) };
        }
        // SAFETY: the block of the result is writable for its rows and columns.
        unsafe { store_part::<P>(&sums, &b) };
    }
    unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
        // SAFETY: the caller's promise; a machine with tiles has AVX-512 and its bf16 part.
        unsafe {
            if out.dtype == DType::BF16 && cols.is_multiple_of(SIDE) {
                round_block(sums, out, rows, cols);
            } else {
                round_sums(sums, out, rows, cols);
            }
        }
    }
    unsafe fn begin() {
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for tile in 0..8 {
            config.0[16 + 2 * tile] = ROW_BYTES as u8;
            config.0[48 + tile] = TILE as u8;
        }
        // SAFETY: palette 1, eight tiles of 16 rows of 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, preserves_flags, readonly)) };
    }
    unsafe fn end() {
        // SAFETY: tiles are configured; without them a switch of threads has less to save.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

#[repr(C, align(64))]
struct Config([u8; 64]);

/// A block of sums, f32 or i32.
#[repr(C, align(64))]
struct Aligned([u32; SIDE * SIDE]);

/// Stores or adds the part of a block that belongs to the result.
///
/// # Safety
/// The block's part of the result is readable and writable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn store_part<P: DotProduct>(sums: &Aligned, b: &Block<Amx<P>>) {
    for row in 0..b.rows {
        for half in 0..b.cols.div_ceil(TILE) {
            let mask = ((1u32 << (b.cols - half * TILE).min(TILE)) - 1) as u16;
            let to = b.sum.cast::<i32>().wrapping_offset(row as isize * b.sum_row).wrapping_add(half * TILE);
            // SAFETY: the sums have 32 columns; the mask keeps to the columns of the result.
            unsafe {
                let mut value = _mm512_loadu_si512(sums.0.as_ptr().add(row * SIDE + half * TILE).cast());
                if b.start == Start::Result {
                    let old = _mm512_maskz_loadu_epi32(mask, to);
                    value = if P::SUM == DType::F32 {
                        let sum = _mm512_add_ps(_mm512_castsi512_ps(value), _mm512_castsi512_ps(old));
                        _mm512_castps_si512(sum)
                    } else {
                        _mm512_add_epi32(value, old)
                    };
                }
                _mm512_mask_storeu_epi32(to, mask, value);
            }
        }
    }
}

/// Rounds rows of a multiple of 32 sums to bf16. The instruction takes denormal sums for zeros: matmuls of tiles have none.
///
/// # Safety
/// As [`round_sums`] for a multiple of 32 columns.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn round_block(sums: Sums, out: Rounded, rows: usize, cols: usize) {
    for row in 0..rows {
        for col in (0..cols).step_by(SIDE) {
            // SAFETY: a part of a row of the block.
            unsafe {
                let from = sums.at.add(row * sums.row + col);
                let (low, high) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(TILE)));
                let bits: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                let to = out.at.cast::<u16>().wrapping_offset(row as isize * out.row).wrapping_add(col);
                _mm512_storeu_si512(to.cast(), bits);
            }
        }
    }
}

/// Packs a strip into pairs of tiles: of the left matrix if `LEFT`.
///
/// # Safety
/// The strip is readable; `to` takes 32 lanes of its steps rounded up to a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn pack<const LEFT: bool>(strip: &Strip, to: *mut u8) {
    let size = strip.dtype.size_bytes();
    let tile_steps = ROW_BYTES / size;
    for (block, step) in (0..strip.steps).step_by(tile_steps).enumerate() {
        let steps = tile_steps.min(strip.steps - step);
        if !LEFT && size == 1 && strip.lane == 1 && strip.lanes == SIDE && steps == tile_steps {
            let from = strip.at.wrapping_offset(step as isize * strip.step);
            // SAFETY: the block is full; its pair of tiles has its place.
            unsafe { pack_bytes(from, strip.step, to.wrapping_add(2 * block * TILE_BYTES)) };
            continue;
        }
        for half in 0..2 {
            let lanes = strip.lanes.saturating_sub(half * TILE).min(TILE);
            let at = (half * TILE) as isize * strip.lane + step as isize * strip.step;
            let tile = Strip { at: strip.at.wrapping_offset(at * size as isize), lanes, steps, ..*strip };
            // SAFETY: the tile is a part of the strip.
            let rows = unsafe {
                if strip.step == 1 {
                    let rows = lanes_of_steps(&tile);
                    if LEFT { rows } else { turn(rows) }
                } else {
                    let groups = if strip.lane == 1 && size == 2 {
                        pairs_of_steps(&tile)
                    } else if strip.lane == 1 {
                        quads_of_steps(&tile)
                    } else {
                        turn(gathered(&tile))
                    };
                    if LEFT { turn(groups) } else { groups }
                }
            };
            let place = to.wrapping_add((2 * block + half) * TILE_BYTES);
            for (i, row) in rows.into_iter().enumerate() {
                // SAFETY: one of the 16 rows of the tile's place.
                unsafe { _mm512_storeu_si512(place.add(i * ROW_BYTES).cast(), row) };
            }
        }
    }
}

/// Packs a strip of bytes into pairs of tiles of bf16 of the right matrix.
///
/// # Safety
/// As [`pack`]; the bytes are of the type that `S` widens.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_widened<S: Wide>(strip: &Strip, to: *mut u8) {
    const STEPS: usize = ROW_BYTES / 2;
    for (block, step) in (0..strip.steps).step_by(STEPS).enumerate() {
        let steps = STEPS.min(strip.steps - step);
        let at = strip.at.wrapping_offset(step as isize * strip.step);
        let mut part = Strip { at, steps, ..*strip };
        if part.lane == 1 && part.lanes == SIDE && steps == STEPS {
            // SAFETY: the block is full; its pair of tiles has its place.
            unsafe { pack_whole_pairs::<S>(&part, to.wrapping_add(2 * block * TILE_BYTES)) };
            continue;
        }
        let mut room = Room::new();
        if part.lane != 1 && part.step != 1 {
            // SAFETY: at most 32 lanes and steps.
            part = unsafe { room.side_by_side(&part) };
        }
        for half in 0..2 {
            let lanes = part.lanes.saturating_sub(half * TILE).min(TILE);
            let at = part.at.wrapping_offset((half * TILE) as isize * part.lane);
            let tile = Strip { at, lanes, ..part };
            // SAFETY: the tile is a part of the strip.
            let rows =
                unsafe { if tile.lane == 1 { widened_pairs::<S>(&tile) } else { turn(widened_lanes::<S>(&tile)) } };
            let place = to.wrapping_add((2 * block + half) * TILE_BYTES);
            for (i, row) in rows.into_iter().enumerate() {
                // SAFETY: one of the 16 rows of the tile's place.
                unsafe { _mm512_storeu_si512(place.add(i * ROW_BYTES).cast(), row) };
            }
        }
    }
}

/// Packs 32 steps of 32 bytes, which lie side by side, into a pair of tiles of bf16.
///
/// # Safety
/// The steps are readable; `to` takes two tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_whole_pairs<S: Wide>(part: &Strip, to: *mut u8) {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    for pair in 0..TILE {
        let first = part.at.wrapping_offset(2 * pair as isize * part.step);
        let second = first.wrapping_offset(part.step);
        for half in 0..2 {
            // SAFETY: 16 lanes of two of the steps, and a row of a tile.
            unsafe {
                let wide = |at: *const u8| S::wide(at.wrapping_add(half * TILE).cast::<S::Elem>(), u16::MAX);
                let (low, high) = (_mm512_castps_si512(wide(first)), _mm512_castps_si512(wide(second)));
                let row = _mm512_or_si512(_mm512_srli_epi32::<16>(low), _mm512_and_si512(high, upper));
                _mm512_storeu_si512(to.add(half * TILE_BYTES + pair * ROW_BYTES).cast(), row);
            }
        }
    }
}

/// A vector for each pair of steps of bytes: both as bf16, for each of 16 lanes, which lie side by side.
///
/// # Safety
/// The tile is readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn widened_pairs<S: Wide>(tile: &Strip) -> [__m512i; TILE] {
    let lanes = ((1u32 << tile.lanes) - 1) as u16;
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let mut rows = [_mm512_setzero_si512(); TILE];
    for (pair, row) in rows.iter_mut().enumerate() {
        let mut steps = [_mm512_setzero_si512(); 2];
        for (i, step) in steps.iter_mut().enumerate() {
            let p = 2 * pair + i;
            let at = tile.at.wrapping_offset(p as isize * tile.step).cast::<S::Elem>();
            let mask = if p < tile.steps { lanes } else { 0 };
            // SAFETY: the mask keeps to the lanes and steps of the tile.
            *step = _mm512_castps_si512(unsafe { S::wide(at, mask) });
        }
        *row = _mm512_or_si512(_mm512_srli_epi32::<16>(steps[0]), _mm512_and_si512(steps[1], upper));
    }
    rows
}

/// A vector for each lane: its 32 steps of bytes, which lie side by side, as bf16.
///
/// # Safety
/// The tile is readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn widened_lanes<S: Wide>(tile: &Strip) -> [__m512i; TILE] {
    let mut rows = [_mm512_setzero_si512(); TILE];
    for (i, row) in rows.iter_mut().enumerate().take(tile.lanes) {
        let at = tile.at.wrapping_offset(i as isize * tile.lane);
        let mut halves = [_mm256_setzero_si256(); 2];
        for (n, half) in halves.iter_mut().enumerate() {
            let mask = ((1u32 << tile.steps.saturating_sub(n * TILE).min(TILE)) - 1) as u16;
            // SAFETY: the mask keeps to the steps of the tile.
            let wide = _mm512_castps_si512(unsafe { S::wide(at.wrapping_add(n * TILE).cast(), mask) });
            *half = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(wide));
        }
        *row = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
    }
    rows
}

/// Packs 64 steps of 32 bytes, which lie side by side, into a pair of tiles of the right matrix.
///
/// # Safety
/// The steps are readable; `to` takes two tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_bytes(from: *const u8, step: isize, to: *mut u8) {
    for quad in 0..TILE {
        // SAFETY: four of the steps, and a row of each tile.
        unsafe {
            let at = |i: usize| _mm256_loadu_si256(from.wrapping_offset((4 * quad + i) as isize * step).cast());
            let (a, b, c, d) = (at(0), at(1), at(2), at(3));
            let (low01, high01) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            let (low23, high23) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
            // Each has four lanes of either tile.
            let fours = [
                _mm256_unpacklo_epi16(low01, low23),
                _mm256_unpackhi_epi16(low01, low23),
                _mm256_unpacklo_epi16(high01, high23),
                _mm256_unpackhi_epi16(high01, high23),
            ];
            let row = to.add(quad * ROW_BYTES);
            for (i, four) in fours.into_iter().enumerate() {
                _mm_store_si128(row.add(16 * i).cast(), _mm256_castsi256_si128(four));
                _mm_store_si128(row.add(TILE_BYTES + 16 * i).cast(), _mm256_extracti128_si256::<1>(four));
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
pub(super) fn turn(rows: [__m512i; TILE]) -> [__m512i; TILE] {
    let mut turned = [_mm512_setzero_ps(); TILE];
    for (to, row) in turned.iter_mut().zip(rows) {
        *to = _mm512_castsi512_ps(row);
    }
    turned = transpose(&turned);
    let mut columns = [_mm512_setzero_si512(); TILE];
    for (to, column) in columns.iter_mut().zip(turned) {
        *to = _mm512_castps_si512(column);
    }
    columns
}

/// A vector for each lane: its steps, which lie side by side.
///
/// # Safety
/// The tile is readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn lanes_of_steps(tile: &Strip) -> [__m512i; TILE] {
    let size = tile.dtype.size_bytes();
    let mask = if tile.steps * size >= 64 { u64::MAX } else { (1u64 << (tile.steps * size)) - 1 };
    let mut rows = [_mm512_setzero_si512(); TILE];
    for (i, row) in rows.iter_mut().enumerate().take(tile.lanes) {
        let at = tile.at.wrapping_offset(i as isize * tile.lane * size as isize);
        // SAFETY: the mask keeps to the steps of the tile.
        *row = unsafe { _mm512_maskz_loadu_epi8(mask, at.cast()) };
    }
    rows
}

/// As [`lanes_of_steps`], from any strides.
///
/// # Safety
/// The tile is readable.
unsafe fn gathered(tile: &Strip) -> [__m512i; TILE] {
    let size = tile.dtype.size_bytes();
    let mut bytes = [[0u8; ROW_BYTES]; TILE];
    for (i, row) in bytes.iter_mut().enumerate().take(tile.lanes) {
        for (p, to) in row.chunks_exact_mut(size).enumerate().take(tile.steps) {
            let at = (i as isize * tile.lane + p as isize * tile.step) * size as isize;
            // SAFETY: an element of the tile.
            unsafe { std::ptr::copy_nonoverlapping(tile.at.wrapping_offset(at), to.as_mut_ptr(), size) };
        }
    }
    // SAFETY: 16 arrays of 64 bytes are 16 vectors.
    unsafe { std::mem::transmute(bytes) }
}

/// A vector for each pair of steps: both elements of each of 16 lanes, which lie side by side.
///
/// # Safety
/// The tile is of two-byte elements and readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pairs_of_steps(tile: &Strip) -> [__m512i; TILE] {
    let mask = ((1u32 << tile.lanes) - 1) as u16;
    let mut rows = [_mm512_setzero_si512(); TILE];
    for (pair, row) in rows.iter_mut().enumerate() {
        let mut steps = [_mm512_setzero_si512(); 2];
        for (i, step) in steps.iter_mut().enumerate() {
            let p = 2 * pair + i;
            let at = tile.at.wrapping_offset(p as isize * tile.step * 2);
            _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast());
            let mask = if p < tile.steps { mask } else { 0 };
            // SAFETY: the mask keeps to the lanes and steps of the tile.
            *step = _mm512_cvtepu16_epi32(unsafe { _mm256_maskz_loadu_epi16(mask, at.cast()) });
        }
        *row = _mm512_or_si512(steps[0], _mm512_slli_epi32::<16>(steps[1]));
    }
    rows
}

/// A vector for each four steps: the elements of each of 16 lanes, which lie side by side.
///
/// # Safety
/// The tile is of one-byte elements and readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn quads_of_steps(tile: &Strip) -> [__m512i; TILE] {
    let mask = ((1u32 << tile.lanes) - 1) as u16;
    let mut rows = [_mm512_setzero_si512(); TILE];
    for (quad, row) in rows.iter_mut().enumerate() {
        let mut steps = [_mm512_setzero_si512(); 4];
        for (i, step) in steps.iter_mut().enumerate() {
            let p = 4 * quad + i;
            let at = tile.at.wrapping_offset(p as isize * tile.step);
            let mask = if p < tile.steps { mask } else { 0 };
            // SAFETY: the mask keeps to the lanes and steps of the tile.
            *step = _mm512_cvtepu8_epi32(unsafe { _mm_maskz_loadu_epi8(mask, at.cast()) });
        }
        let low = _mm512_or_si512(steps[0], _mm512_slli_epi32::<8>(steps[1]));
        let high = _mm512_or_si512(steps[2], _mm512_slli_epi32::<8>(steps[3]));
        *row = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
    }
    rows
}
