//! Memory a thread keeps between matmuls, so that a matmul in steady state allocates nothing.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

use crate::error::Error;
use crate::memory::machine_bytes;

/// What is kept when the memory goes back to the thread; more is freed.
const KEPT_BYTES: usize = 64 << 20;
const ALIGN: usize = 64;
/// Memory of at least this much is whole huge pages: panels are read in turn from many of them, and the table of the small
/// ones that a core holds is shorter than that.
const HUGE_FROM_BYTES: usize = 256 << 10;
const HUGE_PAGE: usize = 2 << 20;

/// Uninitialised memory at a cache line's start.
#[derive(Debug)]
pub(super) struct Scratch {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory, and nothing in it is tied to a thread.
unsafe impl Send for Scratch {}
// SAFETY: shared references give the address only; who reads and writes is up to the unsafe code that does it.
unsafe impl Sync for Scratch {}

impl Scratch {
    const EMPTY: Scratch = Scratch { start: NonNull::dangling(), bytes: 0 };

    /// Fresh memory, at least `bytes` of it. Where the machine has no more, the run ends with an error.
    pub(super) fn new(bytes: usize) -> Scratch {
        if bytes == 0 {
            return Scratch::EMPTY;
        }
        let none = || Error::Exhausted(format!("the machine has no {bytes} bytes for a matmul"));
        if bytes > machine_bytes() {
            none().raise();
        }
        let is_huge = bytes >= HUGE_FROM_BYTES;
        let bytes = if is_huge { bytes.next_multiple_of(HUGE_PAGE) } else { bytes };
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout(bytes)) };
        let Some(start) = NonNull::new(start) else { none().raise() };
        #[cfg(target_os = "linux")]
        if is_huge {
            // SAFETY: the range is what was just allocated; the call only advises and may fail.
            unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Scratch { start, bytes }
    }

    pub(super) fn at<T>(&self) -> *mut T {
        self.start.as_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout(self.bytes)) }
        }
    }
}

fn layout(bytes: usize) -> Layout {
    let align = if bytes >= HUGE_FROM_BYTES { HUGE_PAGE } else { ALIGN };
    Layout::from_size_align(bytes, align).expect("no more than the machine has")
}

/// Which of a thread's pieces of memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// Packed rows of the left matrix.
    Left,
    /// Packed columns of the right matrix, made and used by one thread.
    Right,
    /// Packed columns of the right matrix for all threads, owned by the caller's thread.
    Shared,
    /// Sums before they are rounded to the result's type.
    Sums,
    /// Sums of one group of steps.
    Group,
    /// Sums of some groups, for all threads, owned by the caller's thread.
    Totals,
    /// Some columns of the right matrix that were made dense, for all threads, owned by the caller's thread.
    Panel,
    /// What sums start from, a row of them.
    Correction,
}

thread_local! {
    static SLOTS: [Cell<Option<Scratch>>; 8] = const { [const { Cell::new(None) }; 8] };
}

/// A thread's piece of memory on loan: it goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Loan {
    slot: Slot,
    scratch: Option<Scratch>,
    /// Whether the contents are those the thread left there.
    pub(super) kept: bool,
}

impl Loan {
    /// At least `bytes` of the thread's memory. Nested loans of one slot get fresh memory.
    pub(super) fn take(slot: Slot, bytes: usize) -> Loan {
        let old = SLOTS.with(|slots| slots[slot as usize].take());
        match old {
            Some(scratch) if scratch.bytes >= bytes => Loan { slot, scratch: Some(scratch), kept: true },
            old => {
                drop(old);
                let bytes = bytes.checked_next_multiple_of(4096).unwrap_or(usize::MAX);
                Loan { slot, scratch: Some(Scratch::new(bytes)), kept: false }
            }
        }
    }

    pub(super) fn at<T>(&self) -> *mut T {
        self.scratch.as_ref().map_or(std::ptr::null_mut(), Scratch::at)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take().filter(|scratch| scratch.bytes <= KEPT_BYTES) {
            // A thread that is ending frees the memory instead.
            let _ = SLOTS.try_with(|slots| slots[self.slot as usize].set(Some(scratch)));
        }
    }
}
