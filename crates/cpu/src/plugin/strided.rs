//! Copies between row-major arrays and memory of any layout.
#![allow(unsafe_code)]

use std::ffi::c_void;

use pjrt_sys::*;

use super::call::{Failure, list};

/// Bytes to step along each dimension of a row-major array.
pub(super) fn row_major(dims: &[usize], element_bytes: usize) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut stride = element_bytes as i64;
    for (d, &size) in dims.iter().enumerate().rev() {
        strides[d] = stride;
        stride = stride.saturating_mul(size as i64);
    }
    strides
}

/// Strides of the layout a caller names; row-major where it names none.
///
/// # Safety
/// `layout` is null or points to a layout as the C header describes it.
pub(super) unsafe fn layout_strides(
    layout: *const PJRT_Buffer_MemoryLayout,
    dims: &[usize],
    element_bytes: usize,
) -> Result<Vec<i64>, Failure> {
    if layout.is_null() {
        return Ok(row_major(dims, element_bytes));
    }
    // SAFETY: by the contract above; the union member is the one the type names.
    unsafe {
        let layout = &*layout;
        if layout.r#type == PJRT_Buffer_MemoryLayout_Type_Strides {
            let strides = list(layout.layout.strides.byte_strides, layout.layout.strides.num_byte_strides);
            return if strides.len() == dims.len() {
                Ok(strides.to_vec())
            } else {
                Err(Failure::invalid("strides of another rank"))
            };
        }
        let tiled = layout.layout.tiled;
        if tiled.num_tiles != 0 {
            return Err(Failure::unimplemented("tiled layouts"));
        }
        let mut strides = vec![0; dims.len()];
        let mut stride = element_bytes as i64;
        let order = list(tiled.minor_to_major, tiled.minor_to_major_size);
        let mut seen = vec![false; dims.len()];
        for &d in order {
            let d = usize::try_from(d).ok().filter(|d| *d < dims.len() && !seen[*d]);
            let d = d.ok_or_else(|| Failure::invalid("a layout that is not an order of the dimensions"))?;
            seen[d] = true;
            strides[d] = stride;
            stride = stride.saturating_mul(dims[d] as i64);
        }
        if order.len() != dims.len() {
            return Err(Failure::invalid("a layout of another rank"));
        }
        Ok(strides)
    }
}

/// Calls `copy(offset in the array, offset in the other memory)` for every element.
fn each(dims: &[usize], strides: &[i64], element_bytes: usize, mut copy: impl FnMut(usize, isize)) {
    let count: usize = dims.iter().product();
    let mut position = vec![0usize; dims.len()];
    let mut offset = 0i64;
    for n in 0..count {
        copy(n * element_bytes, offset as isize);
        for d in (0..dims.len()).rev() {
            position[d] += 1;
            offset += strides[d];
            if position[d] < dims[d] {
                break;
            }
            offset -= strides[d] * dims[d] as i64;
            position[d] = 0;
        }
    }
}

/// Reads an array from memory with strides.
///
/// # Safety
/// All `element_bytes` at every position `dims` and `strides` give are readable from `data`.
pub(super) unsafe fn gather(
    data: *const c_void,
    dims: &[usize],
    strides: &[i64],
    element_bytes: usize,
) -> Result<Vec<u8>, Failure> {
    let total = dims.iter().try_fold(element_bytes, |n, &d| n.checked_mul(d)).filter(|&n| isize::try_from(n).is_ok());
    let total = total.ok_or_else(|| Failure::invalid(format!("an array of sizes {dims:?} is too large")))?;
    if total == 0 {
        return Ok(Vec::new());
    }
    if data.is_null() {
        return Err(Failure::invalid("the data is null"));
    }
    if strides == row_major(dims, element_bytes) {
        // SAFETY: a dense array of `total` bytes.
        return Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), total) }.to_vec());
    }
    let mut bytes = vec![0; total];
    each(dims, strides, element_bytes, |to, from| {
        // SAFETY: by the contract above; `to` is within `bytes`.
        unsafe {
            std::ptr::copy_nonoverlapping(data.cast::<u8>().offset(from), bytes.as_mut_ptr().add(to), element_bytes)
        };
    });
    Ok(bytes)
}

/// Writes an array into memory with strides.
///
/// # Safety
/// All `element_bytes` at every position `dims` and `strides` give are writable from `data`.
pub(super) unsafe fn spread(bytes: &[u8], data: *mut c_void, dims: &[usize], strides: &[i64], element_bytes: usize) {
    if bytes.is_empty() {
        return;
    }
    if strides == row_major(dims, element_bytes) {
        // SAFETY: a dense array of that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()) };
        return;
    }
    each(dims, strides, element_bytes, |from, to| {
        // SAFETY: by the contract above; `from` is within `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().add(from), data.cast::<u8>().offset(to), element_bytes) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_followed_both_ways() {
        let column_major: Vec<u8> = vec![1, 4, 2, 5, 3, 6];
        // SAFETY: a 2 by 3 array in column-major order.
        let row = unsafe { gather(column_major.as_ptr().cast(), &[2, 3], &[1, 2], 1) }.unwrap();
        assert_eq!(row, [1, 2, 3, 4, 5, 6]);
        let mut back = vec![0u8; 6];
        // SAFETY: as above.
        unsafe { spread(&row, back.as_mut_ptr().cast(), &[2, 3], &[1, 2], 1) };
        assert_eq!(back, column_major);
        // SAFETY: reversed from its last element.
        let reversed = unsafe { gather(row.as_ptr().add(5).cast(), &[6], &[-1], 1) }.unwrap();
        assert_eq!(reversed, [6, 5, 4, 3, 2, 1]);
        // SAFETY: too large to be read at all.
        assert!(unsafe { gather(row.as_ptr().cast(), &[usize::MAX, 2], &[0, 0], 1) }.is_err());
    }
}
