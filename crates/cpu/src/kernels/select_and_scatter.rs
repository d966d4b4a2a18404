//! Scattering elements to the place that each window of another array selects: the gradient of pooling.
#![allow(unsafe_code)]

use tensor::DType;

use super::Cores;
use super::loops::ir::{Compare, Fold, Inst, Lane, Reg};
use super::scalar::{self, Combine, Program};
use super::wide::wide;
use super::window::{Window, advance, dense_strides};

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
}

struct Arrays {
    operand: *const u8,
    source: *const u8,
    write: *mut u8,
}
// SAFETY: threads write different items of the leading dimensions.
unsafe impl Sync for Arrays {}

impl SelectAndScatter {
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
        Some(SelectAndScatter { window, source, dtype, select, scatter, leading, trailing })
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
        let arrays = Arrays { operand, source, write };
        let keeps_larger = [Inst::Load(0), Inst::Load(1), Inst::Compare(Compare::Ge, Reg(0), Reg(1))];
        let is_sum = self.scatter == Combine::Fold(Fold::Sum);
        // Places within an item are kept in 32 bits.
        let is_pooling = is_sum && self.select.insts == keeps_larger && u32::try_from(size).is_ok();
        let tasks = if items * size < 1 << 12 { 1 } else { items.min(4 * cores.pool.threads()) };
        let arrays = &arrays;
        cores.pool.run(tasks, &|_, task| {
            for item in items * task / tasks..items * (task + 1) / tasks {
                // SAFETY: the arrays are the caller's; each item is in one task.
                unsafe {
                    match self.dtype {
                        DType::F32 if is_pooling => {
                            let init = f32::from_bits(init as u32);
                            wide(&cores.machine, || self.pooling(arrays, item, init, |a, b| a + b));
                        }
                        DType::F64 if is_pooling => {
                            wide(&cores.machine, || self.pooling(arrays, item, f64::from_bits(init), |a, b| a + b));
                        }
                        _ => self.general(arrays, item, init),
                    }
                }
            }
        });
    }

    /// Sizes behind the leading dimensions: of the operand, the source and the window.
    fn item(&self) -> [&[usize]; 3] {
        [&self.window.dims[self.leading..], &self.source[self.leading..], &self.window.window[self.leading..]]
    }

    /// The gradient of a maximum: the first largest element of each window, for all columns of the trailing dimensions
    /// at once.
    ///
    /// # Safety
    /// The arrays are those of the op, of elements `T`; no one else writes the item.
    #[inline(always)]
    unsafe fn pooling<T: Copy + PartialOrd>(&self, arrays: &Arrays, item: usize, init: T, add: impl Fn(T, T) -> T) {
        let [dims, source_dims, _] = self.item();
        let active = dims.len() - self.trailing;
        let inner: usize = dims[active..].iter().product();
        let (size, source_size) = (dims.iter().product::<usize>(), source_dims.iter().product::<usize>());
        // SAFETY: the item is within the arrays.
        let (operand, source, write) = unsafe {
            (
                std::slice::from_raw_parts(arrays.operand.cast::<T>().add(item * size), size),
                std::slice::from_raw_parts(arrays.source.cast::<T>().add(item * source_size), source_size),
                std::slice::from_raw_parts_mut(arrays.write.cast::<T>().add(item * size), size),
            )
        };
        write.fill(init);
        if source_size == 0 {
            return;
        }
        let strides = dense_strides(dims);
        let mut index = vec![0; active];
        // Of each dimension, the part of the window that lies inside.
        let mut begins = vec![0; active];
        let mut ends = vec![0; active];
        let mut place = vec![0; active];
        let mut best: Vec<T> = vec![init; inner];
        let mut chosen: Vec<u32> = vec![0; inner];
        for source in source.chunks_exact(inner) {
            let mut is_empty = false;
            for d in 0..active {
                let at = self.leading + d;
                let begin = (index[d] * self.window.strides[at]) as i64 - self.window.padding[at].0;
                let end = begin + self.window.window[at] as i64;
                begins[d] = begin.clamp(0, dims[d] as i64) as usize;
                ends[d] = end.clamp(0, dims[d] as i64) as usize;
                is_empty |= begins[d] >= ends[d];
            }
            advance(&mut index, &source_dims[..active]);
            if is_empty {
                continue;
            }
            place.copy_from_slice(&begins);
            let mut is_first = true;
            loop {
                let base: usize = place.iter().zip(&strides).map(|(p, s)| p * s).sum();
                let row = &operand[base..base + inner];
                if is_first {
                    best.copy_from_slice(row);
                    chosen.fill(base as u32);
                } else {
                    for ((best, chosen), &x) in best.iter_mut().zip(&mut chosen).zip(row) {
                        let keeps = *best >= x;
                        *best = if keeps { *best } else { x };
                        *chosen = if keeps { *chosen } else { base as u32 };
                    }
                }
                is_first = false;
                let mut d = active;
                while d > 0 {
                    d -= 1;
                    place[d] += 1;
                    if place[d] < ends[d] {
                        break;
                    }
                    place[d] = begins[d];
                    if d == 0 {
                        d = usize::MAX;
                        break;
                    }
                }
                if d == usize::MAX || active == 0 {
                    break;
                }
            }
            for (column, (&base, &x)) in chosen.iter().zip(source).enumerate() {
                let to = &mut write[base as usize + column];
                *to = add(*to, x);
            }
        }
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

#[cfg(test)]
mod tests;
