//! A file of data, wherever it is: on this machine or elsewhere.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::DataError;
use super::mapped::Mapped;
use super::remote::{RemoteFile, RemoteFileReader};

/// A file of data.
#[derive(Clone, Debug)]
pub enum DataFile {
    /// On this machine.
    Local(PathBuf),
    /// Elsewhere.
    Remote(RemoteFile),
}

impl From<&Path> for DataFile {
    fn from(path: &Path) -> DataFile {
        DataFile::Local(path.to_path_buf())
    }
}

impl From<RemoteFile> for DataFile {
    fn from(file: RemoteFile) -> DataFile {
        DataFile::Remote(file)
    }
}

impl DataFile {
    /// Its path or address, for people.
    pub fn path(&self) -> &Path {
        match self {
            DataFile::Local(path) => path,
            DataFile::Remote(file) => Path::new(file.address()),
        }
    }

    /// Reads all of a small file.
    pub(crate) fn read_all(&self, max_bytes: u64) -> Result<Vec<u8>, DataError> {
        let path = self.path();
        let too_large = || DataError::format(path, format!("it is not a file of up to {max_bytes} bytes"));
        match self {
            DataFile::Local(path) => {
                let opened = File::open(path).map_err(DataError::io("opening", path))?;
                let metadata = opened.metadata().map_err(DataError::io("opening", path))?;
                if metadata.is_dir() || metadata.len() > max_bytes {
                    return Err(too_large());
                }
                // A pipe has no length, and may have no end.
                let mut bytes = Vec::with_capacity(metadata.len() as usize);
                let limit = max_bytes.saturating_add(1);
                opened.take(limit).read_to_end(&mut bytes).map_err(DataError::io("reading", path))?;
                if bytes.len() as u64 > max_bytes { Err(too_large()) } else { Ok(bytes) }
            }
            DataFile::Remote(file) if file.size_bytes() > max_bytes => Err(too_large()),
            DataFile::Remote(file) => file.read_at(0..file.size_bytes()),
        }
    }

    /// Reads it from begin to end.
    pub(crate) fn reader(&self) -> Result<DataReader, DataError> {
        Ok(match self {
            DataFile::Local(path) => DataReader::Local(File::open(path).map_err(DataError::io("opening", path))?),
            DataFile::Remote(file) => DataReader::Remote(file.reader()),
        })
    }
}

/// A file of data from begin to end.
#[derive(Debug)]
pub(crate) enum DataReader {
    Local(File),
    Remote(RemoteFileReader),
}

impl Read for DataReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            DataReader::Local(file) => file.read(into),
            DataReader::Remote(file) => file.read(into),
        }
    }
}

impl DataReader {
    /// Whether more is known of an error than an I/O error says.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, DataReader::Remote(file) if file.is_failed())
    }

    /// What is wrong, after an error of reading.
    pub(crate) fn failed(&mut self, path: &Path, error: std::io::Error) -> DataError {
        let known = match self {
            DataReader::Local(_) => None,
            DataReader::Remote(file) => file.take_error(),
        };
        known.unwrap_or_else(|| DataError::io("reading", path)(error))
    }
}

/// A file of data whose bytes are read anywhere.
#[derive(Debug)]
pub(crate) enum Contents {
    Mapped(Mapped),
    Remote(RemoteFile),
}

impl Contents {
    pub(crate) fn open(file: &DataFile) -> Result<Contents, DataError> {
        Ok(match file {
            DataFile::Local(path) => Contents::Mapped(Mapped::open(path)?),
            DataFile::Remote(file) => Contents::Remote(file.clone()),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Contents::Mapped(mapped) => mapped.path(),
            Contents::Remote(file) => Path::new(file.address()),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Contents::Mapped(mapped) => mapped.len(),
            Contents::Remote(file) => file.size_bytes(),
        }
    }

    /// These bytes, all of them.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, DataError> {
        match self {
            Contents::Mapped(mapped) => {
                let bytes = mapped.bytes()?.get(range.start as usize..range.end as usize);
                bytes.map(Cow::Borrowed).ok_or_else(|| DataError::Shrunk { path: mapped.path().to_path_buf() })
            }
            Contents::Remote(file) => file.read_at(range).map(Cow::Owned),
        }
    }
}

/// A file that is opened for a few reads.
#[derive(Debug)]
pub(crate) enum OpenedFile {
    Local(PathBuf, File, u64),
    Remote(RemoteFile),
}

impl OpenedFile {
    pub(crate) fn open(file: &DataFile) -> Result<OpenedFile, DataError> {
        Ok(match file {
            DataFile::Local(path) => {
                let opened = File::open(path).map_err(DataError::io("opening", path))?;
                let size_bytes = opened.metadata().map_err(DataError::io("opening", path))?.len();
                OpenedFile::Local(path.clone(), opened, size_bytes)
            }
            DataFile::Remote(file) => OpenedFile::Remote(file.clone()),
        })
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            OpenedFile::Local(_, _, size_bytes) => *size_bytes,
            OpenedFile::Remote(file) => file.size_bytes(),
        }
    }

    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, DataError> {
        match self {
            OpenedFile::Local(path, file, _) => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                file.read_exact_at(&mut bytes, range.start).map_err(DataError::io("reading", path))?;
                Ok(bytes)
            }
            OpenedFile::Remote(file) => file.read_at(range),
        }
    }
}
