//! A reduction of one long row: parts of the row are reduced by different threads, then their results in order.
#![allow(unsafe_code)]

use tensor::DType;

use super::ir::{Access, Inst, Lane, Loop, Mode, Reg, Write};
use super::nest::Nest;
use super::schedule::{Rate, Schedule, renamed};
use super::threads::run_space;
use super::{Body, Ready};
use crate::kernels::Cores;
use crate::kernels::machine::Machine;

/// Rows at least this long are cut, if there are few of them.
const LONG_ROW: usize = 64 << 10;
const FEW_ROWS: usize = 4;
/// Parts have at least this many elements, and there are at most so many of them. Neither depends on the threads, so that
/// sums do not either.
const PART_ELEMENTS: usize = 16 << 10;
const MOST_PARTS: usize = 64;
/// The most equal parts, which are walked side by side.
const MOST_EQUAL_PARTS: usize = 512;

#[derive(Debug)]
pub(super) struct LongRow {
    /// Reduces parts of each row into one element for each row, part and reduction.
    first: First,
    parts: usize,
    /// Bytes of an element of each array of partial results.
    partial_bytes: Vec<usize>,
    rows: usize,
    /// The writes of the source that `first` does; `second` does the others.
    first_writes: Vec<usize>,
    second_writes: Vec<usize>,
    second: Box<Ready>,
}

/// How the parts of a row are reduced.
#[derive(Debug)]
enum First {
    /// Parts of this length but for the last, one after the other.
    Parts { body: Box<Body>, nest: Box<Nest>, part: usize },
    /// Equal parts, as rows of their own.
    Rows(Box<Ready>),
}

fn lane_type(lane: Lane) -> DType {
    match lane {
        Lane::F32 => DType::F32,
        Lane::F64 => DType::F64,
        Lane::I32 => DType::I32,
        Lane::I64 => DType::I64,
        Lane::Mask => DType::Bool,
    }
}

impl LongRow {
    /// `source` is the loop that `schedule` was made of.
    pub(super) fn new(
        source: &Loop,
        schedule: &Schedule,
        machine: &Machine,
        body: fn(&Loop, &Machine) -> Body,
    ) -> Option<LongRow> {
        let source = super::schedule::tidied(source.clone());
        let (&count, outer) = source.dims.split_last()?;
        let rows = outer.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        let stores = source.writes.iter().all(|w| w.mode == Mode::Store);
        if !schedule.reduces() || schedule.phases.len() != 1 || !stores || rows > FEW_ROWS || count < LONG_ROW {
            return None;
        }
        let most = (count / PART_ELEMENTS).clamp(1, MOST_EQUAL_PARTS);
        let equal = 1 << most.ilog2();
        let is_equal = count.is_multiple_of(equal) && !indexes_row(&source);
        let part = if is_equal { count / equal } else { count.div_ceil(most.min(MOST_PARTS)).next_multiple_of(64) };
        let parts = count.div_ceil(part);
        let (first_writes, second_writes): (Vec<usize>, Vec<usize>) =
            (0..source.writes.len()).partition(|&n| !schedule.row_writes.contains(&(n as u32)));
        // One element for each part of each row, the parts fastest.
        let mut strides = vec![0; source.dims.len()];
        let mut stride = parts as isize;
        for (s, &size) in strides.iter_mut().zip(outer).rev() {
            *s = stride;
            stride *= size as isize;
        }
        let partial = |lane: Lane| Access { dtype: lane_type(lane), offset: 0, strides: strides.clone() };
        let mut first =
            Loop { writes: first_writes.iter().map(|&n| source.writes[n].clone()).collect(), ..source.clone() };
        let mut second = Loop {
            dims: outer.iter().copied().chain([parts]).collect(),
            reads: Vec::new(),
            insts: Vec::new(),
            writes: Vec::new(),
        };
        let mut names: Vec<Reg> = Vec::with_capacity(source.insts.len());
        let reductions = source.insts.iter().filter(|i| matches!(i, Inst::Reduce(..))).count() as u32;
        for (at, inst) in source.insts.iter().enumerate() {
            let lane = schedule.lanes[at];
            if schedule.rates[at] == Rate::Element {
                names.push(Reg(u32::MAX));
                continue;
            }
            let inst = match *inst {
                Inst::Reduce(fold, _) => {
                    first.writes.push(Write { access: partial(lane), value: Reg(at as u32), mode: Mode::Store });
                    let mut read = partial(lane);
                    read.strides[outer.len()] = 1;
                    second.reads.push(read);
                    second.insts.push(Inst::Load(second.reads.len() as u32 - 1));
                    Inst::Reduce(fold, Reg(second.insts.len() as u32 - 1))
                }
                Inst::Load(n) => Inst::Load(n + reductions),
                _ => renamed(inst, |r| names[r.0 as usize]),
            };
            second.insts.push(inst);
            names.push(Reg(second.insts.len() as u32 - 1));
        }
        second.reads.extend(source.reads.iter().cloned());
        for &n in &second_writes {
            let write = &source.writes[n];
            second.writes.push(Write { value: names[write.value.0 as usize], ..write.clone() });
        }
        let partial_bytes: Vec<usize> =
            first.writes[first_writes.len()..].iter().map(|w| w.access.dtype.size_bytes()).collect();
        let first = if is_equal {
            let partials = first_writes.len();
            First::Rows(Box::new(Ready::with_body(with_parts(first, part, parts, partials), machine, body)))
        } else {
            First::Parts { nest: Box::new(Nest::new(&first)), body: Box::new(body(&first, machine)), part }
        };
        Some(LongRow {
            first,
            parts,
            partial_bytes,
            rows,
            first_writes,
            second_writes,
            second: Box::new(Ready::with_body(second, machine, body)),
        })
    }

