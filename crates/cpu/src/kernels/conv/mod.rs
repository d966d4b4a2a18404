//! Convolutions of any number of images, layout, stride, padding, dilation and grouping, up to three spatial dimensions.
//!
//! A [`Convolution`] says what is convolved, [`Convolution::plan`] chooses how, and the [`Plan`] runs any number of times.
//! Nothing is spread out into patches: a block of the input is padded into memory near the core, and the register blocks
//! read it there, one run of the window after another.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batches;
mod block;
mod direct;
mod fill;
mod pack;
mod pixels;
mod pointwise;
mod scratch;
mod shape;
mod shares;
#[cfg(test)]
mod tests;

use tensor::DType;

use super::Cores;
use super::machine::Machine;
use super::matmul::Finish;
use crate::footprint;
use block::Number;
use pixels::Mix;
use scratch::Lines;
use shape::Problem;

/// Multiplications below which a second thread costs more than it brings.
const WORTH_A_THREAD: usize = 1 << 17;

/// A convolution. All strides are in elements; the output overlaps nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Convolution {
    /// Of both factors and the result: f32, f64 or i32.
    pub(crate) dtype: DType,
    /// Images of the result.
    pub(crate) batch: usize,
    /// Features of the input that one output feature is made of.
    pub(crate) input_features: usize,
    pub(crate) output_features: usize,
    pub(crate) feature_groups: usize,
    pub(crate) batch_groups: usize,
    pub(crate) windows: Vec<Window>,
    pub(crate) input: Layout,
    /// `outer` is the output feature, `feature` the input feature.
    pub(crate) filter: Layout,
    pub(crate) output: Layout,
}

/// One spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Sizes.
    pub(crate) input: usize,
    pub(crate) kernel: usize,
    pub(crate) output: usize,
    pub(crate) stride: usize,
    /// Padding before the first input.
    pub(crate) low: i64,
    pub(crate) input_dilation: usize,
    pub(crate) kernel_dilation: usize,
    pub(crate) is_reversed: bool,
}

/// Strides of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) outer: isize,
    pub(crate) feature: isize,
    pub(crate) spatial: Vec<isize>,
}

/// A convolution with its loops chosen.
#[derive(Debug)]
pub(crate) struct Plan {
    dtype: DType,
    problem: Problem,
    form: Form,
}

/// The loops of a plan.
#[derive(Debug)]
enum Form {
    /// The result is zero, or nothing.
    Zero,
    /// A matmul.
    Pointwise(Box<pointwise::Pointwise>),
    /// Rows are outputs side by side.
    Pixels(Mix),
    /// The same, with the input where it lies.
    Direct,
    /// Rows are images: the window is large and the outputs are few, as in the gradient of a filter.
    Batches,
}

/// A convolution that is a matmul.
#[derive(Debug)]
pub(crate) struct AsMatmul {
    pub(crate) problem: super::matmul::MatMul,
    pub(crate) plan: super::matmul::Plan,
    /// Which operand, 0 for the input and 1 for the filter, is the left and the right factor.
    pub(crate) factors: [usize; 2],
}

/// A filter in the order of a plan's loops.
#[derive(Debug)]
pub(crate) struct Packed {
    form: PackedForm,
}

#[derive(Debug)]
enum PackedForm {
    Panels(Lines),
    Matrix(super::matmul::Packed),
}

/// An address that threads share for the time of one run.
#[derive(Clone, Copy, Debug)]
struct Address<T>(*mut T);

// SAFETY: what it points at outlives the run, and threads write to disjoint parts.
unsafe impl<T> Sync for Address<T> {}

impl Convolution {
    /// Chooses how to compute this; `None` where there are no loops for the type or the shape.
    pub(crate) fn plan(&self, machine: &Machine) -> Option<Plan> {
        if !matches!(self.dtype, DType::F32 | DType::F64 | DType::I32) {
            return None;
        }
        let problem = Problem::new(self)?;
        let is_empty = problem.inputs == 0 || problem.taps() == 0 || problem.axes.iter().any(|axis| axis.input == 0);
        let nothing = problem.batch == 0 || problem.outputs == 0 || problem.pixels() == 0;
        let form = if is_empty || nothing {
            Form::Zero
        } else if let Some(pointwise) = pointwise::Pointwise::new(&problem, self.dtype, machine) {
            Form::Pointwise(Box::new(pointwise))
        } else if problem.inputs == 1 && problem.outputs == 1 && problem.groups > 1 && self.feature_groups > 1 {
            Form::Pixels(Mix::Channels)
        } else if batches::is_better(&problem) {
            Form::Batches
        } else if direct::is_better(&problem, self.dtype.size_bytes()) {
            Form::Direct
        } else {
            Form::Pixels(Mix::Features)
        };
        let is_possible = match &form {
            Form::Pixels(mix) => problem.is_addressable() && pixels::is_possible(&problem, *mix),
            Form::Direct => problem.is_addressable() && pixels::is_possible(&problem, Mix::Features),
            Form::Batches => problem.is_addressable(),
            Form::Zero | Form::Pointwise(_) => true,
        };
        is_possible.then_some(Plan { dtype: self.dtype, problem, form })
    }
}

