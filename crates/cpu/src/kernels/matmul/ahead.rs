//! Memory that is read next, brought near line by line while a kernel computes.
#![allow(unsafe_code)]

use std::ops::Range;

use super::Operand;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

/// The lines of a part of a matrix, in order, as far as they are not brought near yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    at: *const u8,
    /// Lines of a run of side by side elements, and those left of this one.
    run_lines: usize,
    run_left: usize,
    /// Bytes from the end of a run to the next.
    gap: isize,
    /// Lines beyond those allowed.
    left: usize,
    /// Lines the next blocks may fetch.
    allowed: usize,
}

impl Ahead {
    pub(super) const NOTHING: Ahead =
        Ahead { at: std::ptr::null(), run_lines: 0, run_left: 0, gap: 0, left: 0, allowed: 0 };

    /// The lines of some columns and steps of a right matrix; nothing if no dimension of it is dense.
    pub(super) fn new(rhs: &Operand, from: *const u8, cols: &Range<usize>, steps: &Range<usize>) -> Ahead {
        let (runs, stride, run) = if rhs.col_stride == 1 {
            (steps.len(), rhs.row_stride, cols.len())
        } else if rhs.row_stride == 1 {
            (cols.len(), rhs.col_stride, steps.len())
        } else {
            return Ahead::NOTHING;
        };
        let at = steps.start as isize * rhs.row_stride + cols.start as isize * rhs.col_stride;
        let run_lines = (rhs.bytes(run as isize) as usize).div_ceil(LINE);
        Ahead {
            at: from.wrapping_offset(rhs.bytes(at)),
            run_lines,
            run_left: run_lines,
            gap: rhs.bytes(stride) - (run_lines * LINE) as isize,
            left: runs * run_lines,
            allowed: 0,
        }
    }

    /// The lines of memory in one run.
    pub(super) fn run(at: *const u8, bytes: usize) -> Ahead {
        let lines = bytes.div_ceil(LINE);
        Ahead { at, run_lines: lines, run_left: lines, gap: 0, left: lines, allowed: 0 }
    }

    /// Lines not yet allowed.
    pub(super) fn lines(&self) -> usize {
        self.left
    }

    /// Lets the next block fetch up to `lines` lines more.
    pub(super) fn allow(&mut self, lines: usize) {
        let lines = lines.min(self.left);
        self.left -= lines;
        self.allowed += lines;
    }

    #[inline(always)]
    fn fetch_one(&mut self) {
        fetch_line(self.at);
        self.allowed -= 1;
        self.run_left -= 1;
        self.at = self.at.wrapping_add(LINE);
        if self.run_left == 0 {
            self.run_left = self.run_lines;
            self.at = self.at.wrapping_offset(self.gap);
        }
    }

    /// Fetches up to `COUNT` of the lines that are allowed.
    #[inline(always)]
    pub(super) fn fetch_few<const COUNT: usize>(&mut self) {
        if self.allowed > 0 {
            self.fetch(COUNT);
        }
    }

    /// Fetches up to `count` of the lines that are allowed.
    #[inline(always)]
    pub(super) fn fetch(&mut self, count: usize) {
        for _ in 0..count.min(self.allowed) {
            self.fetch_one();
        }
    }
}

/// Brings a line into L2 where there is an instruction for it; any address will do.
#[inline(always)]
fn fetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Brings a line into the nearest cache where there is an instruction for it; any address will do.
#[inline(always)]
pub(super) fn near_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
