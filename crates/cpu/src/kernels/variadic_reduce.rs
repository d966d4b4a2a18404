//! Reductions of several operands at once: the search for the largest or smallest element and its index, and any body.
#![allow(unsafe_code)]

use tensor::DType;

use super::Cores;
use super::loops::ir::Lane;
use super::scalar::{self, Program};
use super::wide::{WideLoop, wide_loop};
use super::window::{advance, dense_strides};
use crate::footprint::{Footprint, Written, product};

/// Which element is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extreme {
    Max,
    Min,
}

/// Where the indices of a search come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Indices {
    /// The second operand.
    Read,
    /// The second operand is the position along the only reduced dimension; it is not read.
    Position,
}

/// What is done with the elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    /// The extreme of the first operand with the smallest of its indices; the program says the same and decides where an
    /// element is NaN.
    Search(Extreme, Indices, Program),
    /// Takes the accumulators and then the elements, and gives the accumulators.
    Program(Program),
}

/// A reduction of operands of one shape.
#[derive(Clone, Debug)]
pub(crate) struct VariadicReduce {
    dims: Vec<usize>,
    reduced: Vec<usize>,
    kept: Vec<usize>,
    dtypes: Vec<DType>,
    body: Body,
}

struct Arrays<'a> {
    reads: &'a [*const u8],
    writes: &'a [*mut u8],
}
// SAFETY: threads write different elements.
unsafe impl Sync for Arrays<'_> {}

