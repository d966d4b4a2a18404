//! A fingerprint of data: sizes and a bounded number of blocks, so that changed contents are told from a changed name.
//!
//! It is no proof: a change between the blocks that are read is not seen. It costs the same for a terabyte as for a gigabyte.

use std::ops::Range;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::error::DataError;
use super::hex::hex;
use super::source::{Contents, DataFile, OpenedFile};

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

    /// A file: all of it if it is small, else blocks from begin to end at the same distance. One elsewhere has the fingerprint
    /// of its copy here, and little of it is fetched.
    pub(crate) fn contents(&mut self, contents: &Contents) -> Result<(), DataError> {
        if let Contents::Remote(file) = contents {
            places(contents.len(), BLOCKS).for_each(|place| file.expect(place));
        }
        self.hash.update(contents.len().to_le_bytes());
        for place in places(contents.len(), BLOCKS) {
            self.hash.update(contents.read(place)?);
        }
        Ok(())
    }

    /// A file: as many blocks of it as are said.
    fn file(&mut self, file: &DataFile, blocks: u64) -> Result<(), DataError> {
        let opened = OpenedFile::open(file)?;
        self.hash.update(opened.len().to_le_bytes());
        for place in places(opened.len(), blocks) {
            self.hash.update(opened.read(place)?);
        }
        Ok(())
    }

    /// Many files: begin and end of some of them, from the first to the last.
    pub(crate) fn files(
        &mut self,
        count: usize,
        file: impl Fn(usize) -> Result<Option<DataFile>, DataError>,
    ) -> Result<(), DataError> {
        let chosen = count.min(FILES);
        for n in 0..chosen {
            // The last one is among them.
            if let Some(file) = file(if chosen > 1 { n * (count - 1) / (chosen - 1) } else { n })? {
                self.file(&file, 2)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> String {
        hex(self.hash.finalize().get(..16).unwrap_or_default())
    }
}

/// Places of at most so many blocks of a file, the first and the last of its bytes among them.
fn places(size_bytes: u64, blocks: u64) -> impl Iterator<Item = Range<u64>> {
    let blocks = blocks.min(size_bytes.div_ceil(BLOCK_BYTES)).max(1);
    let last = size_bytes.saturating_sub(BLOCK_BYTES);
    (0..blocks).map(move |n| {
        // At most 64 blocks: wide enough for any file.
        let start = if blocks > 1 { (u128::from(last) * u128::from(n) / u128::from(blocks - 1)) as u64 } else { 0 };
        start..size_bytes.min(start + BLOCK_BYTES)
    })
}

/// The fingerprint of a few large files, such as those of a model.
pub fn fingerprint_of_files(paths: &[PathBuf]) -> Result<String, DataError> {
    let mut fingerprint = Fingerprint::new();
    paths.iter().try_for_each(|path| fingerprint.file(&path.as_path().into(), BLOCKS))?;
    Ok(fingerprint.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut fingerprint = Fingerprint::new();
        fingerprint.contents(&Contents::open(&file.path().into()).unwrap()).unwrap();
        let found = fingerprint.finish();
        assert_eq!(found, fingerprint_of_files(&[file.path().to_path_buf()]).unwrap());
        found
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
            fingerprint.files(paths.len(), |n| Ok(paths.get(n).map(|path| path.as_path().into()))).unwrap();
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
