//! Strided copies of N-dimensional arrays: transpose, slice, reverse, broadcast, pad, concatenate and their kin.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Cores;
use super::machine::Machine;
use crate::footprint;

pub(crate) mod index;
pub(crate) mod runs;
pub(crate) mod shapes;
pub(crate) mod starts;
mod transpose;
pub(crate) mod walk;

use runs::Store;
use walk::{Dim, Walk};

/// Below this many bytes a copy stays on the calling thread.
const PARALLEL_BYTES: usize = 256 << 10;
/// What one task of a parallel copy moves at least.
const PIECE_BYTES: usize = 64 << 10;
/// From this many bytes on the result does not fit the near caches, and stores go around them.
const STREAM_BYTES: usize = 8 << 20;

/// How one side of a copy lies in memory, counted in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Where the element at index zero lies.
    pub(crate) offset: isize,
    /// Distance between neighbours along each dimension; negative and zero are allowed.
    pub(crate) strides: Vec<isize>,
}

impl Side {
    /// A dense row-major array.
    pub(crate) fn dense(dims: &[usize]) -> Side {
        Side { offset: 0, strides: dense_strides(dims) }
    }
}

/// Strides of a dense row-major array, in elements. Sizes whose product overflows belong to empty arrays only.
pub(crate) fn dense_strides(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1isize;
    for (d, &size) in dims.iter().enumerate().rev() {
        strides[d] = stride;
        stride = stride.wrapping_mul(size as isize);
    }
    strides
}

/// The innermost part of a copy, done by one kernel. Distances in bytes.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// One run of bytes, contiguous on both sides.
    Run { bytes: usize },
    /// Runs of bytes at fixed distances.
    Rows { count: usize, bytes: usize, from: isize, to: isize },
    /// Elements of 1, 2, 4, 8 or 16 bytes at fixed distances.
    Units { count: usize, unit: usize, from: isize, to: isize },
    /// A matrix whose columns become rows.
    Transpose { matrix: transpose::Matrix, split: Split },
}

/// Which side of a transposed matrix is cut into pieces.
#[derive(Clone, Copy, Debug)]
enum Split {
    Columns,
    Rows,
}

/// A copy of fixed shape, ready to run any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    width: usize,
    from_offset: isize,
    to_offset: isize,
    /// Dimensions around the body, outermost first.
    outer: Vec<Dim>,
    body: Body,
    /// Pieces of one body, and how much of its extent each covers.
    pieces: usize,
    piece: usize,
    /// Pieces over all bodies; zero when there is nothing to copy.
    items: usize,
    bytes: usize,
    store: Store,
}

impl Plan {
    /// A copy of `dims` elements of `width` bytes (1, 2, 4, 8 or 16). Distinct indices are distinct places of `to`.
    pub(crate) fn new(dims: &[usize], from: &Side, to: &Side, width: usize) -> Plan {
        let bytes = |elements: isize| elements.wrapping_mul(width as isize);
        let mut plan = Plan {
            width,
            from_offset: bytes(from.offset),
            to_offset: bytes(to.offset),
            outer: Vec::new(),
            body: Body::Run { bytes: width },
            pieces: 1,
            piece: usize::MAX,
            items: 0,
            bytes: 0,
            store: Store::Cached,
        };
        if dims.contains(&0) {
            return plan;
        }
        plan.bytes = dims.iter().fold(width, |n, &size| n.saturating_mul(size));
        if plan.bytes >= STREAM_BYTES {
            plan.store = Store::Streaming;
        }
        let mut list: Vec<Dim> = (0..dims.len())
            .filter(|&d| dims[d] > 1)
            .map(|d| Dim { count: dims[d], from: bytes(from.strides[d]), to: bytes(to.strides[d]) })
            .collect();
        for dim in list.iter_mut().filter(|dim| dim.to < 0) {
            plan.from_offset = plan.from_offset.wrapping_add(dim.from.wrapping_mul(dim.count as isize - 1));
            plan.to_offset = plan.to_offset.wrapping_add(dim.to.wrapping_mul(dim.count as isize - 1));
            (dim.from, dim.to) = (dim.from.wrapping_neg(), dim.to.wrapping_neg());
        }
        list.sort_by_key(|dim| std::cmp::Reverse(dim.to));
        plan.outer = walk::merged(list);
        plan.choose();
        plan
    }

