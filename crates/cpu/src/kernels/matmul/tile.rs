//! Matmuls of small tiles for kernels that keep both the factors and the sums near: packed panels of f32, one panel of
//! columns at a time.
#![allow(unsafe_code)]

use std::ops::Range;

use tensor::DType;

use super::ahead::Ahead;
use super::drive::{Block, Kernel};
pub(crate) use super::lanes::Start;
use super::pack::Strip;
use super::{Choice, Machine};
use crate::memory::Packing;

/// Register blocks of f32 of one machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    kernel: Choice,
}

/// A part of an f32 matrix: lane `i` of step `p` is at `at + i·lane + p·step`, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) at: *const f32,
    pub(crate) lane: isize,
    pub(crate) step: isize,
    pub(crate) lanes: usize,
    pub(crate) steps: usize,
}

/// Rows on the left of a matmul, packed by [`Tiles::pack_left`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) at: *const f32,
    /// As they were packed.
    pub(crate) rows: usize,
    pub(crate) steps: usize,
}

macro_rules! with_tiles {
    ($choice:expr, $K:ident => $body:expr) => {
        match $choice {
            #[cfg(target_arch = "x86_64")]
            Choice::Avx512F32 => {
                type $K = super::avx512::Avx512F32;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Choice::Avx2F32 => {
                type $K = super::avx2::Avx2F32;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Choice::NeonF32 => {
                type $K = super::neon::NeonF32;
                $body
            }
            _ => {
                type $K = super::portable::PortableF32;
                $body
            }
        }
    };
}

impl Tiles {
    pub(crate) fn new(machine: &Machine) -> Tiles {
        Tiles { kernel: super::choose(DType::F32, DType::F32, machine) }
    }

    /// The most rows of a register block.
    pub(crate) fn height(&self) -> usize {
        with_tiles!(self.kernel, K => K::ROWS)
    }

    /// Columns of a panel.
    pub(crate) fn width(&self) -> usize {
        with_tiles!(self.kernel, K => K::COLS)
    }

    /// Register blocks that rows are cut into.
    pub(crate) fn blocks(&self, rows: usize) -> usize {
        rows.div_ceil(self.height())
    }

    /// The rows of one of these blocks: blocks are of even height, for a low one takes nearly as long as a full one.
    pub(crate) fn rows(&self, rows: usize, block: usize) -> Range<usize> {
        let blocks = self.blocks(rows).max(1);
        rows * block / blocks..rows * (block + 1) / blocks
    }

    /// Elements of packed rows.
    pub(crate) fn left_len(&self, rows: usize, steps: usize) -> usize {
        self.blocks(rows) * self.height() * steps
    }

    /// Packs rows for the left of a matmul: the lanes of the source.
    ///
    /// # Safety
    /// The source is readable, `to` takes [`Tiles::left_len`] elements; the machine is the one of [`Tiles::new`].
    pub(crate) unsafe fn pack_left(&self, source: &Source, to: *mut f32) {
        for block in 0..self.blocks(source.lanes) {
            let rows = self.rows(source.lanes, block);
            let at = source.at.wrapping_offset(rows.start as isize * source.lane);
            let strip = Source { at, lanes: rows.len(), ..*source }.strip();
            let to = to.wrapping_add(block * self.height() * source.steps);
            // SAFETY: a part of the source, and the block's own place.
            unsafe { with_tiles!(self.kernel, K => K::pack_left(&strip, to)) };
        }
    }

    /// Packs at most [`Tiles::width`] columns, the lanes of the source, as one panel; missing ones are zeros.
    ///
    /// # Safety
    /// The source is readable, `to` takes a panel of its steps; the machine is the one of [`Tiles::new`].
    pub(crate) unsafe fn pack_right(&self, source: &Source, to: *mut f32) {
        debug_assert!(source.lanes <= self.width());
        // SAFETY: the caller's promise.
        unsafe { with_tiles!(self.kernel, K => K::pack_right(&source.strip(), to)) };
    }

    /// Multiplies some blocks of rows with a panel over some of the packed steps. Row `i` of the sums is at
    /// `sums + i·width`, whole; the first step of `right` is the first of `steps`.
    ///
    /// # Safety
    /// `left` is packed and has these blocks and steps, `right` is readable for the steps and `sums` writable for the
    /// rows; the machine is the one of [`Tiles::new`].
    pub(crate) unsafe fn multiply(
        &self,
        left: &Left,
        blocks: Range<usize>,
        steps: Range<usize>,
        right: *const f32,
        sums: *mut f32,
        start: Start,
    ) {
        let panel = self.height() * left.steps;
        for block in blocks {
            let rows = self.rows(left.rows, block);
            with_tiles!(self.kernel, K => {
                let part = Block::<K> {
                    steps: steps.len(),
                    left: left.at.wrapping_add(block * panel + steps.start * K::ROWS),
                    left_row: None,
                    right,
                    correction: std::ptr::null(),
                    sum: sums.wrapping_add(rows.start * K::COLS),
                    sum_row: K::COLS as isize,
                    start,
                    rows: rows.len(),
                    cols: K::COLS,
                };
                // SAFETY: the caller's promise; the rows are within the register block.
                unsafe { K::multiply(part, &mut { Ahead::NOTHING }) }
            });
        }
    }
}

impl Source {
    fn strip(&self) -> Strip {
        let Source { at, lane, step, lanes, steps } = *self;
        Strip { dtype: DType::F32, packing: Packing::Bytes, at: at.cast(), lane, step, lanes, steps }
    }
}
