//! Fused loops: elementwise chains, broadcasts and reductions in one pass over memory.
//!
//! [`ir`] is the language, [`schedule`] decides what runs when, [`nest`] and [`threads`] walk the iteration space, and a
//! backend runs rows: `jit` as machine code where it can, [`portable`] on any machine.

#![allow(unsafe_code)]

pub(crate) mod ir;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod jit;
mod long_row;
pub(crate) mod math;
mod math_f64;
mod nest;
mod portable;
mod portable_formats;
mod portable_kernels;
mod portable_ops;
pub(crate) mod schedule;
mod streams;
#[cfg(test)]
mod tests;
mod threads;

use std::ops::Range;
use std::sync::OnceLock;

use self::ir::{Access, Loop, Mode};
use self::nest::Nest;
use self::schedule::Schedule;
use self::streams::Groups;
use self::threads::{FEW, Split};
use super::Cores;
use super::machine::Machine;
use crate::footprint::{self, Footprint, Written};

/// A run of rows, as the driver hands it to a backend: `rows` rows of `count` elements each.
///
/// All pointers are to arrays that belong to the backend during the call: it may change what is in them, and the driver
/// does not read them afterwards.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Rows {
    /// For each of [`Schedule::reads`], the address of the first element of the first row.
    pub(crate) reads: *mut *const u8,
    /// For each of [`Schedule::writes`], the address of the first element of the first row.
    pub(crate) writes: *mut *mut u8,
    /// For each read, the bytes from a row to the next.
    pub(crate) read_steps: *const isize,
    /// For each write, the bytes from a row to the next.
    pub(crate) write_steps: *const isize,
    /// For each of [`Schedule::slots`], a 64-byte aligned row of scratch with room for `count` rounded up to 64 elements.
    /// The same memory serves every row of the run.
    pub(crate) slots: *const *mut u8,
    /// The position of the first element of the first row in each of the [`Schedule::rank`] dimensions. The last
    /// dimension grows by one with each element, the one before it (where there is one) by one with each row.
    pub(crate) index: *mut i64,
    /// At least 1; 1 where the rank is 1.
    pub(crate) rows: usize,
    /// At least 1.
    pub(crate) count: usize,
}

/// A schedule, and what runs it.
#[derive(Debug)]
struct Body {
    schedule: Schedule,
    code: Code,
}

#[derive(Debug)]
enum Code {
    Portable(portable::Program),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Jit(jit::Code),
}

impl Body {
    fn new(source: &Loop, machine: &Machine) -> Body {
        let schedule = Schedule::new(source);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(code) = jit::compile(&schedule, machine, stores(source)) {
            return Body { schedule, code: Code::Jit(code) };
        }
        let program = portable::Program::new(&schedule, machine);
        Body { schedule, code: Code::Portable(program) }
    }

    #[cfg(test)]
    fn portable(source: &Loop, machine: &Machine) -> Body {
        let schedule = Schedule::new(source);
        let program = portable::Program::new(&schedule, machine);
        Body { schedule, code: Code::Portable(program) }
    }

    /// # Safety
    /// The rows are as [`Rows`] says, for this schedule.
    unsafe fn run(&self, rows: &mut Rows) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.code {
                Code::Portable(program) => program.run(rows),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Code::Jit(code) => code.run(rows),
            }
        }
    }
}

/// Results of this size do not stay in any cache.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const STREAMED_BYTES: usize = 16 << 20;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn stores(source: &Loop) -> jit::Stores {
    let points = source.dims.iter().fold(1usize, |n, &d| n.saturating_mul(d));
    let large = source.writes.iter().any(|w| points.saturating_mul(w.access.dtype.size_bytes()) >= STREAMED_BYTES);
    if large { jit::Stores::Streaming } else { jit::Stores::Cached }
}

/// Which arrays of the source a loop's own are. There are at most [`FEW`] of either.
#[derive(Debug)]
struct ArraysOf {
    reads: Vec<usize>,
    writes: Vec<usize>,
}

/// A loop that can run: scheduled, and compiled for the machine.
#[derive(Debug)]
pub(crate) struct Ready {
    /// What runs the whole loop: dimensions joined and exchanged.
    whole: Body,
    nest: Nest,
    split: Split,
    /// For each array of `whole` the one of the source it is; `None` where they are the same.
    arrays: Option<ArraysOf>,
    /// The loop with the dimensions of the source but those of size 1, for boxes.
    parts: Loop,
    parts_nest: Nest,
    /// Whether the whole is one row, every array in the order of `parts`.
    is_one_row: bool,
    /// Made when first needed; `None` there is the body of the whole, which then fits.
    boxed: OnceLock<Option<Body>>,
    kept: Vec<usize>,
    machine: Machine,
}

impl Ready {
    /// Decides everything that does not depend on addresses. A loop with a dimension of size 0 does nothing.
    pub(crate) fn new(source: Loop, machine: &Machine) -> Ready {
        Ready::with_body(source, machine, Body::new)
    }

