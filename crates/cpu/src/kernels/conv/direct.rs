//! Convolutions that read the input where it lies, its features side by side: outputs that meet the same taps are a zone,
//! and no zone meets the padding.
#![allow(unsafe_code)]

use std::ops::Range;

use super::super::Cores;
use super::super::matmul::Finish;
use super::block::{Block, Kernel, Number, Segment, Start};
use super::pixels::{self, Cut, Filter, Mix, STEPS, TOGETHER};
use super::scratch::{Loan, Piece};
use super::shape::{AXES, Axis, Problem};
use super::{Address, WORTH_A_THREAD, pack};

/// Rows of a block that are this many bytes apart share one line of every way of L1.
const SAME_LINE: usize = 4096;
/// A block of fewer rows takes as long as one of these: sums wait for each other.
const LEAST_ROWS: usize = 5;

/// Runs of the window in all zones together from which they are too many to be made for every task.
const MOST_RUNS: usize = 1 << 12;

/// Whether these loops do better than those that pad the input first.
pub(super) fn is_better(problem: &Problem, element: usize) -> bool {
    let is_near =
        (problem.input.feature == 1 || problem.inputs == 1) && (problem.output.feature == 1 || problem.outputs == 1);
    let is_plain = problem.axes.iter().all(|axis| axis.spread().is_some_and(|spread| spread > 0));
    let x = &problem.axes[AXES - 1];
    let row = x.input_stride.unsigned_abs().saturating_mul(x.step).saturating_mul(element);
    let run = problem.inputs * if is_merged(problem) { x.taps } else { 1 };
    // Only outputs near the ends of an axis have zones of their own, at most one for each tap and end.
    let zones = problem.axes.iter().map(|axis| axis.count.min(axis.taps.saturating_mul(2).saturating_add(1)));
    let runs = zones.fold(problem.taps(), usize::saturating_mul);
    let is_small = runs < MOST_RUNS * if is_merged(problem) { x.taps } else { 1 };
    is_near && is_plain && is_small && problem.taps() > 1 && run >= 16 && !row.is_multiple_of(SAME_LINE)
}

/// Whether the inputs of neighbouring taps lie side by side.
fn is_merged(problem: &Problem) -> bool {
    let x = &problem.axes[AXES - 1];
    x.spread() == Some(1) && x.input_stride == problem.inputs as isize
}

/// Outputs of one axis that meet the same taps.
#[derive(Clone, Debug)]
struct Zone {
    outputs: Range<usize>,
    taps: Range<usize>,
}

/// The zones of an axis for some outputs.
fn zones(axis: &Axis, outputs: Range<usize>) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for output in outputs {
        let place = |tap: usize| (output * axis.step) as isize + axis.phases[0][tap].1;
        // Inputs of the taps ascend.
        let first = (0..axis.taps).find(|&tap| place(tap) >= 0).unwrap_or(axis.taps);
        let last = (first..axis.taps).rev().find(|&tap| place(tap) < axis.input as isize).map_or(first, |tap| tap + 1);
        match zones.last_mut() {
            Some(zone) if zone.taps == (first..last) => zone.outputs.end = output + 1,
            _ => zones.push(Zone { outputs: output..output + 1, taps: first..last }),
        }
    }
    zones
}

/// One walk of a block's rows: outputs, and the elements from one to the next in the input and the result.
#[derive(Clone, Copy, Debug)]
struct Walk {
    count: usize,
    input: isize,
    output: isize,
}

/// Outputs that meet the same taps, of some images.
struct Region {
    /// Runs of the window by steps of the whole filter: `right` is a step.
    segments: Vec<Segment>,
    /// Images, then the axes.
    walks: [Walk; AXES + 1],
    /// The walk that makes the rows of blocks.
    rows: usize,
    /// The first output and the input at its place, in elements.
    input: isize,
    output: isize,
}

