//! The register block of a convolution: rows of outputs by a panel of features, summed over runs of the window.
#![allow(unsafe_code)]
// Rows and columns are indices into several arrays at once; iterators over them are left as calls by builds that optimise less.
#![allow(clippy::needless_range_loop)]

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

/// Rows of the block that the compiler lays out.
const ROWS: usize = 4;
/// Its columns with AVX2 or AVX-512.
#[cfg(target_arch = "x86_64")]
const WIDE_COLS: usize = 16;
/// Its columns of four and of eight bytes with what every machine has: x86-64 has 16 registers of 16 bytes, of which eight are the
/// block; others have twice as many.
const COLS_OF_4: usize = if cfg!(target_arch = "x86_64") { 8 } else { 16 };
const COLS_OF_8: usize = COLS_OF_4 / 2;

const PORTABLE_I32: Kernel<i32> = portable::<i32, false, COLS_OF_4>();

/// The block with what every machine has.
const fn portable<T: Number, const FUSED: bool, const COLS: usize>() -> Kernel<T> {
    Kernel { rows: ROWS, cols: COLS, multiply: block::<T, FUSED, COLS>, channels: lines::<T, FUSED, COLS>, exchange }
}

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
    portable::<f32, FUSED, COLS_OF_4>()
}

fn kernel_f64(machine: &Machine) -> Kernel<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        let wide = portable::<f64, FUSED, WIDE_COLS>();
        if machine.avx512 {
            return Kernel { multiply: block_avx512::<f64>, channels: lines_avx512::<f64>, ..wide };
        }
        if machine.avx2 {
            return Kernel { multiply: block_avx2::<f64>, channels: lines_avx2::<f64>, ..wide };
        }
    }
    let _ = machine;
    portable::<f64, FUSED, COLS_OF_8>()
}

/// Whether the plain instruction set multiplies and adds in one.
const FUSED: bool = cfg!(target_arch = "aarch64");

macro_rules! compiled_for {
    ($features:literal, $block:ident, $lines:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $block<T: Number>(b: &Block<'_, T>) {
            // SAFETY: the caller's promise.
            unsafe { block::<T, true, WIDE_COLS>(b) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $lines<T: Number>(l: &Lines<'_, T>) {
            // SAFETY: the caller's promise.
            unsafe { lines::<T, true, WIDE_COLS>(l) }
        }
    };
}
compiled_for!("avx2,fma", block_avx2, lines_avx2);
compiled_for!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", block_avx512, lines_avx512);

/// # Safety
/// As [`Kernel::multiply`].
#[inline(always)]
unsafe fn block<T: Number, const FUSED: bool, const COLS: usize>(b: &Block<'_, T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match b.rows {
            1 => rows::<T, 1, FUSED, COLS>(b),
            2 => rows::<T, 2, FUSED, COLS>(b),
            3 => rows::<T, 3, FUSED, COLS>(b),
            _ => rows::<T, ROWS, FUSED, COLS>(b),
        }
    }
}

/// `a·b + c`, with one rounding where `FUSED`.
#[inline(always)]
fn multiply_add<T: Number, const FUSED: bool>(a: T, b: T, c: T) -> T {
    if FUSED { T::fused(a, b, c) } else { T::multiply_add(a, b, c) }
}

/// # Safety
/// As [`Kernel::multiply`], for `M` rows.
#[inline(always)]
unsafe fn rows<T: Number, const M: usize, const FUSED: bool, const COLS: usize>(b: &Block<'_, T>) {
    let mut sums = [[T::ZERO; COLS]; M];
    for segment in b.segments {
        let mut left = b.left.wrapping_offset(segment.left);
        let mut right = b.right.wrapping_add(segment.right);
        for _ in 0..segment.steps {
            // SAFETY: panels are whole, and every row has this step.
            let panel = unsafe { *right.cast::<[T; COLS]>() };
            for i in 0..M {
                // SAFETY: as above.
                let value = unsafe { *left.offset(i as isize * b.left_row) };
                for j in 0..COLS {
                    sums[i][j] = multiply_add::<T, FUSED>(value, panel[j], sums[i][j]);
                }
            }
            left = left.wrapping_offset(b.left_step);
            right = right.wrapping_add(COLS);
        }
    }
    for i in 0..M {
        let (row, to) = (&sums[i], b.out.wrapping_offset(i as isize * b.out_row));
        if b.cols == COLS {
            // SAFETY: a whole row of the block.
            unsafe {
                let to = to.cast::<[T; COLS]>();
                let mut result = if b.start == Start::Result { *to } else { [T::ZERO; COLS] };
                for j in 0..COLS {
                    result[j] = result[j].plus(row[j]);
                }
                to.write(result);
            }
            continue;
        }
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
unsafe fn lines<T: Number, const FUSED: bool, const COLS: usize>(l: &Lines<'_, T>) {
    // Outputs that meet a factor together: none waits for its own last sum.
    const TOGETHER: usize = 2;
    let whole = l.cols / COLS * COLS;
    for first in (0..whole).step_by(COLS) {
        let mut i = 0;
        // SAFETY: the caller's promise, for whole vectors of channels.
        unsafe {
            while i + TOGETHER <= l.rows {
                line::<T, TOGETHER, FUSED, COLS>(l, i, first);
                i += TOGETHER;
            }
            while i < l.rows {
                line::<T, 1, FUSED, COLS>(l, i, first);
                i += 1;
            }
        }
    }
    for channel in whole..l.cols {
        for i in 0..l.rows {
            // SAFETY: the caller's promise, for one channel.
            unsafe { line::<T, 1, FUSED, 1>(l, i, channel) };
        }
    }
}

/// `M` outputs from `row` on, of `COLS` channels from `first` on.
///
/// # Safety
/// As [`Kernel::channels`], which has these outputs and channels.
#[inline(always)]
unsafe fn line<T: Number, const M: usize, const FUSED: bool, const COLS: usize>(
    l: &Lines<'_, T>,
    row: usize,
    first: usize,
) {
    let mut sums = [[T::ZERO; COLS]; M];
    let left = l.left.wrapping_offset(row as isize * l.left_row).wrapping_add(first);
    for tap in l.taps {
        // SAFETY: the channels of the tap's factors, and of its input for every output.
        let factors = unsafe { *l.right.wrapping_add(tap.right + first).cast::<[T; COLS]>() };
        for i in 0..M {
            let at = left.wrapping_offset(tap.left + i as isize * l.left_row);
            // SAFETY: as above.
            let values = unsafe { *at.cast::<[T; COLS]>() };
            for c in 0..COLS {
                sums[i][c] = multiply_add::<T, FUSED>(values[c], factors[c], sums[i][c]);
            }
        }
    }
    for i in 0..M {
        let out = l.out.wrapping_offset((row + i) as isize * l.out_row).wrapping_add(first);
        // SAFETY: the channels of the output.
        unsafe { out.cast::<[T; COLS]>().write(sums[i]) };
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