    fn with_body(source: Loop, machine: &Machine, body: fn(&Loop, &Machine) -> Body) -> Ready {
        let (parts, kept) = nest::without_ones(source);
        let mut joined = nest::joined(parts.clone());
        let is_one_row = joined.dims.len() == 1 && parts.dims.len() > 1;
        joined = nest::joined(nest::exchanged(joined));
        let mut arrays = None;
        if let Some(Groups { code, reads, writes }) = streams::side_by_side(&joined) {
            joined = code;
            arrays = Some(ArraysOf { reads, writes });
        }
        let whole = body(&joined, machine);
        let split = Split::new(&joined, &whole.schedule, machine, body);
        Ready {
            nest: Nest::new(&joined),
            parts_nest: Nest::new(&parts),
            whole,
            split,
            arrays,
            is_one_row,
            boxed: OnceLock::new(),
            parts,
            kept,
            machine: *machine,
        }
    }

    /// What it touches of the arrays that the accesses name: all of what it stores, and parts of what it combines with.
    /// `None` where an access leaves its array or a register has another type than what is done with it.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let Loop { dims, reads, writes, .. } = &self.parts;
        self.parts.is_sound().then_some(())?;
        let walk = |access: &Access| dims.iter().copied().zip(access.strides.clone()).collect::<Vec<_>>();
        let reach = |access: &Access| footprint::reach(access.offset, walk(access), access.dtype.size_bytes());
        let reads = reads.iter().map(reach).collect::<Option<Vec<usize>>>()?;
        let written = writes.iter().map(|write| match write.mode {
            Mode::Combine(_) => reach(&write.access).map(Written::Within),
            Mode::Store if write.access.offset != 0 => None,
            Mode::Store => footprint::cover(walk(&write.access), write.access.dtype.size_bytes()).map(Written::Whole),
        });
        Some(Footprint { reads, writes: written.collect::<Option<_>>()? })
    }

    /// Whether the dimensions of the source are these.
    pub(crate) fn spans(&self, dims: &[usize]) -> bool {
        let own = |d: usize| self.kept.iter().position(|&kept| kept == d).map_or(1, |at| self.parts.dims[at]);
        self.kept.iter().all(|&d| d < dims.len()) && dims.iter().enumerate().all(|(d, &size)| own(d) == size)
    }

    /// Whether a write may be given the address of a read: each element is read for the last time before it is written.
    /// Any other overlap of a read and a write, or of two writes, is wrong.
    pub(crate) fn in_place_ok(&self, read: usize, write: usize) -> bool {
        self.whole.schedule.in_place_ok(read, write) && self.boxed().schedule.in_place_ok(read, write)
    }

    /// Runs the whole loop on all cores. Pointers are the starts of the arrays: offsets and strides of the accesses are
    /// applied here.
    ///
    /// # Safety
    /// One pointer for each read and write, valid for every element the accesses name, aligned to the element, and
    /// disjoint but for what [`Ready::in_place_ok`] allows.
    pub(crate) unsafe fn run(&self, reads: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        let (mut own_reads, mut own_writes) = ([std::ptr::null(); FEW], [std::ptr::null_mut(); FEW]);
        let (reads, writes) = match &self.arrays {
            None => (reads, writes),
            Some(arrays) => {
                own_reads.iter_mut().zip(&arrays.reads).for_each(|(to, &n)| *to = reads[n]);
                own_writes.iter_mut().zip(&arrays.writes).for_each(|(to, &n)| *to = writes[n]);
                (&own_reads[..arrays.reads.len()], &own_writes[..arrays.writes.len()])
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.split.run(&self.whole, &self.nest, reads, writes, cores) }
    }

    /// Runs the part of the loop where the position along each dimension of the source lies in its range, on the calling
    /// thread. The range of the last dimension is whole where the loop reduces rows.
    ///
    /// # Safety
    /// As for [`Ready::run`], for the elements of the box.
    pub(crate) unsafe fn run_box(&self, reads: &[*const u8], writes: &[*mut u8], ranges: &[Range<usize>]) {
        if ranges.iter().any(|r| r.start >= r.end) || self.nest.dims.contains(&0) {
            return;
        }
        if let Some(run) = self.run_of(ranges) {
            // SAFETY: the caller's promise; the elements of the box are this part of the one row.
            return unsafe { threads::run_space(&self.whole, &self.nest, &|_| run.clone(), reads, writes) };
        }
        let kept = |at: usize| self.kept.get(at).map_or(0..1, |&dim| ranges[dim].clone());
        // SAFETY: the caller's promise.
        unsafe { threads::run_space(self.boxed(), &self.parts_nest, &kept, reads, writes) }
    }

    /// The part of the one row that a box is: it leaves out nothing between its first and last element.
    fn run_of(&self, ranges: &[Range<usize>]) -> Option<Range<usize>> {
        if !self.is_one_row {
            return None;
        }
        let (mut run, mut inner) = (0..1, 1);
        for (&dim, &size) in self.kept.iter().zip(&self.parts.dims).rev() {
            let range = &ranges[dim];
            if run != (0..inner) && range.len() != 1 {
                return None;
            }
            run = range.start * inner + run.start..(range.end - 1) * inner + run.end;
            inner *= size;
        }
        Some(run)
    }

    fn boxed(&self) -> &Body {
        let own = self.boxed.get_or_init(|| {
            let schedule = Schedule::new(&self.parts);
            let fits = schedule == self.whole.schedule && !has_index(&schedule);
            if fits { None } else { Some(Body::new(&self.parts, &self.machine)) }
        });
        own.as_ref().unwrap_or(&self.whole)
    }
}

fn has_index(schedule: &Schedule) -> bool {
    schedule.insts.iter().any(|inst| matches!(inst, ir::Inst::Index { .. }))
}
