//! A tile of an array: bytes that lie apart in the array's storage, copied together only when somebody reads them by themselves.
//!
//! A result that is split into columns is mostly joined again by the next program, which then finds the whole array.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{ALIGN, Arena, Storage};
use crate::error::Error;

/// Where bytes lie in other storage: runs of so many bytes each.
#[derive(Clone, Debug)]
pub(crate) struct Within {
    pub(crate) whole: Arc<Storage>,
    pub(crate) starts: Arc<[usize]>,
    pub(crate) run_bytes: usize,
}

pub(super) struct Tile {
    /// `None` once there is a copy.
    within: Mutex<Option<Within>>,
    copy: OnceLock<Storage>,
    home: Arc<Arena>,
    size: usize,
}

impl Tile {
    pub(super) fn new(within: Within, home: Arc<Arena>) -> Tile {
        let size = within.starts.len() * within.run_bytes;
        Tile { within: Mutex::new(Some(within)), copy: OnceLock::new(), home, size }
    }

    pub(super) fn within(&self) -> Option<Within> {
        self.within.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The copy, made by the first who asks for it.
    pub(super) fn copied(&self) -> Result<&Storage, Error> {
        if let Some(copy) = self.copy.get() {
            return Ok(copy);
        }
        let mut within = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Within { whole, starts, run_bytes }) = &*within {
            let mut copy = self.home.allocate(self.size)?;
            let from = whole.bytes();
            for (to, &start) in copy.own_bytes().chunks_exact_mut((*run_bytes).max(1)).zip(starts.iter()) {
                to.copy_from_slice(&from[start..start + run_bytes]);
            }
            // Nobody else was here since the lock was taken.
            let _ = self.copy.set(copy);
            *within = None;
        }
        self.copy.get().ok_or_else(|| Error::Internal("a tile without bytes".into()))
    }

    /// As [`Tile::copied`], for those that cannot fail: without memory the process ends, as it does for a vector.
    pub(super) fn copied_or_abort(&self) -> &Storage {
        self.copied().unwrap_or_else(|_| {
            handle_alloc_error(Layout::from_size_align(self.size, ALIGN).unwrap_or(Layout::new::<u8>()))
        })
    }

    pub(super) fn take_copy(&mut self) -> Option<Storage> {
        self.copy.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns 1 and 2 of three rows of four bytes.
    fn columns(memory: &Arc<Arena>) -> (Arc<Storage>, Storage) {
        let mut whole = memory.allocate(12).unwrap();
        whole.fill(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let whole = Arc::new(whole);
        let tile = Storage::tile(&whole, [1, 5, 9].into(), 2, memory);
        (whole, tile)
    }

    #[test]
    fn bytes_are_copied_once_somebody_reads_them() {
        let memory = Arena::new();
        let (whole, tile) = columns(&memory);
        assert_eq!((tile.size(), Arc::strong_count(&whole)), (6, 2));
        let within = tile.within().unwrap();
        assert_eq!((&*within.starts, within.run_bytes), (&[1, 5, 9][..], 2));
        drop(within);
        assert_eq!(tile.bytes(), [1, 2, 5, 6, 9, 10]);
        assert_eq!(tile.pointer(), tile.pointer());
        assert!(tile.within().is_none());
        assert_eq!(Arc::strong_count(&whole), 1);
    }

    #[test]
    fn threads_that_read_at_once_get_the_same_bytes() {
        let memory = Arena::new();
        let (_, tile) = columns(&memory);
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| tile.pointer() as usize)).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|&address| address == addresses[0]));
    }
}
