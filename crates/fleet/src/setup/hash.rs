//! sha256 of files and streams, with progress and cancellation.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};

use crate::Error;

const CHUNK_BYTES: usize = 1 << 20;

/// What [`copy`] saw.
pub(super) struct Copied {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Which side of a copy failed.
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    Cancelled,
}

/// Copies all of `from`, hashing it, and reports the bytes so far about once a mebibyte and at the end.
pub(super) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    cancel: &AtomicBool,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<Copied, CopyError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut reported = 0;
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(CopyError::Cancelled);
        }
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(CopyError::Read(e)),
        };
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read]).map_err(CopyError::Write)?;
        bytes += read as u64;
        if bytes - reported >= CHUNK_BYTES as u64 {
            on_bytes(bytes);
            reported = bytes;
        }
    }
    on_bytes(bytes);
    Ok(Copied { bytes, sha256: hex(&hasher.finalize()) })
}

/// Hashes a file.
pub(super) fn of_file(path: &Path, cancel: &AtomicBool, on_bytes: &mut dyn FnMut(u64)) -> Result<Copied, Error> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    copy(&mut file, &mut io::sink(), cancel, on_bytes).map_err(|e| match e {
        CopyError::Read(source) | CopyError::Write(source) => Error::io("read", path)(source),
        CopyError::Cancelled => Error::Cancelled,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_while_copying() {
        let mut out = Vec::new();
        let mut seen = 0;
        let copied = copy(&mut &b"abc"[..], &mut out, &AtomicBool::new(false), &mut |b| seen = b).ok().unwrap();
        assert_eq!((out.as_slice(), copied.bytes, seen), (&b"abc"[..], 3, 3));
        assert_eq!(copied.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn stops_when_cancelled() {
        let result = copy(&mut io::repeat(0), &mut io::sink(), &AtomicBool::new(true), &mut |_| {});
        assert!(matches!(result, Err(CopyError::Cancelled)));
    }
}
