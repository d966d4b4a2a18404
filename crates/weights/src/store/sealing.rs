//! Encrypted objects: what a store writes is encrypted, and what it reads is decrypted, by ranges.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trust::{SEAL_HEADER_BYTES, SealError, Sealer, SealingKey, Unsealer};

use super::StoredObject;
use crate::error::Error;

/// Headers that are remembered; a checkpoint has few files.
const MAX_REMEMBERED: usize = 10_000;

/// The key of a store's objects below a prefix of their names.
#[derive(Debug)]
pub(super) struct Sealing {
    key: SealingKey,
    prefix: &'static str,
    /// What headers said. An object may have been written anew since: then it does not decrypt, and its header is read again.
    headers: Mutex<HashMap<String, Arc<Unsealer>>>,
}

/// Why an object could not be written.
enum Refused {
    Seal(SealError),
    Store(Error),
}

impl From<SealError> for Refused {
    fn from(error: SealError) -> Refused {
        Refused::Seal(error)
    }
}

/// Encrypts one object.
#[derive(Debug)]
pub(super) struct SealedWriter {
    sealer: Sealer,
    address: String,
}

impl Sealing {
    pub(super) fn new(key: SealingKey, prefix: &'static str) -> Sealing {
        Sealing { key, prefix, headers: Mutex::default() }
    }

    /// Whether an object of this name is encrypted.
    pub(super) fn covers(&self, name: &str) -> bool {
        name.starts_with(self.prefix)
    }

    /// The object as its reader sees it.
    pub(super) fn shown(&self, object: StoredObject) -> StoredObject {
        match trust::contents_size(object.size_bytes).filter(|_| self.covers(&object.name)) {
            Some(size_bytes) => StoredObject { size_bytes, ..object },
            None => object,
        }
    }

    /// Begins an object of exactly so many bytes; gives what is written first.
    pub(super) fn begin(&self, name: &str, address: String, size_bytes: u64) -> Result<(SealedWriter, Vec<u8>), Error> {
        self.remembered().remove(name);
        let (sealer, header) = Sealer::new(&self.key, name, size_bytes).map_err(|error| sealed(&address, error))?;
        Ok((SealedWriter { sealer, address }, header.to_vec()))
    }

    /// Reads a range; `read` gives a range of the object as it is stored.
    pub(super) fn read(
        &self,
        name: &str,
        address: &str,
        (offset, size_bytes): (u64, usize),
        read: &dyn Fn(u64, usize) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        let open = |unsealer: &Unsealer| {
            let range = unsealer.range(offset, size_bytes);
            let range = range.ok_or_else(|| sealed(address, SealError::Damaged))?;
            let size = usize::try_from(range.end - range.start).map_err(|_| sealed(address, SealError::Damaged))?;
            let bytes = read(range.start, size)?;
            unsealer.open(offset, size_bytes, bytes).map_err(|error| sealed(address, error))
        };
        let known = self.remembered().get(name).cloned();
        if let Some(Ok(bytes)) = known.map(|known| open(&known)) {
            return Ok(bytes);
        }
        let header = read(0, SEAL_HEADER_BYTES)?;
        let unsealer = Arc::new(Unsealer::new(&self.key, name, &header).map_err(|error| sealed(address, error))?);
        let bytes = open(&unsealer)?;
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(name.to_string(), unsealer);
        Ok(bytes)
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<String, Arc<Unsealer>>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SealedWriter {
    /// Adds bytes; `write` stores what is encrypted of them.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        write: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pushed = self.sealer.push(bytes, &mut |sealed| write(sealed).map_err(Refused::Store));
        pushed.map_err(|refused| told(&self.address, refused))
    }

    /// Ends the object.
    pub(super) fn finish(self, write: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let SealedWriter { sealer, address } = self;
        sealer.finish(&mut |sealed| write(sealed).map_err(Refused::Store)).map_err(|refused| told(&address, refused))
    }
}

fn told(address: &str, refused: Refused) -> Error {
    match refused {
        Refused::Seal(error) => sealed(address, error),
        Refused::Store(error) => error,
    }
}

fn sealed(address: &str, source: SealError) -> Error {
    Error::Sealed { path: address.into(), source }
}
