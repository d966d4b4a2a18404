//! A fingerprint of data: sizes and a bounded number of blocks, so that changed contents are told from a changed name.
//!
//! It is no proof: a change between the blocks that are read is not seen. It costs the same for a terabyte as for a gigabyte.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::DataError;
use super::tokenizer::hex;

/// Blocks that are read of one large file.
const BLOCKS: u64 = 64;

/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;

/// Files that are read of many.
const FILES: usize = 256;

/// The fingerprint of data under way.
pub(crate) struct Fingerprint {
    hash: Sha256,
}

impl Fingerprint {
    pub(crate) fn new() -> Fingerprint {
        Fingerprint { hash: Sha256::new() }
    }

    /// A file given as its bytes: all of them if they are few, else blocks from begin to end at the same distance.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.blocks(bytes.len() as u64, BLOCKS, |hash, start, end| {
            hash.update(bytes.get(start as usize..end as usize).unwrap_or_default());
            Ok::<(), DataError>(())
        })
        .unwrap_or_default();
    }

    /// A file: all of it if it is small, else blocks from begin to end at the same distance.
    fn file(&mut self, path: &Path) -> Result<(), DataError> {
        let opened = File::open(path).map_err(DataError::io("opening", path))?;
        let size_bytes = opened.metadata().map_err(DataError::io("opening", path))?.len();
        let mut block = vec![0; BLOCK_BYTES as usize];
        self.blocks(size_bytes, BLOCKS, |hash, start, end| {
            let block = block.get_mut(..(end - start) as usize).unwrap_or_default();
            opened.read_exact_at(block, start).map_err(DataError::io("reading", path))?;
            hash.update(block);
            Ok(())
        })
    }

    /// Many files: begin and end of some of them, from the first to the last.
    pub(crate) fn files<'a>(
        &mut self,
        count: usize,
        file: impl Fn(usize) -> Option<&'a Path>,
    ) -> Result<(), DataError> {
        let chosen = count.min(FILES);
        for n in 0..chosen {
            // The last one is among them.
            let Some(path) = file(if chosen > 1 { n * (count - 1) / (chosen - 1) } else { n }) else { continue };
            let opened = File::open(path).map_err(DataError::io("opening", path))?;
            let size_bytes = opened.metadata().map_err(DataError::io("opening", path))?.len();
            let mut block = vec![0; BLOCK_BYTES as usize];
            self.blocks(size_bytes, 2, |hash, start, end| {
                let block = block.get_mut(..(end - start) as usize).unwrap_or_default();
                opened.read_exact_at(block, start).map_err(DataError::io("reading", path))?;
                hash.update(block);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Sizes and places of at most so many blocks of a file, the first and the last of its bytes among them.
    fn blocks<E>(
        &mut self,
        size_bytes: u64,
        blocks: u64,
        mut read: impl FnMut(&mut Sha256, u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.hash.update(size_bytes.to_le_bytes());
        let blocks = blocks.min(size_bytes.div_ceil(BLOCK_BYTES)).max(1);
        let last = size_bytes.saturating_sub(BLOCK_BYTES);
        for n in 0..blocks {
            // At most 64 blocks: wide enough for any file.
            let start = if blocks > 1 { (u128::from(last) * u128::from(n) / u128::from(blocks - 1)) as u64 } else { 0 };
            read(&mut self.hash, start, size_bytes.min(start + BLOCK_BYTES))?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> String {
        hex(self.hash.finalize().get(..16).unwrap_or_default())
    }
}

/// The fingerprint of a few large files, such as those of a model.
pub fn fingerprint_of_files(paths: &[PathBuf]) -> Result<String, DataError> {
    let mut fingerprint = Fingerprint::new();
    paths.iter().try_for_each(|path| fingerprint.file(path))?;
    Ok(fingerprint.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> String {
        let mut fingerprint = Fingerprint::new();
        fingerprint.bytes(bytes);
        fingerprint.finish()
    }

    #[test]
    fn every_byte_of_a_small_file_and_the_ends_of_a_large_one_count() {
        for size in [1, 5000, 64 * 4096, 3_000_000] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let places: Vec<usize> = match size {
                3_000_000 => vec![0, 4095, size - 4096, size - 1],
                _ => (0..size).step_by(997).chain([size - 1]).collect(),
            };
            for place in places {
                let mut changed = bytes.clone();
                changed[place] ^= 1;
                assert_ne!(of(&bytes), of(&changed), "byte {place} of {size}");
            }
            assert_ne!(of(&bytes), of(&bytes[..size - 1]), "{size}");
            assert_eq!(of(&bytes), of(&bytes.clone()));
        }
        assert_eq!(of(b""), of(b""));
    }

    #[test]
    fn begin_and_end_of_every_chosen_file_count() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..600).map(|n| folder.path().join(format!("{n}"))).collect();
        for (n, path) in paths.iter().enumerate() {
            std::fs::write(path, vec![n as u8; 10_000]).unwrap();
        }
        let of = || {
            let mut fingerprint = Fingerprint::new();
            fingerprint.files(paths.len(), |n| paths.get(n).map(|path| path.as_path())).unwrap();
            fingerprint.finish()
        };
        let before = of();
        assert_eq!(before, of());
        for n in [0, 599] {
            for place in [0, 9999] {
                let mut bytes = vec![n as u8; 10_000];
                bytes[place] ^= 1;
                std::fs::write(&paths[n], &bytes).unwrap();
                assert_ne!(before, of(), "byte {place} of file {n}");
                std::fs::write(&paths[n], vec![n as u8; 10_000]).unwrap();
            }
        }
        assert_eq!(before, of());
    }
}