impl VariadicReduce {
    /// What it touches: operands, initial values, results. Positions that are known are not read.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let bytes = |dims: &[usize]| {
            let count = product(dims)?;
            self.dtypes.iter().map(|dtype| count.checked_mul(dtype.size_bytes())).collect::<Option<Vec<usize>>>()
        };
        let mut reads = bytes(&self.dims)?;
        if matches!(self.body, Body::Search(_, Indices::Position, _)) {
            reads[1] = 0;
        }
        reads.extend(bytes(&[])?);
        let kept: Vec<usize> = self.kept.iter().map(|&d| self.dims[d]).collect();
        Some(Footprint { reads, writes: bytes(&kept)?.into_iter().map(Written::Whole).collect() })
    }

    /// A reduction over the dimensions `reduced`; `None` for types or bodies that are not of this language.
    pub(crate) fn new(dims: &[usize], reduced: &[usize], dtypes: &[DType], body: Body) -> Option<VariadicReduce> {
        let mut along = reduced.to_vec();
        along.sort_unstable();
        along.dedup();
        let (Body::Search(.., program) | Body::Program(program)) = &body;
        let fits = program.arguments.iter().eq(dtypes.iter().chain(dtypes))
            && program.results.iter().map(|(d, _)| d).eq(dtypes)
            && along.last().is_none_or(|&d| d < dims.len());
        let one_dimension = match &body {
            Body::Search(_, Indices::Position, _) => along.len() == 1 && dtypes.len() == 2,
            Body::Search(..) => dtypes.len() == 2,
            Body::Program(_) => true,
        };
        dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        if !fits || !one_dimension || dtypes.iter().any(|&d| Lane::of(d).is_none()) {
            return None;
        }
        let kept = (0..dims.len()).filter(|d| !along.contains(d)).collect();
        Some(VariadicReduce { dims: dims.to_vec(), reduced: along, kept, dtypes: dtypes.to_vec(), body })
    }

    /// Reduces.
    ///
    /// # Safety
    /// `reads` point to arrays of the operands' sizes (the second may be dangling where positions stand for it), `inits`
    /// to one element each, `writes` to arrays of the kept sizes that overlap nothing.
    pub(crate) unsafe fn run(&self, reads: &[*const u8], inits: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        // SAFETY: one element each, by the caller's promise.
        let inits: Vec<u64> =
            self.dtypes.iter().zip(inits).map(|(&dtype, &init)| unsafe { scalar::load(dtype, init, 0) }).collect();
        let arrays = Arrays { reads, writes };
        let total: usize = self.kept.iter().map(|&d| self.dims[d]).product();
        let length: usize = self.reduced.iter().map(|&d| self.dims[d]).product();
        if total == 0 {
            return;
        }
        // SAFETY: the arrays are the caller's.
        if unsafe { self.search(&inits, &arrays, cores) } {
            return;
        }
        let tasks = if total.saturating_mul(length) < 1 << 12 { 1 } else { total.min(4 * cores.pool.threads()) };
        let arrays = &arrays;
        cores.pool.run(tasks, &|_, task| {
            let mut general = General::new(self);
            for at in total * task / tasks..total * (task + 1) / tasks {
                // SAFETY: the arrays are the caller's, and each element is in one task.
                unsafe { general.one(&inits, arrays, at) };
            }
        });
    }

    /// Searches where the types are the machine's and the reduced dimensions lie side by side.
    ///
    /// # Safety
    /// As for [`VariadicReduce::run`].
    unsafe fn search(&self, inits: &[u64], arrays: &Arrays<'_>, cores: &Cores) -> bool {
        let Body::Search(extreme, indices, _) = self.body else { return false };
        let (Some(&first), Some(&last)) = (self.reduced.first(), self.reduced.last()) else { return false };
        let size = |range: &[usize]| range.iter().product::<usize>();
        let shape = Shape {
            outer: size(&self.dims[..first]),
            length: size(&self.dims[first..=last]),
            inner: size(&self.dims[last + 1..]),
            extreme,
            indices,
        };
        if last - first + 1 != self.reduced.len() || shape.length == 0 || u32::try_from(shape.length).is_err() {
            return false;
        }
        // SAFETY: the caller's promise; the element types are those of the arrays.
        unsafe {
            match (self.dtypes[0], self.dtypes[1]) {
                (DType::F32, DType::I32) => self.rows::<f32, i32>(shape, inits, arrays, cores),
                (DType::F32, DType::I64) => self.rows::<f32, i64>(shape, inits, arrays, cores),
                (DType::F64, DType::I64) => self.rows::<f64, i64>(shape, inits, arrays, cores),
                (DType::I32, DType::I32) => self.rows::<i32, i32>(shape, inits, arrays, cores),
                (DType::I64, DType::I64) => self.rows::<i64, i64>(shape, inits, arrays, cores),
                _ => return false,
            }
        }
        true
    }

    /// # Safety
    /// As for [`VariadicReduce::run`], of values `T` and indices `I`.
    unsafe fn rows<T: Number, I: Index>(&self, shape: Shape, inits: &[u64], arrays: &Arrays<'_>, cores: &Cores) {
        let Shape { outer, length, inner, .. } = shape;
        // Columns are cut so that the best of each stay near.
        let block = if inner == 1 { 1 } else { inner.div_ceil(inner.div_ceil(512).max(1)) };
        let blocks = inner.div_ceil(block);
        let (init, init_index) = (T::of(inits[0]), I::of(inits[1]));
        let tasks = if outer * length * inner < 1 << 13 { 1 } else { (outer * blocks).min(8 * cores.pool.threads()) };
        cores.pool.run(tasks, &|_, task| {
            let mut general = General::new(self);
            let mut best: Vec<(T, u32)> = Vec::new();
            for part in outer * blocks * task / tasks..outer * blocks * (task + 1) / tasks {
                let (row, begin) = (part / blocks, part % blocks * block);
                let width = block.min(inner - begin);
                let base = row * length * inner + begin;
                // SAFETY: the part lies within the operand; no one else writes its results.
                unsafe {
                    let values = arrays.reads[0].cast::<T>().add(base);
                    let index = |place: usize, column: usize| match shape.indices {
                        Indices::Position => I::position(place),
                        Indices::Read => arrays.reads[1].cast::<I>().add(base + place * inner + column).read(),
                    };
                    let mut finish = |column: usize, found: Option<(T, I)>| {
                        let at = row * inner + begin + column;
                        let Some((value, index)) = found else { return general.one(inits, arrays, at) };
                        let (value, index) = if shape.better(init, value) {
                            (init, init_index)
                        } else if shape.better(value, init) {
                            (value, index)
                        } else {
                            (value, index.min(init_index))
                        };
                        arrays.writes[0].cast::<T>().add(at).write(value);
                        arrays.writes[1].cast::<I>().add(at).write(index);
                    };
                    if inner == 1 {
                        let values = std::slice::from_raw_parts(values, length);
                        let found = wide_loop(&cores.machine, Row { shape, values, index: |place| index(place, 0) });
                        finish(0, found.filter(|_| !init.is_nan()));
                    } else {
                        let rows = std::slice::from_raw_parts(values, (length - 1) * inner + width);
                        let is_numbers = wide_loop(&cores.machine, Columns { shape, rows, width, best: &mut best });
                        for column in 0..width {
                            let (value, place) = best[column];
                            let index = match shape.indices {
                                Indices::Position => I::position(place as usize),
                                // Equal elements further on may have smaller indices.
                                Indices::Read => (place as usize..length)
                                    .filter(|&n| values.add(n * inner + column).read() == value)
                                    .fold(index(place as usize, column), |low, n| low.min(index(n, column))),
                            };
                            finish(column, (is_numbers && !init.is_nan()).then_some((value, index)));
                        }
                    }
                }
            }
        });
    }
}

