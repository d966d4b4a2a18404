//! The register block of a convolution: rows of outputs by a panel of features, summed over runs of the window.
#![allow(unsafe_code)]

use super::super::machine::Machine;

/// One run of the window: `steps` inputs and as many rows of a panel of the filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Elements from a block's first input.
    pub(super) left: isize,
    /// Elements from a panel's start.
    pub(super) right: usize,
    pub(super) steps: usize,
}

/// One register block. The input of row `i` at step `p` of a segment is at `left + i·left_row + p·left_step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a, T> {
    pub(super) segments: &'a [Segment],
    pub(super) left: *const T,
    pub(super) left_row: isize,
    pub(super) left_step: isize,
    pub(super) right: *const T,
    pub(super) out: *mut T,
    pub(super) out_row: isize,
    pub(super) start: Start,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

/// What the sums start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Zero,
    /// What the result already holds.
    Result,
}

/// The block of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel<T> {
    pub(super) rows: usize,
    /// Columns of a panel.
    pub(super) cols: usize,
    /// Computes a block of at most `rows` and `cols`.
    ///
    /// # Safety
    /// The inputs of all rows and segments and whole panels are readable; the block of the result is writable.
    pub(super) multiply: unsafe fn(&Block<'_, T>),
    /// Multiplies a run of outputs with their own channels: see [`Lines`].
    ///
    /// # Safety
    /// As the lines say.
    pub(super) channels: unsafe fn(&Lines<'_, T>),
    /// Copies a matrix of some rows and columns to its transpose: the elements of a row lie side by side in the source,
    /// those of a column in the result. The strides are those of the rows of each.
    ///
    /// # Safety
    /// Both are as the strides and sizes say, and do not overlap.
    pub(super) exchange: unsafe fn(*const T, isize, *mut T, isize, [usize; 2]),
}

/// Outputs side by side for a few channels, each with its own filter: output `i` of channel `c` is at `out + i·out_row + c`,
/// its input for a tap at `left + tap.left + i·left_row + c`, its factor at `right + tap.right + c`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a, T> {
    pub(super) taps: &'a [Segment],
    pub(super) left: *const T,
    pub(super) left_row: isize,
    pub(super) right: *const T,
    pub(super) out: *mut T,
    pub(super) out_row: isize,
    pub(super) rows: usize,
    /// Channels.
    pub(super) cols: usize,
}

/// A type that is convolved in itself.
pub(super) trait Number: Copy + Send + Sync + 'static {
    const ZERO: Self;
    /// `a·b + c`, in two roundings.
    fn multiply_add(a: Self, b: Self, c: Self) -> Self;
    /// The same in one rounding, for machines that have it as an instruction.
    fn fused(a: Self, b: Self, c: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn kernel(machine: &Machine) -> Kernel<Self>;
}

macro_rules! float {
    ($t:ty, $kernel:ident) => {
        impl Number for $t {
            const ZERO: $t = 0.0;
            #[inline(always)]
            fn multiply_add(a: $t, b: $t, c: $t) -> $t {
                a * b + c
            }
            #[inline(always)]
            fn fused(a: $t, b: $t, c: $t) -> $t {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            fn kernel(machine: &Machine) -> Kernel<$t> {
                $kernel(machine)
            }
        }
    };
}

float!(f32, kernel_f32);
float!(f64, kernel_f64);

impl Number for i32 {
    const ZERO: i32 = 0;
    #[inline(always)]
    fn multiply_add(a: i32, b: i32, c: i32) -> i32 {
        a.wrapping_mul(b).wrapping_add(c)
    }
    #[inline(always)]
    fn fused(a: i32, b: i32, c: i32) -> i32 {
        Self::multiply_add(a, b, c)
    }
    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
    fn kernel(_: &Machine) -> Kernel<i32> {
        PORTABLE_I32
    }
}

/// Rows and columns of the block that the compiler lays out.
const ROWS: usize = 4;
const COLS: usize = 16;

const PORTABLE_I32: Kernel<i32> =
    Kernel { rows: ROWS, cols: COLS, multiply: block::<i32, false>, channels: lines::<i32, false>, exchange };

fn kernel_f32(machine: &Machine) -> Kernel<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        if machine.avx512 {
            return super::avx512::KERNEL;
        }
        if machine.avx2 {
            return super::avx2::KERNEL;
        }
    }
    let _ = machine;
    Kernel { rows: ROWS, cols: COLS, multiply: block::<f32, FUSED>, channels: lines::<f32, FUSED>, exchange }
}

