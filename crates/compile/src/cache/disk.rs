//! The disk level: one file an entry, written whole or not at all, safe under concurrent processes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;
use trust::{Sticky, create_private_folder, distrust};

use super::entry::{CacheEntry, FORMAT, Unreadable};
use super::key::{CacheKey, KeyParts};
use super::stats::Stats;
use crate::error::CompileError;

/// Temporary files older than this were left by a process that died.
const STALE_TEMPORARY: Duration = Duration::from_secs(24 * 3600);

/// A cache folder. Layout: `v1/entries/ab/<key>`, `v1/aliases/ab/<key>`, `v1/locks/<key>`, `v1/tmp/`, `v1/stats.json`.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    max_bytes: u64,
}

/// One entry's file.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) key: CacheKey,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) used: SystemTime,
}

/// What reading an entry gave.
pub(crate) enum Read {
    Found(Box<CacheEntry>),
    Absent,
    Unreadable(Unreadable),
}

impl Disk {
    /// A folder that only this user, or root, can have written to.
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Result<Disk, CompileError> {
        let root = folder.join(format!("v{FORMAT}"));
        let mut inside = ["", "entries", "aliases", "locks", "tmp"].iter().map(|name| root.join(name));
        let distrusted =
            distrust(folder, Sticky::Allowed).or_else(|| inside.find_map(|inside| distrust(&inside, Sticky::Refused)));
        match distrusted {
            Some(distrusted) => Err(CompileError::CacheFolder(distrusted)),
            None => Ok(Disk { root, max_bytes }),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn sharded(&self, kind: &str, key: &CacheKey) -> PathBuf {
        let name = key.to_string();
        self.root.join(kind).join(&name[..2]).join(name)
    }

    pub(crate) fn read(&self, key: &CacheKey) -> io::Result<Read> {
        let path = self.sharded("entries", key);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Absent),
            Err(error) => return Err(error),
        };
        match CacheEntry::decode(&bytes) {
            // The content decides, not the file's name: a file copied to the wrong place must not answer.
            Ok(entry) if entry.parts.key() == *key => {
                touch(&path);
                Ok(Read::Found(Box::new(entry)))
            }
            Ok(_) => Ok(Read::Unreadable(Unreadable::Corrupt("the entry belongs to another key"))),
            Err(why) => Ok(Read::Unreadable(why)),
        }
    }

    /// Writes an entry and returns how many others were dropped to stay within the bound.
    pub(crate) fn write(&self, entry: &CacheEntry) -> io::Result<u64> {
        self.write_encoded(&entry.parts.key(), &entry.encode())
    }

    pub(crate) fn write_encoded(&self, key: &CacheKey, bytes: &[u8]) -> io::Result<u64> {
        self.write_atomically(&self.sharded("entries", key), bytes)?;
        self.evict(Some(key))
    }

    pub(crate) fn read_alias(&self, alias: &CacheKey) -> Option<CacheKey> {
        fs::read_to_string(self.sharded("aliases", alias)).ok()?.trim().parse().ok()
    }

    pub(crate) fn write_alias(&self, alias: &CacheKey, key: &CacheKey) -> io::Result<()> {
        self.write_atomically(&self.sharded("aliases", alias), key.to_string().as_bytes())
    }

