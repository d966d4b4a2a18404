//! Small files as they lie in a store: contents behind their version and checksum.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;

/// The file: the contents as they were written, behind their version and checksum.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "version")]
    _version: u64,
    crc32: u32,
    #[serde(borrow)]
    contents: &'a RawValue,
}

/// A newer release may have changed everything but this.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

/// The text of a file with these contents.
pub(super) fn sealed(version: u64, contents: &impl Serialize, address: &str) -> Result<String, Error> {
    // Only a map with keys that are no text cannot be written, and there is none.
    let contents = serde_json::to_string(contents).map_err(|error| Error::format(address, error.to_string()))?;
    let crc32 = crc32fast::hash(contents.as_bytes());
    Ok(format!("{{\"version\":{version},\"crc32\":{crc32},\"contents\":{contents}}}\n"))
}

/// Reads a file that has at most this version; `address` is where it came from.
pub(super) fn opened<T: for<'de> Deserialize<'de>>(text: &[u8], supported: u64, address: &str) -> Result<T, Error> {
    let wrong = |message: String| Error::format(address, message);
    let json = |error: serde_json::Error| wrong(error.to_string());
    let text = std::str::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
    let VersionOnly { version } = serde_json::from_str(text).map_err(json)?;
    if version > supported {
        return Err(Error::Newer { path: address.into(), found: version, supported });
    }
    if version == 0 {
        return Err(wrong("there is no version 0".into()));
    }
    let Envelope { crc32, contents, .. } = serde_json::from_str(text).map_err(json)?;
    if crc32fast::hash(contents.get().as_bytes()) != crc32 {
        return Err(wrong("its checksum is wrong".into()));
    }
    serde_json::from_str(contents.get()).map_err(json)
}
