//! Files mapped into memory to be read: only the pages that are touched are loaded, and none are copied.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::error::DataError;

/// A file mapped into memory.
#[derive(Debug)]
pub(crate) struct Mapped {
    path: PathBuf,
    file: File,
    map: Mmap,
}

impl Mapped {
    #[allow(unsafe_code)]
    pub(crate) fn open(path: &Path) -> Result<Mapped, DataError> {
        let file = File::open(path).map_err(DataError::io("opening", path))?;
        let metadata = file.metadata().map_err(DataError::io("opening", path))?;
        if !metadata.is_file() {
            return Err(DataError::format(path, "it is no file"));
        }
        // SAFETY: the map is private to this value and only read. What a mapping cannot exclude is another process that
        // writes the file: that makes wrong tokens, which are checked where they are used and never trusted as sizes or
        // indices here, or a shorter file, which `bytes` looks for first. The guide says not to change data in use.
        let map = unsafe { Mmap::map(&file) }.map_err(DataError::io("mapping", path))?;
        Ok(Mapped { path: path.to_path_buf(), file, map })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes the file had when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// The contents. Reading past the end of a file that was cut off would stop the process, so that is an error before.
    pub(crate) fn bytes(&self) -> Result<&[u8], DataError> {
        let metadata = self.file.metadata().map_err(DataError::io("reading", &self.path))?;
        if metadata.len() < self.len() {
            return Err(DataError::Shrunk { path: self.path.clone() });
        }
        Ok(&self.map)
    }
}
