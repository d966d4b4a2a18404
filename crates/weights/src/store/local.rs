//! A folder as a store: a temporary name, an fsync, a rename, and an fsync of the folder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{RecordVersion, StoredObject, Swap};
use crate::error::Error;
use crate::unfinished::unfinished_file;

/// Held while a process saves; the system lets go of it when the process ends, however it ends.
const LOCK_FILE: &str = ".lock";

/// Begins the names of files that are not finished.
const UNFINISHED: &str = ".unfinished-";

/// Deeper folders are nothing we wrote.
const MAX_DEPTH: usize = 8;

#[derive(Debug)]
pub(super) struct LocalFolder {
    root: PathBuf,
}

#[derive(Debug)]
pub(super) struct LocalWriter {
    file: NamedTempFile,
    path: PathBuf,
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl LocalFolder {
    pub(super) fn new(root: &Path) -> LocalFolder {
        LocalFolder { root: root.to_path_buf() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn write(&self, name: &str) -> Result<LocalWriter, Error> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.root);
        for is_last in [false, false, true] {
            make_folder(folder).map_err(Error::io("making the folder", folder))?;
            match unfinished_file(folder, UNFINISHED) {
                Ok(file) => return Ok(LocalWriter { file, path }),
                // Somebody removed the empty folder between the two.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => {}
                Err(error) => return Err(Error::io("writing", &path)(error)),
            }
        }
        Err(Error::io("writing", &path)(io::ErrorKind::NotFound.into()))
    }

    /// The version of a record is the largest number for which it has a file.
    pub(super) fn read_record(&self, name: &str, max_bytes: usize) -> Result<Option<(Vec<u8>, RecordVersion)>, Error> {
        loop {
            let Some(newest) = self.record_numbers(name)?.into_iter().max() else { return Ok(None) };
            let path = self.record_path(name, newest);
            let read = File::open(&path).and_then(|file| {
                let mut bytes = Vec::new();
                file.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
                Ok(bytes)
            });
            match read {
                Ok(bytes) if bytes.len() > max_bytes => {
                    return Err(Error::format(path, format!("more than {max_bytes} bytes are not read")));
                }
                Ok(bytes) => return Ok(Some((bytes, RecordVersion::Number(newest)))),
                // A newer one has taken its place.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("reading", &path)(error)),
            }
        }
    }

    /// Makes the file of the next number, which one process alone can do, also on network file systems: a link to a file that
    /// is whole, whose name must not be there yet. Numbers below the largest mean nothing, so old ones are deleted. A process that
    /// slept may make one of them again; it sees the larger number then.
    pub(super) fn swap_record(&self, name: &str, expected: u64, bytes: &[u8]) -> Result<Swap, Error> {
        let number = expected + 1;
        let path = self.record_path(name, number);
        let writing = || Error::io("writing", &path);
        make_folder(&self.root).map_err(Error::io("making the folder", &self.root))?;
        let mut file = unfinished_file(&self.root, UNFINISHED).map_err(writing())?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(writing())?;
        match fs::hard_link(file.path(), &path) {
            Ok(()) => {}
            // On a network file system the answer may be lost, not the link.
            Err(_) if fs::metadata(file.path()).is_ok_and(|found| found.nlink() == 2) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Swap::Lost),
            Err(error) => return Err(writing()(error)),
        }
        drop(file);
        sync_folder(&self.root).map_err(writing())?;
        let numbers = self.record_numbers(name)?;
        if numbers.iter().any(|other| *other > number) {
            let _ = fs::remove_file(&path);
            return Ok(Swap::Lost);
        }
        for old in numbers.into_iter().filter(|other| *other < number) {
            // Best effort: the next one tries again.
            let _ = fs::remove_file(self.record_path(name, old));
        }
        Ok(Swap::Done(RecordVersion::Number(number)))
    }

    fn record_path(&self, name: &str, number: u64) -> PathBuf {
        self.path(&format!("{name}-{number:010}.json"))
    }