fn kernel_f64(machine: &Machine) -> Kernel<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        if machine.avx512 {
            return Kernel {
                rows: ROWS,
                cols: COLS,
                multiply: block_avx512::<f64>,
                channels: lines_avx512::<f64>,
                exchange,
            };
        }
        if machine.avx2 {
            return Kernel {
                rows: ROWS,
                cols: COLS,
                multiply: block_avx2::<f64>,
                channels: lines_avx2::<f64>,
                exchange,
            };
        }
    }
    let _ = machine;
    Kernel { rows: ROWS, cols: COLS, multiply: block::<f64, FUSED>, channels: lines::<f64, FUSED>, exchange }
}

/// Whether the plain instruction set multiplies and adds in one.
const FUSED: bool = cfg!(target_arch = "aarch64");

macro_rules! compiled_for {
    ($features:literal, $block:ident, $lines:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $block<T: Number>(b: &Block<'_, T>) {
            // SAFETY: the caller's promise.
            unsafe { block::<T, true>(b) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $lines<T: Number>(l: &Lines<'_, T>) {
            // SAFETY: the caller's promise.
            unsafe { lines::<T, true>(l) }
        }
    };
}
compiled_for!("avx2,fma", block_avx2, lines_avx2);
compiled_for!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", block_avx512, lines_avx512);

/// # Safety
/// As [`Kernel::multiply`].
#[inline(always)]
unsafe fn block<T: Number, const FUSED: bool>(b: &Block<'_, T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match b.rows {
            1 => rows::<T, 1, FUSED>(b),
            2 => rows::<T, 2, FUSED>(b),
            3 => rows::<T, 3, FUSED>(b),
            _ => rows::<T, ROWS, FUSED>(b),
        }
    }
}

/// # Safety
/// As [`Kernel::multiply`], for `M` rows.
#[inline(always)]
unsafe fn rows<T: Number, const M: usize, const FUSED: bool>(b: &Block<'_, T>) {
    let mut sums = [[T::ZERO; COLS]; M];
    for segment in b.segments {
        let mut left = b.left.wrapping_offset(segment.left);
        let mut right = b.right.wrapping_add(segment.right);
        for _ in 0..segment.steps {
            // SAFETY: panels are whole, and every row has this step.
            let panel = unsafe { &*right.cast::<[T; COLS]>() };
            for (i, row) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let value = unsafe { *left.offset(i as isize * b.left_row) };
                for (sum, &factor) in row.iter_mut().zip(panel) {
                    *sum = if FUSED { T::fused(value, factor, *sum) } else { T::multiply_add(value, factor, *sum) };
                }
            }
            left = left.wrapping_offset(b.left_step);
            right = right.wrapping_add(COLS);
        }
    }
    for (i, row) in sums.iter().enumerate() {
        let to = b.out.wrapping_offset(i as isize * b.out_row);
        for (j, &sum) in row.iter().enumerate().take(b.cols) {
            // SAFETY: within the block.
            unsafe {
                let to = to.add(j);
                to.write(if b.start == Start::Result { (*to).plus(sum) } else { sum });
            }
        }
    }
}

/// # Safety
/// As [`Kernel::channels`].
#[inline(always)]
unsafe fn lines<T: Number, const FUSED: bool>(l: &Lines<'_, T>) {
    for i in 0..l.rows {
        for first in (0..l.cols).step_by(COLS) {
            let cols = COLS.min(l.cols - first);
            let mut sums = [T::ZERO; COLS];
            for tap in l.taps {
                let left = l.left.wrapping_offset(tap.left + i as isize * l.left_row).wrapping_add(first);
                let right = l.right.wrapping_add(tap.right + first);
                for (c, sum) in sums.iter_mut().enumerate().take(cols) {
                    // SAFETY: channel `first + c` of the tap.
                    let (value, factor) = unsafe { (*left.add(c), *right.add(c)) };
                    *sum = if FUSED { T::fused(value, factor, *sum) } else { T::multiply_add(value, factor, *sum) };
                }
            }
            let out = l.out.wrapping_offset(i as isize * l.out_row).wrapping_add(first);
            for (c, &sum) in sums.iter().enumerate().take(cols) {
                // SAFETY: channel `first + c` of output `i`.
                unsafe { out.add(c).write(sum) };
            }
        }
    }
}

/// # Safety
/// As [`Kernel::exchange`].
unsafe fn exchange<T: Number>(from: *const T, from_row: isize, to: *mut T, to_row: isize, sizes: [usize; 2]) {
    const TILE: usize = 16;
    for first in (0..sizes[1]).step_by(TILE) {
        for row in 0..sizes[0] {
            for col in first..(first + TILE).min(sizes[1]) {
                let from = from.wrapping_offset(row as isize * from_row).wrapping_add(col);
                let to = to.wrapping_offset(col as isize * to_row).wrapping_add(row);
                // SAFETY: the caller's promise.
                unsafe { *to = *from };
            }
        }
    }
}
