//! Bundles: a set of entries in one file, to carry a warm cache to another machine, and the signature beside it.
//!
//! An entry holds an executable, so a bundle is as good as a program: only a key that is trusted, or the caller's word, lets it in.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use trust::{
    FileDigest, FileSignature, KeyId, PublicKey, SecretKey, SignatureError, signature_comment, signature_path,
};

use crate::blob;
use crate::cache::{Cache, CacheEntry, CacheKey, Disk, Found};
use crate::error::CompileError;
use crate::program::Program;

/// Version of the bundle format.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 12] = b"tpubridge-cb";
/// No single entry is larger: bounds what a hostile bundle can make us read at once.
const MAX_ENTRY_BYTES: u64 = 8 << 30;
/// No bundle has more: bounds the files that wait for the signature to be checked.
const MAX_ENTRIES: usize = 100_000;

/// Who says that a bundle may be used.
#[derive(Clone, Copy, Debug)]
pub enum BundleTrust<'a> {
    /// One of these keys, by a signature in the file beside it (`FILE.minisig`).
    SignedBy(&'a [PublicKey]),
    /// The caller, who knows where it comes from. A signature is not looked at.
    Vouched,
}

/// What an export or import moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Moved {
    /// Entries written.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that were there already, or could not be read.
    pub skipped: u64,
    /// The key that signed the bundle.
    pub signed_by: Option<KeyId>,
}

impl Cache {
    /// Writes entries (all, or those named) to one file, and with a key its signature beside it.
    pub fn export(
        &self,
        keys: Option<&[CacheKey]>,
        path: &Path,
        sign: Option<&SecretKey>,
    ) -> Result<Moved, CompileError> {
        export(self.disk()?, keys, path, sign)
    }

    /// Adds the entries of a bundle that somebody vouches for: all of them, or none where it is not what was signed.
    pub fn import(&self, path: &Path, trust: BundleTrust<'_>) -> Result<Moved, CompileError> {
        import(self.disk()?, path, trust)
    }
}

/// What passes through is added to a digest.
struct Hashed<T> {
    inner: T,
    digest: FileDigest,
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.digest.update(&bytes[..read]);
        Ok(read)
    }
}

fn export(
    disk: &Disk,
    keys: Option<&[CacheKey]>,
    path: &Path,
    sign: Option<&SecretKey>,
) -> Result<Moved, CompileError> {
    let failed = |source| CompileError::io("writing the bundle", path, source);
    let mut moved = Moved::default();
    let file = unfinished_beside(path).map_err(failed)?;
    let digest = {
        let mut out = Hashed { inner: BufWriter::new(file.as_file()), digest: FileDigest::new() };
        write_entries(&mut out, disk, keys, &mut moved).map_err(failed)?;
        out.digest
    };
    file.as_file().sync_all().map_err(failed)?;
    // The signature of a bundle that was there before must not stay beside a new one.
    let beside = signature_path(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    if let Some(key) = sign {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut file = unfinished_beside(&beside).map_err(failed)?;
        let text = key.sign(digest, &signature_comment(&name));
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&beside).map_err(|error| failed(error.error))?;
        moved.signed_by = Some(key.id());
    }
    Ok(moved)
}

fn write_entries(out: &mut impl Write, disk: &Disk, keys: Option<&[CacheKey]>, moved: &mut Moved) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())?;
    for listed in disk.list()?.iter().filter(|e| keys.is_none_or(|keys| keys.contains(&e.key))) {
        let Some(bytes) = fs::read(&listed.path).ok().filter(|b| CacheEntry::decode(b).is_ok()) else {
            moved.skipped += 1;
            continue;
        };
        out.write_all(&(bytes.len() as u64).to_le_bytes())?;
        out.write_all(&bytes)?;
        moved.entries += 1;
        moved.bytes += bytes.len() as u64;
    }
    out.write_all(&0u64.to_le_bytes())?;
    out.flush()
}

/// A file for others: it has the permissions of any file, what the umask lets.
fn unfinished_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    tempfile::Builder::new().permissions(mode).tempfile_in(folder)
}

/// Reads the bundle once: what is hashed is what is kept. Nothing is kept before the signature was found right.
fn import(disk: &Disk, path: &Path, trust: BundleTrust<'_>) -> Result<Moved, CompileError> {
    let failed = |source| CompileError::io("reading the bundle", path, source);
    let bad = |why: &str| CompileError::Bundle { path: path.to_path_buf(), message: why.to_string() };
    let unsigned = |error| CompileError::Signature { path: path.to_path_buf(), source: error };
    let signature = match trust {
        BundleTrust::Vouched => None,
        BundleTrust::SignedBy(keys) => Some((read_signature(path)?, keys)),
    };
    if let Some((signature, keys)) = &signature {
        signature.key_among(keys).map_err(unsigned)?;
    }
    let file = BufReader::new(File::open(path).map_err(failed)?);
    let mut input = Hashed { inner: file, digest: FileDigest::new() };
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
    let mut waiting: Vec<(CacheKey, NamedTempFile)> = Vec::new();
    loop {
        let mut length = [0u8; 8];
        input.read_exact(&mut length).map_err(|_| bad("it is cut short"))?;
        let length = u64::from_le_bytes(length);
        if length == 0 {
            break;
        }
        if length > MAX_ENTRY_BYTES || waiting.len() >= MAX_ENTRIES {
            return Err(bad("it is larger than any real bundle"));
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
        if let Some(why) = why_not_of_its_program(&entry) {
            return Err(bad(&why));
        }
        let key = entry.parts.key();
        if matches!(disk.read(&key), Ok(Found::Found(_))) {
            moved.skipped += 1;
            continue;
        }
        let kept = disk.unfinished(&bytes);
        waiting.push((key, kept.map_err(|source| CompileError::io("writing to the cache", disk.root(), source))?));
        moved.entries += 1;
        moved.bytes += length;
    }
    if input.read(&mut [0]).map_err(failed)? != 0 {
        return Err(bad("something follows its end"));
    }
    if let Some((signature, keys)) = &signature {
        signature.check(keys, input.digest).map_err(unsigned)?;
        moved.signed_by = Some(signature.key_id());
    }
    disk.keep(waiting).map_err(|source| CompileError::io("writing to the cache", disk.root(), source))?;
    Ok(moved)
}

fn read_signature(path: &Path) -> Result<FileSignature, CompileError> {
    match FileSignature::open(&signature_path(path)) {
        Err(SignatureError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(CompileError::Unsigned(path.to_path_buf()))
        }
        read => read.map_err(|source| CompileError::Signature { path: signature_path(path), source }),
    }
}

/// Why the program an entry holds is not the one it is kept under: its executable would run in place of another program's.
fn why_not_of_its_program(entry: &CacheEntry) -> Option<String> {
    let program = entry.blob(blob::PROGRAM)?;
    let name = &entry.parts.program.name;
    match Program::read(program.to_vec()) {
        Ok(program) if program.parts() == entry.parts.program => None,
        Ok(_) => Some(format!("the executable of `{name}` is of another program")),
        Err(error) => Some(format!("the program of `{name}` cannot be read: {error}")),
    }
}
