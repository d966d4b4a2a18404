//! The manifest of a checkpoint: which files, which tensors where in them, checksums, and what the run keeps beside them.
//!
//! It is read as something anybody may have written: nothing it says is believed before it is checked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensor::DType;

use super::envelope::{opened, sealed};
use crate::error::Error;
use crate::region::{TensorRegion, why_no_tiling};
use crate::safetensors::MAX_HEADER_BYTES;
use crate::store::is_plain_name;

/// The newest version this release writes and reads.
pub const MANIFEST_VERSION: u64 = 1;

/// Longest manifest that is read.
pub(super) const MAX_BYTES: u64 = 256 << 20;

/// More pieces than any tensor is cut into; it bounds the work of comparing them.
const MAX_PIECES: usize = 1 << 14;

/// Dimensions of a tensor.
const MAX_RANK: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) step: u64,
    pub(super) files: Vec<FileRecord>,
    pub(super) tensors: Vec<TensorRecord>,
    /// Anything the run keeps: where it was in its data, random state, configuration.
    pub(super) metadata: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    /// The safetensors header with its length: read by other tools only, but damage of it is damage.
    pub(super) header_bytes: u64,
    pub(super) header_crc32: u32,
    /// Of the header, where the checkpoint is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) header_sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TensorRecord {
    pub(super) name: String,
    /// The type's MLIR spelling.
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) pieces: Vec<PieceRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PieceRecord {
    /// Number of the file.
    pub(super) file: usize,
    /// First byte in the file.
    pub(super) offset: u64,
    /// Where the piece lies in the tensor.
    #[serde(flatten)]
    pub(super) region: TensorRegion,
    pub(super) crc32: u32,
    /// Of the piece, where the checkpoint is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
}

impl TensorRecord {
    pub(super) fn dtype(&self) -> Option<DType> {
        DType::from_name(&self.dtype)
    }
}

impl Manifest {
    pub(super) fn text(&self, address: &str) -> Result<String, Error> {
        sealed(MANIFEST_VERSION, self, address)
    }

    /// Reads and checks a manifest; `address` is where it came from.
    pub(super) fn read(text: &[u8], step: u64, address: &str) -> Result<Manifest, Error> {
        let wrong = |message: String| Error::format(address, message);
        let manifest: Manifest = opened(text, MANIFEST_VERSION, address)?;
        if manifest.step != step {
            return Err(wrong(format!("it is of step {}", manifest.step)));
        }
        match manifest.problem() {
            Some(problem) => Err(wrong(problem)),
            None => Ok(manifest),
        }
    }

