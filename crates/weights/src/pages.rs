//! Memory for large tensors, in huge pages where the system has them.
#![allow(unsafe_code)]

/// Bytes from which on memory is asked for in huge pages.
const HUGE_FROM_BYTES: usize = 4 << 20;

/// So many zeros. Pages of large ones are made when they are first written, and huge where the system allows it: making small ones takes
/// longer than reading a file that is in memory.
pub fn zeroed_bytes(size: usize) -> Vec<u8> {
    let bytes = vec![0u8; size];
    #[cfg(target_os = "linux")]
    if size >= HUGE_FROM_BYTES {
        const PAGE: usize = 4096;
        let start = bytes.as_ptr() as usize;
        let first = start.next_multiple_of(PAGE);
        let length = (start + size - first) / PAGE * PAGE;
        // SAFETY: the range lies in the memory of `bytes`; the call only advises, changes no byte and may fail.
        unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_zero() {
        for size in [0, 1, 4096, HUGE_FROM_BYTES - 1, HUGE_FROM_BYTES + 5] {
            let mut bytes = zeroed_bytes(size);
            assert!(bytes.len() == size && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            assert!(bytes.iter().all(|byte| *byte == 7));
        }
    }
}
