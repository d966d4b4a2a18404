//! The shape of a convolution in the form its loops use: three spatial axes, each with its phases.

use super::{Convolution, Window};

/// Spatial axes the loops have; missing ones are of size 1.
pub(super) const AXES: usize = 3;
/// Sizes and offsets beyond this are left to other code, so that no address arithmetic overflows.
const MOST: i64 = 1 << 40;
/// Elements of the padded input, with all that is skipped, beyond which the loops are not made for it: the products of sizes
/// and offsets that find a place stay far from overflow.
const MOST_ELEMENTS: usize = 1 << 48;
/// Phases of an axis beyond which the loops are not made for it.
const MOST_PHASES: usize = 64;

/// A convolution with its groups apart. Strides are in elements.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) groups: usize,
    pub(super) batch: usize,
    /// Features of one group.
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) axes: [Axis; AXES],
    pub(super) input: Steps,
    pub(super) filter: Steps,
    pub(super) output: Steps,
}

/// Strides of an array beside those of its spatial axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) group: isize,
    /// Of the batch; for a filter, of the output feature.
    pub(super) outer: isize,
    /// Of the feature; for a filter, of the input feature.
    pub(super) feature: isize,
}

/// One spatial axis. Output `o` meets with tap `k` the input at `(o·stride − low + k·spread) / dilation` where that is
/// whole. Outputs that are `phases.len()` apart meet the same taps, `step` inputs further on.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) taps: usize,
    pub(super) count: usize,
    stride: i64,
    low: i64,
    spread: i64,
    dilation: i64,
    pub(super) is_reversed: bool,
    pub(super) step: usize,
    /// For each phase the taps it meets and the input, relative to `q·step`, of output `q·phases.len() + phase`.
    pub(super) phases: Vec<Vec<(usize, isize)>>,
    pub(super) input_stride: isize,
    pub(super) filter_stride: isize,
    pub(super) output_stride: isize,
}

impl Axis {
    fn new(window: &Window, strides: [isize; 3]) -> Option<Axis> {
        let size = |n: usize| i64::try_from(n).ok().filter(|&n| n < MOST);
        let (stride, dilation) = (size(window.stride)?, size(window.input_dilation)?);
        let spread = size(window.kernel_dilation)?;
        if stride == 0 || dilation == 0 || window.low.unsigned_abs() >= MOST.unsigned_abs() {
            return None;
        }
        let reach = (window.output.max(1) as i64 - 1).checked_mul(stride)?;
        let window_reach = (window.kernel.max(1) as i64 - 1).checked_mul(spread)?;
        if reach >= MOST || window_reach >= MOST {
            return None;
        }
        let count = usize::try_from(dilation / gcd(dilation, stride)).ok()?;
        if count > MOST_PHASES {
            return None;
        }
        let phase = |phase: usize| {
            let taps = 0..window.kernel;
            taps.filter_map(|tap| {
                let place = phase as i64 * stride - window.low + tap as i64 * spread;
                (place.rem_euclid(dilation) == 0).then(|| (tap, place.div_euclid(dilation) as isize))
            })
            .collect()
        };
        Some(Axis {
            input: window.input,
            taps: window.kernel,
            count: window.output,
            stride,
            low: window.low,
            spread,
            dilation,
            is_reversed: window.is_reversed,
            step: (count as i64 * stride / dilation) as usize,
            phases: (0..count).map(phase).collect(),
            input_stride: strides[0],
            filter_stride: strides[1],
            output_stride: strides[2],
        })
    }

    /// The first input, and how many from there, that outputs `from..to` may meet, the padding counted.
    pub(super) fn reach(&self, from: usize, to: usize) -> (isize, usize) {
        let first = (from as i64 * self.stride - self.low).div_euclid(self.dilation);
        let last = to.max(from + 1) as i64 - 1;
        let last =
            (last * self.stride - self.low + (self.taps.max(1) as i64 - 1) * self.spread).div_euclid(self.dilation);
        (first as isize, (last - first + 1) as usize)
    }

    /// The most inputs that `count` outputs in a row may meet.
    pub(super) fn extent(&self, count: usize) -> usize {
        // Where a dilation hides some inputs, the first output may lie anywhere.
        self.reach(0, count).1 + usize::from(self.dilation > 1)
    }

    /// The index in the filter of a tap.
    pub(super) fn filter_index(&self, tap: usize) -> usize {
        if self.is_reversed { self.taps - 1 - tap } else { tap }
    }

    /// The `q` of a phase whose outputs lie in `from..to`.
    pub(super) fn turns(&self, phase: usize, from: usize, to: usize) -> std::ops::Range<usize> {
        let period = self.phases.len();
        let turn = |o: usize| o.saturating_sub(phase).div_ceil(period);
        turn(from)..turn(to)
    }

    /// Input steps from one tap to the next where every output meets every tap.
    pub(super) fn spread(&self) -> Option<usize> {
        (self.dilation == 1).then_some(self.spread as usize)
    }