/// What all tasks share.
struct Shared<'a, T> {
    problem: &'a Problem,
    kernel: Kernel<T>,
    input: Address<T>,
    filter: Filter<T>,
    output: Address<T>,
}

/// Convolves. `packed` is the filter in the order of [`super::pack`], if it is at hand; otherwise `filter` is read.
///
/// # Safety
/// The arrays are as the problem says, and [`is_better`] says so.
pub(super) unsafe fn run<T: Number>(
    problem: &Problem,
    input: *const T,
    filter: *const T,
    packed: Option<*const T>,
    output: *mut T,
    finish: Option<&Finish<'_>>,
    cores: &Cores,
) {
    let kernel = T::kernel(&cores.machine);
    let threads = cores.pool.threads();
    let panels = problem.outputs.div_ceil(kernel.cols);
    let mut cut = Cut::new::<T>(problem, Mix::Features, 1);
    let count = problem.axes[cut.axis].count;
    let tasks_of = |cut: &Cut| problem.groups * problem.batch.div_ceil(cut.images) * count.div_ceil(cut.rows);
    // More tasks for the threads: first by panels, which leaves blocks their rows.
    let mut parts = 1;
    if threads > 1 && problem.size().saturating_mul(problem.groups) > 2 * WORTH_A_THREAD {
        let wanted = 4 * threads;
        parts = wanted.div_ceil(tasks_of(&cut).max(1)).min(panels);
        if tasks_of(&cut) * parts < wanted {
            parts = 1;
            cut = Cut::new::<T>(problem, Mix::Features, threads);
        }
    }
    let blocks = count.div_ceil(cut.rows.max(1));
    let bunches = problem.batch.div_ceil(cut.images);
    let mut loan = None;
    let outputs = problem.batch * problem.pixels() / (bunches * blocks).max(1);
    let filter = match packed {
        Some(packed) => Filter::Packed(Address(packed.cast_mut())),
        None if pixels::packs_by_task::<T>(problem, bunches * blocks, outputs, threads) => {
            Filter::Plain(Address(filter.cast_mut()))
        }
        None => {
            let elements = pack::elements(problem, Mix::Features, kernel.cols);
            let place = loan.insert(Loan::take::<T>(Piece::Filter, elements)).at::<T>();
            // SAFETY: the caller's promise; the loan has room for the packed filter.
            unsafe { pack::pack(problem, Mix::Features, &kernel, filter, place, Some(&cores.pool)) };
            Filter::Packed(Address(place))
        }
    };
    let shared = &Shared { problem, kernel, input: Address(input.cast_mut()), filter, output: Address(output) };
    let cut = &cut;
    cores.pool.run(problem.groups * bunches * blocks * parts, &|worker, task| {
        let (part, task) = (task % parts, task / parts);
        let (block, task) = (task % blocks, task / blocks);
        let (bunch, group) = (task % bunches, task / bunches);
        let images = bunch * cut.images..((bunch + 1) * cut.images).min(problem.batch);
        let rows = block * cut.rows..((block + 1) * cut.rows).min(count);
        let part = panels * part / parts..panels * (part + 1) / parts;
        // SAFETY: the caller's promise; tasks write disjoint parts of the output.
        unsafe { shared.task(group, cut.axis, images.clone(), rows.clone(), part.clone()) };
        if let Some(finish) = finish {
            let inner: usize = problem.axes[cut.axis + 1..].iter().map(|axis| axis.count).product();
            let first = group * problem.outputs;
            let features = first + part.start * kernel.cols..first + (part.end * kernel.cols).min(problem.outputs);
            for image in images {
                let first = image * problem.pixels();
                finish(worker, 0, first + rows.start * inner..first + rows.end * inner, features.clone());
            }
        }
    });
}

