//! `scatter`: updates combined into an array in place, at places that index vectors name. A window that does not lie
//! within the array as a whole is dropped, as XLA does.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::Cores;
use super::copy::runs::Level;
use super::copy::starts::{Bounds, Component, OUTSIDE, Shapes, Starts, numbers, others};
use super::copy::walk::{Dim, Walk, merged};
use super::copy::{Address, dense_strides};
use crate::footprint::{self, Footprint, Written, product};

mod combine;

pub(crate) use combine::Combine;
use combine::Kernel;

/// Index vectors handled together: their places fit the nearest cache.
const BLOCK: usize = 256;
/// Update bytes below which the work stays on the calling thread.
const PARALLEL_BYTES: usize = 128 << 10;
/// Single updates from which threads go through all of them, each for its part of the operand.
const PARALLEL_UPDATES: usize = 1 << 16;

/// The dimension numbers of the op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims<'a> {
    pub(crate) update_window_dims: &'a [i64],
    pub(crate) inserted_window_dims: &'a [i64],
    pub(crate) input_batching_dims: &'a [i64],
    pub(crate) scatter_indices_batching_dims: &'a [i64],
    pub(crate) scatter_dims_to_operand_dims: &'a [i64],
    pub(crate) index_vector_dim: i64,
}

/// What the program promises about places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Uniqueness {
    /// No element of the operand is met twice.
    Unique,
    Unknown,
}

/// Where each update goes. Index vectors are taken in order, and the elements of each window in order.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    starts: Starts,
    /// Sizes of the window, and distances in updates and operand.
    window: Vec<Dim>,
    /// The window as runs in nested dimensions.
    runs: Vec<Dim>,
    run_bytes: usize,
    positions: usize,
    /// Whether the index vector only picks dimensions of which the window holds one element. Then elements at different
    /// positions of windows never meet.
    rigid: bool,
    bytes: usize,
    /// Bytes of an element, or 1 where places count elements.
    width: usize,
}

impl Places {
    /// For callers with their own combiner: places in elements. `None` when the parts do not fit together.
    pub(crate) fn new(
        dims: &Dims<'_>,
        operand: &[usize],
        indices: &[usize],
        index: DType,
        updates: &[usize],
    ) -> Option<Places> {
        Places::of_width(dims, operand, indices, index, updates, 1)
    }

    fn of_width(
        dims: &Dims<'_>,
        operand: &[usize],
        indices: &[usize],
        index: DType,
        updates: &[usize],
        width: usize,
    ) -> Option<Places> {
        let rank = operand.len();
        let inserted = numbers(dims.inserted_window_dims, rank)?;
        let batching = numbers(dims.input_batching_dims, rank)?;
        let update_window = numbers(dims.update_window_dims, updates.len())?;
        let window_dims = others(rank, &[&inserted, &batching]);
        let scatter_dims = others(updates.len(), &[&update_window]);
        let batch = (0..indices.len()).filter(|&d| d as i64 != dims.index_vector_dim).map(|d| indices[d]);
        if window_dims.len() != update_window.len() || !batch.eq(scatter_dims.iter().map(|&d| updates[d])) {
            return None;
        }
        let (to, from) = (dense_strides(operand), dense_strides(updates));
        let bytes = |elements: isize| elements.wrapping_mul(width as isize);
        let mut sizes = vec![1; rank];
        let mut window = Vec::with_capacity(window_dims.len());
        for (&d, &u) in window_dims.iter().zip(&update_window) {
            sizes[d] = updates[u];
            window.push(Dim { count: updates[u], from: bytes(from[u]), to: bytes(to[d]) });
        }
        let other: Vec<isize> = scatter_dims.iter().map(|&d| from[d]).collect();
        if sizes.iter().zip(operand).any(|(window, size)| window > size) {
            return None;
        }
        let starts = Starts::new(&Shapes {
            operand,
            indices,
            index,
            vector_dim: dims.index_vector_dim,
            addresses: dims.scatter_dims_to_operand_dims,
            operand_batching: dims.input_batching_dims,
            indices_batching: dims.scatter_indices_batching_dims,
            window: &sizes,
            other: &other,
            width,
        })?;
        let rigid = starts.components().iter().all(|component| sizes[component.dim] == 1);
        let elements = product(&sizes)?;
        let (runs, run_bytes) = in_runs(window.clone(), width);
        let positions =
            if elements == 0 { 0 } else { runs.iter().fold(1, |n: usize, dim| n.saturating_mul(dim.count)) };
        let bytes = elements.checked_mul(width)?.checked_mul(starts.count())?;
        Some(Places { starts, window, runs, run_bytes, positions, rigid, bytes, width })
    }