    /// Forgets the inputs that no output meets, where each meets one.
    fn skip(&mut self) {
        if self.is_point() && self.count > 0 && self.stride > 1 {
            self.input_stride *= self.stride as isize;
            self.input = self.count;
            (self.stride, self.step) = (1, 1);
        }
    }

    /// Whether every output meets exactly one input, with no padding.
    pub(super) fn is_point(&self) -> bool {
        let fits = self.count == 0 || (self.count - 1) * (self.stride as usize) < self.input;
        self.taps == 1 && self.low == 0 && self.dilation == 1 && fits
    }
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

impl Problem {
    /// `None` where the loops are not made for the shape.
    pub(super) fn new(c: &Convolution) -> Option<Problem> {
        if c.windows.len() > AXES || (c.feature_groups > 1 && c.batch_groups > 1) {
            return None;
        }
        let groups = c.feature_groups.max(c.batch_groups).max(1);
        if !c.output_features.is_multiple_of(groups) {
            return None;
        }
        let outputs = c.output_features / groups;
        let unit = Window {
            input: 1,
            kernel: 1,
            output: 1,
            stride: 1,
            low: 0,
            input_dilation: 1,
            kernel_dilation: 1,
            is_reversed: false,
        };
        let mut axes = Vec::with_capacity(AXES);
        for (n, window) in c.windows.iter().enumerate() {
            axes.push(Axis::new(window, [c.input.spatial[n], c.filter.spatial[n], c.output.spatial[n]])?);
        }
        axes.iter_mut().for_each(Axis::skip);
        // The axis whose outputs lie closest is walked innermost.
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.output_stride.unsigned_abs()));
        while axes.len() < AXES {
            axes.insert(0, Axis::new(&unit, [0; 3])?);
        }
        let input_group = if c.batch_groups > 1 {
            c.input.outer * c.batch as isize
        } else {
            c.input.feature * c.input_features as isize
        };
        let axes: [Axis; AXES] = axes.try_into().ok()?;
        let mut problem = Problem {
            groups,
            batch: c.batch,
            inputs: c.input_features,
            outputs,
            axes,
            input: Steps { group: input_group, outer: c.input.outer, feature: c.input.feature },
            filter: Steps {
                group: c.filter.outer * outputs as isize,
                outer: c.filter.outer,
                feature: c.filter.feature,
            },
            output: Steps {
                group: c.output.feature * outputs as isize,
                outer: c.output.outer,
                feature: c.output.feature,
            },
        };
        problem.merge_points();
        Some(problem)
    }

    /// Makes one axis of neighbours that are only walked.
    fn merge_points(&mut self) {
        for outer in (0..AXES - 1).rev() {
            let (a, b) = (&self.axes[outer], &self.axes[AXES - 1]);
            let is_plain = |axis: &Axis| axis.is_point() && axis.stride == 1 && axis.count == axis.input;
            let is_run = |a: isize, b: isize| a == b * b_count(&self.axes[AXES - 1]);
            if a.count <= 1 || !is_plain(a) || !is_plain(b) {
                continue;
            }
            if is_run(a.input_stride, b.input_stride) && is_run(a.output_stride, b.output_stride) {
                let count = a.count * b.count;
                let size = |axis: &mut Axis, count: usize| (axis.count, axis.input) = (count, count);
                size(&mut self.axes[outer], 1);
                size(&mut self.axes[AXES - 1], count);
            }
        }
    }

    /// Whether every place in the padded input has an offset that fits: padding and strides are of any size.
    pub(super) fn is_addressable(&self) -> bool {
        let span = |axis: &Axis| {
            let (first, count) = axis.reach(0, axis.count);
            count.saturating_add(first.unsigned_abs()).saturating_add(1)
        };
        let own = [self.batch, self.groups, self.inputs.saturating_add(16)];
        let all = own.into_iter().chain(self.axes.iter().map(span));
        all.fold(1, |elements: usize, size| elements.saturating_mul(size.max(1))) < MOST_ELEMENTS
    }

    /// Positions of the window.
    pub(super) fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.taps).product()
    }

    /// Outputs of one feature of one image.
    pub(super) fn pixels(&self) -> usize {
        self.axes.iter().map(|axis| axis.count).product()
    }

    /// Outputs of all images and all their features, where the result is a dense matrix of these.
    pub(super) fn dense_rows(&self) -> Option<(usize, usize)> {
        let features = self.groups * self.outputs;
        if self.outputs > 1 && self.output.feature != 1 || self.groups > 1 && self.output.group != self.outputs as isize
        {
            return None;
        }
        let mut step = features as isize;
        for axis in self.axes.iter().rev() {
            if axis.count > 1 && axis.output_stride != step {
                return None;
            }
            step *= axis.count as isize;
        }
        (self.batch <= 1 || self.output.outer == step).then_some((self.batch * self.pixels(), features))
    }

    /// Multiplications of one group.
    pub(super) fn size(&self) -> usize {
        [self.batch, self.pixels(), self.taps(), self.inputs, self.outputs].into_iter().fold(1, usize::saturating_mul)
    }
}

fn b_count(axis: &Axis) -> isize {
    axis.count as isize
}
