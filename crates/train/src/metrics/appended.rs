//! A file that grows by whole pieces: a piece that cannot be written leaves nothing behind, and one warning.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What pieces are added to.
pub(crate) trait Store: Write {
    /// Cuts off what is after this length.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    /// Puts everything on disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Store for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file that grows by whole pieces.
#[derive(Debug)]
pub(crate) struct Appended<S = File> {
    path: PathBuf,
    /// `None` where it could not be opened.
    file: Option<S>,
    /// Bytes of the pieces that were written whole.
    len: u64,
    lost: u64,
}

impl Appended {
    /// Opens a file to go on at this length; what is after it is cut off.
    pub(crate) fn open(path: &Path, len: u64) -> Appended {
        let mut appended = Appended { path: path.to_path_buf(), file: None, len, lost: 0 };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), std::fs::create_dir_all);
        let opened = made.and_then(|()| OpenOptions::new().append(true).create(true).open(path));
        // What is no plain file, as a pipe, has no length to set.
        let opened = opened.and_then(|file| {
            if file.metadata()?.is_file() {
                file.set_len(len)?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => appended.file = Some(file),
            Err(error) => appended.warn(&error),
        }
        appended
    }
}

impl<S: Store> Appended<S> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Pieces that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a piece, whole or not at all.
    pub(crate) fn append(&mut self, piece: &[u8]) {
        let Some(file) = &mut self.file else {
            self.lost += 1;
            return;
        };
        match file.write_all(piece) {
            Ok(()) => self.len += piece.len() as u64,
            Err(error) => {
                // What was written of it goes, so that the next piece follows a whole one.
                let _ = file.cut(self.len);
                self.warn(&error);
                self.lost += 1;
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        let synced = self.file.as_mut().map_or(Ok(()), Store::sync);
        // What is no plain file cannot be put on disk.
        if let Err(error) = synced
            && error.kind() != io::ErrorKind::InvalidInput
        {
            self.warn(&error);
            self.lost += 1;
        }
    }

    /// Warns of the first piece that is lost; the others would say the same.
    fn warn(&self, error: &io::Error) {
        if self.lost == 0 {
            tracing::warn!(path = %self.path.display(), %error, "metrics cannot be written; the training goes on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room.
    #[derive(Debug)]
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room - self.bytes.len());
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Store for Disk {
        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.bytes.truncate(len as usize);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_fills_and_empties_has_whole_pieces() {
        let disk = Disk { bytes: Vec::new(), room: 10 };
        let mut appended = Appended { path: "disk".into(), file: Some(disk), len: 0, lost: 0 };
        for piece in ["one\n", "two\n", "three\n", "four\n"] {
            appended.append(piece.as_bytes());
        }
        if let Some(disk) = &mut appended.file {
            disk.room = 100;
        }
        appended.append(b"five\n");
        assert_eq!((appended.file.unwrap().bytes, appended.lost), (b"one\ntwo\nfive\n".to_vec(), 2));
    }
}
