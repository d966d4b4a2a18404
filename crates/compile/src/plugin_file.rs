//! A plugin's library file: which one it is, told without loading it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cache::PluginParts;
use crate::error::CompileError;

/// Bytes hashed from each end of a library that carries no build id.
const SAMPLE_BYTES: u64 = 1 << 20;

/// A plugin's library and its identity.
#[derive(Clone, Debug)]
pub struct PluginFile {
    /// The library.
    pub path: PathBuf,
    /// What goes into cache keys.
    pub parts: PluginParts,
}

impl PluginFile {
    /// Reads the identity of the library at `path`.
    pub fn open(path: &Path) -> Result<PluginFile, CompileError> {
        let failed = |source| CompileError::io("reading the plugin", path, source);
        let mut file = File::open(path).map_err(failed)?;
        let build = match elf_build_id(&mut file).map_err(failed)? {
            Some(id) => id,
            None => sampled_digest(&mut file).map_err(failed)?,
        };
        let name = path.file_stem().map_or_else(|| "plugin".into(), |stem| stem.to_string_lossy().into_owned());
        let version = pjrt::discover::package_of(path).map(|package| package.version);
        Ok(PluginFile { path: path.to_path_buf(), parts: PluginParts { name, version, build } })
    }
}

/// The GNU build id of a 64-bit little-endian ELF file, in hexadecimal; `None` if it has none or is no such file.
fn elf_build_id(file: &mut File) -> io::Result<Option<String>> {
    let Some(header) = read_at(file, 0, 64)? else { return Ok(None) };
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (table, entry_size, entries) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    if entry_size < 56 {
        return Ok(None);
    }
    for index in 0..u64::from(entries) {
        let at = table.saturating_add(index * u64::from(entry_size));
        let Some(segment) = read_at(file, at, 56)? else { return Ok(None) };
        const PT_NOTE: u32 = 4;
        if u32_at(&segment, 0) != PT_NOTE {
            continue;
        }
        let size = u64_at(&segment, 32).min(64 << 10) as usize;
        if let Some(notes) = read_at(file, u64_at(&segment, 8), size)?
            && let Some(id) = build_id_note(&notes)
        {
            return Ok(Some(id.iter().map(|b| format!("{b:02x}")).collect()));
        }
    }
    Ok(None)
}

fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    while notes.len() >= 12 {
        let (name_len, desc_len) = (u32_at(notes, 0) as usize, u32_at(notes, 4) as usize);
        let kind = u32_at(notes, 8);
        let name_end = 12usize.checked_add(name_len.checked_next_multiple_of(4)?)?;
        let desc_end = name_end.checked_add(desc_len)?;
        let name = notes.get(12..12 + name_len)?;
        let description = notes.get(name_end..desc_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && !description.is_empty() {
            return Some(description);
        }
        notes = notes.get(desc_end.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn sampled_digest(file: &mut File) -> io::Result<String> {
    let size = file.seek(SeekFrom::End(0))?;
    let mut hasher = Sha256::new();
    hasher.update(size.to_le_bytes());
    for start in [0, size.saturating_sub(SAMPLE_BYTES)] {
        file.seek(SeekFrom::Start(start))?;
        let mut sample = Vec::new();
        file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample)?;
        hasher.update(&sample);
    }
    Ok(hasher.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect())
}

/// `None` when the file ends before that.
fn read_at(file: &mut File, at: u64, size: usize) -> io::Result<Option<Vec<u8>>> {
    // No file is that long, and seeking there is an error of its own.
    if i64::try_from(at).is_err() {
        return Ok(None);
    }
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start(at))?;
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_has_a_stable_identity() {
        let path = std::env::current_exe().unwrap();
        let (first, second) = (PluginFile::open(&path).unwrap(), PluginFile::open(&path).unwrap());
        assert_eq!(first.parts, second.parts);
        assert!(!first.parts.build.is_empty());
    }

    #[test]
    fn files_without_a_build_id_are_told_apart_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let id = |bytes: &[u8]| {
            let path = folder.path().join("p.so");
            std::fs::write(&path, bytes).unwrap();
            PluginFile::open(&path).unwrap().parts.build
        };
        assert_ne!(id(b"one"), id(b"two"));
        let mut hostile = b"\x7fELF\x02\x01".to_vec();
        hostile.resize(200, 0xff);
        assert!(!id(&hostile).is_empty());
    }

    #[test]
    fn the_version_comes_from_the_installation() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("site-packages");
        std::fs::create_dir_all(site.join("libtpu")).unwrap();
        std::fs::create_dir_all(site.join("libtpu-0.0.51.dist-info")).unwrap();
        std::fs::write(site.join("libtpu/libtpu.so"), b"x").unwrap();
        assert_eq!(PluginFile::open(&site.join("libtpu/libtpu.so")).unwrap().parts.version.as_deref(), Some("0.0.51"));
        let managed = folder.path().join("plugins/libtpu/0.0.50");
        std::fs::create_dir_all(&managed).unwrap();
        std::fs::write(managed.join("libtpu.so"), b"x").unwrap();
        assert_eq!(PluginFile::open(&managed.join("libtpu.so")).unwrap().parts.version.as_deref(), Some("0.0.50"));
    }
}
