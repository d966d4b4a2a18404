//! Discrete Fourier transforms over the last dimensions; plans are made once.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum};
use tensor::DType;

use super::Cores;
use crate::footprint::{Footprint, Written, product};

/// Which transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transform {
    /// Complex signal to spectrum.
    Fft,
    /// Spectrum to complex signal, divided by the length.
    Ifft,
    /// Real signal to the lower half of its spectrum.
    Rfft,
    /// Lower half of a spectrum to the real signal, divided by the length.
    Irfft,
}

/// A transform of an array.
#[derive(Clone, Debug)]
pub(crate) struct Fourier {
    plan: Plans,
}

#[derive(Clone, Debug)]
enum Plans {
    Single(Plan<f32>),
    Double(Plan<f64>),
}

impl Fourier {
    /// A transform of the last dimensions of an operand, as many as there are lengths; `None` for types and sizes that do
    /// not fit, and on machines for which there are no plans.
    pub(crate) fn new(kind: Transform, dims: &[usize], lengths: &[usize], dtype: DType) -> Option<Fourier> {
        let plan = match (kind, dtype) {
            (Transform::Rfft, DType::F32) => Plans::Single(Plan::new(kind, dims, lengths)?),
            (Transform::Rfft, DType::F64) => Plans::Double(Plan::new(kind, dims, lengths)?),
            (Transform::Fft | Transform::Ifft | Transform::Irfft, DType::C64) => {
                Plans::Single(Plan::new(kind, dims, lengths)?)
            }
            (Transform::Fft | Transform::Ifft | Transform::Irfft, DType::C128) => {
                Plans::Double(Plan::new(kind, dims, lengths)?)
            }
            _ => return None,
        };
        Some(Fourier { plan })
    }

    /// What it touches: operand and result.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        match &self.plan {
            Plans::Single(plan) => plan.footprint(),
            Plans::Double(plan) => plan.footprint(),
        }
    }

    /// Transforms.
    ///
    /// # Safety
    /// `read` points to the operand, `write` to an array of the result's sizes that overlaps nothing.
    pub(crate) unsafe fn run(&self, read: *const u8, write: *mut u8, cores: &Cores) {
        // SAFETY: the caller's promise; the types were checked when the plan was made.
        unsafe {
            match &self.plan {
                Plans::Single(plan) => plan.run(read.cast(), write.cast(), cores),
                Plans::Double(plan) => plan.run(read.cast(), write.cast(), cores),
            }
        }
    }
}

/// A number of either precision.
trait Real: FftNum + Copy + Default {
    fn of(value: f64) -> Self;
}

impl Real for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    fn of(value: f64) -> f64 {
        value
    }
}

/// Plans for machines with AVX and FMA, on which `FftPlanner` makes the same ones. The code that does without them would take as
/// long to build again.
#[cfg(target_arch = "x86_64")]
fn planner<T: FftNum>() -> Option<rustfft::FftPlannerAvx<T>> {
    rustfft::FftPlannerAvx::new().ok()
}

#[cfg(not(target_arch = "x86_64"))]
fn planner<T: FftNum>() -> Option<rustfft::FftPlanner<T>> {
    Some(rustfft::FftPlanner::new())
}

#[derive(Clone)]
struct Plan<T> {
    kind: Transform,
    /// Sizes of the complex array: of the result, or of the operand where the result is real.
    dims: Vec<usize>,
    /// Length of the last transform, of real elements where it is a real one.
    last: usize,
    /// Transforms along the last dimensions but one, the first dimension first.
    outer: Vec<Arc<dyn Fft<T>>>,
    rows: Rows<T>,
    /// What every element is multiplied by.
    scale: T,
}

/// The transform along the last dimension.
#[derive(Clone)]
enum Rows<T> {
    Complex(Arc<dyn Fft<T>>),
    /// Of an even number of reals, as half as many complex numbers, and the roots that take the halves apart.
    Halves(Arc<dyn Fft<T>>, Vec<Complex<T>>),
    /// Of an odd number of reals.
    Whole(Arc<dyn Fft<T>>),
}

impl<T> fmt::Debug for Plan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}, last {}", self.kind, self.dims, self.last)
    }
}

struct Pointers<A, B>(*const A, *mut B);
// SAFETY: threads write different rows.
unsafe impl<A, B> Sync for Pointers<A, B> {}

impl<A, B> Pointers<A, B> {
    fn read(&self) -> *const A {
        self.0
    }

    fn write(&self) -> *mut B {
        self.1
    }
}

/// Columns moved together: a line of memory holds as many complex numbers of single precision.
const COLUMNS: usize = 8;

