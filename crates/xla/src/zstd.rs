//! Bounded zstd decompression for what the compiler's first phase returns.

use crate::Error;
use std::io::Read;

/// How far one compressed blob may expand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Never more than this many bytes.
    pub max_bytes: u64,
    /// Never more than this many bytes per compressed byte, plus 16 MiB.
    pub max_ratio: u64,
}

impl Default for Limits {
    /// 2 GiB and 1000 to 1. Compiled programs compress about 10 to 1.
    fn default() -> Self {
        Limits { max_bytes: 2 << 30, max_ratio: 1000 }
    }
}

const SLACK_BYTES: u64 = 16 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

pub(crate) fn decompress(bytes: &[u8], limits: Limits) -> Result<Vec<u8>, Error> {
    let proportional = (bytes.len() as u64).saturating_mul(limits.max_ratio).saturating_add(SLACK_BYTES);
    let limit_bytes = limits.max_bytes.min(proportional);
    let mut rest = bytes;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|e| Error::Compression { source: std::io::Error::other(e) })?;
        let room = limit_bytes - out.len() as u64;
        decoder.take(room.saturating_add(1)).read_to_end(&mut out).map_err(|source| Error::Compression { source })?;
        if out.len() as u64 > limit_bytes {
            return Err(Error::TooLarge { limit_bytes });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn round_trip() {
        let data = b"all-reduce all-gather ".repeat(1000);
        let packed = compress_to_vec(&data[..], CompressionLevel::Fastest);
        assert!(is_zstd(&packed));
        assert_eq!(decompress(&packed, Limits::default()).unwrap(), data);
    }

    #[test]
    fn bomb_is_refused() {
        let packed = compress_to_vec(&vec![0u8; 1 << 20][..], CompressionLevel::Fastest);
        let limits = Limits { max_bytes: 1000, max_ratio: 1000 };
        assert!(matches!(decompress(&packed, limits), Err(Error::TooLarge { limit_bytes: 1000 })));
    }

    #[test]
    fn damage_is_an_error() {
        let packed = compress_to_vec(&b"x".repeat(500)[..], CompressionLevel::Fastest);
        assert!(matches!(decompress(&packed[..packed.len() - 3], Limits::default()), Err(Error::Compression { .. })));
        assert!(matches!(decompress(b"hello", Limits::default()), Err(Error::Compression { .. })));
    }
}
