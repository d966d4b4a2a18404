//! Scattering elements to the place that each window of another array selects: the gradient of pooling.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::Cores;
use super::loops::ir::{Compare, Fold, Inst, Lane, Reg};
use super::scalar::{self, Combine, Program};
use super::wide::{WideLoop, wide_loop};
use super::window::{Window, advance, dense_strides};
use crate::footprint::{Footprint, Written, product};
use pooling::{Pooling, Taps};

mod pooling;

/// A selection and a scatter; the operand's type is the source's and the result's.
#[derive(Clone, Debug)]
pub(crate) struct SelectAndScatter {
    window: Window,
    source: Vec<usize>,
    dtype: DType,
    select: Program,
    scatter: Combine,
    /// Leading dimensions that are independent of each other, and trailing ones that windows do not extend over.
    leading: usize,
    trailing: usize,
    /// How windows lie, where the largest is selected and sources are added.
    pooling: Option<Pooling>,
}

struct Arrays {
    operand: *const u8,
    source: *const u8,
    write: *mut u8,
}
// SAFETY: threads write different items of the leading dimensions.
unsafe impl Sync for Arrays {}

/// Whether a selection keeps an element that is not less than the next one. Loads come in any order.
fn keeps_larger(select: &Program) -> bool {
    let inst = |reg: Reg| select.insts.get(reg.0 as usize).copied();
    let [(_, result)] = select.results[..] else { return false };
    let Some(Inst::Compare(Compare::Ge, kept, next)) = inst(result) else { return false };
    (inst(kept), inst(next)) == (Some(Inst::Load(0)), Some(Inst::Load(1)))
}

