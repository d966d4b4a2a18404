//! Bundles: a set of entries in one file, to carry a warm cache to another machine.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::disk::{Disk, unfinished_file};
use super::entry::CacheEntry;
use super::key::CacheKey;
use crate::error::CompileError;

/// Version of the bundle format.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 12] = b"tpubridge-cb";
/// No single entry is larger: bounds what a hostile bundle can make us read at once.
const MAX_ENTRY_BYTES: u64 = 8 << 30;

/// What an export or import moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Entries written.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that were there already, or could not be read.
    pub skipped: u64,
}

pub(crate) fn export(disk: &Disk, keys: Option<&[CacheKey]>, path: &Path) -> Result<Moved, CompileError> {
    let failed = |source| CompileError::io("writing the bundle", path, source);
    let mut moved = Moved::default();
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = unfinished_file(folder).map_err(failed)?;
    {
        let mut out = BufWriter::new(file.as_file_mut());
        out.write_all(MAGIC).and_then(|()| out.write_all(&FORMAT.to_le_bytes())).map_err(failed)?;
        let entries = disk.list().map_err(|source| CompileError::io("listing the cache", disk.root(), source))?;
        for listed in entries.iter().filter(|e| keys.is_none_or(|keys| keys.contains(&e.key))) {
            let Some(bytes) = fs::read(&listed.path).ok().filter(|b| CacheEntry::decode(b).is_ok()) else {
                moved.skipped += 1;
                continue;
            };
            out.write_all(&(bytes.len() as u64).to_le_bytes()).and_then(|()| out.write_all(&bytes)).map_err(failed)?;
            moved.entries += 1;
            moved.bytes += bytes.len() as u64;
        }
        out.write_all(&0u64.to_le_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(moved)
}

pub(crate) fn import(disk: &Disk, path: &Path) -> Result<Moved, CompileError> {
    let failed = |source| CompileError::io("reading the bundle", path, source);
    let bad = |why: &str| CompileError::Bundle { path: path.to_path_buf(), message: why.to_string() };
    let mut input = BufReader::new(File::open(path).map_err(failed)?);
    let mut head = [0u8; 16];
    input.read_exact(&mut head).map_err(|_| bad("it is too short to be a bundle"))?;
    if &head[..12] != MAGIC {
        return Err(bad("it is not a tpubridge bundle"));
    }
    let version = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
    if version != FORMAT {
        return Err(bad(&format!("it has format version {version}, this program reads {FORMAT}")));
    }
    let mut moved = Moved::default();
    loop {
        let mut length = [0u8; 8];
        input.read_exact(&mut length).map_err(|_| bad("it is cut short"))?;
        let length = u64::from_le_bytes(length);
        if length == 0 {
            return Ok(moved);
        }
        if length > MAX_ENTRY_BYTES {
            return Err(bad("an entry's length is beyond any real entry"));
        }
        let mut bytes = Vec::new();
        let read = io::copy(&mut (&mut input).take(length), &mut bytes).map_err(failed)?;
        if read != length {
            return Err(bad("it is cut short"));
        }
        let Ok(entry) = CacheEntry::decode(&bytes) else {
            moved.skipped += 1;
            continue;
        };
        let key = entry.parts.key();
        if matches!(disk.read(&key), Ok(super::disk::Read::Found(_))) {
            moved.skipped += 1;
            continue;
        }
        disk.write_encoded(&key, &bytes)
            .map_err(|source| CompileError::io("writing to the cache", disk.root(), source))?;
        moved.entries += 1;
        moved.bytes += length;
    }
}
