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
    #[cfg(any(not(unix), all(target_arch = "aarch64", not(target_os = "linux"))))]
    pub(super) fn new(_: &[u8]) -> Option<Executable> {
        None
    }

    /// Executable memory with these bytes, at a page boundary; `None` where the system forbids it.
    #[cfg(all(unix, any(target_arch = "x86_64", target_os = "linux")))]
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
        // SAFETY: the bytes just written.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            publish(start.cast(), bytes.len());
        }
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

/// Makes what was written as data visible to what fetches instructions, which on AArch64 has caches of its own.
///
/// # Safety
/// The bytes are mapped and readable.
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
unsafe fn publish(start: *const u8, bytes: usize) {
    let sizes: u64;
    // SAFETY: reads a register that tells the sizes of cache lines.
    unsafe { std::arch::asm!("mrs {}, ctr_el0", out(reg) sizes, options(nomem, nostack, preserves_flags)) };
    let line = |field: u64| 4usize << (sizes >> field & 15);
    let (data_line, code_line) = (line(16), line(0));
    let lines = |line: usize| (start.addr() & !(line - 1)..start.addr() + bytes).step_by(line);
    // SAFETY: cleans and drops cache lines of the bytes, then waits until every core sees it.
    unsafe {
        for at in lines(data_line) {
            std::arch::asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags));
        }
        std::arch::asm!("dsb ish", options(nostack, preserves_flags));
        for at in lines(code_line) {
            std::arch::asm!("ic ivau, {}", in(reg) at, options(nostack, preserves_flags));
        }
        std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn code_runs() {
        // mov eax, 42; ret
        #[cfg(target_arch = "x86_64")]
        let bytes = [0xb8, 42, 0, 0, 0, 0xc3];
        // mov w0, #42; ret
        #[cfg(target_arch = "aarch64")]
        let bytes = [0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6];
        let code = Executable::new(&bytes).expect("executable memory");
        // SAFETY: the bytes are a function of the C convention without arguments.
        let answer = unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> i32>(code.entry())() };
        assert_eq!(answer, 42);
    }
}