impl<T: Real> Plan<T> {
    fn new(kind: Transform, dims: &[usize], lengths: &[usize]) -> Option<Plan<T>> {
        let first = dims.len().checked_sub(lengths.len()).filter(|_| !lengths.is_empty())?;
        let (&last, before) = lengths.split_last()?;
        let half = last / 2 + 1;
        let row = if kind == Transform::Irfft { half } else { last };
        if last == 0 || dims.contains(&0) || dims[dims.len() - 1] != row || dims[first..dims.len() - 1] != *before {
            return None;
        }
        let mut complex = dims.to_vec();
        if kind == Transform::Rfft {
            complex[dims.len() - 1] = half;
        }
        let total = complex.iter().try_fold(2 * size_of::<T>(), |n, &d| n.checked_mul(d))?;
        i64::try_from(total).ok()?;
        let backward = matches!(kind, Transform::Ifft | Transform::Irfft);
        let mut planner = planner()?;
        let mut plan =
            |length: usize| if backward { planner.plan_fft_inverse(length) } else { planner.plan_fft_forward(length) };
        let outer = before.iter().map(|&length| plan(length)).collect();
        let rows = match kind {
            Transform::Fft | Transform::Ifft => Rows::Complex(plan(last)),
            _ if last.is_multiple_of(2) => {
                let turn = -2.0 * std::f64::consts::PI / last as f64;
                let root = |k: usize| {
                    let (sin, cos) = (turn * k as f64).sin_cos();
                    Complex::new(T::of(cos), T::of(sin))
                };
                Rows::Halves(plan(last / 2), (0..half).map(root).collect())
            }
            _ => Rows::Whole(plan(last)),
        };
        let count: f64 = lengths.iter().map(|&n| n as f64).product();
        let scale = T::of(if backward { 1.0 / count } else { 1.0 });
        Some(Plan { kind, dims: complex, last, outer, rows, scale })
    }

    fn footprint(&self) -> Option<Footprint> {
        let complex = product(&self.dims)?.checked_mul(2 * size_of::<T>())?;
        let (_, outer) = self.dims.split_last()?;
        let real = product(outer)?.checked_mul(self.last)?.checked_mul(size_of::<T>())?;
        let (read, written) = match self.kind {
            Transform::Fft | Transform::Ifft => (complex, complex),
            Transform::Rfft => (real, complex),
            Transform::Irfft => (complex, real),
        };
        Some(Footprint { reads: vec![read], writes: vec![Written::Whole(written)] })
    }

    /// # Safety
    /// As for [`Fourier::run`].
    unsafe fn run(&self, read: *const T, write: *mut T, cores: &Cores) {
        let (width, total) = (self.dims[self.dims.len() - 1], self.dims.iter().product::<usize>());
        let rows = total / width;
        let threads = cores.pool.threads();
        let tasks = if total < 1 << 12 { 1 } else { rows.min(4 * threads) };
        let each = |job: &(dyn Fn(usize, &mut Vec<Complex<T>>) + Sync)| {
            cores.pool.run(tasks, &|_, task| {
                let mut scratch = Vec::new();
                (rows * task / tasks..rows * (task + 1) / tasks).for_each(|row| job(row, &mut scratch));
            });
        };
        // SAFETY: the arrays are the caller's; rows of different numbers do not overlap.
        unsafe {
            match self.kind {
                Transform::Fft | Transform::Ifft => {
                    let arrays = Pointers(read.cast::<Complex<T>>(), write.cast::<Complex<T>>());
                    each(&|row, scratch| {
                        let from = std::slice::from_raw_parts(arrays.read().add(row * width), width);
                        let to = std::slice::from_raw_parts_mut(arrays.write().add(row * width), width);
                        if self.kind == Transform::Ifft {
                            to.iter_mut().zip(from).for_each(|(to, x)| *to = *x * self.scale);
                        } else {
                            to.copy_from_slice(from);
                        }
                        if let Rows::Complex(plan) = &self.rows {
                            process(&**plan, to, scratch);
                        }
                    });
                    self.columns(write.cast(), cores);
                }
                Transform::Rfft => {
                    let arrays = Pointers(read, write.cast::<Complex<T>>());
                    each(&|row, scratch| {
                        let from = std::slice::from_raw_parts(arrays.read().add(row * self.last), self.last);
                        let to = std::slice::from_raw_parts_mut(arrays.write().add(row * width), width);
                        self.forward_real(from, to, scratch);
                    });
                    self.columns(write.cast(), cores);
                }
                Transform::Irfft => {
                    // The operand is left as it is: the other dimensions are transformed in a copy.
                    let mut copy = Vec::new();
                    let mut from = read.cast::<Complex<T>>();
                    if !self.outer.is_empty() {
                        copy.extend_from_slice(std::slice::from_raw_parts(from, total));
                        self.columns(copy.as_mut_ptr(), cores);
                        from = copy.as_ptr();
                    }
                    let arrays = Pointers(from, write);
                    each(&|row, scratch| {
                        let from = std::slice::from_raw_parts(arrays.read().add(row * width), width);
                        let to = std::slice::from_raw_parts_mut(arrays.write().add(row * self.last), self.last);
                        self.backward_real(from, to, scratch);
                    });
                }
            }
        }
    }