    /// # Safety
    /// As for `Ready::run`.
    pub(super) unsafe fn run(&self, reads: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        let slots = self.rows * self.parts;
        let mut partials = vec![0u64; slots * self.partial_bytes.len()];
        let start = partials.as_mut_ptr();
        let partial: Vec<*mut u8> =
            (0..self.partial_bytes.len()).map(|n| start.wrapping_add(n * slots).cast::<u8>()).collect();
        match &self.first {
            First::Rows(first) => {
                let own = partial.iter().copied();
                let targets: Vec<*mut u8> = self.first_writes.iter().map(|&n| writes[n]).chain(own).collect();
                // SAFETY: the caller's promise; the partial results have one element for each row and part.
                unsafe { first.run(reads, &targets, cores) }
            }
            First::Parts { body, nest, part } => {
                let shared = Shared { reads, writes, partial: &partial };
                cores.pool.run(self.parts, &|_, task| {
                    let shared = &shared;
                    let own =
                        shared.partial.iter().zip(&self.partial_bytes).map(|(p, bytes)| p.wrapping_add(task * bytes));
                    let targets: Vec<*mut u8> =
                        self.first_writes.iter().map(|&n| shared.writes[n]).chain(own).collect();
                    let last = nest.dims.len() - 1;
                    let range = |dim: usize| match dim {
                        d if d == last => task * part..((task + 1) * part).min(nest.dims[d]),
                        d => 0..nest.dims[d],
                    };
                    // SAFETY: the caller's promise; parts write different elements and different partial results.
                    unsafe { run_space(body, nest, &range, shared.reads, &targets) }
                });
            }
        }
        let sources: Vec<*const u8> = partial.iter().map(|p| p.cast_const()).chain(reads.iter().copied()).collect();
        let targets: Vec<*mut u8> = self.second_writes.iter().map(|&n| writes[n]).collect();
        // SAFETY: the partial results have one element for each row and part; the rest is the caller's promise.
        unsafe { self.second.run(&sources, &targets, cores) }
    }
}

/// Whether an instruction asks for the position along the row.
fn indexes_row(source: &Loop) -> bool {
    let last = source.dims.len() - 1;
    source.insts.iter().any(|inst| matches!(inst, Inst::Index { dim, .. } if *dim as usize == last))
}

/// The loop with its rows cut into equal parts, which become its rows. The writes from `partials` on get one element for
/// each part.
fn with_parts(mut source: Loop, part: usize, parts: usize, partials: usize) -> Loop {
    let last = source.dims.len() - 1;
    source.dims[last] = parts;
    source.dims.push(part);
    let cut = |access: &mut Access| {
        let stride = access.strides[last];
        access.strides[last] = stride.wrapping_mul(part as isize);
        access.strides.push(stride);
    };
    source.reads.iter_mut().for_each(cut);
    for (n, write) in source.writes.iter_mut().enumerate() {
        cut(&mut write.access);
        if n >= partials {
            write.access.strides[last] = 1;
        }
    }
    source
}

/// Addresses that every part uses.
struct Shared<'a> {
    reads: &'a [*const u8],
    writes: &'a [*mut u8],
    partial: &'a [*mut u8],
}

// SAFETY: the parts write different elements, and the caller of the loop lends the arrays for its duration.
unsafe impl Sync for Shared<'_> {}
