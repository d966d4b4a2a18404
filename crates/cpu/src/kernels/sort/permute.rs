//! Moving the elements of a row to their sorted places.
#![allow(unsafe_code)]

/// Writes element `place(i)` of a row as element `i`; element `i` lies at `base + i·stride`.
///
/// # Safety
/// Both arrays have the row, with elements of `width` bytes aligned to their width, and every place is in it.
pub(super) unsafe fn permute(
    width: usize,
    read: *const u8,
    write: *mut u8,
    (base, stride, length): (usize, usize, usize),
    place: impl Fn(usize) -> usize,
) {
    /// # Safety
    /// As for `permute`, of elements `T`.
    unsafe fn each<T: Copy>(
        read: *const T,
        write: *mut T,
        (base, stride, length): (usize, usize, usize),
        place: impl Fn(usize) -> usize,
    ) {
        for i in 0..length {
            // SAFETY: the row and the places are the caller's.
            unsafe { write.add(base + i * stride).write(read.add(base + place(i) * stride).read()) };
        }
    }
    let row = (base, stride, length);
    // SAFETY: the caller's promise, for each width.
    unsafe {
        match width {
            1 => each::<u8>(read, write, row, place),
            2 => each::<u16>(read.cast(), write.cast(), row, place),
            4 => each::<u32>(read.cast(), write.cast(), row, place),
            8 => each::<u64>(read.cast(), write.cast(), row, place),
            _ => each::<[u64; 2]>(read.cast(), write.cast(), row, place),
        }
    }
}

/// Whether a row of 32-bit elements counts from 0: then sorting it is writing places.
///
/// # Safety
/// The array has the row.
pub(super) unsafe fn counts_from_zero(read: *const u32, (base, stride, length): (usize, usize, usize)) -> bool {
    // Looking at the far end first tells most other rows at once.
    let at = |i: usize| {
        // SAFETY: the row is the caller's.
        unsafe { read.add(base + i * stride).read() }
    };
    at(length - 1) == length as u32 - 1 && (0..length).all(|i| at(i) == i as u32)
}
