//! Matmuls of a right factor with scales by group: the steps are cut into groups, and the sum of each group counts as much as
//! its scale says.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::super::Cores;
use super::super::machine::Machine;
#[cfg(target_arch = "x86_64")]
use super::by_group::{ByGroup, Way};
use super::scratch::{Loan, Slot};
use super::{MatMul, Plan, Target, WORTH_A_THREAD};
use crate::footprint;

/// Columns of a task: their sums stay in L1 while rows of the right factor go by in long runs.
const COLUMNS: usize = 4096;

/// Where the scales lie, in elements of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scales {
    /// From one group to the next.
    pub(crate) group: isize,
    /// From one column to the next: 1, or 0 for one scale a group, or any where [`Grouped::reads_any_scales`].
    pub(crate) column: isize,
}

/// `out[i, j] = Σ_g scales[g, j] · (lhs[g]·rhs[g])[i, j]`, in f32. The groups are the batch of the problem.
#[derive(Debug)]
pub(crate) struct Grouped {
    problem: MatMul,
    scales: Scales,
    /// For a block of columns, and for the last one.
    plans: [Plan; 2],
    machine: Machine,
}

/// What a run was called with, and the sums that are not the result yet.
struct Memory {
    lhs: *const u8,
    rhs: *const u8,
    scales: *const f32,
    totals: *mut f32,
}

// SAFETY: the pointers are to arrays that outlive the run; tasks write disjoint sums.
unsafe impl Sync for Memory {}

impl Grouped {
    /// The problem's result is f32, one dense matrix for each group.
    pub(crate) fn new(problem: MatMul, scales: Scales, machine: &Machine) -> Grouped {
        let plan = |columns: usize| {
            let part = MatMul {
                batch: 1,
                n: columns,
                out: Target {
                    dtype: DType::F32,
                    row_stride: columns as isize,
                    batch_stride: (problem.m * columns) as isize,
                },
                ..problem.clone()
            };
            part.plan(machine)
        };
        let last = problem.n.max(1).div_ceil(COLUMNS).saturating_sub(1) * COLUMNS;
        let plans = [plan(COLUMNS.min(problem.n)), plan(problem.n - last.min(problem.n))];
        Grouped { problem, scales, plans, machine: *machine }
    }