    fn record_numbers(&self, name: &str) -> Result<Vec<u64>, Error> {
        let listing = || Error::io("listing", &self.root);
        let mut numbers = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
            entries => entries.map_err(listing())?,
        };
        for entry in entries {
            let Ok(file) = entry.map_err(listing())?.file_name().into_string() else { continue };
            let number = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".json"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()).filter(|number| *number < u64::MAX));
        }
        Ok(numbers)
    }

    pub(super) fn read(&self, name: &str, offset: u64, size_bytes: usize) -> Result<Vec<u8>, Error> {
        let path = self.path(name);
        let file = File::open(&path).map_err(|error| read_error(&path, error))?;
        let mut bytes = vec![0; size_bytes];
        file.read_exact_at(&mut bytes, offset).map_err(|error| read_error(&path, error))?;
        Ok(bytes)
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<StoredObject>, Error> {
        let mut objects = Vec::new();
        let mut pending = vec![(prefix.to_string(), 0)];
        while let Some((name, depth)) = pending.pop() {
            let folder = if name.is_empty() { self.root.clone() } else { self.path(&name) };
            let listing = || Error::io("listing", &folder);
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(listing()(error)),
            };
            for entry in entries {
                let entry = entry.map_err(listing())?;
                // A name that is no text is not one of ours.
                let Ok(file_name) = entry.file_name().into_string() else { continue };
                let name = if name.is_empty() { file_name } else { format!("{name}/{file_name}") };
                let kind = entry.file_type().map_err(listing())?;
                if kind.is_dir() {
                    if depth < MAX_DEPTH {
                        pending.push((name, depth + 1));
                    }
                    continue;
                }
                match fs::metadata(entry.path()) {
                    Ok(found) if found.is_file() => objects.push(StoredObject { name, size_bytes: found.len() }),
                    Ok(_) => {}
                    // It went away meanwhile, or is a link to nothing.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(listing()(error)),
                }
            }
        }
        Ok(objects)
    }

    pub(super) fn remove_unfinished(&self) -> Result<(), Error> {
        let listing = || Error::io("listing", &self.root);
        for entry in fs::read_dir(&self.root).map_err(listing())? {
            let entry = entry.map_err(listing())?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                // One that is being written by a run that was replaced is its loss.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    pub(super) fn folders(&self) -> Result<Vec<String>, Error> {
        let listing = || Error::io("listing", &self.root);
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
            entries => entries.map_err(listing())?,
        };
        for entry in entries {
            let entry = entry.map_err(listing())?;
            if entry.file_type().map_err(listing())?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result.map_err(Error::io("deleting", &path))?,
        }
        path.parent().map_or(Ok(()), sync_folder).map_err(Error::io("deleting", &path))
    }

    pub(super) fn remove_empty_folder(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::remove_dir(&path) {
            Ok(()) => sync_folder(&self.root).map_err(Error::io("deleting", &path)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Ok(()),
            Err(error) => Err(Error::io("deleting", &path)(error)),
        }
    }

    pub(super) fn lock(&self) -> Result<Option<Lock>, Error> {
        make_folder(&self.root).map_err(Error::io("making the folder", &self.root))?;
        let path = self.root.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path).map_err(Error::io("locking", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { location: self.root.display().to_string(), by: None }),
            // Some network file systems have no locks. The record of the owner keeps two writers apart there.
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }
}

/// What was listed before and cannot be read now, or ends early, is damage of the data; anything else is the disk's.
fn read_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::format(path, "it is missing"),
        io::ErrorKind::UnexpectedEof => Error::format(path, "it ends too early"),
        _ => Error::io("reading", path)(error),
    }
}

impl LocalWriter {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io("writing", &self.path))
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        let LocalWriter { file, path } = self;
        let writing = || Error::io("writing", &path);
        file.as_file().sync_all().map_err(writing())?;
        file.persist(&path).map_err(|error| writing()(error.error))?;
        // The name is safe only when the folder is.
        path.parent().map_or(Ok(()), sync_folder).map_err(writing())
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// Makes a folder and those above it, each of them safe against a crash.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new("."));
    make_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        result => result.and_then(|()| sync_folder(above)),
    }
}
