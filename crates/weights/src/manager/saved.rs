//! A complete checkpoint, opened: tensors by name, whole or in part, checked as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tensor::{DType, Literal};

use super::manifest::{FileRecord, Manifest, PieceRecord, TensorRecord};
use super::protection::Checksums;
use crate::error::Error;
use crate::region::TensorRegion;
use crate::store::Store;

/// Bytes that are read at once when contents are only checked.
const CHECK_BYTES: usize = 32 << 20;

/// A complete checkpoint.
#[derive(Debug)]
pub struct Saved {
    store: Store,
    folder: String,
    manifest: Manifest,
    by_name: BTreeMap<String, usize>,
    /// Files whose header was checked.
    headers: Mutex<BTreeSet<usize>>,
}

/// A tensor of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type it was saved in.
    pub dtype: DType,
    /// Its shape.
    pub dims: &'a [usize],
}

/// In which types tensors are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// As they were saved, to the bit.
    AsSaved,
    /// Floats in this type, rounded to nearest even where it is narrower; everything else as it was saved.
    FloatsAs(DType),
}

impl Saved {
    pub(super) fn new(store: Store, folder: String, manifest: Manifest) -> Saved {
        let by_name = manifest.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect();
        Saved { store, folder, manifest, by_name, headers: Mutex::default() }
    }

