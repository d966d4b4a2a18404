//! Convolutions whose rows are images: the gradient of a filter, whose window is as large as an image and whose outputs
//! are few.
//!
//! The window goes by in blocks. For each, the input it meets is padded into memory with the images side by side and the
//! filter's part is packed; then every output adds the matmuls of the block.
#![allow(unsafe_code)]

use std::ops::Range;

use super::super::Cores;
use super::block::{Block, Kernel, Number, Segment, Start};
use super::fill::{self, Part};
use super::scratch::{Loan, Piece};
use super::shape::{AXES, Problem};
use super::{Address, WORTH_A_THREAD};

/// Steps of a block of the window.
const STEPS: usize = 512;
/// The padded input of a block stays below this where a line of the window allows it.
const INPUT_BYTES: usize = 1 << 20;

/// Whether these loops do better than rows of outputs side by side.
pub(super) fn is_better(problem: &Problem) -> bool {
    let [z, y, x] = &problem.axes;
    let spreads = [z, y, x].iter().all(|axis| axis.spread().is_some());
    let line = x.extent(x.count).saturating_mul(z.extent(z.count)).saturating_mul(y.extent(y.count));
    let is_small = line.saturating_mul(problem.batch) < 1 << 26;
    spreads && is_small && x.count < 14 && x.taps > x.count && problem.batch >= 2 * x.count.min(4)
}

/// A block of the window: some lines of one plane and feature.
struct Lines {
    feature: usize,
    z: usize,
    y: Range<usize>,
}

/// What all tasks of a block share.
struct Shared<'a, T> {
    problem: &'a Problem,
    kernel: Kernel<T>,
    segments: Vec<Segment>,
    start: Start,
    padded: Address<T>,
    extent: [usize; AXES],
    panels: Address<T>,
    panel: usize,
    output: Address<T>,
    out: Places,
}

/// Strides of the sums.
#[derive(Clone, Copy)]
struct Places {
    outer: isize,
    axes: [isize; AXES],
}

