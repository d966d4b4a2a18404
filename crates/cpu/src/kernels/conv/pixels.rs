//! Convolutions whose rows are outputs side by side: each task pads the input of a block of outputs into its own memory and
//! multiplies it as it lies there.
#![allow(unsafe_code)]

use std::ops::Range;

use super::super::Cores;
use super::super::matmul::Finish;
use super::block::{Block, Kernel, Lines, Number, Segment, Start};
use super::fill::{self, Part};
use super::scratch::{Loan, Piece};
use super::shape::{AXES, Problem};
use super::{Address, WORTH_A_THREAD, pack};

/// The padded input of a task stays below this, a part of L2, where a row of outputs allows it.
const INPUT_BYTES: usize = 256 << 10;
/// The same where the filter is too large for L2: it then passes by once for each task.
const INPUT_BYTES_LARGE_FILTER: usize = 1 << 20;
/// The results of a task stay below this, so that they are still in L2 when they are handed on; a large filter has
/// few.
const OUTPUT_BYTES: usize = 768 << 10;
/// A filter from this size on does not stay in L2.
const LARGE_FILTER_BYTES: usize = 512 << 10;
/// Outputs of a task from which it may pack a large filter by itself.
const OUTPUTS_WORTH_PACKING: usize = 256;
/// Panels packed together, so that rows of the filter are read in longer runs.
pub(super) const TOGETHER: usize = 8;
/// The most steps of a panel that meet all outputs of a task before the next: they stay in L1.
pub(super) const STEPS: usize = 512;

/// How the filter meets the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Every output feature is made of all input features of its group.
    Features,
    /// Every feature is a group of its own.
    Channels,
}

/// The outputs of one phase of every axis, and the runs of the window they meet.
struct Phase {
    phase: [usize; AXES],
    segments: Vec<Segment>,
    /// Segments taken together.
    pieces: Vec<Range<usize>>,
}

/// How the work is cut.
pub(super) struct Cut {
    pub(super) images: usize,
    /// The axis of which a task has `rows` outputs, and all of the others.
    pub(super) axis: usize,
    pub(super) rows: usize,
    extent: [usize; AXES],
    /// Elements from one input to the next along each axis, and from image to image.
    pitch: [usize; AXES],
    image: usize,
}

/// Whether the padded input of a single row of outputs is of a reasonable size.
pub(super) fn is_possible(problem: &Problem, mix: Mix) -> bool {
    let axis = blocked_axis(problem);
    let features = features(problem, mix).saturating_add(16);
    let sizes = (0..AXES).map(|a| problem.axes[a].extent(if a == axis { 1 } else { problem.axes[a].count }));
    sizes.fold(features, usize::saturating_mul) < 1 << 28
}

fn features(problem: &Problem, mix: Mix) -> usize {
    if mix == Mix::Channels { problem.groups } else { problem.inputs }
}

fn filter_bytes<T>(problem: &Problem) -> usize {
    problem.taps() * problem.inputs * problem.outputs * size_of::<T>()
}

/// Whether each of `tasks` tasks of a group, which has `outputs` outputs, packs the parts of the filter it meets.
pub(super) fn packs_by_task<T>(problem: &Problem, tasks: usize, outputs: usize, threads: usize) -> bool {
    filter_bytes::<T>(problem) >= LARGE_FILTER_BYTES && (tasks <= threads || outputs >= OUTPUTS_WORTH_PACKING)
}

/// The outermost axis that has several outputs.
fn blocked_axis(problem: &Problem) -> usize {
    (0..AXES).find(|&a| problem.axes[a].count > 1).unwrap_or(AXES - 1)
}