    /// What it touches: indices and updates, and the operand within its bytes. Windows that an index moves out of the
    /// operand are left out, whatever the indices say. `unit` is the bytes that places count.
    pub(crate) fn footprint(&self, unit: usize) -> Option<Footprint> {
        if self.bytes == 0 {
            return Some(Footprint { reads: vec![0, 0], writes: vec![Written::Within(0)] });
        }
        let last = |component: &Component| isize::try_from(component.last).ok()?.checked_mul(component.stride);
        let window = self.window.iter().map(|dim| (dim.count, dim.to));
        let operand = self.starts.operand_moves(last)?.checked_add(footprint::reach(0, window, 1)?)?;
        let window = self.window.iter().map(|dim| (dim.count, dim.from));
        let updates = footprint::reach(0, window.chain(self.starts.other_dims()), 1)?;
        // Both end at the first byte, or at the one place, of an element.
        let end = |last: usize| last.checked_add(self.width - 1)?.checked_mul(unit);
        Some(Footprint {
            reads: vec![self.starts.index_reads()?, end(updates)?],
            writes: vec![Written::Within(end(operand)?)],
        })
    }

    /// Calls `f(operand element, update element)` for each update whose window lies within the operand, in order.
    ///
    /// # Safety
    /// `indices` holds the index array.
    pub(crate) unsafe fn each(&self, indices: *const u8, f: &mut dyn FnMut(usize, usize)) {
        if self.bytes == 0 {
            return;
        }
        let window = &self.window;
        for vector in 0..self.starts.count() {
            // SAFETY: the caller's promise.
            let Some((place, source)) = (unsafe { self.within(indices, vector) }) else { continue };
            let count: usize = window.iter().map(|dim| dim.count).product();
            let mut walk = Walk::new(window, 0);
            for _ in 0..count {
                f((place + walk.to()) as usize, (source + walk.from()) as usize);
                walk.step();
            }
        }
    }

    /// Where a window lies in operand and updates; `None` if any of it would lie outside the operand.
    ///
    /// # Safety
    /// `indices` holds the index array.
    unsafe fn within(&self, indices: *const u8, vector: usize) -> Option<(isize, isize)> {
        let (mut place, source) = self.starts.batch_place(vector);
        for (number, component) in self.starts.components().iter().enumerate() {
            // SAFETY: the caller's promise.
            let start = unsafe { self.starts.component(indices, vector, number) };
            if !(0..=component.last).contains(&start) {
                return None;
            }
            place += start as isize * component.stride;
        }
        Some((place, source))
    }
}

/// A window as runs that are contiguous on both sides: the dimensions around them, and their bytes.
fn in_runs(window: Vec<Dim>, width: usize) -> (Vec<Dim>, usize) {
    let mut dims = merged(window);
    let last = dims.pop_if(|last| last.from == width as isize && last.to == width as isize);
    (dims, last.map_or(width, |last| last.count.saturating_mul(width)))
}

/// A scatter of fixed shape and combiner, ready to run any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    places: Places,
    kernel: Kernel,
    width: usize,
    uniqueness: Uniqueness,
    operand_bytes: usize,
}