#[derive(Clone, Copy)]
struct Shape {
    outer: usize,
    length: usize,
    inner: usize,
    extreme: Extreme,
    indices: Indices,
}

impl Shape {
    #[inline(always)]
    fn better<T: PartialOrd>(&self, a: T, b: T) -> bool {
        match self.extreme {
            Extreme::Max => a > b,
            Extreme::Min => a < b,
        }
    }

    /// The extreme of a row and the smallest of its indices; `None` where an element is NaN.
    #[inline(always)]
    fn row<T: Number, I: Index>(&self, values: &[T], index: impl Fn(usize) -> I) -> Option<(T, I)> {
        const LANES: usize = 64;
        let mut best = [values[0]; LANES];
        let mut nans = [false; LANES];
        let chunks = values.chunks_exact(LANES);
        let rest = chunks.remainder();
        let mut each = |n: usize, x: T| {
            best[n] = if self.better(x, best[n]) { x } else { best[n] };
            nans[n] |= x.is_nan();
        };
        rest.iter().enumerate().for_each(|(n, &x)| each(n, x));
        match self.extreme {
            Extreme::Max => {
                for chunk in chunks {
                    for n in 0..LANES {
                        best[n] = if chunk[n] > best[n] { chunk[n] } else { best[n] };
                        nans[n] |= chunk[n].is_nan();
                    }
                }
            }
            Extreme::Min => {
                for chunk in chunks {
                    for n in 0..LANES {
                        best[n] = if chunk[n] < best[n] { chunk[n] } else { best[n] };
                        nans[n] |= chunk[n].is_nan();
                    }
                }
            }
        }
        if nans.contains(&true) {
            return None;
        }
        let value = best.iter().fold(best[0], |a, &b| if self.better(b, a) { b } else { a });
        let mut first = 0;
        // Whole chunks are passed over without looking which element it is.
        for chunk in values.chunks(LANES) {
            if chunk.iter().fold(false, |found, &x| found | (x == value)) {
                break;
            }
            first += LANES;
        }
        let mut equal = (first..values.len()).filter(|&n| values[n] == value);
        let place = equal.next()?;
        let lowest = match self.indices {
            Indices::Position => index(place),
            Indices::Read => equal.fold(index(place), |lowest, n| lowest.min(index(n))),
        };
        Some((value, lowest))
    }
}

/// [`Shape::row`] of one row.
struct Row<'a, T, F> {
    shape: Shape,
    values: &'a [T],
    index: F,
}

impl<T: Number, I: Index, F: Fn(usize) -> I> WideLoop for Row<'_, T, F> {
    type Output = Option<(T, I)>;

    #[inline(always)]
    fn run(self) -> Option<(T, I)> {
        self.shape.row(self.values, self.index)
    }
}

/// The extremes of some columns and where they are, first of all; gives whether no element is NaN.
struct Columns<'a, T> {
    shape: Shape,
    /// From the first row's first element to the last row's last.
    rows: &'a [T],
    width: usize,
    best: &'a mut Vec<(T, u32)>,
}