/// # Safety
/// The arrays are as the problem says.
pub(super) unsafe fn run<T: Number>(
    problem: &Problem,
    input: *const T,
    filter: *const T,
    output: *mut T,
    cores: &Cores,
) {
    let kernel = T::kernel(&cores.machine);
    let axes = &problem.axes;
    let columns = problem.outputs;
    let counts = [0, 1, 2].map(|a| axes[a].count);
    let is_direct = problem.output.feature == 1 || columns == 1;
    let all = problem.batch * problem.pixels() * columns;
    let mut held = (!is_direct).then(|| Loan::take::<T>(Piece::Output, all));
    let out = if is_direct {
        Places { outer: problem.output.outer, axes: [0, 1, 2].map(|a| axes[a].output_stride) }
    } else {
        let outer = (problem.pixels() * columns) as isize;
        Places { outer, axes: [counts[1] * counts[2] * columns, counts[2] * columns, columns].map(|n| n as isize) }
    };
    let panels = columns.div_ceil(kernel.cols);
    // Lines of the window taken at a time.
    let x_taps = axes[2].taps;
    let row = axes[2].extent(counts[2]) * problem.batch;
    let lines_of = |lines: usize| {
        let spread = axes[1].spread().unwrap_or(1);
        axes[1].extent(counts[1]) - (axes[1].taps - 1) * spread + (lines - 1) * spread
    };
    let mut lines = (STEPS / x_taps).clamp(1, axes[1].taps);
    while lines > 1 && lines_of(lines) * axes[0].count * row * size_of::<T>() > INPUT_BYTES {
        lines -= 1;
    }
    lines = axes[1].taps.div_ceil(axes[1].taps.div_ceil(lines));
    let z_first = axes[0].extent(counts[0]) - (axes[0].taps - 1) * axes[0].spread().unwrap_or(1);
    let extent = [z_first, lines_of(lines), axes[2].extent(counts[2])];
    let panel = lines * x_taps * kernel.cols;
    let mut packed = Loan::take::<T>(Piece::Filter, panels * panel);
    let mut padded = Loan::take::<T>(Piece::Input, extent.iter().product::<usize>() * problem.batch);
    let work = problem.size();
    let parts = if cores.pool.threads() == 1 || work < 2 * WORTH_A_THREAD { 1 } else { 4 * cores.pool.threads() };

    for group in 0..problem.groups {
        let at = |base: isize| group as isize * base;
        let from = input.wrapping_offset(at(problem.input.group));
        let filter = filter.wrapping_offset(at(problem.filter.group));
        let sums = match &mut held {
            Some(held) => held.at::<T>(),
            None => output.wrapping_offset(at(problem.output.group)),
        };
        let mut start = Start::Zero;
        for feature in 0..problem.inputs {
            for z in 0..axes[0].taps {
                for first in (0..axes[1].taps).step_by(lines) {
                    let window = Lines { feature, z, y: first..(first + lines).min(axes[1].taps) };
                    let shared = Shared {
                        problem,
                        kernel,
                        segments: segments(problem, &window, extent, kernel.cols),
                        start,
                        padded: Address(padded.at()),
                        extent,
                        panels: Address(packed.at()),
                        panel,
                        output: Address(sums),
                        out,
                    };
                    let shared = &shared;
                    let (from, filter) = (Address(from.cast_mut()), Address(filter.cast_mut()));
                    let (from, filter, window) = (&from, &filter, &window);
                    let fills = parts.min(extent[1] * extent[0]);
                    let packs = parts.min(panels);
                    cores.pool.run(fills + packs, &|_, task| {
                        // SAFETY: the caller's promise; tasks write disjoint parts of the loans.
                        unsafe {
                            if task < fills {
                                shared.fill(from.0, window, task, fills);
                            } else {
                                let task = task - fills;
                                shared.pack(filter.0, window, panels * task / packs..panels * (task + 1) / packs);
                            }
                        }
                    });
                    let rows = problem.batch.div_ceil(kernel.rows);
                    let tasks = problem.pixels() * rows * panels;
                    let parts = parts.min(tasks);
                    cores.pool.run(parts, &|_, part| {
                        for task in tasks * part / parts..tasks * (part + 1) / parts {
                            // SAFETY: input and filter of the block are in place; tasks write disjoint sums.
                            unsafe {
                                shared.task(task / (rows * problem.pixels()), task % (rows * problem.pixels()), rows)
                            };
                        }
                    });
                    start = Start::Result;
                }
            }
        }
        if let Some(held) = &mut held {
            let to = output.wrapping_offset(at(problem.output.group));
            for pixel in 0..problem.pixels() {
                let place = problem.place(pixel, [0, 1, 2].map(|a| axes[a].output_stride));
                let from = held.at::<T>().cast_const().wrapping_add(pixel * columns);
                let strides = [out.outer, 1];
                let to_strides = [problem.output.outer, problem.output.feature];
                // SAFETY: the sums of one output of every image, and their own places.
                unsafe {
                    fill::copy(&kernel, from, strides, to.wrapping_offset(place), to_strides, [problem.batch, columns])
                };
            }
        }
    }
}

fn segments(problem: &Problem, window: &Lines, extent: [usize; AXES], cols: usize) -> Vec<Segment> {
    let [_, y, x] = &problem.axes;
    let row = extent[2] * problem.batch;
    let spread = y.spread().unwrap_or(1);
    let line = |n: usize| Segment { left: (n * spread * row) as isize, right: n * x.taps * cols, steps: x.taps };
    (0..window.y.len()).map(line).collect()
}

impl Problem {
    /// Where an output lies, by strides of the axes.
    fn place(&self, pixel: usize, strides: [isize; AXES]) -> isize {
        let [_, y, x] = &self.axes;
        let index = [pixel / (y.count * x.count), pixel / x.count % y.count, pixel % x.count];
        (0..AXES).map(|a| index[a] as isize * strides[a]).sum()
    }
}