    /// Whether scales of any strides are read as they lie.
    pub(crate) fn reads_any_scales(problem: &MatMul, machine: &Machine) -> bool {
        #[cfg(target_arch = "x86_64")]
        return Way::of(problem, machine).is_some_and(Way::reads_any_scales);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (problem, machine);
            false
        }
    }

    /// Bytes that are read of both factors, their first elements so many bytes from the starts of their arrays, and of the
    /// scales, the same in elements; bytes that are written.
    pub(crate) fn touches(&self, offsets: [isize; 2], scales: isize) -> Option<([usize; 3], usize)> {
        let MatMul { batch, m, n, .. } = self.problem;
        let strides = [(batch, self.scales.group), (n, self.scales.column)];
        let read = [
            self.problem.lhs_reads(offsets[0])?,
            self.problem.rhs_reads(offsets[1])?,
            footprint::reach(scales, strides, size_of::<f32>())?,
        ];
        let written = footprint::product(&[m, n, size_of::<f32>()])?;
        (self.problem.out.dtype == DType::F32).then_some((read, written))
    }

    /// # Safety
    /// The pointers are to arrays as the problem and the scales say, the result overlapping nothing else. The machine is the
    /// one of [`Grouped::new`].
    pub(crate) unsafe fn run(&self, lhs: *const u8, rhs: *const u8, scales: *const f32, out: *mut f32, cores: &Cores) {
        #[cfg(target_arch = "x86_64")]
        if let Some(way) = Way::of(&self.problem, &self.machine) {
            let by_group = ByGroup { problem: &self.problem, lhs, rhs, scales, strides: self.scales, out };
            // SAFETY: the caller's promise.
            return unsafe { by_group.run(way, cores) };
        }
        let MatMul { batch: groups, m, n, .. } = self.problem;
        let sums = m * n;
        let blocks = n.div_ceil(COLUMNS);
        let work = self.problem.size().saturating_mul(groups);
        // Threads take some groups each, so that they read the right factor in long runs; then their sums are added.
        let threads = cores.pool.threads();
        let parts = if threads == 1 || work < 2 * WORTH_A_THREAD { 1 } else { threads.min(groups.max(1)) };
        let loan = (parts > 1).then(|| Loan::take(Slot::Totals, (parts - 1) * sums * size_of::<f32>()));
        let others = loan.as_ref().map_or(std::ptr::null_mut(), Loan::at::<f32>);
        let memory = Memory { lhs, rhs, scales, totals: out };
        let others = Memory { totals: others, ..memory };
        let (memory, others) = (&memory, &others);
        let totals = |part: usize| match part {
            0 => memory.totals,
            part => others.totals.wrapping_add((part - 1) * sums),
        };
        cores.pool.run(parts * blocks, &|_, task| {
            let (part, block) = (task / blocks, task % blocks);
            let columns = block * COLUMNS..((block + 1) * COLUMNS).min(n);
            let range = groups * part / parts..groups * (part + 1) / parts;
            // SAFETY: the columns of these sums are this task's own.
            unsafe { self.compute(memory, range, columns, totals(part)) };
        });
        for part in 1..parts {
            // SAFETY: both are as many sums, all written.
            unsafe { add(self.machine, totals(part), std::ptr::null(), sums, totals(0)) };
        }
    }

    /// Sums of some groups, in some columns of `totals`.
    ///
    /// # Safety
    /// As [`Grouped::run`]; no other thread touches these columns of the totals.
    unsafe fn compute(&self, memory: &Memory, groups: Range<usize>, columns: Range<usize>, totals: *mut f32) {
        let MatMul { m, n, lhs, rhs, .. } = &self.problem;
        let (m, n, width) = (*m, *n, columns.len());
        let plan = &self.plans[usize::from(columns.end == n)];
        let loan = Loan::take(Slot::Group, m * width * size_of::<f32>());
        for i in 0..m {
            // SAFETY: a row of the columns.
            unsafe { std::ptr::write_bytes(totals.add(i * n + columns.start), 0, width) };
        }
        for group in groups {
            let left = memory.lhs.wrapping_offset(lhs.bytes(lhs.batch_stride * group as isize));
            let at = rhs.batch_stride * group as isize + rhs.col_stride * columns.start as isize;
            let right = memory.rhs.wrapping_offset(rhs.bytes(at));
            let scales = memory.scales.wrapping_offset(self.scales.group * group as isize);
            // SAFETY: a group of both factors; the loan has room for its sums.
            unsafe { plan.run_rows(m, left, right, loan.at(), None) };
            for i in 0..m {
                // SAFETY: a row of the group's sums, of the totals and of the scales.
                unsafe {
                    let (sums, totals) = (loan.at::<f32>().add(i * width), totals.add(i * n + columns.start));
                    if self.scales.column == 1 {
                        add(self.machine, sums, scales.add(columns.start), width, totals);
                    } else {
                        let scale = *scales;
                        (0..width).for_each(|j| *totals.add(j) += *sums.add(j) * scale);
                    }
                }
            }
        }
    }
}

/// Adds so many sums to totals, each times its scale where there are any.
///
/// # Safety
/// All are readable, the totals are writable; the machine is this one.
unsafe fn add(machine: Machine, sums: *const f32, scales: *const f32, count: usize, totals: *mut f32) {
    #[inline(always)]
    unsafe fn each(sums: *const f32, scales: *const f32, count: usize, totals: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            if scales.is_null() {
                (0..count).for_each(|j| *totals.add(j) += *sums.add(j));
            } else {
                (0..count).for_each(|j| *totals.add(j) += *sums.add(j) * *scales.add(j));
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn wide(sums: *const f32, scales: *const f32, count: usize, totals: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { each(sums, scales, count, totals) }
        }
        #[target_feature(enable = "avx2")]
        unsafe fn narrow(sums: *const f32, scales: *const f32, count: usize, totals: *mut f32) {
            // SAFETY: the caller's promise.
            unsafe { each(sums, scales, count, totals) }
        }
        // SAFETY: the caller's promise; the machine has the instructions.
        unsafe {
            if machine.avx512 {
                return wide(sums, scales, count, totals);
            }
            if machine.avx2 {
                return narrow(sums, scales, count, totals);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = machine;
    // SAFETY: the caller's promise.
    unsafe { each(sums, scales, count, totals) }
}