/// Evaluates an expression with `$T` as the type of a plan.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}

impl Plan {
    /// Outputs of all images and their features, where the result is a dense matrix of these and [`Plan::run`] can hand
    /// on its blocks as soon as they are final.
    pub(crate) fn finishes(&self) -> Option<(usize, usize)> {
        matches!(self.form, Form::Pixels(_) | Form::Direct).then(|| self.problem.dense_rows()).flatten()
    }

    /// Computes the convolution. `finish`, which is only for plans that `finishes`, is called with each block of
    /// outputs and its features when their final values are stored, by the thread that stored them. `packed` is from [`Plan::pack`] of this plan with the same filter (`filter` is then not
    /// read).
    ///
    /// # Safety
    /// The pointers are to arrays as the problem says, the output overlapping nothing; the machine is the plan's.
    pub(crate) unsafe fn run(
        &self,
        input: *const u8,
        filter: *const u8,
        output: *mut u8,
        packed: Option<&Packed>,
        finish: Option<&Finish<'_>>,
        cores: &Cores,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            with_type!(self.dtype, T => self.run_as::<T>(input.cast(), filter.cast(), output.cast(), packed, finish, cores))
        }
    }

    /// Bytes of the input up to the last one that is read, with its first element `offset` bytes from the start. Taps that
    /// meet the padding read nothing.
    pub(crate) fn input_reads(&self, offset: isize) -> Option<usize> {
        let Problem { groups, batch, inputs, axes, input, .. } = &self.problem;
        let own = [(*groups, input.group), (*batch, input.outer), (*inputs, input.feature)];
        let walk = own.into_iter().chain(axes.iter().map(|axis| (axis.input, axis.input_stride)));
        if matches!(self.form, Form::Zero) { Some(0) } else { footprint::reach_from(offset, walk, self.width()) }
    }

    /// The same of the filter, where it is not packed.
    pub(crate) fn filter_reads(&self, offset: isize) -> Option<usize> {
        let Problem { groups, inputs, outputs, axes, filter, .. } = &self.problem;
        let own = [(*groups, filter.group), (*outputs, filter.outer), (*inputs, filter.feature)];
        let walk = own.into_iter().chain(axes.iter().map(|axis| (axis.taps, axis.filter_stride)));
        if matches!(self.form, Form::Zero) { Some(0) } else { footprint::reach_from(offset, walk, self.width()) }
    }

    /// Bytes of the output, which is written without a gap; `None` where there are gaps.
    pub(crate) fn output_writes(&self) -> Option<usize> {
        let Problem { groups, batch, outputs, axes, output, .. } = &self.problem;
        let own = [(*groups, output.group), (*batch, output.outer), (*outputs, output.feature)];
        let walk = own.into_iter().chain(axes.iter().map(|axis| (axis.count, axis.output_stride)));
        footprint::cover(walk, self.width())
    }

    fn width(&self) -> usize {
        self.dtype.size_bytes()
    }

    /// The filter in the order of the loops, for any number of runs; `None` where they read it as it is.
    ///
    /// # Safety
    /// `filter` is as the problem says.
    pub(crate) unsafe fn pack(&self, filter: *const u8, machine: &Machine) -> Option<Packed> {
        // SAFETY: the caller's promise.
        let form = unsafe {
            match &self.form {
                Form::Zero | Form::Batches => return None,
                Form::Pointwise(pointwise) => PackedForm::Matrix(pointwise.pack(filter)?),
                Form::Pixels(_) | Form::Direct => with_type!(self.dtype, T => {
                    let mix = if let Form::Pixels(mix) = self.form { mix } else { Mix::Features };
                    let kernel = <T as Number>::kernel(machine);
                    let elements = pack::elements(&self.problem, mix, kernel.cols);
                    let mut lines = scratch::fresh(elements * size_of::<T>());
                    pack::pack::<T>(&self.problem, mix, &kernel, filter.cast(), lines.as_mut_ptr().cast(), None);
                    PackedForm::Panels(lines)
                }),
            }
        };
        Some(Packed { form })
    }

    /// The matmul that this is, if it is one whose result is dense.
    pub(crate) fn as_matmul(&self) -> Option<AsMatmul> {
        match &self.form {
            Form::Pointwise(pointwise) => pointwise.as_matmul(),
            _ => None,
        }
    }

    /// What it does, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match &self.form {
            Form::Zero => "zero",
            Form::Pointwise(_) => "matmul",
            Form::Pixels(Mix::Features) => "pixels",
            Form::Pixels(Mix::Channels) => "channels",
            Form::Direct => "direct",
            Form::Batches => "batches",
        }
    }

    /// # Safety
    /// As [`Plan::run`].
    unsafe fn run_as<T: Number>(
        &self,
        input: *const T,
        filter: *const T,
        output: *mut T,
        packed: Option<&Packed>,
        finish: Option<&Finish<'_>>,
        cores: &Cores,
    ) {
        let problem = &self.problem;
        let is_plain =
            packed.is_none() && finish.is_none() && matches!(self.form, Form::Pixels(Mix::Features) | Form::Batches);
        let shares = match is_plain && self.output_writes().is_some() {
            true => shares::shares::<T>(problem, cores.pool.threads()),
            false => 1,
        };
        if shares == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.loops(problem, [input, filter], output, packed, finish, cores) };
        }
        let convolve = |problem: &Problem, input: *const T, filter: *const T, output: *mut T| {
            // SAFETY: the arrays of a share, by the caller's promise.
            unsafe { self.loops(problem, [input, filter], output, None, None, cores) }
        };
        // SAFETY: the caller's promise.
        unsafe { shares::run(problem, shares, [input, filter], output, cores, &convolve) }
    }

    /// The plan's loops over its problem, or over a share of that.
    ///
    /// # Safety
    /// As [`Plan::run`], for the problem.
    unsafe fn loops<T: Number>(
        &self,
        problem: &Problem,
        [input, filter]: [*const T; 2],
        output: *mut T,
        packed: Option<&Packed>,
        finish: Option<&Finish<'_>>,
        cores: &Cores,
    ) {
        let mix = match &self.form {
            // SAFETY: the caller's promise.
            Form::Zero => return unsafe { zero(problem, output) },
            Form::Pointwise(pointwise) => {
                let packed = packed.and_then(|packed| match &packed.form {
                    PackedForm::Matrix(packed) => Some(packed),
                    PackedForm::Panels(_) => None,
                });
                // SAFETY: the caller's promise.
                return unsafe { pointwise.run(input.cast(), filter.cast(), output.cast(), packed, cores) };
            }
            // SAFETY: the caller's promise.
            Form::Batches => return unsafe { batches::run(problem, input, filter, output, cores) },
            Form::Pixels(mix) => Some(*mix),
            Form::Direct => None,
        };
        let packed = packed.and_then(|packed| match &packed.form {
            PackedForm::Panels(lines) => Some(lines.as_ptr().cast()),
            PackedForm::Matrix(_) => None,
        });
        // SAFETY: the caller's promise.
        unsafe {
            match mix {
                Some(mix) => pixels::run(problem, mix, input, filter, packed, output, finish, cores),
                None => direct::run(problem, input, filter, packed, output, finish, cores),
            }
        }
    }
}

/// Writes zeros.
///
/// # Safety
/// The output is as the problem says.
unsafe fn zero<T: Number>(problem: &Problem, output: *mut T) {
    let [z, y, x] = &problem.axes;
    let sizes = [problem.groups, problem.outputs, problem.batch, z.count, y.count, x.count];
    let steps = &problem.output;
    let strides = [steps.group, steps.feature, steps.outer, z.output_stride, y.output_stride, x.output_stride];
    let count: usize = sizes.iter().product();
    for index in 0..count {
        let mut rest = index;
        let mut at = 0;
        for (&size, &stride) in sizes.iter().zip(&strides).rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        // SAFETY: an element of the output.
        unsafe { output.offset(at).write(T::ZERO) };
    }
}