    pub(crate) fn remove(&self, key: &CacheKey) -> io::Result<()> {
        match fs::remove_file(self.sharded("entries", key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Temporary name, fsync, rename: a reader sees the old file or the new one, never a part.
    fn write_atomically(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        persist(self.unfinished(bytes)?, path)
    }

    /// A file that is safe on the disk and has no place yet. It is for the owner alone, as temporary files are.
    pub(crate) fn unfinished(&self, bytes: &[u8]) -> io::Result<NamedTempFile> {
        let temporaries = self.root.join("tmp");
        create_private_folder(&temporaries)?;
        let mut file = NamedTempFile::new_in(&temporaries)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Makes entries of unfinished files; returns how many others were dropped to stay within the bound.
    pub(crate) fn keep(&self, entries: Vec<(CacheKey, NamedTempFile)>) -> io::Result<u64> {
        let mut evicted = 0;
        for (key, file) in entries {
            persist(file, &self.sharded("entries", &key))?;
            evicted += self.evict(Some(&key))?;
        }
        Ok(evicted)
    }

    /// Every entry, in no particular order.
    pub(crate) fn list(&self) -> io::Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for shard in read_dir_or_empty(&self.root.join("entries"))? {
            for file in read_dir_or_empty(&shard.path())? {
                let Some(key) = file.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                // A file may vanish between listing and looking: another process evicted it.
                let Ok(metadata) = file.metadata() else { continue };
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                listed.push(Listed { key, path: file.path(), bytes: metadata.len(), used });
            }
        }
        Ok(listed)
    }

    /// An entry's key parts without its blobs.
    pub(crate) fn read_parts(&self, listed: &Listed) -> Option<(KeyParts, f64, u64)> {
        CacheEntry::read_parts(io::BufReader::new(File::open(&listed.path).ok()?)).ok()
    }

    fn evict(&self, keep: Option<&CacheKey>) -> io::Result<u64> {
        let mut entries = self.list()?;
        let mut total: u64 = entries.iter().map(|e| e.bytes).sum();
        if total <= self.max_bytes {
            return Ok(0);
        }
        entries.sort_by_key(|e| e.used);
        let mut evicted = 0;
        for entry in entries {
            if total <= self.max_bytes {
                break;
            }
            if keep == Some(&entry.key) {
                continue;
            }
            if fs::remove_file(&entry.path).is_ok() {
                evicted += 1;
            }
            total = total.saturating_sub(entry.bytes);
        }
        Ok(evicted)
    }

    /// Removes every entry and alias; returns how many entries and bytes went.
    pub(crate) fn clear(&self) -> io::Result<(u64, u64)> {
        let entries = self.list()?;
        let mut freed = (0, 0);
        for entry in &entries {
            match fs::remove_file(&entry.path) {
                Ok(()) => freed = (freed.0 + 1, freed.1 + entry.bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        match fs::remove_dir_all(self.root.join("aliases")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(freed)
    }

    /// Holds the right to compile `key` until the returned file is dropped, also across processes and crashes.
    pub(crate) fn lock(&self, key: &CacheKey) -> io::Result<LockAttempt> {
        let folder = self.root.join("locks");
        create_private_folder(&folder)?;
        let path = folder.join(key.to_string());
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(LockAttempt::Held(Lock { _file: file, path })),
            Err(fs::TryLockError::WouldBlock) => Ok(LockAttempt::Busy),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        fs::read(self.root.join("stats.json")).ok().and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default()
    }

    /// Adds to the counters on disk. Losing a count is no reason to fail a compilation, so errors end here.
    pub(crate) fn add_stats(&self, delta: &Stats) {
        let update = || -> io::Result<()> {
            create_private_folder(&self.root)?;
            let path = self.root.join("stats.lock");
            let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
            lock.lock()?;
            let mut stats = self.stats();
            stats.add(delta);
            let bytes = serde_json::to_vec(&stats).map_err(io::Error::other)?;
            self.write_atomically(&self.root.join("stats.json"), &bytes)
        };
        let _ = update();
    }

    /// Removes temporary files of processes that died long ago.
    pub(crate) fn sweep(&self) {
        for file in read_dir_or_empty(&self.root.join("tmp")).unwrap_or_default() {
            let age = file.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age > STALE_TEMPORARY) {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_private_folder(parent)?;
    }
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Whether the right to compile was free.
pub(crate) enum LockAttempt {
    Held(Lock),
    Busy,
}

/// The right to compile one key.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while still held: whoever opened the old file re-checks the cache after locking and finds the entry.
        let _ = fs::remove_file(&self.path);
    }
}

fn read_dir_or_empty(path: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(entries.filter_map(Result::ok).collect()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Marks an entry as used now; on a read-only cache eviction order is nobody's concern.
fn touch(path: &Path) {
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}
