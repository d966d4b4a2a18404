//! Copies between an array of any layout and the order the loops read: padded, features side by side.
#![allow(unsafe_code)]

use super::block::{Kernel, Number};
use super::shape::AXES;

/// A part of a padded array: element `(z, y, x, i)` of the part is the source's element at `first + (z, y, x)`, or zero
/// where the source ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<T> {
    /// The source's element at index 0 of every dimension.
    pub(super) from: *const T,
    pub(super) strides: [isize; AXES],
    pub(super) sizes: [usize; AXES],
    pub(super) inner_stride: isize,
    pub(super) first: [isize; AXES],
    pub(super) extent: [usize; AXES],
    pub(super) inner: usize,
    /// Elements from one `x` to the next in the part; rows of `x` are side by side.
    pub(super) pitch: usize,
}

/// Writes a part to `to`.
///
/// # Safety
/// The source is readable, `to` takes the part.
pub(super) unsafe fn fill<T: Number>(kernel: &Kernel<T>, part: &Part<T>, to: *mut T) {
    let row = part.extent[2] * part.pitch;
    let inside = |axis: usize, at: usize| {
        let index = part.first[axis] + at as isize;
        (index >= 0 && (index as usize) < part.sizes[axis]).then_some(index)
    };
    let low = usize::try_from(-part.first[2]).unwrap_or(0).min(part.extent[2]);
    let high = (part.sizes[2] as isize - part.first[2]).clamp(low as isize, part.extent[2] as isize) as usize;
    for z in 0..part.extent[0] {
        for y in 0..part.extent[1] {
            let to = to.wrapping_add((z * part.extent[1] + y) * row);
            // SAFETY: rows are within the part; the source's row is inside, and its elements `low..high` are.
            unsafe {
                let (Some(source_z), Some(source_y)) = (inside(0, z), inside(1, y)) else {
                    zero(to, row);
                    continue;
                };
                zero(to, low * part.pitch);
                zero(to.add(high * part.pitch), (part.extent[2] - high) * part.pitch);
                let at = source_z * part.strides[0]
                    + source_y * part.strides[1]
                    + (part.first[2] + low as isize) * part.strides[2];
                let from = part.from.wrapping_offset(at);
                let place = [part.pitch as isize, 1];
                let strides = [part.strides[2], part.inner_stride];
                copy(kernel, from, strides, to.add(low * part.pitch), place, [high - low, part.inner]);
            }
        }
    }
}

/// # Safety
/// `count` elements are writable.
unsafe fn zero<T: Number>(to: *mut T, count: usize) {
    // SAFETY: the caller's promise; all zeros is the zero of every number.
    unsafe { std::ptr::write_bytes(to, 0, count) }
}

/// Copies a matrix between any two layouts.
///
/// # Safety
/// Both are as the strides and sizes say, and do not overlap.
pub(super) unsafe fn copy<T: Number>(
    kernel: &Kernel<T>,
    from: *const T,
    from_strides: [isize; 2],
    to: *mut T,
    to_strides: [isize; 2],
    sizes: [usize; 2],
) {
    const TILE: usize = 16;
    let [rows, cols] = sizes;
    if rows == 0 || cols == 0 {
        return;
    }
    if from_strides[1] == 1 && to_strides[1] == 1 {
        // SAFETY: the caller's promise.
        unsafe {
            if from_strides[0] == cols as isize && to_strides[0] == cols as isize {
                std::ptr::copy_nonoverlapping(from, to, rows * cols);
                return;
            }
            for row in 0..rows as isize {
                std::ptr::copy_nonoverlapping(
                    from.wrapping_offset(row * from_strides[0]),
                    to.wrapping_offset(row * to_strides[0]),
                    cols,
                );
            }
        }
        return;
    }
    if from_strides[0] == 1 && to_strides[1] == 1 {
        // SAFETY: the caller's promise; the columns of this matrix are the rows of the source's.
        return unsafe { (kernel.exchange)(from, from_strides[1], to, to_strides[0], [cols, rows]) };
    }
    if from_strides[1] == 1 && to_strides[0] == 1 {
        // SAFETY: the caller's promise.
        return unsafe { (kernel.exchange)(from, from_strides[0], to, to_strides[1], [rows, cols]) };
    }
    for first in (0..rows).step_by(TILE) {
        let last = (first + TILE).min(rows);
        for col in 0..cols as isize {
            let from = from.wrapping_offset(col * from_strides[1]);
            let to = to.wrapping_offset(col * to_strides[1]);
            for row in first as isize..last as isize {
                // SAFETY: the caller's promise.
                unsafe { *to.offset(row * to_strides[0]) = *from.offset(row * from_strides[0]) };
            }
        }
    }
}