    /// Takes the body off the inner dimensions and cuts it into pieces.
    fn choose(&mut self) {
        let mut unit = self.width;
        let contiguous = |dim: &Dim, unit: usize| dim.from == unit as isize && dim.to == unit as isize;
        if let Some(last) = self.outer.pop_if(|last| contiguous(last, unit)) {
            unit *= last.count;
        }
        // Extent to cut, bytes of one step along it, and what a piece's length must be a multiple of.
        let (extent, step, align);
        if let Some(last) = self.outer.pop() {
            let Dim { count, from, to } = last;
            let single = matches!(unit, 1 | 2 | 4 | 8 | 16);
            let column = self.outer.iter().rposition(|dim| dim.from == unit as isize);
            match column {
                Some(column) if single && to == unit as isize && from != 0 => {
                    let column = self.outer.remove(column);
                    let matrix = transpose::Matrix { unit, columns: column.count, rows: count, from, to: column.to };
                    let split = if column.count >= count { Split::Columns } else { Split::Rows };
                    self.body = Body::Transpose { matrix, split };
                    (extent, step) = match split {
                        Split::Columns => (column.count, count * unit),
                        Split::Rows => (count, column.count * unit),
                    };
                    align = transpose::TILE;
                }
                _ => {
                    self.body = if single {
                        Body::Units { count, unit, from, to }
                    } else {
                        Body::Rows { count, bytes: unit, from, to }
                    };
                    (extent, step) = (count, unit);
                    align = if single { 64 } else { 1 };
                }
            }
        } else {
            self.body = Body::Run { bytes: unit };
            (extent, step, align) = (unit, 1, 4096);
        }
        self.piece = extent;
        if self.bytes >= PARALLEL_BYTES {
            self.piece = (PIECE_BYTES / step.max(1)).next_multiple_of(align).max(align).min(extent);
        }
        self.pieces = extent.div_ceil(self.piece);
        self.items = self.outer.iter().fold(self.pieces, |n, dim| n.saturating_mul(dim.count));
    }

    /// Bytes written by one run.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that are moved at once, and the dimensions they are moved along; `None` when there is nothing to copy.
    fn shape(&self) -> Option<(usize, Vec<Dim>)> {
        let mut dims = self.outer.clone();
        let unit = match self.body {
            Body::Run { bytes } => bytes,
            Body::Rows { count, bytes: unit, from, to } | Body::Units { count, unit, from, to } => {
                dims.push(Dim { count, from, to });
                unit
            }
            Body::Transpose { matrix: transpose::Matrix { unit, columns, rows, from, to }, .. } => {
                dims.push(Dim { count: columns, from: unit as isize, to });
                dims.push(Dim { count: rows, from, to: unit as isize });
                unit
            }
        };
        (self.items > 0).then_some((unit, dims))
    }

    /// Bytes of the source up to the last one that is read.
    pub(crate) fn reads(&self) -> Option<usize> {
        let Some((unit, dims)) = self.shape() else { return Some(0) };
        let ends = dims.iter().map(|dim| (dim.count, dim.from)).chain([(unit, 1)]);
        footprint::reach(self.from_offset, ends, 1)
    }

    /// Bytes of the target up to the last one that is written.
    pub(crate) fn writes(&self) -> Option<usize> {
        let Some((unit, dims)) = self.shape() else { return Some(0) };
        footprint::reach(self.to_offset, dims.iter().map(|dim| (dim.count, dim.to)).chain([(unit, 1)]), 1)
    }

    /// Bytes of the target when they are written from its start without a gap, with `more` dimensions around the copy:
    /// sizes and distances in bytes. `None` where there is a gap.
    pub(crate) fn covers(&self, more: &[(usize, isize)]) -> Option<usize> {
        let Some((unit, dims)) = self.shape() else { return Some(0) };
        if self.to_offset != 0 {
            return None;
        }
        let own = dims.iter().map(|dim| (dim.count, dim.to)).chain([(unit, 1)]);
        footprint::cover(own.chain(more.iter().copied()), 1)
    }

    /// Bytes of the run when the whole copy is one run, contiguous on both sides and without an offset.
    pub(crate) fn run_bytes(&self) -> Option<usize> {
        let plain = self.from_offset == 0 && self.to_offset == 0 && self.outer.is_empty() && self.items > 0;
        match self.body {
            Body::Run { bytes } if plain => Some(bytes),
            _ => None,
        }
    }

    /// The copy as single elements of 1, 2, 4, 8 or 16 bytes in nested dimensions; `None` when runs are longer.
    pub(crate) fn units(&self) -> Option<(usize, Vec<Dim>)> {
        let is_single = matches!(self.body, Body::Units { .. } | Body::Transpose { .. });
        (is_single && self.from_offset == 0 && self.to_offset == 0).then(|| self.shape()).flatten()
    }

    /// Copies, on all threads when it is worth it.
    ///
    /// # Safety
    /// Both sides hold every element the shape addresses, and they do not overlap.
    pub(crate) unsafe fn run(&self, from: *const u8, to: *mut u8, cores: &Cores) {
        let threads = cores.pool.threads();
        if self.bytes < PARALLEL_BYTES || threads < 2 || self.items < 2 {
            // SAFETY: the caller's promise.
            return unsafe { self.run_here(from, to, &cores.machine) };
        }
        let tasks = self.items.min(threads * 4);
        let (from, to) = (Address::new(from), Address::new(to));
        cores.pool.run(tasks, &|_, task| {
            let bound = |t: usize| (self.items as u128 * t as u128 / tasks as u128) as usize;
            // SAFETY: the caller's promise; tasks write disjoint pieces.
            unsafe { self.items(bound(task)..bound(task + 1), from.get(), to.get(), &cores.machine) };
        });
    }

