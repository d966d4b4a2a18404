//! Reading a wheel: its name and version, its library, its licences; nothing else is ever unpacked.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use zip::ZipArchive;

use super::hash::{self, CopyError};
use super::package::Package;
use crate::Error;

const MAX_MEMBERS: usize = 10_000;
/// Most bytes of a wheel.
pub(super) const MAX_WHEEL_BYTES: u64 = 4 << 30;
/// Most bytes of a plugin's library.
pub(super) const MAX_LIBRARY_BYTES: u64 = 4 << 30;
const MAX_METADATA_BYTES: u64 = 1 << 20;
/// Most bytes of a licence file.
pub(super) const MAX_LICENCE_BYTES: u64 = 16 << 20;
/// Most licence files kept.
pub(super) const MAX_LICENCES: usize = 32;
/// Folder of licence files in a plugin's folder.
pub(super) const LICENCE_DIR: &str = "licenses";

/// An open wheel whose metadata was read.
pub(super) struct Wheel {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    /// Package name as the metadata writes it.
    pub(super) name: String,
    /// Package version.
    pub(super) version: String,
}

impl Wheel {
    /// Opens a wheel and reads its metadata.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Self::read(path, open_file(path)?)
    }

    /// Reads the metadata of a wheel that is open; `path` is what errors call it.
    pub(super) fn read(path: &Path, file: File) -> Result<Self, Error> {
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| damaged(path, "not a wheel", e))?;
        if archive.len() > MAX_MEMBERS {
            return Err(Error::wheel(path, format!("{} members; no plugin's wheel has that many", archive.len())));
        }
        let metadata = archive
            .file_names()
            .find(|n| n.ends_with(".dist-info/METADATA") && n.matches('/').count() == 1)
            .map(str::to_owned)
            .ok_or_else(|| Error::wheel(path, "not a wheel: no METADATA in it"))?;
        let text = small_member(path, &mut archive, &metadata, MAX_METADATA_BYTES)?;
        let text = String::from_utf8_lossy(&text);
        let field = |name: &str| {
            let headers = text.lines().take_while(|line| !line.is_empty());
            headers.filter_map(|line| line.split_once(':')).find(|(k, _)| k.eq_ignore_ascii_case(name))
        };
        let (Some((_, name)), Some((_, version))) = (field("Name"), field("Version")) else {
            return Err(Error::wheel(path, "not a wheel: its METADATA has no name or version"));
        };
        let (name, version) = (name.trim().to_owned(), version.trim().to_owned());
        Ok(Self { path: path.to_owned(), archive, name, version })
    }

    /// Size the package's library will have; `None` when it is not in the wheel.
    pub(super) fn library_bytes(&mut self, package: &Package) -> Option<u64> {
        self.archive.by_name(package.member).ok().map(|m| m.size())
    }

    /// Writes the package's library to `into`, giving its size and hash.
    pub(super) fn unpack_library(
        &mut self,
        package: &Package,
        into: &Path,
        cancel: &AtomicBool,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<hash::Copied, Error> {
        let path = &self.path;
        let mut member = self
            .archive
            .by_name(package.member)
            .map_err(|e| damaged(path, format!("no {} in the wheel", package.member), e))?;
        let declared_bytes = member.size();
        if declared_bytes > MAX_LIBRARY_BYTES {
            return Err(Error::wheel(path, format!("{} would be {declared_bytes} bytes", package.member)));
        }
        let target = into.join(package.file);
        let mut out = File::create_new(&target).map_err(Error::io("create", &target))?;
        // One byte more than declared: a member that goes on is damaged, and must not fill the disk.
        let mut bounded = Read::by_ref(&mut member).take(declared_bytes + 1);
        let copied = hash::copy(&mut bounded, &mut out, cancel, on_bytes).map_err(|e| match e {
            CopyError::Read(source) => damaged(path, format!("{} is damaged", package.member), source),
            CopyError::Write(source) => Error::io("write", &target)(source),
            CopyError::Cancelled => Error::Cancelled,
        })?;
        if copied.bytes != declared_bytes {
            return Err(Error::wheel(path, format!("{} is not as long as declared", package.member)));
        }
        Ok(copied)
    }

    /// Writes the licence files to a folder in `into`.
    pub(super) fn unpack_licences(&mut self, into: &Path) -> Result<(), Error> {
        let names = self.archive.file_names().filter(|n| is_licence(n));
        let members: Vec<String> = names.take(MAX_LICENCES).map(str::to_owned).collect();
        for member in &members {
            let bytes = small_member(&self.path, &mut self.archive, member, MAX_LICENCE_BYTES)?;
            write_licence(into, member, &bytes)?;
        }
        Ok(())
    }
}

/// Opens a wheel's file, which must be a file of a size that a wheel can have.
pub(super) fn open_file(path: &Path) -> Result<File, Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let metadata = file.metadata().map_err(Error::io("look at", path))?;
    if !metadata.is_file() {
        return Err(Error::wheel(path, "not a file"));
    }
    if metadata.len() > MAX_WHEEL_BYTES {
        return Err(Error::wheel(path, format!("{} bytes; no plugin's wheel has that many", metadata.len())));
    }
    Ok(file)
}

/// Whether a path in a package is a licence or notice, by its file name.
pub(super) fn is_licence(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain = !name.is_empty()
        && name.len() <= 128
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let upper = name.to_ascii_uppercase();
    plain && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "THIRD_PARTY_NOTICES"].iter().any(|l| upper.contains(l))
}

/// Writes one licence under its file name; of two with the same name the first is kept.
pub(super) fn write_licence(into: &Path, member: &str, bytes: &[u8]) -> Result<(), Error> {
    let dir = into.join(LICENCE_DIR);
    std::fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
    let target = dir.join(member.rsplit('/').next().unwrap_or(member));
    if target.exists() {
        return Ok(());
    }
    std::fs::write(&target, bytes).map_err(Error::io("write", &target))
}

fn small_member(
    path: &Path,
    archive: &mut ZipArchive<BufReader<File>>,
    member: &str,
    limit_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let what = || format!("{member} is damaged");
    let mut bytes = Vec::new();
    let entry = archive.by_name(member).map_err(|e| damaged(path, what(), e))?;
    entry.take(limit_bytes + 1).read_to_end(&mut bytes).map_err(|e| damaged(path, what(), e))?;
    if bytes.len() as u64 > limit_bytes {
        return Err(Error::wheel(path, format!("{member} is too long")));
    }
    Ok(bytes)
}

fn damaged(path: &Path, what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Wheel { path: path.to_owned(), what: what.into(), source: Some(Box::new(source)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_told_by_name() {
        for yes in
            ["libtpu/LICENSE", "libtpu/SDK_THIRD_PARTY_NOTICES.txt", "a.dist-info/licenses/LICENSE.md", "COPYING"]
        {
            assert!(is_licence(yes), "{yes}");
        }
        for no in ["libtpu/libtpu.so", "LICENSE/", "a/.LICENSE", "a/LICENSE\n", "a/..", ""] {
            assert!(!is_licence(no), "{no}");
        }
    }
}
