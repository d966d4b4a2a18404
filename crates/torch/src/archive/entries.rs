//! The entries of a zip whose contents are stored, not compressed.

use std::collections::BTreeMap;

use zip::{CompressionMethod, ZipArchive};

use crate::archive::window::FilePart;
use crate::error::Error;

/// Entries that are listed.
const MAX_ENTRIES: usize = 1 << 20;

/// Entries by name.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    parts: BTreeMap<String, FilePart>,
}

impl Entries {
    pub(crate) fn open(file: &FilePart) -> Result<Entries, Error> {
        let damaged = |error: zip::result::ZipError| Error::damaged(format!("it is not a zip archive: {error}"));
        let mut zip = ZipArchive::new(file.clone()).map_err(damaged)?;
        if zip.len() > MAX_ENTRIES {
            return Err(Error::damaged(format!("it has {} entries", zip.len())));
        }
        let mut parts = BTreeMap::new();
        for number in 0..zip.len() {
            let entry = zip.by_index_raw(number).map_err(damaged)?;
            let name = entry.name().to_string();
            if entry.compression() != CompressionMethod::Stored {
                let message = format!("entry `{name}` is compressed, which PyTorch never does");
                return Err(Error::damaged(message));
            }
            let start = entry.data_start();
            let part = file.part(start, entry.size());
            parts.insert(name.clone(), part.ok_or_else(|| Error::damaged(format!("entry `{name}` is cut off")))?);
        }
        Ok(Entries { parts })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&FilePart> {
        self.parts.get(name)
    }

    /// The bytes of an entry.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        let part = self.get(name).ok_or_else(|| Error::damaged(format!("entry `{name}` is missing")))?;
        part.bytes().map_err(|error| Error::damaged(format!("entry `{name}`: {error}")))
    }
}