    /// Transforms along all dimensions but the last, in place, several neighbouring columns at a time.
    ///
    /// # Safety
    /// `array` points to an array of the plan's complex sizes that no one else touches.
    unsafe fn columns(&self, array: *mut Complex<T>, cores: &Cores) {
        let first = self.dims.len() - 1 - self.outer.len();
        for (n, plan) in self.outer.iter().enumerate() {
            let axis = first + n;
            let (length, inner) = (self.dims[axis], self.dims[axis + 1..].iter().product::<usize>());
            let outer: usize = self.dims[..axis].iter().product();
            let blocks = inner.div_ceil(COLUMNS);
            let count = outer * blocks;
            let tasks = if count * length < 1 << 10 { 1 } else { count.min(4 * cores.pool.threads()) };
            let shared = Pointers(std::ptr::null::<T>(), array);
            cores.pool.run(tasks, &|_, task| {
                let mut scratch = Vec::new();
                let mut buffer = vec![Complex::new(T::default(), T::default()); COLUMNS * length];
                for block in count * task / tasks..count * (task + 1) / tasks {
                    let begin = block % blocks * COLUMNS;
                    let columns = COLUMNS.min(inner - begin);
                    // SAFETY: the block lies within the array; different blocks do not overlap.
                    unsafe {
                        let base = shared.write().add(block / blocks * length * inner + begin);
                        for i in 0..length {
                            for c in 0..columns {
                                buffer[c * length + i] = base.add(i * inner + c).read();
                            }
                        }
                        process(&**plan, &mut buffer[..columns * length], &mut scratch);
                        for i in 0..length {
                            for c in 0..columns {
                                base.add(i * inner + c).write(buffer[c * length + i]);
                            }
                        }
                    }
                }
            });
        }
    }

    fn forward_real(&self, from: &[T], to: &mut [Complex<T>], scratch: &mut Vec<Complex<T>>) {
        let half = T::of(0.5);
        match &self.rows {
            Rows::Halves(plan, roots) => {
                let n = self.last / 2;
                for (to, pair) in to.iter_mut().zip(from.chunks_exact(2)) {
                    *to = Complex::new(pair[0], pair[1]);
                }
                process(&**plan, &mut to[..n], scratch);
                // The spectra of the even and odd elements are the parts that mirror themselves and their negative.
                to[n] = to[0];
                for k in 0..=n / 2 {
                    let (a, b) = (to[k], to[n - k].conj());
                    let (even, odd) = ((a + b) * half, (a - b) * half);
                    let odd = roots[k] * Complex::new(odd.im, -odd.re);
                    to[k] = even + odd;
                    to[n - k] = (even - odd).conj();
                }
            }
            Rows::Whole(plan) | Rows::Complex(plan) => {
                let mut whole: Vec<Complex<T>> = from.iter().map(|&x| Complex::new(x, T::default())).collect();
                process(&**plan, &mut whole, scratch);
                to.copy_from_slice(&whole[..to.len()]);
            }
        }
    }

    fn backward_real(&self, from: &[Complex<T>], to: &mut [T], scratch: &mut Vec<Complex<T>>) {
        let n = self.last;
        // The imaginary parts of elements that mirror themselves have no meaning.
        let real = |x: Complex<T>| Complex::new(x.re, T::default());
        match &self.rows {
            Rows::Halves(plan, roots) => {
                let n = n / 2;
                let at = |k: usize| if k == 0 || k == n { real(from[k]) } else { from[k] };
                let mut packed = Vec::with_capacity(n);
                for (k, root) in roots.iter().enumerate().take(n) {
                    let (a, b) = (at(k), at(n - k).conj());
                    let (even, odd) = (a + b, (a - b) * root.conj());
                    packed.push((even + Complex::new(-odd.im, odd.re)) * self.scale);
                }
                process(&**plan, &mut packed, scratch);
                for (pair, x) in to.chunks_exact_mut(2).zip(&packed) {
                    pair[0] = x.re;
                    pair[1] = x.im;
                }
            }
            Rows::Whole(plan) | Rows::Complex(plan) => {
                let at = |k: usize| if k == 0 { real(from[0]) } else { from[k] };
                let lower = (0..from.len()).map(at);
                let upper = (from.len()..n).map(|k| at(n - k).conj());
                let mut whole: Vec<Complex<T>> = lower.chain(upper).take(n).map(|x| x * self.scale).collect();
                process(&**plan, &mut whole, scratch);
                to.iter_mut().zip(&whole).for_each(|(to, x)| *to = x.re);
            }
        }
    }
}

/// Transforms rows in place.
fn process<T: Real>(plan: &dyn Fft<T>, rows: &mut [Complex<T>], scratch: &mut Vec<Complex<T>>) {
    let needed = plan.get_inplace_scratch_len();
    if scratch.len() < needed {
        scratch.resize(needed, Complex::new(T::default(), T::default()));
    }
    plan.process_with_scratch(rows, scratch);
}

#[cfg(test)]
mod tests;
