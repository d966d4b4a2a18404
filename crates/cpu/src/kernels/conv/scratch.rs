//! Memory a thread keeps between convolutions, so that one in steady state allocates nothing.

use std::cell::Cell;
use std::mem::MaybeUninit;

use crate::error::Error;
use crate::memory::machine_bytes;

/// What is kept when the memory goes back to the thread; more is freed.
const KEPT_BYTES: usize = 64 << 20;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line(#[allow(dead_code)] [u8; 64]);

/// Uninitialised memory at a cache line's start.
pub(super) type Lines = Vec<MaybeUninit<Line>>;

/// Fresh memory for at least `bytes`. Where the machine has no more, the run ends with an error.
pub(super) fn fresh(bytes: usize) -> Lines {
    let mut lines = Lines::new();
    if bytes > machine_bytes() || lines.try_reserve_exact(bytes.div_ceil(size_of::<Line>())).is_err() {
        Error::Exhausted(format!("the machine has no {bytes} bytes for a convolution")).raise();
    }
    lines
}

/// Which of a thread's pieces of memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// The padded input of a task.
    Input,
    /// Results of a task before they go to their places.
    Output,
    /// The filter in the order of the kernel, owned by the caller's thread.
    Filter,
    /// A part of the filter in the order of the kernel, made and used by one thread.
    Panels,
    /// Sums of shares of the input features.
    Sums,
}

thread_local! {
    static PIECES: [Cell<Lines>; 5] = const { [const { Cell::new(Vec::new()) }; 5] };
}

/// A thread's piece of memory on loan: it goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Loan {
    piece: Piece,
    lines: Lines,
}

impl Loan {
    /// Room for `count` elements.
    pub(super) fn take<T>(piece: Piece, count: usize) -> Loan {
        let bytes = count.saturating_mul(size_of::<T>());
        let mut lines = PIECES.with(|pieces| pieces[piece as usize].take());
        if lines.capacity() * size_of::<Line>() < bytes {
            drop(lines);
            lines = fresh(bytes);
        }
        Loan { piece, lines }
    }

    pub(super) fn at<T>(&mut self) -> *mut T {
        self.lines.as_mut_ptr().cast()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if lines.capacity() * size_of::<Line>() <= KEPT_BYTES {
            // A thread that is ending frees the memory instead.
            let _ = PIECES.try_with(|pieces| pieces[self.piece as usize].set(lines));
        }
    }
}
