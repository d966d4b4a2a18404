//! Windows that slide over an array and are reduced to one element each: pooling and running sums.
#![allow(unsafe_code)]

use tensor::DType;

use super::Cores;
use super::loops::ir::{Fold, Lane};
use super::scalar::{self, Combine};
use crate::footprint::{Footprint, Written, product};

mod separate;

/// Sums and products of reals over windows of several dimensions are reordered from this many terms on: small ones are
/// not worth different last bits.
const REORDERED_FROM: usize = 1 << 14;

/// Where windows lie; one entry of each list for each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// Sizes of the operand.
    pub(crate) dims: Vec<usize>,
    /// Sizes of the window.
    pub(crate) window: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) base_dilations: Vec<usize>,
    pub(crate) window_dilations: Vec<usize>,
    /// Low and high; negative ones cut.
    pub(crate) padding: Vec<(i64, i64)>,
}

impl Window {
    /// Sizes of the result; `None` where the lists do not fit or a number is out of range.
    pub(crate) fn result_dims(&self) -> Option<Vec<usize>> {
        let rank = self.dims.len();
        let lists = [&self.window, &self.strides, &self.base_dilations, &self.window_dilations];
        if lists.iter().any(|list| list.len() != rank || list.contains(&0)) || self.padding.len() != rank {
            return None;
        }
        let spread = |size: usize, dilation: usize| match size {
            0 => Some(0),
            _ => i64::try_from((size - 1).checked_mul(dilation)?.checked_add(1)?).ok(),
        };
        (0..rank)
            .map(|d| {
                let (low, high) = self.padding[d];
                let base = spread(self.dims[d], self.base_dilations[d])?.checked_add(low)?.checked_add(high)?;
                let window = spread(self.window[d], self.window_dilations[d])?;
                // Positions within a window stay far from the limits of their type.
                i64::try_from(self.strides[d]).ok().filter(|&s| s < 1 << 40)?;
                if base > 1 << 40 || window > 1 << 40 || low.unsigned_abs() > 1 << 40 {
                    return None;
                }
                Some(if base < window { 0 } else { ((base - window) as usize) / self.strides[d] + 1 })
            })
            .collect()
    }

    /// The coordinate along a dimension that place `place` of window `at` covers.
    #[inline]
    pub(super) fn coordinate(&self, d: usize, at: usize, place: usize) -> Option<usize> {
        let here = (at * self.strides[d]) as i64 - self.padding[d].0 + (place * self.window_dilations[d]) as i64;
        let here = usize::try_from(here).ok()?;
        let dilation = self.base_dilations[d];
        (here.is_multiple_of(dilation) && here / dilation < self.dims[d]).then(|| here / dilation)
    }

    /// Whether a dimension is left as it is.
    pub(super) fn is_trivial(&self, d: usize) -> bool {
        self.window[d] == 1 && self.strides[d] == 1 && self.base_dilations[d] == 1 && self.padding[d] == (0, 0)
    }

    /// Leading dimensions that are left as they are.
    pub(super) fn leading(&self) -> usize {
        (0..self.dims.len()).take_while(|&d| self.is_trivial(d)).count()
    }
}

/// Distances between neighbours of a dense array.
pub(super) fn dense_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d].max(1);
    }
    strides
}

/// Moves an index to the next one of a shape in row-major order; false after the last.
pub(super) fn advance(index: &mut [usize], dims: &[usize]) -> bool {
    for d in (0..dims.len()).rev() {
        index[d] += 1;
        if index[d] < dims[d] {
            return true;
        }
        index[d] = 0;
    }
    false
}

/// A reduction of windows of one or several operands of one shape.
#[derive(Clone, Debug)]
pub(crate) struct ReduceWindow {
    pub(super) window: Window,
    pub(super) result: Vec<usize>,
    pub(super) dtypes: Vec<DType>,
    pub(super) combine: Combine,
}

pub(super) struct Arrays<'a> {
    pub(super) reads: &'a [*const u8],
    pub(super) writes: &'a [*mut u8],
}
// SAFETY: threads write different elements.
unsafe impl Sync for Arrays<'_> {}

impl Arrays<'_> {
    // Methods, so that closures capture the whole and not the pointers.
    pub(super) fn read(&self, n: usize) -> *const u8 {
        self.reads[n]
    }

    pub(super) fn write(&self, n: usize) -> *mut u8 {
        self.writes[n]
    }
}

