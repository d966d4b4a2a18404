//! The folder where what was fetched is kept: for each version of an object its blocks, in their places in a sparse file, and a
//! list of the blocks that are there with their checksums.
//!
//! A block is believed only if its checksum is right, each time it is read. So a crash, another process that makes room, or a
//! damaged disk cost a request and nothing else.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::FallocateFlags;
use sha2::{Digest, Sha256};
use trust::Sticky;
use weights::ObjectVersion;

use crate::error::DataError;
use crate::hex::hex;

/// Begins the list of blocks; the number is its version.
const MAGIC: &[u8; 16] = b"tpubridge data 1";

/// Bytes of a block's place in the list: its number and its checksum.
const RECORD_BYTES: usize = 8;

/// The folder.
#[derive(Debug)]
pub(super) struct CacheFolder {
    path: PathBuf,
    max_bytes: u64,
    used_bytes: AtomicU64,
    /// Bytes that were added since the folder was last looked through.
    added_bytes: AtomicU64,
    /// Objects that this process has not opened, the longest unused first.
    others: Mutex<VecDeque<OtherObject>>,
}

#[derive(Clone, Debug)]
struct OtherObject {
    changed: SystemTime,
    key: String,
    bytes: u64,
}

/// The file of one version of an object.
#[derive(Debug)]
pub(super) struct CachedObject {
    pub(super) key: String,
    path: PathBuf,
    data: File,
    list: File,
}

impl CacheFolder {
    pub(super) fn open(path: &Path, max_bytes: Option<u64>, least_bytes: u64) -> Result<CacheFolder, DataError> {
        trust::create_private_folder(path).map_err(DataError::io("making", path))?;
        if let Some(distrusted) = trust::distrust(path, Sticky::Refused) {
            return Err(DataError::Options(format!("data.cache_dir: {distrusted}; {}", distrusted.remedy())));
        }
        let others = looked_through(path).map_err(DataError::io("reading", path))?;
        let used_bytes: u64 = others.iter().map(|other| other.bytes).sum();
        let max_bytes = match max_bytes {
            Some(bytes) => bytes,
            None => {
                let disk = rustix::fs::statvfs(path).map_err(|error| DataError::io("reading", path)(error.into()))?;
                (disk.f_bavail.saturating_mul(disk.f_frsize) + used_bytes) / 2
            }
        };
        Ok(CacheFolder {
            path: path.to_path_buf(),
            max_bytes: max_bytes.max(least_bytes),
            used_bytes: AtomicU64::new(used_bytes),
            added_bytes: AtomicU64::new(0),
            others: Mutex::new(others),
        })
    }

