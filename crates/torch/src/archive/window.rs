//! A part of a file as a file of its own: an archive that is stored in another.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a file from a start on.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    file: Arc<File>,
    start: u64,
    length: u64,
    at: u64,
}

impl FilePart {
    /// The whole of a file.
    pub(crate) fn whole(file: File) -> io::Result<FilePart> {
        let length = file.metadata()?.len();
        Ok(FilePart { file: Arc::new(file), start: 0, length, at: 0 })
    }

    /// A part of this part; `None` where it would stick out.
    pub(crate) fn part(&self, start: u64, length: u64) -> Option<FilePart> {
        let end = start.checked_add(length)?;
        let part = FilePart { file: self.file.clone(), start: self.start.checked_add(start)?, length, at: 0 };
        (end <= self.length).then_some(part)
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Where it begins and ends in the file.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.start, self.length)
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.length).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.start)?;
        Ok(bytes)
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.at).min(buffer.len() as u64) as usize;
        let read = self.file.read_at(&mut buffer[..left], self.start + self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for FilePart {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