impl SelectAndScatter {
    /// What it touches: operand, source, initial value, result.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let bytes = |dims: &[usize]| product(dims)?.checked_mul(self.dtype.size_bytes());
        let result = bytes(&self.window.dims)?;
        Some(Footprint { reads: vec![result, bytes(&self.source)?, bytes(&[])?], writes: vec![Written::Whole(result)] })
    }

    /// Of windows without dilation. `select` takes the element kept so far and the next one, and says whether to keep;
    /// `scatter` takes what is at the place and the source's element.
    pub(crate) fn new(window: Window, dtype: DType, select: Program, scatter: Combine) -> Option<SelectAndScatter> {
        let source = window.result_dims()?;
        for dims in [&window.dims, &source] {
            dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        }
        let is_plain = window.base_dilations.iter().chain(&window.window_dilations).all(|&d| d == 1);
        let selects = select.arguments == [dtype; 2] && matches!(select.results[..], [(DType::Bool, _)]);
        let scatters = match &scatter {
            Combine::Fold(_) => true,
            Combine::Program(p) => {
                p.arguments == [dtype; 2] && matches!(p.results[..], [(result, _)] if result == dtype)
            }
        };
        if !is_plain || !selects || !scatters || Lane::of(dtype).is_none() {
            return None;
        }
        let rank = window.dims.len();
        let leading = window.leading();
        let trailing = (leading..rank).rev().take_while(|&d| window.is_trivial(d)).count();
        let is_pooling = scatter == Combine::Fold(Fold::Sum)
            && keeps_larger(&select)
            && matches!(dtype, DType::F32 | DType::F64)
            // Places within a window are numbered in 32 bits.
            && window.dims.iter().product::<usize>() <= u32::MAX as usize;
        let mut op = SelectAndScatter { window, source, dtype, select, scatter, leading, trailing, pooling: None };
        op.pooling = is_pooling.then(|| Pooling::new(&op));
        Some(op)
    }

    /// Selects and scatters.
    ///
    /// # Safety
    /// `operand` and `write` point to arrays of the operand's sizes, `source` to one of the windows' sizes, `init` to one
    /// element; what is written overlaps nothing.
    pub(crate) unsafe fn run(
        &self,
        operand: *const u8,
        source: *const u8,
        init: *const u8,
        write: *mut u8,
        cores: &Cores,
    ) {
        let items: usize = self.window.dims[..self.leading].iter().product();
        let size: usize = self.window.dims[self.leading..].iter().product();
        if items * size == 0 {
            return;
        }
        // SAFETY: one element, by the caller's promise.
        let init = unsafe { scalar::load(self.dtype, init, 0) };
        let arrays = &Arrays { operand, source, write };
        let is_small = items * size < 1 << 12;
        if let Some(pooling) = &self.pooling {
            // Parts only where there are too few items for all threads.
            let wanted = 4 * cores.pool.threads();
            let parts = if is_small || items >= wanted { 1 } else { pooling.parts().min(wanted.div_ceil(items)) };
            let tasks = if is_small { 1 } else { (items * parts).min(wanted.max(parts)) };
            cores.pool.run(tasks, &|_, task| {
                let mut taps = Taps::default();
                for piece in items * parts * task / tasks..items * parts * (task + 1) / tasks {
                    let (item, part) = (piece / parts, piece % parts);
                    let part = pooling.parts() * part / parts..pooling.parts() * (part + 1) / parts;
                    let taps = &mut taps;
                    // Each part of an item is in one task.
                    match self.dtype {
                        DType::F64 => {
                            let init = f64::from_bits(init);
                            wide_loop(&cores.machine, Pool { pooling, arrays, item, part, init, taps });
                        }
                        _ => {
                            let init = f32::from_bits(init as u32);
                            wide_loop(&cores.machine, Pool { pooling, arrays, item, part, init, taps });
                        }
                    }
                }
            });
            return;
        }
        let tasks = if is_small { 1 } else { items.min(4 * cores.pool.threads()) };
        cores.pool.run(tasks, &|_, task| {
            for item in items * task / tasks..items * (task + 1) / tasks {
                // SAFETY: the arrays are the caller's; each item is in one task.
                unsafe { self.general(arrays, item, init) };
            }
        });
    }

    /// Sizes behind the leading dimensions: of the operand, the source and the window.
    fn item(&self) -> [&[usize]; 3] {
        [&self.window.dims[self.leading..], &self.source[self.leading..], &self.window.window[self.leading..]]
    }

    /// As the specification says it.
    ///
    /// # Safety
    /// The arrays are those of the op; no one else writes the item.
    unsafe fn general(&self, arrays: &Arrays, item: usize, init: u64) {
        let [dims, source_dims, window] = self.item();
        let (size, source_size) = (dims.iter().product::<usize>(), source_dims.iter().product::<usize>());
        let base = item * size;
        // SAFETY: the item is within the arrays.
        (0..size).for_each(|at| unsafe { scalar::store(self.dtype, arrays.write, base + at, init) });
        let strides = dense_strides(dims);
        let rank = dims.len();
        let (mut index, mut place) = (vec![0; rank], vec![0; rank]);
        let lane = Lane::of(self.dtype).unwrap_or(Lane::F32);
        let mut select = self.select.registers();
        let mut scatter = match &self.scatter {
            Combine::Program(program) => Some((program, program.registers())),
            Combine::Fold(_) => None,
        };
        for at in 0..source_size {
            let mut kept: Option<(usize, u64)> = None;
            place.fill(0);
            loop {
                let position = (0..rank).try_fold(0, |sum, d| {
                    Some(sum + self.window.coordinate(self.leading + d, index[d], place[d])? * strides[d])
                });
                if let Some(position) = position {
                    // SAFETY: the coordinates are within the operand.
                    let value = unsafe { scalar::load(self.dtype, arrays.operand, base + position) };
                    kept = match kept {
                        Some((other, best)) if self.select.ask(&mut select, &[best, value]) => Some((other, best)),
                        _ => Some((position, value)),
                    };
                }
                if !advance(&mut place, window) {
                    break;
                }
            }
            if let Some((position, _)) = kept {
                // SAFETY: the position is within the result, `at` within the source.
                unsafe {
                    let value = scalar::load(self.dtype, arrays.source, item * source_size + at);
                    let old = scalar::load(self.dtype, arrays.write, base + position);
                    let new = match (&mut scatter, &self.scatter) {
                        (Some((program, registers)), _) => {
                            let mut result = [0];
                            program.eval(registers, &[old, value], &mut result);
                            result[0]
                        }
                        (_, Combine::Fold(fold)) => scalar::fold(*fold, self.dtype, lane, old, value),
                        _ => old,
                    };
                    scalar::store(self.dtype, arrays.write, base + position, new);
                }
            }
            advance(&mut index, source_dims);
        }
    }
}

/// Windows `part` of an item. It is only made for arrays as [`SelectAndScatter::run`] has them.
struct Pool<'a, T> {
    pooling: &'a Pooling,
    arrays: &'a Arrays,
    item: usize,
    part: Range<usize>,
    init: T,
    taps: &'a mut Taps,
}

impl<T: pooling::Number> WideLoop for Pool<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Pool { pooling, arrays, item, part, init, taps } = self;
        // SAFETY: the arrays are those of the op, and no one else writes this part.
        unsafe { pooling.run(arrays, item, part, init, taps) }
    }
}

#[cfg(test)]
mod tests;
