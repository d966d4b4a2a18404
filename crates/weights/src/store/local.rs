//! A folder as a store: a temporary name, an fsync, a rename, and an fsync of the folder.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::StoredObject;
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
        make_folder(folder).map_err(Error::io("making the folder", folder))?;
        let file = unfinished_file(folder, UNFINISHED);
        Ok(LocalWriter { file: file.map_err(Error::io("writing", &path))?, path })
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
            Err(TryLockError::WouldBlock) => Err(Error::Busy { location: self.root.display().to_string() }),
            // Some network file systems have no locks. A lock is only a guard against a mistake, so saving goes on.
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