/// The share of the work one task does.
#[derive(Clone)]
struct Share {
    vectors: Range<usize>,
    positions: Range<usize>,
    /// Bytes of each run.
    run: Range<usize>,
    /// Bytes of the operand; places elsewhere belong to other shares.
    operand: Range<isize>,
}

impl Plan {
    /// `None` when the parts do not fit together or the combiner is not computed natively for the type: then `Places`
    /// serves.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        dims: &Dims<'_>,
        operand: &[usize],
        indices: &[usize],
        index: DType,
        updates: &[usize],
        dtype: DType,
        combine: Combine,
        uniqueness: Uniqueness,
    ) -> Option<Plan> {
        let (kernel, width) = (Kernel::of(combine, dtype)?, dtype.size_bytes());
        let places = Places::of_width(dims, operand, indices, index, updates, width)?;
        let operand_bytes = product(operand)?.checked_mul(width)?;
        Some(Plan { places, kernel, width, uniqueness, operand_bytes })
    }

    /// As [`Places::footprint`].
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        self.places.footprint(1)
    }

    /// Combines the updates into `operand`, which holds the initial values, on all threads when it is worth it. The
    /// result does not depend on the number of threads.
    ///
    /// # Safety
    /// `operand`, `indices` and `updates` hold arrays of the planned shapes; `operand` overlaps neither of the others.
    pub(crate) unsafe fn run(&self, operand: *mut u8, indices: *const u8, updates: *const u8, cores: &Cores) {
        let places = &self.places;
        if places.bytes == 0 {
            return;
        }
        let (operand, indices, updates) = (Address::new(operand), Address::new(indices), Address::new(updates));
        if !places.rigid {
            // SAFETY: the caller's promise.
            return unsafe { self.run_sliding(operand, indices, updates, cores) };
        }
        let shares = self.shares(cores.pool.threads());
        let level = Level::of(&cores.machine);
        if let [share] = &shares[..] {
            // SAFETY: the caller's promise.
            return unsafe { self.part(operand, indices, updates, share, level) };
        }
        cores.pool.run(shares.len(), &|_, task| {
            // SAFETY: the caller's promise; shares change different elements.
            unsafe { self.part(operand, indices, updates, &shares[task], level) };
        });
    }

    /// Cuts the work so that no two shares change the same element.
    fn shares(&self, threads: usize) -> Vec<Share> {
        let places = &self.places;
        let count = places.starts.count();
        let all = Share {
            vectors: 0..count,
            positions: 0..places.positions,
            run: 0..places.run_bytes,
            operand: 0..isize::MAX,
        };
        if threads < 2 || places.bytes < PARALLEL_BYTES {
            return vec![all];
        }
        let cut = |n: usize, shares: usize, align: usize| {
            let piece = n.div_ceil(shares).next_multiple_of(align);
            (0..n.div_ceil(piece)).map(move |i| i * piece..n.min((i + 1) * piece))
        };
        let batching = places.starts.batch().first().filter(|dim| dim.from != 0);
        if self.uniqueness == Uniqueness::Unique && count >= threads * 8 {
            cut(count, threads * 4, 1).map(|vectors| Share { vectors, ..all.clone() }).collect()
        } else if let Some(batch) = batching.filter(|batch| batch.count >= threads) {
            let inner = count / batch.count;
            let outer = cut(batch.count, threads * 4, 1);
            outer.map(|range| Share { vectors: range.start * inner..range.end * inner, ..all.clone() }).collect()
        } else if places.positions >= threads * 4 {
            cut(places.positions, threads * 2, 1).map(|positions| Share { positions, ..all.clone() }).collect()
        } else if places.run_bytes >= threads * 256 {
            cut(places.run_bytes, threads, 64).map(|run| Share { run, ..all.clone() }).collect()
        } else if count >= PARALLEL_UPDATES && places.positions == 1 {
            let ranges = cut(self.operand_bytes, threads, 64);
            ranges.map(|range| Share { operand: range.start as isize..range.end as isize, ..all.clone() }).collect()
        } else {
            vec![all]
        }
    }

    /// # Safety
    /// As `run`; the index vectors pick dimensions of which the window holds one element.
    unsafe fn part(&self, operand: Address, indices: Address, updates: Address, share: &Share, level: Level) {
        let kernel = self.kernel.at(level);
        let count = share.run.len() / self.width * self.kernel.parts;
        let operand = operand.get().wrapping_add(share.run.start);
        let updates = updates.get().cast_const().wrapping_add(share.run.start);
        let everywhere = share.operand == (0..isize::MAX);
        let (mut places, mut sources) = ([0isize; BLOCK], [0isize; BLOCK]);
        let mut start = share.vectors.start;
        while start < share.vectors.end {
            let end = share.vectors.end.min(start + BLOCK);
            let (places, sources) = (&mut places[..end - start], &mut sources[..end - start]);
            // SAFETY: the caller's promise.
            unsafe { self.places.starts.places(indices.get(), start..end, Bounds::Check, places, sources, level) };
            if !everywhere {
                for place in places.iter_mut().filter(|place| !share.operand.contains(place)) {
                    *place = OUTSIDE;
                }
            }
            let mut walk = Walk::new(&self.places.runs, share.positions.start);
            for _ in share.positions.clone() {
                let (to, from) = (operand.wrapping_offset(walk.to()), updates.wrapping_offset(walk.from()));
                // SAFETY: places that are not outside hold the whole window.
                unsafe { kernel(to, places, from, sources, count) };
                walk.step();
            }
            start = end;
        }
    }

    /// Windows that can overlap in part, one after another.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn run_sliding(&self, operand: Address, indices: Address, updates: Address, cores: &Cores) {
        let starts = &self.places.starts;
        let level = Level::of(&cores.machine);
        let kernel = self.kernel.at(level);
        let threads = cores.pool.threads();
        let (runs, run_bytes, positions) = (&self.places.runs[..], self.places.run_bytes, self.places.positions);
        let (mut places, mut sources) = ([0isize; BLOCK], [0isize; BLOCK]);
        let mut start = 0;
        while start < starts.count() {
            let end = starts.count().min(start + BLOCK);
            let (places, sources) = (&mut places[..end - start], &mut sources[..end - start]);
            // SAFETY: the caller's promise.
            unsafe { starts.places(indices.get(), start..end, Bounds::Check, places, sources, level) };
            for (&place, &source) in places.iter().zip(sources.iter()) {
                if place == OUTSIDE {
                    continue;
                }
                let block = |positions: Range<usize>, run: Range<usize>| {
                    let (place, source) = (place + run.start as isize, source + run.start as isize);
                    let count = run.len() / self.width * self.kernel.parts;
                    let mut walk = Walk::new(runs, positions.start);
                    for _ in positions {
                        let to = operand.get().wrapping_offset(walk.to());
                        let from = updates.get().cast_const().wrapping_offset(walk.from());
                        // SAFETY: places that are not outside hold the whole window.
                        unsafe { kernel(to, &[place], from, &[source], count) };
                        walk.step();
                    }
                };
                let tasks = threads * 4;
                let bound = |n: usize, task: usize| (n as u128 * task as u128 / tasks as u128) as usize;
                if threads < 2 || positions.saturating_mul(run_bytes) < PARALLEL_BYTES {
                    block(0..positions, 0..run_bytes);
                } else if positions >= tasks {
                    let range = |task| bound(positions, task)..bound(positions, task + 1);
                    cores.pool.run(tasks, &|_, task| block(range(task), 0..run_bytes));
                } else {
                    let lines = run_bytes.div_ceil(64);
                    let range = |task| bound(lines, task) * 64..run_bytes.min(bound(lines, task + 1) * 64);
                    cores.pool.run(tasks, &|_, task| block(0..positions, range(task)));
                }
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests;