impl ReduceWindow {
    /// What it touches: operands, initial values, results. Positions outside an operand stand for its initial value.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let bytes = |dims: &[usize]| {
            let count = product(dims)?;
            self.dtypes.iter().map(|dtype| count.checked_mul(dtype.size_bytes())).collect::<Option<Vec<usize>>>()
        };
        let mut reads = bytes(&self.window.dims)?;
        reads.extend(bytes(&[])?);
        let results = bytes(&self.result)?;
        Some(Footprint { reads, writes: results.into_iter().map(Written::Whole).collect() })
    }

    /// A reduction; `None` for types or bodies that are not of this language. A program takes the accumulators and then
    /// the elements, of the operands' types, and gives the accumulators.
    pub(crate) fn new(window: Window, dtypes: &[DType], combine: Combine) -> Option<ReduceWindow> {
        let result = window.result_dims()?;
        for dims in [&window.dims, &result, &window.window] {
            dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        }
        let fits = match &combine {
            Combine::Fold(_) => dtypes.len() == 1,
            Combine::Program(program) => {
                let arguments = dtypes.iter().chain(dtypes);
                program.arguments.iter().eq(arguments) && program.results.iter().map(|(d, _)| d).eq(dtypes)
            }
        };
        let known = dtypes.iter().all(|&d| Lane::of(d).is_some());
        (fits && known).then(|| ReduceWindow { window, result, dtypes: dtypes.to_vec(), combine })
    }

    /// Reduces.
    ///
    /// # Safety
    /// `reads` point to arrays of the operands' sizes, `inits` to one element each, `writes` to arrays of the result's
    /// sizes that overlap nothing.
    pub(crate) unsafe fn run(&self, reads: &[*const u8], inits: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        let total: usize = self.result.iter().product();
        if total == 0 {
            return;
        }
        // SAFETY: one element each, by the caller's promise.
        let inits: Vec<u64> =
            self.dtypes.iter().zip(inits).map(|(&dtype, &init)| unsafe { scalar::load(dtype, init, 0) }).collect();
        let arrays = Arrays { reads, writes };
        if let Combine::Fold(fold) = self.combine
            && self.window.base_dilations.iter().all(|&d| d == 1)
            && self.starts_at_identity(fold, inits[0])
            && (self.keeps_order(fold) || total.saturating_mul(self.window.window.iter().product()) >= REORDERED_FROM)
        {
            // SAFETY: the arrays are the caller's.
            if unsafe { separate::run(self, fold, inits[0], &arrays, cores) } {
                return;
            }
        }
        let places: usize = self.window.window.iter().product();
        let tasks = if total.saturating_mul(places) < 1 << 12 { 1 } else { total.min(4 * cores.pool.threads()) };
        let arrays = &arrays;
        cores.pool.run(tasks, &|_, task| {
            // SAFETY: the arrays are the caller's, and each element is in one task.
            unsafe { self.each(&inits, arrays, total * task / tasks, total * (task + 1) / tasks) };
        });
    }

    /// Whether a fold one dimension after another gives the same bits as over the whole window.
    fn keeps_order(&self, fold: Fold) -> bool {
        let is_rounded = self.dtypes[0].is_float() && matches!(fold, Fold::Sum | Fold::Product);
        !is_rounded || self.window.window.iter().filter(|&&size| size > 1).count() <= 1
    }

    /// Whether the initial value may be taken once for a window instead of once for each place outside the operand.
    fn starts_at_identity(&self, fold: Fold, init: u64) -> bool {
        let dtype = self.dtypes[0];
        let one = match dtype {
            DType::F32 => u64::from(1f32.to_bits()),
            DType::F64 => 1f64.to_bits(),
            _ => 1,
        };
        match fold {
            Fold::Sum | Fold::Xor => init == 0,
            Fold::Product => init == one,
            _ => true,
        }
    }

    /// Element by element, as the specification says it.
    ///
    /// # Safety
    /// The arrays are those of the reduction; no one else writes the elements from `begin` to `end`.
    unsafe fn each(&self, inits: &[u64], arrays: &Arrays<'_>, begin: usize, end: usize) {
        let (rank, operands) = (self.window.dims.len(), self.dtypes.len());
        let strides = dense_strides(&self.window.dims);
        let mut index = vec![0; rank];
        let mut rest = begin;
        for d in (0..rank).rev() {
            index[d] = rest % self.result[d];
            rest /= self.result[d];
        }
        let mut place = vec![0; rank];
        let mut arguments = vec![0; 2 * operands];
        let mut state = match &self.combine {
            Combine::Program(program) => Some((program, program.registers(), vec![0; operands])),
            Combine::Fold(_) => None,
        };
        let lane = Lane::of(self.dtypes[0]).unwrap_or(Lane::F32);
        for at in begin..end {
            arguments[..operands].copy_from_slice(inits);
            place.fill(0);
            loop {
                let position = (0..rank)
                    .try_fold(0, |sum, d| Some(sum + self.window.coordinate(d, index[d], place[d])? * strides[d]));
                for n in 0..operands {
                    arguments[operands + n] = match position {
                        // SAFETY: the coordinates are within the operand.
                        Some(position) => unsafe { scalar::load(self.dtypes[n], arrays.reads[n], position) },
                        None => inits[n],
                    };
                }
                match (&self.combine, &mut state) {
                    (_, Some((program, registers, results))) => {
                        program.eval(registers, &arguments, results);
                        arguments[..operands].copy_from_slice(results);
                    }
                    (Combine::Fold(fold), _) => {
                        arguments[0] = scalar::fold(*fold, self.dtypes[0], lane, arguments[0], arguments[1]);
                    }
                    _ => {}
                }
                if !advance(&mut place, &self.window.window) {
                    break;
                }
            }
            for n in 0..operands {
                // SAFETY: `at` is an element of the result.
                unsafe { scalar::store(self.dtypes[n], arrays.writes[n], at, arguments[n]) };
            }
            advance(&mut index, &self.result);
        }
    }
}

#[cfg(test)]
mod tests;