    /// Copies with both sides moved by a number of elements known only now.
    ///
    /// # Safety
    /// As `run`, for the moved sides.
    pub(crate) unsafe fn run_at(
        &self,
        from: *const u8,
        from_elements: isize,
        to: *mut u8,
        to_elements: isize,
        cores: &Cores,
    ) {
        let width = self.width as isize;
        // SAFETY: the caller's promise.
        unsafe { self.run(from.wrapping_offset(from_elements * width), to.wrapping_offset(to_elements * width), cores) }
    }

    /// Copies on the calling thread.
    ///
    /// # Safety
    /// As `run`.
    pub(crate) unsafe fn run_here(&self, from: *const u8, to: *mut u8, machine: &Machine) {
        // SAFETY: the caller's promise.
        unsafe { self.items(0..self.items, from, to, machine) }
    }

    /// Does some of the pieces.
    ///
    /// # Safety
    /// As `run`, for what the pieces address.
    unsafe fn items(&self, items: Range<usize>, from: *const u8, to: *mut u8, machine: &Machine) {
        if items.is_empty() {
            return;
        }
        let from = from.wrapping_offset(self.from_offset);
        let to = to.wrapping_offset(self.to_offset);
        let level = runs::Level::of(machine);
        let store = match self.body {
            // Columns that become rows lie too far apart to be asked for early.
            Body::Transpose { .. } => self.store,
            _ => self.store.on(machine),
        };
        match self.body {
            Body::Run { bytes } => self.each(items, from, to, bytes, |from, to, at, bytes| {
                // SAFETY: a piece lies within the run the caller vouches for.
                unsafe { runs::run(level, store, from.wrapping_add(at), to.wrapping_add(at), bytes) }
            }),
            Body::Rows { count, bytes, from: step_from, to: step_to } => {
                self.each(items, from, to, count, |from, to, at, count| {
                    let (from, to) = moved(from, to, at, step_from, step_to);
                    // SAFETY: these rows are among the body's.
                    unsafe { runs::rows(level, store, count, bytes, from, step_from, to, step_to) }
                });
            }
            Body::Units { count, unit, from: step_from, to: step_to } => {
                self.each(items, from, to, count, |from, to, at, count| {
                    let (from, to) = moved(from, to, at, step_from, step_to);
                    // SAFETY: these elements are among the body's.
                    unsafe { runs::units(level, store, unit, count, from, step_from, to, step_to) }
                });
            }
            Body::Transpose { matrix, split } => {
                let extent = match split {
                    Split::Columns => matrix.columns,
                    Split::Rows => matrix.rows,
                };
                self.each(items, from, to, extent, |from, to, at, count| {
                    let (part, from, to) = match split {
                        Split::Columns => matrix.columns_at(at, count, from, to),
                        Split::Rows => matrix.rows_at(at, count, from, to),
                    };
                    // SAFETY: the part lies within the body's matrix.
                    unsafe { transpose::run(level, store, &part, from, to) }
                });
            }
        }
        runs::finish(store);
    }

    /// Calls `f(from, to, start, length)` for each piece in a range.
    #[inline(always)]
    fn each(
        &self,
        items: Range<usize>,
        from: *const u8,
        to: *mut u8,
        extent: usize,
        mut f: impl FnMut(*const u8, *mut u8, usize, usize),
    ) {
        let mut piece = items.start % self.pieces;
        let mut walk = Walk::new(&self.outer, items.start / self.pieces);
        for _ in items {
            let at = piece * self.piece;
            let (from, to) = (from.wrapping_offset(walk.from()), to.wrapping_offset(walk.to()));
            f(from, to, at, self.piece.min(extent - at));
            piece += 1;
            if piece == self.pieces {
                piece = 0;
                walk.step();
            }
        }
    }
}

fn moved(from: *const u8, to: *mut u8, at: usize, step_from: isize, step_to: isize) -> (*const u8, *mut u8) {
    (from.wrapping_offset(at as isize * step_from), to.wrapping_offset(at as isize * step_to))
}

/// An address that the threads of the pool may use.
#[derive(Clone, Copy)]
pub(crate) struct Address(*mut u8);

// SAFETY: only an address; each use is in an unsafe block that says which thread touches what.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    pub(crate) fn new(at: *const u8) -> Address {
        Address(at.cast_mut())
    }

    pub(crate) fn get(self) -> *mut u8 {
        self.0
    }
}

#[cfg(test)]
pub(crate) mod tests;