    /// The first thing that is wrong with what it says, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        let mut names = std::collections::BTreeSet::new();
        for file in &self.files {
            let FileRecord { name, size_bytes, header_bytes, .. } = file;
            if !is_plain_name(name) || name.contains('/') || !name.ends_with(".safetensors") {
                return Some(format!("`{name}` is no name of a file of a checkpoint"));
            }
            if !names.insert(name) {
                return Some(format!("the file `{name}` is named twice"));
            }
            if header_bytes > size_bytes || *header_bytes > 8 + MAX_HEADER_BYTES {
                return Some(format!("the header of `{name}` is larger than the file, or than any header"));
            }
        }
        let mut tensors: BTreeMap<&str, &TensorRecord> = BTreeMap::new();
        let mut ranges: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.files.len()];
        for tensor in &self.tensors {
            match tensors.entry(&tensor.name) {
                Entry::Occupied(_) => return Some(format!("the tensor `{}` is named twice", tensor.name)),
                Entry::Vacant(place) => place.insert(tensor),
            };
            if let Some(problem) = self.tensor_problem(tensor, &mut ranges) {
                return Some(format!("tensor `{}`: {problem}", tensor.name));
            }
        }
        for (file, ranges) in self.files.iter().zip(&mut ranges) {
            ranges.sort_unstable();
            if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
                return Some(format!("tensors share bytes of `{}`", file.name));
            }
        }
        None
    }

    fn tensor_problem(&self, tensor: &TensorRecord, ranges: &mut [Vec<(u64, u64)>]) -> Option<String> {
        let Some(dtype) = tensor.dtype() else { return Some(format!("its type {} is not known", tensor.dtype)) };
        if tensor.shape.len() > MAX_RANK || tensor.pieces.len() > MAX_PIECES {
            return Some(format!("{} dimensions and {} pieces are too many", tensor.shape.len(), tensor.pieces.len()));
        }
        let regions: Vec<&TensorRegion> = tensor.pieces.iter().map(|piece| &piece.region).collect();
        if let Some(problem) = why_no_tiling(&regions, &tensor.shape) {
            return Some(problem);
        }
        if TensorRegion::whole(&tensor.shape).size_bytes(dtype.size_bytes()).is_none() {
            return Some(format!("the shape {:?} is too large", tensor.shape));
        }
        for piece in &tensor.pieces {
            let Some(file) = self.files.get(piece.file) else { return Some(format!("it has no file {}", piece.file)) };
            let size_bytes = piece.region.size_bytes(dtype.size_bytes()).and_then(|bytes| u64::try_from(bytes).ok());
            let end = size_bytes.and_then(|bytes| piece.offset.checked_add(bytes));
            match end {
                Some(end) if piece.offset >= file.header_bytes && end <= file.size_bytes => {
                    if end > piece.offset {
                        ranges[piece.file].push((piece.offset, end));
                    }
                }
                _ => return Some(format!("it lies outside of `{}`", file.name)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn valid() -> Value {
        json!({
            "step": 3,
            "files": [{ "name": "a.safetensors", "size_bytes": 108, "header_bytes": 60, "header_crc32": 1 }],
            "tensors": [
                { "name": "w", "dtype": "f32", "shape": [2, 4], "pieces": [
                    { "file": 0, "offset": 60, "start": [0, 0], "size": [2, 2], "crc32": 1 },
                    { "file": 0, "offset": 76, "start": [0, 2], "size": [2, 2], "crc32": 1 } ] },
                { "name": "x", "dtype": "f32", "shape": [4], "pieces": [
                    { "file": 0, "offset": 92, "start": [0], "size": [4], "crc32": 1 } ] }
            ],
            "metadata": { "lr": 0.1 }
        })
    }

    fn read(contents: &str) -> Result<Manifest, Error> {
        let crc32 = crc32fast::hash(contents.as_bytes());
        let text = format!(r#"{{"version":1,"crc32":{crc32},"contents":{contents}}}"#);
        Manifest::read(text.as_bytes(), 3, "m")
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = read(&valid().to_string()).unwrap();
        assert_eq!(Manifest::read(manifest.text("m").unwrap().as_bytes(), 3, "m").unwrap(), manifest);
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let check = |pointer: &str, value: Value, expected: &str| {
            let mut contents = valid();
            *contents.pointer_mut(pointer).unwrap() = value;
            let error = read(&contents.to_string()).expect_err(pointer).to_string();
            assert!(error.contains(expected), "{pointer}: {error}");
        };
        check("/step", json!(4), "of step 4");
        for name in
            ["../a.safetensors", "/etc/a.safetensors", "a/b.safetensors", "..", "manifest.json", "a\0.safetensors"]
        {
            check("/files/0/name", json!(name), "no name of a file");
        }
        check("/files/0/header_bytes", json!(109), "larger than the file");
        check("/files/0/size_bytes", json!(107), "outside");
        check("/files/0/size_bytes", json!(-1), "invalid value");
        check("/tensors/1/name", json!("w"), "named twice");
        check("/tensors/0/dtype", json!("f33"), "not known");
        check("/tensors/0/shape", json!([u64::MAX, u64::MAX]), "too large");
        check("/tensors/0/shape", json!([1u64 << 40, 1u64 << 20]), "of 1152921504606846976 elements");
        check("/tensors/0/shape", json!(vec![1; 65]), "too many");
        check("/tensors/0/pieces/0/file", json!(1), "no file 1");
        check("/tensors/0/pieces/0/offset", json!(u64::MAX), "outside");
        check("/tensors/0/pieces/0/offset", json!(0), "outside");
        check("/tensors/0/pieces/0/offset", json!(77), "share bytes");
        check("/tensors/0/pieces/1/start", json!([0, 1]), "overlap");
        check("/tensors/0/pieces/1/start", json!([0, u64::MAX]), "does not lie in");
        check("/tensors/0/pieces/1/size", json!([2, 1]), "6 of 8");
        check("/tensors/0/pieces", json!([]), "0 of 8");
        let mut twice = valid();
        let file = twice["files"][0].clone();
        twice["files"].as_array_mut().unwrap().push(file);
        assert!(read(&twice.to_string()).unwrap_err().to_string().contains("named twice"));
        let many =
            vec![json!({ "file": 0, "offset": 60, "start": [0, 0], "size": [0, 0], "crc32": 0 }); MAX_PIECES + 1];
        check("/tensors/0/pieces", json!(many), "too many");
    }

    #[test]
    fn envelopes_are_checked_first() {
        let check = |text: &[u8], expected: &str| {
            let error = Manifest::read(text, 3, "m").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(b"", "EOF");
        check(b"\xff", "utf-8");
        check(br#"{"version":2,"other":1}"#, "has version 2");
        check(br#"{"version":1,"crc32":0,"contents":{}}"#, "checksum");
        check(br#"{"version":1,"crc32":0,"crc32":0,"contents":{}}"#, "duplicate field");
        let deep = format!(r#"{{"version":1,"crc32":0,"contents":{}}}"#, "[".repeat(100_000));
        check(deep.as_bytes(), "");
        // Any single flipped bit is noticed.
        let text = read(&valid().to_string()).unwrap().text("m").unwrap().into_bytes();
        for at in 0..text.len() - 1 {
            for bit in 0..8 {
                let mut damaged = text.clone();
                damaged[at] ^= 1 << bit;
                assert!(
                    Manifest::read(&damaged, 3, "m").is_err() || damaged[at].is_ascii_whitespace(),
                    "byte {at} bit {bit}"
                );
            }
        }
    }
}