impl<T: Number> Shared<'_, T> {
    /// Pads rows `task` of `tasks` of the block's input.
    ///
    /// # Safety
    /// The input is as the problem says; the loan has room.
    unsafe fn fill(&self, from: *const T, window: &Lines, task: usize, tasks: usize) {
        let axes = &self.problem.axes;
        let spread = |a: usize, tap: usize| (tap * axes[a].spread().unwrap_or(1)) as isize;
        let first = [0, 1, 2].map(|a| axes[a].reach(0, 1).0);
        let rows = self.extent[0] * self.extent[1];
        let row = self.extent[2] * self.problem.batch;
        for line in rows * task / tasks..rows * (task + 1) / tasks {
            let (z, y) = ((line / self.extent[1]) as isize, (line % self.extent[1]) as isize);
            let part = Part {
                from: from.wrapping_offset(window.feature as isize * self.problem.input.feature),
                strides: [0, 1, 2].map(|a| axes[a].input_stride),
                sizes: [0, 1, 2].map(|a| axes[a].input),
                inner_stride: self.problem.input.outer,
                first: [first[0] + spread(0, window.z) + z, first[1] + spread(1, window.y.start) + y, first[2]],
                extent: [1, 1, self.extent[2]],
                inner: self.problem.batch,
                pitch: self.problem.batch,
            };
            // SAFETY: the caller's promise.
            unsafe { fill::fill(&self.kernel, &part, self.padded.0.add(line * row)) };
        }
    }

    /// Packs some panels of the block's part of the filter.
    ///
    /// # Safety
    /// The filter is as the problem says; the loan has room.
    unsafe fn pack(&self, filter: *const T, window: &Lines, panels: Range<usize>) {
        let (problem, cols) = (self.problem, self.kernel.cols);
        let [z, y, x] = &problem.axes;
        for panel in panels {
            let first = panel * cols;
            let count = cols.min(problem.outputs - first);
            let to = self.panels.0.wrapping_add(panel * self.panel);
            let base = window.feature as isize * problem.filter.feature
                + z.filter_index(window.z) as isize * z.filter_stride
                + first as isize * problem.filter.outer;
            for (line, tap) in window.y.clone().enumerate() {
                let at = base
                    + y.filter_index(tap) as isize * y.filter_stride
                    + x.filter_index(0) as isize * x.filter_stride;
                let step = if x.is_reversed { -x.filter_stride } else { x.filter_stride };
                let to = to.wrapping_add(line * x.taps * cols);
                // SAFETY: the caller's promise.
                unsafe {
                    if count < cols {
                        std::ptr::write_bytes(to, 0, x.taps * cols);
                    }
                    let from = filter.wrapping_offset(at);
                    fill::copy(
                        &self.kernel,
                        from,
                        [step, problem.filter.outer],
                        to,
                        [cols as isize, 1],
                        [x.taps, count],
                    );
                }
            }
        }
    }

    /// Adds the block's matmuls to one output of some images.
    ///
    /// # Safety
    /// The input and the panels of the block are in place, and no other task writes these sums.
    unsafe fn task(&self, panel: usize, index: usize, row_blocks: usize) {
        let (problem, kernel) = (self.problem, &self.kernel);
        let (pixel, block) = (index / row_blocks, index % row_blocks);
        let (from, to) = (problem.batch * block / row_blocks, problem.batch * (block + 1) / row_blocks);
        let pitch = [self.extent[1] * self.extent[2] * problem.batch, self.extent[2] * problem.batch, problem.batch];
        let inputs = [0, 1, 2].map(|a| (problem.axes[a].step * pitch[a]) as isize);
        let out = problem.place(pixel, self.out.axes) + from as isize * self.out.outer;
        let cols = kernel.cols.min(problem.outputs - panel * kernel.cols);
        let block = Block {
            segments: &self.segments,
            left: self.padded.0.cast_const().wrapping_offset(problem.place(pixel, inputs)).wrapping_add(from),
            left_row: 1,
            left_step: (problem.axes[2].spread().unwrap_or(1) * problem.batch) as isize,
            right: self.panels.0.cast_const().wrapping_add(panel * self.panel),
            out: self.output.0.wrapping_offset(out).wrapping_add(panel * kernel.cols),
            out_row: self.out.outer,
            start: self.start,
            rows: to - from,
            cols,
        };
        // SAFETY: the caller's promise.
        unsafe { (kernel.multiply)(&block) };
    }
}