impl Cut {
    pub(super) fn new<T>(problem: &Problem, mix: Mix, threads: usize) -> Cut {
        let is_large = filter_bytes::<T>(problem) >= LARGE_FILTER_BYTES;
        let budget = if is_large { INPUT_BYTES_LARGE_FILTER } else { INPUT_BYTES } / size_of::<T>();
        let features = features(problem, mix);
        // Rows of the block a multiple of 2 KiB apart would meet in a few lines of L1.
        let apart = if mix == Mix::Features && (features * size_of::<T>()).is_multiple_of(2048) { 16 } else { 0 };
        let pixel = features + apart;
        let axis = blocked_axis(problem);
        let count = problem.axes[axis].count;
        let extent = |rows: usize| {
            [0, 1, 2].map(|a| problem.axes[a].extent(if a == axis { rows } else { problem.axes[a].count }))
        };
        let size = |rows: usize| extent(rows).iter().product::<usize>() * pixel;
        let columns = if mix == Mix::Channels { problem.groups } else { problem.outputs };
        let results = problem.pixels().saturating_mul(columns * size_of::<T>()) / count.max(1);
        let is_over = |rows: usize| size(rows) > budget || (!is_large && rows * results > OUTPUT_BYTES);
        let mut blocks = 1;
        while blocks < count && is_over(count.div_ceil(blocks)) {
            blocks += 1 + blocks / 4;
        }
        let groups = if mix == Mix::Channels { 1 } else { problem.groups };
        let work = problem.size().saturating_mul(problem.groups);
        if threads > 1 && work > 2 * WORTH_A_THREAD {
            let wanted = (4 * threads).div_ceil(groups * problem.batch).min(work / WORTH_A_THREAD);
            blocks = blocks.max(wanted).next_multiple_of(threads.div_ceil(groups * problem.batch)).min(count);
        }
        let rows = count.div_ceil(blocks.max(1));
        let mut images = 1;
        if blocks == 1 {
            let most = if threads > 1 { (groups * problem.batch / (4 * threads)).max(1) } else { problem.batch };
            images = (budget / size(rows).max(1)).clamp(1, most.max(1));
            images = problem.batch.div_ceil(problem.batch.div_ceil(images).max(1)).max(1);
        }
        let extent = extent(rows);
        let pitch = [extent[1] * extent[2] * pixel, extent[2] * pixel, pixel];
        Cut { images, axis, rows, image: extent[0] * pitch[0], extent, pitch }
    }
}

/// The phases of a convolution for a cut.
fn phases(problem: &Problem, cut: &Cut, mix: Mix, cols: usize) -> Vec<Phase> {
    let [z, y, x] = &problem.axes;
    let is_merged = mix == Mix::Features && x.spread() == Some(1) && cut.pitch[2] == problem.inputs;
    let mut all = Vec::new();
    let pitch = cut.pitch.map(|pitch| pitch as isize);
    for (pz, taps_z) in z.phases.iter().enumerate() {
        for (py, taps_y) in y.phases.iter().enumerate() {
            for (px, taps_x) in x.phases.iter().enumerate() {
                let mut segments = Vec::new();
                let lines = taps_z.iter().flat_map(|z| taps_y.iter().map(move |y| (z, y)));
                for (&(kz, iz), &(ky, iy)) in lines {
                    let taps_x = if is_merged { &taps_x[..1] } else { &taps_x[..] };
                    for &(kx, ix) in taps_x {
                        let left = iz * pitch[0] + iy * pitch[1] + ix * pitch[2];
                        let tap = (kz * y.taps + ky) * x.taps + kx;
                        if mix == Mix::Channels {
                            segments.push(Segment { left, right: tap * problem.groups, steps: 1 });
                            continue;
                        }
                        let steps = problem.inputs * if is_merged { x.taps } else { 1 };
                        let parts = steps.div_ceil(STEPS);
                        for part in 0..parts {
                            let (first, last) = (steps * part / parts, steps * (part + 1) / parts);
                            let right = (tap * problem.inputs + first) * cols;
                            segments.push(Segment { left: left + first as isize, right, steps: last - first });
                        }
                    }
                }
                let mut pieces: Vec<Range<usize>> = Vec::new();
                let mut held = 0;
                for (n, segment) in segments.iter().enumerate() {
                    match pieces.last_mut() {
                        Some(piece) if held + segment.steps <= STEPS => piece.end = n + 1,
                        _ => {
                            pieces.push(n..n + 1);
                            held = 0;
                        }
                    }
                    held += segment.steps;
                }
                if pieces.is_empty() {
                    // Outputs that meet nothing are zero.
                    pieces.push(0..0);
                }
                all.push(Phase { phase: [pz, py, px], segments, pieces });
            }
        }
    }
    all
}