impl<T: Number> WideLoop for Columns<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Columns { shape, rows, width, best } = self;
        let first = &rows[..width];
        best.clear();
        best.extend(first.iter().map(|&x| (x, 0)));
        let mut is_numbers = first.iter().all(|x| !x.is_nan());
        for place in 1..shape.length {
            let row = &rows[place * shape.inner..][..width];
            let mut nans = false;
            for (best, &x) in best.iter_mut().zip(row) {
                nans |= x.is_nan();
                let is_better = shape.better(x, best.0);
                *best = if is_better { (x, place as u32) } else { *best };
            }
            is_numbers &= !nans;
        }
        is_numbers
    }
}

trait Number: Copy + PartialOrd + Send + Sync {
    fn of(bits: u64) -> Self;
    fn is_nan(&self) -> bool;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn of(bits: u64) -> Self { bits as $ty }
            #[inline(always)]
            fn is_nan(&self) -> bool { false }
        }
    )*};
}
numbers!(i32 i64);

macro_rules! reals {
    ($($ty:ident $bits:ty)*) => {$(
        impl Number for $ty {
            fn of(bits: u64) -> Self { $ty::from_bits(bits as $bits) }
            #[inline(always)]
            fn is_nan(&self) -> bool { $ty::is_nan(*self) }
        }
    )*};
}
reals!(f32 u32 f64 u64);

trait Index: Copy + Ord + Send + Sync {
    fn of(bits: u64) -> Self;
    fn position(place: usize) -> Self;
}

impl Index for i32 {
    fn of(bits: u64) -> i32 {
        bits as i32
    }

    fn position(place: usize) -> i32 {
        place as i32
    }
}

impl Index for i64 {
    fn of(bits: u64) -> i64 {
        bits as i64
    }

    fn position(place: usize) -> i64 {
        place as i64
    }
}

/// The reduction of one element at a time, as the specification says it.
struct General<'r> {
    reduce: &'r VariadicReduce,
    registers: scalar::Registers,
    strides: Vec<usize>,
    sizes: Vec<usize>,
    index: Vec<usize>,
    arguments: Vec<u64>,
    results: Vec<u64>,
}

impl<'r> General<'r> {
    fn new(reduce: &'r VariadicReduce) -> General<'r> {
        let operands = reduce.dtypes.len();
        General {
            reduce,
            registers: reduce.program().registers(),
            strides: dense_strides(&reduce.dims),
            sizes: reduce.reduced.iter().map(|&d| reduce.dims[d]).collect(),
            index: vec![0; reduce.reduced.len()],
            arguments: vec![0; 2 * operands],
            results: vec![0; operands],
        }
    }

    /// # Safety
    /// The arrays are those of the reduction, `at` an element of the result that no one else writes.
    unsafe fn one(&mut self, inits: &[u64], arrays: &Arrays<'_>, at: usize) {
        let reduce = self.reduce;
        let (program, operands) = (reduce.program(), reduce.dtypes.len());
        let (mut base, mut rest) = (0, at);
        for &d in reduce.kept.iter().rev() {
            base += rest % reduce.dims[d] * self.strides[d];
            rest /= reduce.dims[d];
        }
        let from_position = matches!(reduce.body, Body::Search(_, Indices::Position, _));
        self.arguments[..operands].copy_from_slice(inits);
        self.index.fill(0);
        let mut is_inside = !self.sizes.contains(&0);
        while is_inside {
            let position =
                base + reduce.reduced.iter().zip(&self.index).map(|(&d, &i)| i * self.strides[d]).sum::<usize>();
            for n in 0..operands {
                self.arguments[operands + n] = if from_position && n == 1 {
                    self.index[0] as u64
                } else {
                    // SAFETY: the position is within the operand.
                    unsafe { scalar::load(reduce.dtypes[n], arrays.reads[n], position) }
                };
            }
            program.eval(&mut self.registers, &self.arguments, &mut self.results);
            self.arguments[..operands].copy_from_slice(&self.results);
            is_inside = advance(&mut self.index, &self.sizes);
        }
        for n in 0..operands {
            // SAFETY: `at` is an element of the result.
            unsafe { scalar::store(reduce.dtypes[n], arrays.writes[n], at, self.arguments[n]) };
        }
    }
}

impl VariadicReduce {
    fn program(&self) -> &Program {
        let (Body::Search(.., program) | Body::Program(program)) = &self.body;
        program
    }
}

#[cfg(test)]
mod tests;
