//! Attention by tiles of keys, with a softmax that learns the largest score as it goes: neither the scores nor a row of
//! them exist as a whole, and keys that no query of a panel sees are left out.
//!
//! Queries lie side by side. The scores of a tile are `keys × queries`, the matmul of the keys (packed rows) and a panel
//! of queries; as weights they are the panel that the values, turned, are multiplied with. Nothing is packed in between.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use super::Arrays;
use super::weigh::{Finish, LEAST, MOST_LANES, Spans, Tile, Weigh};
use crate::kernels::machine::Machine;
use crate::kernels::matmul::tile::{Left, Source, Start, Tiles};
use crate::kernels::matmul::{MatMul, Operand};
use tensor::DType;

/// Bytes of the scores of one tile: most of the first-level cache.
const TILE_BYTES: usize = 28 << 10;
/// Bytes of queries and results for which keys and values are packed once.
const PART_BYTES: usize = 2 << 20;
/// Sizes from which, and up to which, tiles are worth it.
const LEAST_QUERIES: usize = 24;
const LEAST_KEYS: usize = 24;
const MOST_DEPTH: usize = 1024;
/// A weight `e^x` is 0 below this in every way to compute it.
const NO_WEIGHT: f32 = -104.0;

/// What is done with scores before they weigh values: `softmax(scale · score)`, some of them replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Softmax {
    /// Positive and finite.
    pub(crate) scale: f32,
    pub(crate) mask: Option<Mask>,
}

/// Which keys each query sees.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mask {
    /// One range for each query, none of them empty.
    pub(crate) seen: Vec<Range<u32>>,
    pub(crate) hiding: Hiding,
    /// What the scaled scores of the others are replaced with, or what is added to them.
    pub(crate) outside: f32,
}

/// How a mask hides scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hiding {
    Replaced,
    /// Scores that are seen have 0 added.
    Added,
}

/// What keys a panel of queries needs.
#[derive(Clone, Debug)]
struct Extent {
    /// Those some query sees.
    any: Range<usize>,
    /// Those every query sees.
    all: Range<usize>,
}

/// An attention that goes by tiles.
#[derive(Debug)]
pub(crate) struct Tiled {
    tiles: Tiles,
    weigh: Weigh,
    softmax: Softmax,
    /// For each panel of queries.
    extents: Vec<Extent>,
    /// Keys of a tile, those of the last one perhaps less.
    keys: usize,
    /// The most panels of a part.
    most_panels: usize,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Some numbers are such that keys which are not seen have a part in the result, or sums could overflow: nothing of
    /// the output can be used.
    Unfit,
}