/// What all tasks share.
struct Shared<'a, T> {
    problem: &'a Problem,
    mix: Mix,
    cut: Cut,
    phases: Vec<Phase>,
    kernel: Kernel<T>,
    input: Address<T>,
    filter: Filter<T>,
    output: Address<T>,
    finish: Option<&'a Finish<'a>>,
}

/// The filter of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filter<T> {
    /// In the order of [`super::pack`].
    Packed(Address<T>),
    /// As it is: tasks pack the parts they meet.
    Plain(Address<T>),
}

/// Convolves. `packed` is the filter in the order of [`super::pack`], if it is at hand; otherwise `filter` is read.
///
/// # Safety
/// The arrays are as the problem says.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn run<T: Number>(
    problem: &Problem,
    mix: Mix,
    input: *const T,
    filter: *const T,
    packed: Option<*const T>,
    output: *mut T,
    finish: Option<&Finish<'_>>,
    cores: &Cores,
) {
    let cut = Cut::new::<T>(problem, mix, cores.pool.threads());
    let kernel = T::kernel(&cores.machine);
    let phases = phases(problem, &cut, mix, kernel.cols);
    let groups = if mix == Mix::Channels { 1 } else { problem.groups };
    let blocks = problem.axes[cut.axis].count.div_ceil(cut.rows.max(1));
    let bunches = problem.batch.div_ceil(cut.images);
    let tasks = groups * bunches * blocks;
    let outputs = problem.batch * problem.pixels() * groups / tasks.max(1);
    let by_task =
        mix == Mix::Features && packs_by_task::<T>(problem, tasks / groups.max(1), outputs, cores.pool.threads());
    let mut loan = None;
    let filter = match packed {
        Some(packed) => Filter::Packed(Address(packed.cast_mut())),
        None if by_task => Filter::Plain(Address(filter.cast_mut())),
        None => {
            let elements = pack::elements(problem, mix, kernel.cols);
            let panels = loan.insert(Loan::take::<T>(Piece::Filter, elements)).at::<T>();
            // SAFETY: the caller's promise; the loan has room for the packed filter.
            unsafe { pack::pack(problem, mix, &kernel, filter, panels, Some(&cores.pool)) };
            Filter::Packed(Address(panels))
        }
    };
    let shared = Shared {
        problem,
        mix,
        cut,
        phases,
        kernel,
        input: Address(input.cast_mut()),
        filter,
        output: Address(output),
        finish,
    };
    let shared = &shared;
    cores.pool.run(tasks, &|worker, task| {
        let (group, rest) = (task / (bunches * blocks), task % (bunches * blocks));
        let (bunch, block) = (rest / blocks, rest % blocks);
        let images = bunch * shared.cut.images..((bunch + 1) * shared.cut.images).min(problem.batch);
        let count = problem.axes[shared.cut.axis].count;
        let rows = block * shared.cut.rows..((block + 1) * shared.cut.rows).min(count);
        // SAFETY: the caller's promise; tasks write disjoint parts of the output.
        unsafe { shared.task(group, images.clone(), rows.clone()) };
        if let Some(finish) = shared.finish {
            shared.hand_on(finish, worker, group, images, rows);
        }
    });
}