    /// Opens the file of a version, with the checksums of the blocks that it says it has.
    pub(super) fn object(
        &self,
        address: &str,
        version: &ObjectVersion,
        block_bytes: u64,
    ) -> Result<(CachedObject, Vec<(u32, u32)>), DataError> {
        let mut key = Sha256::new();
        key.update(format!("{address}\n{}\n{block_bytes}\n{:?}", version.size_bytes, version.tag));
        let key = hex(key.finalize().get(..16).unwrap_or_default());
        let (data_path, list_path) = (self.path.join(format!("{key}.data")), self.path.join(format!("{key}.blocks")));
        lock(&self.others).retain(|other| other.key != key);
        let opening = || DataError::io("opening", &data_path);
        if version.tag.is_none() {
            // Nothing tells whether it is still the same.
            remove(&data_path).and_then(|()| remove(&list_path)).map_err(opening())?;
        }
        let mut known = read_list(&list_path).map_err(opening())?;
        if known.is_none() {
            remove(&data_path).and_then(|()| remove(&list_path)).map_err(opening())?;
            let mut list = weights::unfinished_file(&self.path, ".tmp").map_err(opening())?;
            list.write_all(MAGIC).map_err(opening())?;
            // Where another process was faster, its list is as good.
            if let Err(error) = list.persist_noclobber(&list_path)
                && error.error.kind() != std::io::ErrorKind::AlreadyExists
            {
                return Err(opening()(error.error));
            }
            known = read_list(&list_path).map_err(opening())?;
        }
        let list = OpenOptions::new().append(true).open(&list_path).map_err(opening())?;
        let data = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&data_path);
        let data = data.map_err(opening())?;
        data.set_len(version.size_bytes).map_err(opening())?;
        // Says when it was last used.
        let _ = data.set_modified(SystemTime::now());
        Ok((CachedObject { key, path: data_path, data, list }, known.unwrap_or_default()))
    }

    /// Counts what was written.
    pub(super) fn add(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.added_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// How many bytes of opened objects must go so that there is room again. Objects that nobody opened go first.
    pub(super) fn make_room(&self, is_open: impl Fn(&str) -> bool) -> u64 {
        // Other processes may use the folder too: now and then it is counted anew.
        if self.added_bytes.load(Ordering::Relaxed) > self.max_bytes / 16 {
            self.added_bytes.store(0, Ordering::Relaxed);
            if let Ok(found) = looked_through(&self.path) {
                self.used_bytes.store(found.iter().map(|other| other.bytes).sum(), Ordering::Relaxed);
                *lock(&self.others) = found.into_iter().filter(|other| !is_open(&other.key)).collect();
            }
        }
        if self.used_bytes() <= self.max_bytes {
            return 0;
        }
        let goal = self.max_bytes - self.max_bytes / 16;
        while self.used_bytes() > goal {
            let Some(other) = lock(&self.others).pop_front() else { break };
            let gone = ["data", "blocks"].map(|ending| remove(&self.path.join(format!("{}.{ending}", other.key))));
            if gone.iter().all(Result::is_ok) {
                self.remove_bytes(other.bytes);
            }
        }
        self.used_bytes().saturating_sub(goal)
    }

    pub(super) fn remove_bytes(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl CachedObject {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.data.write_all_at(bytes, offset)
    }

    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.data.read_exact_at(bytes, offset)
    }

    /// Adds blocks to the list, in one write, so that lists of several processes do not mix.
    pub(super) fn note(&self, blocks: &[(u32, u32)]) -> std::io::Result<()> {
        let bytes: Vec<u8> =
            blocks.iter().flat_map(|(block, sum)| [block.to_le_bytes(), sum.to_le_bytes()].concat()).collect();
        (&self.list).write_all(&bytes)
    }

    /// Gives the room of a range back to the disk.
    pub(super) fn punch(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.data, flags, offset, bytes)?)
    }
}

/// The objects of the folder, the longest unused first.
fn looked_through(folder: &Path) -> std::io::Result<VecDeque<OtherObject>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name();
        let Some(key) = name.to_str().and_then(|name| name.strip_suffix(".data")) else { continue };
        // What is gone by now counts for nothing.
        let Ok(metadata) = file.metadata() else { continue };
        let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        found.push(OtherObject { changed, key: key.to_string(), bytes: metadata.blocks().saturating_mul(512) });
    }
    found.sort_by_key(|other| other.changed);
    Ok(found.into())
}

/// Blocks and checksums; none where the list is missing, damaged or of another version.
fn read_list(path: &Path) -> std::io::Result<Option<Vec<(u32, u32)>>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_LIST_BYTES).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(records) = bytes.strip_prefix(MAGIC) else { return Ok(None) };
    if bytes.len() as u64 == MAX_LIST_BYTES || !records.len().is_multiple_of(RECORD_BYTES) {
        return Ok(None);
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte));
    Ok(Some(records.chunks_exact(RECORD_BYTES).map(|one| (number(&one[..4]), number(&one[4..]))).collect()))
}

/// A list that grew longer than this, by blocks that came and went, begins anew.
const MAX_LIST_BYTES: u64 = 64 << 20;

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