impl<T: Number> Shared<'_, T> {
    /// # Safety
    /// The arrays are as the problem says, and no other task writes these outputs.
    unsafe fn task(&self, group: usize, axis: usize, images: Range<usize>, rows: Range<usize>, panels: Range<usize>) {
        let problem = self.problem;
        let cols = self.kernel.cols;
        let regions = self.regions(group, axis, images, rows);
        let steps = problem.taps() * problem.inputs;
        let chunks = steps.div_ceil(STEPS);
        let chunk = |n: usize| steps * n / chunks..steps * (n + 1) / chunks;
        let mut segments = Vec::new();
        match self.filter {
            Filter::Packed(packed) => {
                let all = problem.outputs.div_ceil(cols);
                for panel in panels {
                    let right = packed.0.cast_const().wrapping_add((group * all + panel) * steps * cols);
                    for n in 0..chunks {
                        let right = right.wrapping_add(chunk(n).start * cols);
                        // SAFETY: the caller's promise; the filter is packed.
                        unsafe { self.chunk(&regions, chunk(n), panel, right, &mut segments) };
                    }
                }
            }
            Filter::Plain(filter) => {
                let filter = filter.0.cast_const().wrapping_offset(group as isize * problem.filter.group);
                let most = steps.div_ceil(chunks);
                let mut loan = Loan::take::<T>(Piece::Panels, TOGETHER * most * cols);
                for first in panels.clone().step_by(TOGETHER) {
                    let together = first..panels.end.min(first + TOGETHER);
                    for n in 0..chunks {
                        let place = |panel: usize| (panel - first) * most * cols;
                        for panel in together.clone() {
                            // SAFETY: the caller's promise; the loan has room for a chunk of every panel.
                            unsafe {
                                let to = loan.at::<T>().add(place(panel));
                                pack::pack_steps(problem, &self.kernel, filter, panel, chunk(n), to);
                            }
                        }
                        for panel in together.clone() {
                            let right = loan.at::<T>().cast_const().wrapping_add(place(panel));
                            // SAFETY: the panels were just packed.
                            unsafe { self.chunk(&regions, chunk(n), panel, right, &mut segments) };
                        }
                    }
                }
            }
        }
    }

    /// The regions of a task.
    fn regions(&self, group: usize, axis: usize, images: Range<usize>, rows: Range<usize>) -> Vec<Region> {
        let problem = self.problem;
        let axes = &problem.axes;
        let [z, y, x] = [0, 1, 2].map(|a| zones(&axes[a], if a == axis { rows.clone() } else { 0..axes[a].count }));
        let is_merged = is_merged(problem);
        let mut regions = Vec::with_capacity(z.len() * y.len() * x.len());
        for z in &z {
            for y in &y {
                for x in &x {
                    let zones = [z, y, x];
                    let mut segments = Vec::new();
                    let place = |a: usize, tap: usize| axes[a].phases[0][tap].1 * axes[a].input_stride;
                    for (kz, ky) in z.taps.clone().flat_map(|kz| y.taps.clone().map(move |ky| (kz, ky))) {
                        let taps = x.taps.clone();
                        let (taps, run) =
                            if is_merged { (taps.start..taps.end.min(taps.start + 1), taps.len()) } else { (taps, 1) };
                        for kx in taps {
                            let left = place(0, kz) + place(1, ky) + place(2, kx);
                            let tap = (kz * axes[1].taps + ky) * axes[2].taps + kx;
                            segments.push(Segment { left, right: tap * problem.inputs, steps: run * problem.inputs });
                        }
                    }
                    let walk = |a: usize| Walk {
                        count: zones[a].outputs.len(),
                        input: axes[a].step as isize * axes[a].input_stride,
                        output: axes[a].output_stride,
                    };
                    let image = Walk { count: images.len(), input: problem.input.outer, output: problem.output.outer };
                    let walks = [image, walk(0), walk(1), walk(2)];
                    let starts = [images.start, z.outputs.start, y.outputs.start, x.outputs.start];
                    let input = starts.iter().zip(&walks).map(|(&at, walk)| at as isize * walk.input).sum::<isize>();
                    let output = starts.iter().zip(&walks).map(|(&at, walk)| at as isize * walk.output).sum::<isize>();
                    regions.push(Region {
                        segments,
                        rows: self.rows(&walks),
                        walks,
                        input: input + group as isize * problem.input.group,
                        output: output + group as isize * problem.output.group,
                    });
                }
            }
        }
        regions
    }

    /// The walk whose outputs fill blocks best; of equals the innermost.
    fn rows(&self, walks: &[Walk; AXES + 1]) -> usize {
        let cost = |n: usize| {
            let count = walks[n].count;
            let blocks = count.div_ceil(self.kernel.rows).max(1);
            let others: usize = (0..walks.len()).filter(|&other| other != n).map(|other| walks[other].count).product();
            others.saturating_mul(blocks * count.div_ceil(blocks).max(LEAST_ROWS))
        };
        (0..walks.len()).rev().min_by_key(|&n| cost(n)).unwrap_or(AXES)
    }

    /// Adds a chunk of the window to all outputs, for one panel of features.
    ///
    /// # Safety
    /// As [`Shared::task`]; `right` is the panel's part of the chunk.
    unsafe fn chunk(
        &self,
        regions: &[Region],
        steps: Range<usize>,
        panel: usize,
        right: *const T,
        segments: &mut Vec<Segment>,
    ) {
        let cols = self.kernel.cols;
        let start = if steps.start == 0 { Start::Zero } else { Start::Result };
        for region in regions {
            segments.clear();
            segments.extend(region.segments.iter().filter_map(|segment| {
                let from = segment.right.max(steps.start);
                let to = (segment.right + segment.steps).min(steps.end);
                (from < to).then(|| Segment {
                    left: segment.left + (from - segment.right) as isize,
                    right: (from - steps.start) * cols,
                    steps: to - from,
                })
            }));
            if segments.is_empty() && start == Start::Result {
                continue;
            }
            let block = Block {
                segments,
                left: self.input.0.cast_const().wrapping_offset(region.input),
                left_row: region.walks[region.rows].input,
                left_step: 1,
                right,
                out: self.output.0.wrapping_offset(region.output).wrapping_add(panel * cols),
                out_row: region.walks[region.rows].output,
                start,
                rows: 0,
                cols: cols.min(self.problem.outputs - panel * cols),
            };
            // SAFETY: every output of the region meets inputs that are inside, and the panel holds the chunk.
            unsafe { self.blocks(region, block) };
        }
    }

    /// Computes a block for all outputs of a region.
    ///
    /// # Safety
    /// The block is as the kernel wants it, at the first output of the region.
    unsafe fn blocks(&self, region: &Region, first: Block<'_, T>) {
        let mut others = region.walks;
        let count = std::mem::replace(&mut others[region.rows].count, 1);
        let blocks = count.div_ceil(self.kernel.rows);
        let [images, z, y, x] = others;
        let at = |walk: &Walk, n: usize| (n as isize * walk.input, n as isize * walk.output);
        for image in 0..images.count {
            for index in 0..z.count * y.count * x.count {
                let places = [
                    at(&images, image),
                    at(&z, index / (y.count * x.count)),
                    at(&y, index / x.count % y.count),
                    at(&x, index % x.count),
                ];
                let input = places.iter().map(|place| place.0).sum::<isize>();
                let output = places.iter().map(|place| place.1).sum::<isize>();
                for block in 0..blocks {
                    let (from, to) = (count * block / blocks, count * (block + 1) / blocks);
                    let block = Block {
                        left: first.left.wrapping_offset(input + from as isize * first.left_row),
                        out: first.out.wrapping_offset(output + from as isize * first.out_row),
                        rows: to - from,
                        ..first
                    };
                    // SAFETY: the caller's promise.
                    unsafe { (self.kernel.multiply)(&block) };
                }
            }
        }
    }
}