impl<T: Number> Shared<'_, T> {
    /// Says that these outputs are final.
    fn hand_on(&self, finish: &Finish<'_>, worker: usize, group: usize, images: Range<usize>, rows: Range<usize>) {
        let problem = self.problem;
        let inner: usize = problem.axes[self.cut.axis + 1..].iter().map(|axis| axis.count).product();
        let features = if self.mix == Mix::Channels { problem.groups } else { problem.outputs };
        let features = group * features..(group + 1) * features;
        for image in images {
            let first = image * problem.pixels();
            finish(worker, 0, first + rows.start * inner..first + rows.end * inner, features.clone());
        }
    }

    /// # Safety
    /// The arrays are as the problem says, and no other task writes these outputs.
    unsafe fn task(&self, group: usize, images: Range<usize>, rows: Range<usize>) {
        let (problem, cut) = (self.problem, &self.cut);
        let mut ranges = [0, 1, 2].map(|a| 0..problem.axes[a].count);
        ranges[cut.axis] = rows;
        let reach = [0, 1, 2].map(|a| problem.axes[a].reach(ranges[a].start, ranges[a].end));
        let first = reach.map(|(first, _)| first);
        let mut padded = Loan::take::<T>(Piece::Input, cut.image * images.len());
        for (n, image) in images.clone().enumerate() {
            let at = group as isize * problem.input.group + image as isize * problem.input.outer;
            let part = Part {
                from: self.input.0.cast_const().wrapping_offset(at),
                strides: [0, 1, 2].map(|a| problem.axes[a].input_stride),
                sizes: [0, 1, 2].map(|a| problem.axes[a].input),
                inner_stride: if self.mix == Mix::Channels { problem.input.group } else { problem.input.feature },
                first,
                extent: cut.extent,
                inner: features(problem, self.mix),
                pitch: cut.pitch[2],
            };
            // SAFETY: the loan has room for the padded input of every image.
            unsafe { fill::fill(&self.kernel, &part, padded.at::<T>().add(n * cut.image)) };
        }
        let columns = if self.mix == Mix::Channels { problem.groups } else { problem.outputs };
        let column_stride = if self.mix == Mix::Channels { problem.output.group } else { problem.output.feature };
        let whole = self.output.0.wrapping_offset(group as isize * problem.output.group);
        // Where the results go while they are summed: their place, or memory with the features side by side.
        let counts = [0, 1, 2].map(|a| ranges[a].len());
        let pixels = counts.iter().product::<usize>();
        let mut held = (column_stride != 1 && columns > 1)
            .then(|| Loan::take::<T>(Piece::Output, images.len() * pixels * columns));
        let strides: [isize; AXES] = match held {
            Some(_) => [counts[1] * counts[2] * columns, counts[2] * columns, columns].map(|n| n as isize),
            None => [0, 1, 2].map(|a| problem.axes[a].output_stride),
        };
        let place = |n: usize, held: &mut Option<Loan>| -> *mut T {
            match held {
                Some(held) => held.at::<T>().wrapping_add(n * pixels * columns),
                None => {
                    let offset: isize = (0..AXES).map(|a| ranges[a].start as isize * strides[a]).sum();
                    whole.wrapping_offset((images.start + n) as isize * problem.output.outer + offset)
                }
            }
        };
        let starts: Vec<(*const T, *mut T)> = (0..images.len())
            .map(|n| {
                let back: isize = (0..AXES).map(|a| first[a] * cut.pitch[a] as isize).sum();
                let input = padded.at::<T>().cast_const().wrapping_add(n * cut.image).wrapping_offset(-back);
                (input, place(n, &mut held))
            })
            .collect();
        let view = Walk { ranges: &ranges, strides, starts: &starts };
        // SAFETY: the padded input holds all that these outputs meet; the places are theirs alone.
        unsafe {
            match self.mix {
                Mix::Features => self.features(group, &view),
                Mix::Channels => self.channels(&view),
            }
        }
        if let Some(held) = &mut held {
            for (n, image) in images.clone().enumerate() {
                let mut from = held.at::<T>().cast_const().wrapping_add(n * pixels * columns);
                let to = whole.wrapping_offset(image as isize * problem.output.outer);
                for z in ranges[0].clone() {
                    for y in ranges[1].clone() {
                        let at = z as isize * problem.axes[0].output_stride
                            + y as isize * problem.axes[1].output_stride
                            + ranges[2].start as isize * problem.axes[2].output_stride;
                        let place = [problem.axes[2].output_stride, column_stride];
                        // SAFETY: a row of results, and its own place.
                        unsafe {
                            fill::copy(
                                &self.kernel,
                                from,
                                [columns as isize, 1],
                                to.wrapping_offset(at),
                                place,
                                [counts[2], columns],
                            );
                        }
                        from = from.wrapping_add(counts[2] * columns);
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`Shared::task`], with the walk over padded input and places of the task.
    unsafe fn features(&self, group: usize, walk: &Walk<'_, T>) {
        let (problem, cols) = (self.problem, self.kernel.cols);
        let steps = problem.taps() * problem.inputs;
        let panels = problem.outputs.div_ceil(cols);
        match self.filter {
            Filter::Packed(packed) => {
                for panel in 0..panels {
                    let right = packed.0.cast_const().wrapping_add((group * panels + panel) * steps * cols);
                    for phase in &self.phases {
                        for (index, piece) in phase.pieces.iter().enumerate() {
                            // SAFETY: the caller's promise; the filter is packed.
                            unsafe { self.piece(walk, phase, index, &phase.segments[piece.clone()], panel, right) };
                        }
                    }
                }
            }
            Filter::Plain(filter) => {
                let filter = filter.0.cast_const().wrapping_offset(group as isize * problem.filter.group);
                let pieces = self.phases.iter().flat_map(|phase| phase.pieces.iter().map(move |piece| (phase, piece)));
                let piece_steps = |(phase, piece): (&Phase, &Range<usize>)| {
                    phase.segments[piece.clone()].iter().map(|segment| segment.steps).sum::<usize>()
                };
                let most = pieces.clone().map(piece_steps).max().unwrap_or(0);
                let mut loan = Loan::take::<T>(Piece::Panels, TOGETHER * most * cols);
                let mut segments = Vec::new();
                for first in (0..panels).step_by(TOGETHER) {
                    for phase in &self.phases {
                        for (index, piece) in phase.pieces.iter().enumerate() {
                            segments.clear();
                            let mut at = 0;
                            for segment in &phase.segments[piece.clone()] {
                                let step = segment.right / cols;
                                for panel in first..panels.min(first + TOGETHER) {
                                    let place = ((panel - first) * most + at) * cols;
                                    // SAFETY: the caller's promise; the loan has room for the steps of a piece.
                                    unsafe {
                                        let to = loan.at::<T>().add(place);
                                        pack::pack_steps(
                                            problem,
                                            &self.kernel,
                                            filter,
                                            panel,
                                            step..step + segment.steps,
                                            to,
                                        );
                                    }
                                }
                                segments.push(Segment { right: at * cols, ..*segment });
                                at += segment.steps;
                            }
                            for panel in first..panels.min(first + TOGETHER) {
                                let right = loan.at::<T>().cast_const().wrapping_add((panel - first) * most * cols);
                                // SAFETY: the panels were just packed.
                                unsafe { self.piece(walk, phase, index, &segments, panel, right) };
                            }
                        }
                    }
                }
            }
        }
    }

    /// Adds one piece of the window to all outputs of a phase, for one panel of features.
    ///
    /// # Safety
    /// As [`Shared::features`]; the panel holds the segments.
    unsafe fn piece(
        &self,
        walk: &Walk<'_, T>,
        phase: &Phase,
        index: usize,
        segments: &[Segment],
        panel: usize,
        right: *const T,
    ) {
        let (problem, kernel) = (self.problem, &self.kernel);
        let cols = kernel.cols.min(problem.outputs - panel * kernel.cols);
        let left_row = (problem.axes[2].step * self.cut.pitch[2]) as isize;
        let start = if index == 0 { Start::Zero } else { Start::Result };
        self.rows(walk, phase, &mut |left, out, out_row, count| {
            let blocks = count.div_ceil(kernel.rows);
            for block in 0..blocks {
                let (from, to) = (count * block / blocks, count * (block + 1) / blocks);
                let block = Block {
                    segments,
                    left: left.wrapping_offset(from as isize * left_row),
                    left_row,
                    left_step: 1,
                    right,
                    out: out.wrapping_offset(from as isize * out_row).wrapping_add(panel * kernel.cols),
                    out_row,
                    start,
                    rows: to - from,
                    cols,
                };
                // SAFETY: the padded input holds all rows of the segments, the packed filter whole panels; the block is
                // a part of the task's outputs.
                unsafe { (kernel.multiply)(&block) };
            }
        });
    }

    /// # Safety
    /// As [`Shared::features`].
    unsafe fn channels(&self, walk: &Walk<'_, T>) {
        let (Filter::Packed(filter) | Filter::Plain(filter)) = self.filter;
        let left_row = (self.problem.axes[2].step * self.cut.pitch[2]) as isize;
        for phase in &self.phases {
            self.rows(walk, phase, &mut |left, out, out_row, rows| {
                let lines = Lines {
                    taps: &phase.segments,
                    left,
                    left_row,
                    right: filter.0.cast_const(),
                    out,
                    out_row,
                    rows,
                    cols: self.problem.groups,
                };
                // SAFETY: as in `features`.
                unsafe { (self.kernel.channels)(&lines) };
            });
        }
    }

    /// Gives each row of outputs of a phase: its first input and output, elements to the next output, and their number.
    fn rows(&self, walk: &Walk<'_, T>, phase: &Phase, each: &mut dyn FnMut(*const T, *mut T, isize, usize)) {
        let axes = &self.problem.axes;
        let mut turns = [0, 1, 2].map(|a| axes[a].turns(phase.phase[a], walk.ranges[a].start, walk.ranges[a].end));
        if turns.iter().any(Range::is_empty) {
            return;
        }
        let at = |a: usize, turn: usize| {
            let period = axes[a].phases.len();
            let output = (turn * period + phase.phase[a] - walk.ranges[a].start) as isize * walk.strides[a];
            ((turn * axes[a].step * self.cut.pitch[a]) as isize, output)
        };
        let steps =
            |a: usize| ((axes[a].step * self.cut.pitch[a]) as isize, axes[a].phases.len() as isize * walk.strides[a]);
        let row = steps(2);
        // Rows that go on where the one before ends are one.
        let mut count = turns[2].len();
        for a in [1, 0] {
            let (input, output) = steps(a);
            let goes_on = input == count as isize * row.0 && output == count as isize * row.1;
            if turns[a].len() > 1 && !goes_on {
                break;
            }
            count *= turns[a].len();
            turns[a].end = turns[a].start + 1;
        }
        let mut starts = walk.starts;
        let next = |from: (*const T, *mut T), count: usize| {
            let by = count as isize;
            (from.0.wrapping_offset(by * row.0), from.1.wrapping_offset(by * row.1))
        };
        let is_one = turns[0].len() == 1 && turns[1].len() == 1;
        if is_one && starts.windows(2).all(|pair| pair[1] == next(pair[0], count)) {
            count *= starts.len();
            starts = &starts[..starts.len().min(1)];
        }
        for &(input, output) in starts {
            for z in turns[0].clone() {
                for y in turns[1].clone() {
                    let places = [at(0, z), at(1, y), at(2, turns[2].start)];
                    let left = input.wrapping_offset(places.iter().map(|p| p.0).sum());
                    let out = output.wrapping_offset(places.iter().map(|p| p.1).sum());
                    each(left, out, row.1, count);
                }
            }
        }
    }
}

/// The outputs of a task.
struct Walk<'a, T> {
    ranges: &'a [Range<usize>; AXES],
    /// Elements from one output to the next along each axis.
    strides: [isize; AXES],
    /// For each image, where input 0 of every axis would lie, and the first output of the ranges.
    starts: &'a [(*const T, *mut T)],
}