thread_local! {
    /// Panels, sums and scores, kept between runs.
    static MEMORY: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Tiled {
    /// `None` where the shapes are not worth it or have no kernel.
    pub(crate) fn new(scores: &MatMul, values: &MatMul, softmax: Softmax, machine: &Machine) -> Option<Tiled> {
        let types = [scores.lhs.dtype, scores.rhs.dtype, scores.out.dtype, values.rhs.dtype, values.out.dtype];
        let tiles = Tiles::new(machine);
        let width = tiles.width();
        let weigh = Weigh::new(machine, width)?;
        let has_kernel = types.iter().all(|&dtype| dtype == DType::F32) && i32::try_from(scores.n).is_ok();
        // Few queries leave lanes empty; a few keys are no tile; panels of great depth leave no room for one.
        let is_worth_it = scores.m >= LEAST_QUERIES.min(width) && scores.n >= LEAST_KEYS;
        let has_room = (1..=MOST_DEPTH).contains(&scores.k) && (1..=MOST_DEPTH).contains(&values.n);
        let has_scale = softmax.scale > 0.0 && softmax.scale.is_finite();
        if !(has_kernel && is_worth_it && has_room && has_scale) {
            return None;
        }
        let seen = softmax.mask.as_ref().map(|mask| &mask.seen);
        if seen.is_some_and(|seen| {
            seen.len() != scores.m || seen.iter().any(|r| r.is_empty() || r.end as usize > scores.n)
        }) {
            return None;
        }
        let extents = (0..scores.m.div_ceil(width)).map(|panel| {
            let queries = panel * width..((panel + 1) * width).min(scores.m);
            let Some(seen) = seen else { return Extent { any: 0..scores.n, all: 0..scores.n } };
            seen[queries].iter().fold(Extent { any: scores.n..0, all: 0..scores.n }, |extent, seen| {
                let (from, to) = (seen.start as usize, seen.end as usize);
                Extent {
                    any: extent.any.start.min(from)..extent.any.end.max(to),
                    all: extent.all.start.max(from)..extent.all.end.min(to),
                }
            })
        });
        let extents = extents.collect();
        let height = tiles.height();
        let most = (TILE_BYTES / (width * size_of::<f32>()) / height).max(1) * height;
        let keys = scores.n.div_ceil(scores.n.div_ceil(most)).next_multiple_of(height);
        let panel_bytes = (scores.k + values.n) * width * size_of::<f32>();
        let most_panels = (PART_BYTES / panel_bytes).max(1);
        Some(Tiled { tiles, weigh, softmax, extents, keys, most_panels })
    }

    pub(super) fn panels(&self) -> usize {
        self.extents.len()
    }

    /// Panels cut into parts of about the same work, at least `least` of them where there are as many.
    pub(super) fn parts(&self, least: usize) -> Vec<Range<usize>> {
        let total: usize = self.extents.iter().map(|extent| extent.any.len()).sum();
        let least = least.max(self.panels().div_ceil(self.most_panels));
        let target = total.div_ceil(least.max(1)).max(1);
        let (mut parts, mut start, mut work) = (Vec::new(), 0, 0);
        for (panel, extent) in self.extents.iter().enumerate() {
            work += extent.any.len();
            let is_long = panel + 1 - start >= self.most_panels;
            if work >= target || is_long || panel + 1 == self.panels() {
                parts.push(start..panel + 1);
                (start, work) = (panel + 1, 0);
            }
        }
        parts
    }

    /// The queries of some panels.
    pub(super) fn queries(&self, panels: &Range<usize>, count: usize) -> Range<usize> {
        panels.start * self.tiles.width()..(panels.end * self.tiles.width()).min(count)
    }

    /// Computes the results of some panels of one matrix.
    ///
    /// # Safety
    /// As [`super::Attention::run`], for these queries.
    pub(super) unsafe fn run(
        &self,
        problem: (&MatMul, &MatMul),
        arrays: &Arrays<'_>,
        batch: usize,
        panels: Range<usize>,
    ) -> Outcome {
        let (scores, values) = problem;
        let matrix = |base: *const u8, operand: &Operand| {
            base.cast::<f32>().wrapping_offset(batch as isize * operand.batch_stride)
        };
        let factors = Factors {
            queries: matrix(arrays.left, &scores.lhs),
            keys: matrix(arrays.right, &scores.rhs),
            values: matrix(arrays.values, &values.rhs),
            out: arrays.out.cast::<f32>().wrapping_offset(batch as isize * values.out.batch_stride),
        };
        // SAFETY: the factors of this matrix.
        let Some(outside) = (unsafe { self.outside(problem, &factors) }) else { return Outcome::Unfit };
        let width = self.tiles.width();
        let (depth, results) = (scores.k, values.n);
        let sizes = [
            panels.len() * depth * width,
            panels.len() * results * width,
            panels.len() * 2 * width,
            self.tiles.left_len(self.keys, depth),
            self.tiles.left_len(results, self.keys),
            self.keys * width,
        ];
        MEMORY.with_borrow_mut(|memory| {
            const ALIGN: usize = 16;
            let length = sizes.iter().map(|n| n.next_multiple_of(ALIGN)).sum::<usize>() + ALIGN;
            if memory.len() < length {
                // What was there is of no use: it need not be copied.
                memory.clear();
                memory.resize(length, 0.0);
            }
            let start = memory.as_mut_ptr();
            let mut next = start.wrapping_add(start.align_offset(ALIGN * size_of::<f32>()).min(ALIGN));
            let [queries, sums, state, keys, turned, tile] = sizes.map(|n| {
                let this = next;
                next = next.wrapping_add(n.next_multiple_of(ALIGN));
                this
            });
            let places = Places { queries, sums, state, keys, turned, tile };
            // SAFETY: the factors are the caller's, the places have room for these panels.
            unsafe { self.run_panels(problem, &factors, &places, panels, outside) }
        })
    }

    /// # Safety
    /// The factors are those of one matrix; the places have the sizes for these panels.
    unsafe fn run_panels(
        &self,
        (scores, values): (&MatMul, &MatMul),
        factors: &Factors,
        places: &Places,
        panels: Range<usize>,
        outside: f32,
    ) -> Outcome {
        let (tiles, width, depth, results) = (&self.tiles, self.tiles.width(), scores.k, values.n);
        let state = |panel: usize| {
            let max = places.state.wrapping_add((panel - panels.start) * 2 * width);
            (max, max.wrapping_add(width))
        };
        for panel in panels.clone() {
            let queries = self.queries(&(panel..panel + 1), scores.m);
            let source = Source {
                at: factors.queries.wrapping_offset(queries.start as isize * scores.lhs.row_stride),
                lane: scores.lhs.row_stride,
                step: scores.lhs.col_stride,
                lanes: queries.len(),
                steps: depth,
            };
            let (max, sum) = state(panel);
            // SAFETY: rows of the left factor; the panel's own places.
            unsafe {
                tiles.pack_right(&source, places.queries.wrapping_add((panel - panels.start) * depth * width));
                std::slice::from_raw_parts_mut(max, width).fill(LEAST);
                std::slice::from_raw_parts_mut(sum, width).fill(0.0);
            }
        }
        let extents = &self.extents[panels.clone()];
        let needed = extents
            .iter()
            .fold(scores.n..0, |all, extent| all.start.min(extent.any.start)..all.end.max(extent.any.end));
        for first in (0..scores.n).step_by(self.keys) {
            let tile = first..(first + self.keys).min(scores.n);
            if tile.end <= needed.start || tile.start >= needed.end {
                continue;
            }
            let source = Source {
                at: factors.keys.wrapping_offset(first as isize * scores.rhs.col_stride),
                lane: scores.rhs.col_stride,
                step: scores.rhs.row_stride,
                lanes: tile.len(),
                steps: depth,
            };
            let turned = Source {
                at: factors.values.wrapping_offset(first as isize * values.rhs.row_stride),
                lane: values.rhs.col_stride,
                step: values.rhs.row_stride,
                lanes: results,
                steps: tile.len(),
            };
            // SAFETY: the keys and values of the tile; their places have room for a tile.
            unsafe {
                tiles.pack_left(&source, places.keys);
                tiles.pack_left(&turned, places.turned);
            }
            for panel in panels.clone() {
                // SAFETY: packed above.
                unsafe { self.meet(scores.m, (depth, results), places, &panels, panel, &tile) };
            }
        }
        for panel in panels.clone() {
            let queries = self.queries(&(panel..panel + 1), scores.m);
            let (max, sum) = state(panel);
            // SAFETY: one lane for each query.
            let max = unsafe { std::slice::from_raw_parts(max, queries.len()) };
            if !self.is_alone(queries.clone(), max, scores.n, outside) {
                return Outcome::Unfit;
            }
            let finish = Finish {
                results: places.sums.wrapping_add((panel - panels.start) * results * width),
                result_rows: results,
                sum,
                queries: queries.len(),
                out: factors.out.wrapping_offset(queries.start as isize * values.out.row_stride),
                out_row: values.out.row_stride,
            };
            // SAFETY: every panel has met a key; the rows of the output are this part's.
            unsafe { self.weigh.finish(&finish) };
        }
        Outcome::Done
    }

    /// A panel of queries meets a tile of keys.
    ///
    /// # Safety
    /// The panel and the tile are packed, the panel's sums are those of the tiles before.
    unsafe fn meet(
        &self,
        count: usize,
        (depth, results): (usize, usize),
        places: &Places,
        panels: &Range<usize>,
        panel: usize,
        tile: &Range<usize>,
    ) {
        let (tiles, width) = (&self.tiles, self.tiles.width());
        let Extent { any, all } = &self.extents[panel];
        let seen = any.start.max(tile.start)..any.end.min(tile.end);
        if seen.is_empty() {
            return;
        }
        let at = panel - panels.start;
        let (keys, block) = (tile.len(), |key: usize| block_of(tiles, tile.len(), key - tile.start));
        let blocks = block(seen.start)..block(seen.end - 1) + 1;
        // Whole blocks are computed; keys nobody sees have no weight.
        let rows = tiles.rows(keys, blocks.start).start..tiles.rows(keys, blocks.end - 1).end;
        let (mut from, mut to) = ([0i32; MOST_LANES], [0i32; MOST_LANES]);
        let is_whole = all.start <= tile.start + rows.start && tile.start + rows.end <= all.end;
        let spans = self.softmax.mask.as_ref().filter(|_| !is_whole).map(|mask| {
            let queries = self.queries(&(panel..panel + 1), count);
            for (lane, seen) in mask.seen[queries].iter().enumerate() {
                (from[lane], to[lane]) = (seen.start as i32, seen.end as i32);
            }
            Spans { from: from.as_ptr(), to: to.as_ptr() }
        });
        let is_first = any.start >= tile.start;
        let max = places.state.wrapping_add(at * 2 * width);
        let sums = places.sums.wrapping_add(at * results * width);
        let weights = places.tile.wrapping_add(rows.start * width);
        let work = Tile {
            scores: weights,
            keys: rows.len(),
            first: (tile.start + rows.start) as i32,
            scale: self.softmax.scale,
            spans,
            max,
            sum: max.wrapping_add(width),
            results: sums,
            result_rows: if is_first { 0 } else { results },
        };
        let right = places.queries.wrapping_add(at * depth * width).cast_const();
        let start = if is_first { Start::Zero } else { Start::Result };
        let keys = Left { at: places.keys, rows: keys, steps: depth };
        let turned = Left { at: places.turned, rows: results, steps: tile.len() };
        // SAFETY: panels packed for these rows and steps; the tile has a row for each key, the sums one for each result.
        unsafe {
            tiles.multiply(&keys, blocks, 0..depth, right, places.tile, Start::Zero);
            self.weigh.weigh(&work);
            tiles.multiply(&turned, 0..tiles.blocks(results), rows, weights, sums, start);
        }
    }

    /// The most that a hidden score can be. `None` where values are not numbers of which as many as there are keys can be
    /// added, or masked scores may be NaN.
    ///
    /// # Safety
    /// The factors of one matrix are readable.
    unsafe fn outside(&self, (scores, values): (&MatMul, &MatMul), factors: &Factors) -> Option<f32> {
        // SAFETY: the caller's promise.
        let most = unsafe { self.magnitude(&values.rhs, (values.k, values.n), factors.values) };
        if most.is_nan() || most > f32::MAX / 4.0 / values.k as f32 {
            return None;
        }
        let Some(mask) = &self.softmax.mask else { return Some(f32::NEG_INFINITY) };
        if mask.hiding == Hiding::Replaced {
            return Some(mask.outside);
        }
        // SAFETY: the caller's promise.
        let (left, right) = unsafe {
            (
                self.magnitude(&scores.lhs, (scores.m, scores.k), factors.queries),
                self.magnitude(&scores.rhs, (scores.k, scores.n), factors.keys),
            )
        };
        // More than any sum of products, however it is rounded.
        let most = 2.0 * left * right * scores.k as f32;
        (most.is_finite() && (most * self.softmax.scale).is_finite())
            .then_some(mask.outside + most * self.softmax.scale)
    }

    /// The largest magnitude in a matrix, NaN where there is one.
    ///
    /// # Safety
    /// The matrix is readable.
    unsafe fn magnitude(&self, operand: &Operand, (rows, cols): (usize, usize), at: *const f32) -> f32 {
        let (runs, run, stride) = match (operand.row_stride, operand.col_stride) {
            (row, 1) if row == cols as isize => (1, rows * cols, 0),
            (1, col) if col == rows as isize => (1, rows * cols, 0),
            (row, 1) => (rows, cols, row),
            (1, col) => (cols, rows, col),
            (row, col) => {
                let element = |n: usize| {
                    let place = (n / cols) as isize * row + (n % cols) as isize * col;
                    // SAFETY: an element of the matrix.
                    unsafe { *at.offset(place) }.to_bits() & 0x7fff_ffff
                };
                return f32::from_bits((0..rows * cols).map(element).max().unwrap_or(0));
            }
        };
        let largest = (0..runs).map(|n| {
            let at = at.wrapping_offset(n as isize * stride).cast::<u32>();
            // SAFETY: elements of the matrix that lie side by side; the machine is the one this was made for.
            unsafe { self.weigh.largest(std::slice::from_raw_parts(at, run)) }
        });
        f32::from_bits(largest.max().unwrap_or(0))
    }

    /// Whether what queries do not see would have no weight. `max` are their largest scores, `outside` is the most that a
    /// score they do not see can be.
    fn is_alone(&self, queries: Range<usize>, max: &[f32], keys: usize, outside: f32) -> bool {
        let Some(mask) = &self.softmax.mask else { return true };
        mask.seen[queries].iter().zip(max).all(|(seen, max)| seen.len() == keys || outside - max < NO_WEIGHT)
    }
}

/// The block of even blocks that a row is in.
fn block_of(tiles: &Tiles, rows: usize, row: usize) -> usize {
    let blocks = tiles.blocks(rows);
    let near = row * blocks / rows;
    (near..blocks).find(|&block| tiles.rows(rows, block).contains(&row)).unwrap_or(near)
}

/// Where the factors and the result of one matrix begin.
struct Factors {
    queries: *const f32,
    keys: *const f32,
    values: *const f32,
    out: *mut f32,
}

/// Memory of one run.
struct Places {
    /// Panels of queries.
    queries: *mut f32,
    /// For each panel, results by queries.
    sums: *mut f32,
    /// For each panel, the largest scores and the sums of weights.
    state: *mut f32,
    /// Keys and values of a tile.
    keys: *mut f32,
    turned: *mut f32,
    /// Scores, then weights.
    tile: *mut f32,
}