    /// The step it was saved at.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.store.address(&self.folder)
    }

    /// What was kept beside the tensors.
    pub fn metadata(&self) -> &Value {
        &self.manifest.metadata
    }

    /// Its tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = SavedTensor<'_>> {
        // A manifest with an unknown type was refused.
        self.manifest
            .tensors
            .iter()
            .filter_map(|tensor| Some(SavedTensor { name: &tensor.name, dtype: tensor.dtype()?, dims: &tensor.shape }))
    }

    /// Names of its files, in the checkpoint's folder.
    pub(super) fn file_names(&self) -> BTreeSet<String> {
        self.manifest.files.iter().map(|file| file.name.clone()).collect()
    }

    /// Reads a tensor as it was saved.
    pub fn read(&self, name: &str) -> Result<Literal, Error> {
        let (tensor, _) = self.tensor(name)?;
        self.read_region(name, &TensorRegion::whole(&tensor.shape))
    }

    /// Reads a tensor, converted when it is a float of another type.
    pub fn read_as(&self, name: &str, dtype: DType) -> Result<Literal, Error> {
        let (tensor, _) = self.tensor(name)?;
        let mut parts = self.read_regions_as(name, &[TensorRegion::whole(&tensor.shape)], dtype)?;
        parts.pop().ok_or_else(|| Error::Missing { path: self.address().into(), name: name.to_string() })
    }

    /// Reads parts of a tensor, converted when it is a float of another type.
    pub fn read_regions_as(&self, name: &str, regions: &[TensorRegion], dtype: DType) -> Result<Vec<Literal>, Error> {
        let (_, from) = self.tensor(name)?;
        let refused = || Error::Cast { name: name.to_string(), from, to: dtype };
        if from != dtype && !(from.is_float() && dtype.is_float()) {
            return Err(refused());
        }
        let parts = self.read_regions(name, regions)?;
        parts.iter().map(|part| part.cast(dtype).map_err(|_| refused())).collect()
    }

    /// Reads a part of a tensor, from the pieces it was saved in: they need not be the part's.
    pub fn read_region(&self, name: &str, region: &TensorRegion) -> Result<Literal, Error> {
        let mut parts = self.read_regions(name, std::slice::from_ref(region))?;
        parts.pop().ok_or_else(|| Error::Missing { path: self.address().into(), name: name.to_string() })
    }

    /// Reads parts of a tensor. Of the pieces it was saved in, those that have something of a part are read, once.
    pub fn read_regions(&self, name: &str, regions: &[TensorRegion]) -> Result<Vec<Literal>, Error> {
        let (tensor, dtype) = self.tensor(name)?;
        let element_bytes = dtype.size_bytes();
        let wrong = || Error::format(self.address(), format!("tensor `{name}` has another size"));
        let mut parts: Vec<(Option<Literal>, Vec<u8>)> = Vec::new();
        for region in regions {
            if !region.lies_in(&tensor.shape) {
                let message = format!("{region:?} does not lie in its shape {:?}", tensor.shape);
                return Err(Error::OutOfRange { name: name.to_string(), message });
            }
            let size_bytes = region.size_bytes(element_bytes).ok_or_else(wrong)?;
            parts.push(match tensor.pieces.iter().find(|piece| piece.region == *region) {
                // Exactly one piece is the usual case, and needs no copy.
                Some(piece) => {
                    let bytes = self.read_piece(tensor, piece, size_bytes)?;
                    (Some(Literal::new(dtype, region.size.clone(), bytes).ok_or_else(wrong)?), Vec::new())
                }
                // No larger than the tensor, which the files were checked to have.
                None => (None, vec![0; size_bytes]),
            });
        }
        for piece in &tensor.pieces {
            let shares = |(n, region): (usize, &TensorRegion)| {
                (parts[n].0.is_none() && piece.region.shared_with(region).is_some()).then_some(n)
            };
            let into: Vec<usize> = regions.iter().enumerate().filter_map(shares).collect();
            if into.is_empty() {
                continue;
            }
            let bytes = self.read_piece(tensor, piece, piece.region.size_bytes(element_bytes).ok_or_else(wrong)?)?;
            for n in into {
                TensorRegion::copy(&piece.region, &bytes, &regions[n], &mut parts[n].1, element_bytes);
            }
        }
        let made = parts.into_iter().zip(regions).map(|((made, bytes), region)| match made {
            Some(made) => Ok(made),
            None => Literal::new(dtype, region.size.clone(), bytes).ok_or_else(wrong),
        });
        made.collect()
    }

    /// Reads all tensors.
    pub fn read_all(&self, types: Types) -> Result<BTreeMap<String, Literal>, Error> {
        let read = |tensor: SavedTensor<'_>| {
            let literal = match types {
                Types::FloatsAs(dtype) if tensor.dtype.is_float() => self.read_as(tensor.name, dtype)?,
                _ => self.read(tensor.name)?,
            };
            Ok((tensor.name.to_string(), literal))
        };
        self.tensors().map(read).collect()
    }

    /// Reads every byte and compares it with its checksum, a little at a time.
    pub fn verify(&self) -> Result<(), Error> {
        for index in 0..self.manifest.files.len() {
            self.check_header(index)?;
        }
        for tensor in &self.manifest.tensors {
            let element_bytes = tensor.dtype().map_or(0, DType::size_bytes);
            for piece in &tensor.pieces {
                let name = self.object_name(piece.file)?;
                let mut left = piece.region.size_bytes(element_bytes).unwrap_or(0);
                let mut offset = piece.offset;
                let mut checksums = Checksums::new(piece.sha256.is_some().into());
                while left > 0 {
                    let now = left.min(CHECK_BYTES);
                    checksums.update(&self.store.read(&name, offset, now)?);
                    offset += now as u64;
                    left -= now;
                }
                self.compare(checksums, piece, &name, &tensor.name)?;
            }
        }
        Ok(())
    }

    fn tensor(&self, name: &str) -> Result<(&TensorRecord, DType), Error> {
        let tensor = self.by_name.get(name).and_then(|index| self.manifest.tensors.get(*index));
        let found = tensor.and_then(|tensor| Some((tensor, tensor.dtype()?)));
        found.ok_or_else(|| Error::Missing { path: self.address().into(), name: name.to_string() })
    }

    fn object_name(&self, file: usize) -> Result<String, Error> {
        Ok(format!("{}/{}", self.folder, self.file(file)?.name))
    }

    fn file(&self, file: usize) -> Result<&FileRecord, Error> {
        self.manifest.files.get(file).ok_or_else(|| Error::format(self.address(), format!("it has no file {file}")))
    }

    fn read_piece(&self, tensor: &TensorRecord, piece: &PieceRecord, size_bytes: usize) -> Result<Vec<u8>, Error> {
        self.check_header(piece.file)?;
        let name = self.object_name(piece.file)?;
        let bytes = if size_bytes == 0 { Vec::new() } else { self.store.read(&name, piece.offset, size_bytes)? };
        let mut checksums = Checksums::new(piece.sha256.is_some().into());
        checksums.update(&bytes);
        self.compare(checksums, piece, &name, &tensor.name)?;
        Ok(bytes)
    }

    fn compare(&self, found: Checksums, piece: &PieceRecord, object: &str, tensor: &str) -> Result<(), Error> {
        if found.finish() == (piece.crc32, piece.sha256.clone()) {
            return Ok(());
        }
        Err(Error::format(self.store.address(object), format!("the checksum of tensor `{tensor}` is wrong")))
    }

    /// Checks a file's header once. Reading does not use it, but a damaged one says that the file is not to be trusted.
    fn check_header(&self, index: usize) -> Result<(), Error> {
        if self.headers.lock().unwrap_or_else(PoisonError::into_inner).contains(&index) {
            return Ok(());
        }
        let file = self.file(index)?;
        let name = self.object_name(index)?;
        let wrong = |message: &str| Error::format(self.store.address(&name), message);
        let size_bytes = usize::try_from(file.header_bytes).map_err(|_| wrong("its header is too large"))?;
        let header = self.store.read(&name, 0, size_bytes)?;
        let mut checksums = Checksums::new(file.header_sha256.is_some().into());
        checksums.update(&header);
        if checksums.finish() != (file.header_crc32, file.header_sha256.clone()) {
            return Err(wrong("the checksum of its header is wrong"));
        }
        self.headers.lock().unwrap_or_else(PoisonError::into_inner).insert(index);
        Ok(())
    }
}
