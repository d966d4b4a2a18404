//! Memory that holds machine code: writable while it is filled, then executable, never both.

#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Executable memory, given back when dropped.
#[derive(Debug)]
pub(super) struct Executable {
    start: NonNull<std::ffi::c_void>,
    mapped_bytes: usize,
}

// SAFETY: the mapping is never written after `Executable::new`, and unmapped only by the one owner.
unsafe impl Send for Executable {}
// SAFETY: as above; shared access only reads and executes.
unsafe impl Sync for Executable {}

impl Executable {
    #[cfg(not(unix))]
    pub(super) fn new(_: &[u8]) -> Option<Executable> {
        None
    }

    /// Executable memory with these bytes, at a page boundary; `None` where the system forbids it.
    #[cfg(unix)]
    pub(super) fn new(bytes: &[u8]) -> Option<Executable> {
        let mapped_bytes = bytes.len().max(1).checked_next_multiple_of(4096)?;
        // SAFETY: a new private mapping at an address of the system's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let code = Executable { start: NonNull::new(start)?, mapped_bytes };
        // SAFETY: the mapping is `mapped_bytes` ≥ `bytes.len()` long, writable, and known to nobody else.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast::<u8>(), bytes.len()) };
        // SAFETY: exactly the mapping made above.
        let status = unsafe { libc::mprotect(start, mapped_bytes, libc::PROT_READ | libc::PROT_EXEC) };
        (status == 0).then_some(code)
    }

    /// Where the code starts.
    pub(super) fn entry(&self) -> *const u8 {
        self.start.as_ptr().cast_const().cast()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        #[cfg(unix)]
        // SAFETY: exactly the mapping made in `new`; whoever runs the code borrows `self`.
        let _ = unsafe { libc::munmap(self.start.as_ptr(), self.mapped_bytes) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn code_runs() {
        // mov eax, 42; ret
        let code = Executable::new(&[0xb8, 42, 0, 0, 0, 0xc3]).expect("executable memory");
        // SAFETY: the bytes are a function of the C convention without arguments.
        let answer = unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> i32>(code.entry())() };
        assert_eq!(answer, 42);
    }
}
