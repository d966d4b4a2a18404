//! One cached compilation as bytes: header, blobs, checksum.

use std::io::Read;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::key::KeyParts;
use crate::report::Report;

/// Version of the entry format; entries of another version are misses.
pub(crate) const FORMAT: u32 = 1;
const MAGIC: &[u8; 12] = b"tpubridge-ce";
const CHECKSUM_BYTES: usize = 32;
/// Magic, version, length of the header.
const HEAD_BYTES: usize = MAGIC.len() + 4 + 8;
/// A header is names, types and figures; a longer one is not ours.
const MAX_HEADER_BYTES: u64 = 256 << 20;

/// A named piece of a compilation's result.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// What it is, as in `executable`.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{} bytes]", self.name, self.bytes.len())
    }
}

/// A cached compilation.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheEntry {
    /// What it depends on.
    pub parts: KeyParts,
    /// What the compiler said.
    pub report: Report,
    /// Seconds the compilation took: what a hit saves.
    pub compile_seconds: f64,
    /// Seconds since the epoch when it was made.
    pub created_unix: u64,
    /// Executable, HLO, buffer assignment.
    pub blobs: Vec<Blob>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    parts: KeyParts,
    report: Report,
    compile_seconds: f64,
    created_unix: u64,
    blobs: Vec<(String, u64)>,
}

/// Why bytes are not a readable entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Written by another version of the format.
    Version(u32),
    /// Cut short, altered, or not an entry at all.
    Corrupt(&'static str),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::Version(version) => write!(f, "format version {version}, this program reads {FORMAT}"),
            Unreadable::Corrupt(why) => f.write_str(why),
        }
    }
}

impl CacheEntry {
    /// The blob of that name.
    pub fn blob(&self, name: &str) -> Option<&[u8]> {
        self.blobs.iter().find(|b| b.name == name).map(|b| b.bytes.as_slice())
    }

    /// The entry as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = Header {
            parts: self.parts.clone(),
            report: self.report.clone(),
            compile_seconds: self.compile_seconds,
            created_unix: self.created_unix,
            blobs: self.blobs.iter().map(|b| (b.name.clone(), b.bytes.len() as u64)).collect(),
        };
        let header = serde_json::to_vec(&header).expect("strings, numbers and maps with string keys always encode");
        let payload: usize = self.blobs.iter().map(|b| b.bytes.len()).sum();
        let mut bytes = Vec::with_capacity(MAGIC.len() + 12 + header.len() + payload + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(&header);
        self.blobs.iter().for_each(|b| bytes.extend(&b.bytes));
        let checksum = Sha256::digest(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Reads an entry, checking its checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<CacheEntry, Unreadable> {
        let (header, mut rest) = split(bytes)?;
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if Sha256::digest(body).as_slice() != checksum {
            return Err(Unreadable::Corrupt("checksum differs"));
        }
        let mut blobs = Vec::new();
        for (name, length) in header.blobs {
            let length = usize::try_from(length).ok().filter(|&n| n <= rest.len());
            let (blob, tail) = rest.split_at(length.ok_or(Unreadable::Corrupt("a blob is longer than the file"))?);
            blobs.push(Blob { name, bytes: blob.to_vec() });
            rest = tail;
        }
        Ok(CacheEntry {
            parts: header.parts,
            report: header.report,
            compile_seconds: header.compile_seconds,
            created_unix: header.created_unix,
            blobs,
        })
    }

    /// The key parts alone, without reading blobs or checking them: for listings and explanations.
    pub(crate) fn read_parts(mut file: impl Read) -> Result<(KeyParts, f64, u64), Unreadable> {
        let short = |_| Unreadable::Corrupt("cut short");
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head).map_err(short)?;
        let length = header_length(&head)?;
        if length > MAX_HEADER_BYTES {
            return Err(Unreadable::Corrupt("the header is too long"));
        }
        let mut header = Vec::new();
        file.take(length).read_to_end(&mut header).map_err(short)?;
        let header: Header = parse_header(&header)?;
        Ok((header.parts, header.compile_seconds, header.created_unix))
    }
}

/// Splits into header and blob bytes (checksum excluded).
fn split(bytes: &[u8]) -> Result<(Header, &[u8]), Unreadable> {
    let (head, rest) = bytes.split_first_chunk().ok_or(Unreadable::Corrupt("cut short"))?;
    let length = usize::try_from(header_length(head)?).unwrap_or(usize::MAX);
    let body = rest.len().checked_sub(CHECKSUM_BYTES).ok_or(Unreadable::Corrupt("cut short"))?;
    if length > body {
        return Err(Unreadable::Corrupt("cut short"));
    }
    Ok((parse_header(&rest[..length])?, &rest[length..body]))
}

/// Checks what every entry begins with and gives the length of the header that follows.
fn header_length(head: &[u8; HEAD_BYTES]) -> Result<u64, Unreadable> {
    let (magic, rest) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Unreadable::Corrupt("not a cache entry"));
    }
    let (version, length) = rest.split_at(4);
    let version = version.try_into().map_or(0, u32::from_le_bytes);
    if version != FORMAT {
        return Err(Unreadable::Version(version));
    }
    Ok(length.try_into().map_or(0, u64::from_le_bytes))
}

fn parse_header(json: &[u8]) -> Result<Header, Unreadable> {
    serde_json::from_slice(json).map_err(|_| Unreadable::Corrupt("header is not readable"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cache::key::tests::parts;

    pub(crate) fn entry(digest: &str) -> CacheEntry {
        CacheEntry {
            parts: parts(digest),
            report: Report::default(),
            compile_seconds: 1.5,
            created_unix: 1,
            blobs: vec![Blob { name: "executable".into(), bytes: vec![7; 1000] }],
        }
    }

    #[test]
    fn encodes_and_decodes() {
        let entry = entry("d");
        let bytes = entry.encode();
        assert_eq!(CacheEntry::decode(&bytes), Ok(entry.clone()));
        assert_eq!(CacheEntry::read_parts(bytes.as_slice()).map(|(parts, _, _)| parts), Ok(entry.parts));
        assert!(CacheEntry::read_parts(&bytes[..100]).is_err());
    }

    #[test]
    fn any_flipped_or_missing_byte_is_noticed() {
        let bytes = entry("d").encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert!(CacheEntry::decode(&changed).is_err(), "byte {at}");
            assert!(CacheEntry::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
