//! Writing the tensors' files of one checkpoint, and the record of what was written.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use serde::{Deserialize, Serialize};

use super::manifest::{FileRecord, Manifest, PieceRecord, TensorRecord};
use super::owner::{Owner, is_manifest};
use super::protection::Checksums;
use super::snapshot::SnapshotPiece;
use super::{CheckpointManager, folder_name};
use crate::error::Error;
use crate::safetensors::{HeaderEntry, has_type, header};
use tensor::DType;

/// Bytes that go to the store in one call.
const CHUNK_BYTES: usize = 4 << 20;

/// What one process wrote of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    step: u64,
    /// Begins the names of its files: the process and a random number.
    attempt: String,
    files: Vec<FileRecord>,
    tensors: Vec<TensorRecord>,
}

/// What a file calls a piece.
struct Labelled {
    piece: SnapshotPiece,
    /// The tensor's name, and where the piece lies if it is not the whole tensor.
    label: String,
    /// As the file describes it: types the format does not have are bytes there.
    dtype: DType,
    dims: Vec<usize>,
    size_bytes: usize,
}

impl CheckpointManager {
    /// Writes the pieces one process has, into files of about `file_bytes`. They belong to no checkpoint until the manifest
    /// is written. Processes have different numbers.
    pub(super) fn write_part(
        &self,
        step: u64,
        process: usize,
        pieces: Vec<SnapshotPiece>,
        file_bytes: u64,
    ) -> Result<Part, Error> {
        if step == super::keep_out::STEP {
            return Err(Error::Tensor { name: folder_name(step), message: "no checkpoint can have this step".into() });
        }
        // A random name, so that files of an earlier save of the same step stay as they are until the manifest changes.
        let attempt = format!("{process:04}-{:016x}", RandomState::new().hash_one(step));
        let mut part = Part { step, attempt, files: Vec::new(), tensors: Vec::new() };
        let written = self.write_files(&mut part, pieces, file_bytes);
        if let Err(error) = written {
            // Best effort, so that a full disk is not kept full; what stays is cleaned up by the next save.
            self.delete_part(&part);
            return Err(error);
        }
        Ok(part)
    }

    /// Deletes what a process wrote for a checkpoint that did not come about, as far as that can be done.
    pub(super) fn delete_part(&self, part: &Part) {
        let folder = folder_name(part.step);
        for name in part.files.iter().map(|file| file.name.clone()).chain([part.record_name()]) {
            let _ = self.store.delete(&format!("{folder}/{name}"));
        }
        let _ = self.store.remove_empty_folder(&folder);
    }

    fn write_files(&self, part: &mut Part, pieces: Vec<SnapshotPiece>, file_bytes: u64) -> Result<(), Error> {
        let mut labelled = pieces.into_iter().map(label).collect::<Result<Vec<_>, _>>()?;
        labelled.sort_by(|a, b| a.label.cmp(&b.label));
        if let Some(pair) = labelled.windows(2).find(|pair| pair[0].label == pair[1].label) {
            return Err(Error::Tensor { name: pair[0].label.clone(), message: "the snapshot has it twice".into() });
        }
        let mut tensors: BTreeMap<String, TensorRecord> = BTreeMap::new();
        let mut rest = labelled.into_iter().peekable();
        while rest.peek().is_some() {
            let mut group: Vec<Labelled> = Vec::new();
            let mut group_bytes = 0u64;
            while let Some(next) = rest
                .next_if(|next| group.is_empty() || group_bytes.saturating_add(next.size_bytes as u64) <= file_bytes)
            {
                group_bytes = group_bytes.saturating_add(next.size_bytes as u64);
                group.push(next);
            }
            let name = format!("{}-{:05}.safetensors", part.attempt, part.files.len());
            let file = self.write_file(part.step, part.files.len(), name, group, &mut tensors)?;
            part.files.push(file);
        }
        part.tensors = tensors.into_values().collect();
        Ok(())
    }

    fn write_file(
        &self,
        step: u64,
        number: usize,
        name: String,
        group: Vec<Labelled>,
        tensors: &mut BTreeMap<String, TensorRecord>,
    ) -> Result<FileRecord, Error> {
        let entries = group.iter().map(|labelled| {
            let Labelled { label, dtype, dims, size_bytes, .. } = labelled;
            HeaderEntry { name: label, dtype: *dtype, dims, size_bytes: *size_bytes as u64 }
        });
        // What Hugging Face's libraries want to see.
        let header = header(entries, &BTreeMap::from([("format".to_string(), "pt".to_string())]))?;
        let header_bytes = header.len() as u64;
        let size_bytes = group.iter().fold(header_bytes, |sum, labelled| sum + labelled.size_bytes as u64);
        let mut writer = self.store.write(&format!("{}/{name}", folder_name(step)), size_bytes)?;
        writer.push(&header)?;
        let mut offset = header_bytes;
        for Labelled { piece, size_bytes, .. } in group {
            let fresh = TensorRecord {
                name: piece.name.clone(),
                dtype: piece.dtype.name().to_string(),
                shape: piece.dims.clone(),
                pieces: Vec::new(),
            };
            let record = tensors.entry(piece.name.clone()).or_insert_with(|| fresh.clone());
            if record.dtype != fresh.dtype || record.shape != fresh.shape {
                return Err(Error::Tensor { name: fresh.name, message: "its pieces differ in type or shape".into() });
            }
            let region = piece.region.clone();
            let value = piece.produce()?;
            let mut checksums = Checksums::new(self.protection.signs().into());
            for chunk in value.bytes().chunks(CHUNK_BYTES) {
                checksums.update(chunk);
                writer.push(chunk)?;
            }
            let (crc32, sha256) = checksums.finish();
            record.pieces.push(PieceRecord { file: number, offset, region, crc32, sha256 });
            offset += size_bytes as u64;
        }
        writer.finish()?;
        let mut checksums = Checksums::new(self.protection.signs().into());
        checksums.update(&header);
        let (header_crc32, header_sha256) = checksums.finish();
        Ok(FileRecord { name, size_bytes, header_bytes, header_crc32, header_sha256 })
    }

    /// Makes a checkpoint of what processes wrote: checks it, announces it, then writes the manifest. Returns its size.
    pub(super) fn commit(
        &self,
        owner: &mut Owner,
        step: u64,
        parts: Vec<Part>,
        metadata: serde_json::Value,
    ) -> Result<u64, Error> {
        let manifest = joined(step, parts, metadata)?;
        let folder = folder_name(step);
        let name = owner.next_manifest();
        let address = self.store.address(&format!("{folder}/{name}"));
        if let Some(problem) = manifest.problem() {
            return Err(Error::Tensor { name: address, message: problem });
        }
        let text = self.protection.signed(&format!("{folder}/{name}"), manifest.text(&address)?);
        if text.len() as u64 > super::manifest::MAX_BYTES {
            let message = format!("its {} bytes are more than this release reads", text.len());
            return Err(Error::Tensor { name: address, message });
        }
        let found = self.files_of(step)?;
        let found: BTreeMap<&str, u64> = found.iter().map(|file| (file.name.as_str(), file.size_bytes)).collect();
        // Another run that cleans up here would have removed them: a manifest must not name what is not there.
        if let Some(gone) = manifest.files.iter().find(|file| found.get(file.name.as_str()) != Some(&file.size_bytes)) {
            let address = self.store.address(&format!("{folder}/{}", gone.name));
            return Err(Error::format(
                address,
                "it is not there any more as it was written; does another run save here?",
            ));
        }
        owner.announce(step, &name, crc32fast::hash(text.as_bytes()))?;
        self.store.put(&format!("{folder}/{name}"), text.as_bytes())?;
        owner.confirm()?;
        Ok(manifest.files.iter().map(|file| file.size_bytes).sum::<u64>() + text.len() as u64)
    }

    /// Deletes files of a step's folder that were listed while their run was the owner, manifests first: at no moment is there a
    /// manifest whose files are gone.
    pub(super) fn delete_files<'a>(&self, step: u64, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
        let folder = folder_name(step);
        let (manifests, others): (Vec<&str>, Vec<&str>) = names.partition(|name| is_manifest(name));
        for name in manifests.into_iter().chain(others) {
            self.store.delete(&format!("{folder}/{name}"))?;
        }
        self.store.remove_empty_folder(&folder)
    }
}

impl Part {
    /// The file in which a process tells the first one of its part.
    pub(super) fn record_name(&self) -> String {
        format!("{}.part.json", self.attempt)
    }
}

fn joined(step: u64, parts: Vec<Part>, metadata: serde_json::Value) -> Result<Manifest, Error> {
    let mut files = Vec::new();
    let mut tensors: BTreeMap<String, TensorRecord> = BTreeMap::new();
    for part in parts {
        if part.step != step {
            let message = format!("a part of step {} was given for step {step}", part.step);
            return Err(Error::Tensor { name: folder_name(step), message });
        }
        let first = files.len();
        files.extend(part.files);
        for mut tensor in part.tensors {
            tensor.pieces.iter_mut().for_each(|piece| piece.file = piece.file.saturating_add(first));
            match tensors.get_mut(&tensor.name) {
                None => drop(tensors.insert(tensor.name.clone(), tensor)),
                Some(known) if known.dtype == tensor.dtype && known.shape == tensor.shape => {
                    known.pieces.append(&mut tensor.pieces);
                }
                Some(_) => {
                    let message = "its pieces differ in type or shape".into();
                    return Err(Error::Tensor { name: tensor.name, message });
                }
            }
        }
    }
    Ok(Manifest { step, files, tensors: tensors.into_values().collect(), metadata })
}

fn label(piece: SnapshotPiece) -> Result<Labelled, Error> {
    let wrong = |message: String| Error::Tensor { name: piece.name.clone(), message };
    if piece.name.is_empty() {
        return Err(wrong("it has no name".into()));
    }
    if !piece.region.lies_in(&piece.dims) {
        return Err(wrong(format!("{:?} does not lie in {:?}", piece.region, piece.dims)));
    }
    let size_bytes = piece.size_bytes().ok_or_else(|| wrong(format!("its shape {:?} is too large", piece.dims)))?;
    let label = if piece.region.size == piece.dims {
        piece.name.clone()
    } else {
        let ends =
            piece.region.start.iter().zip(&piece.region.size).map(|(start, size)| format!("{start}:{}", start + size));
        format!("{}[{}]", piece.name, ends.collect::<Vec<_>>().join(","))
    };
    let (dtype, dims) = match has_type(piece.dtype) {
        true => (piece.dtype, piece.region.size.clone()),
        false => (DType::U8, vec![size_bytes]),
    };
    Ok(Labelled { piece, label, dtype, dims, size_bytes })
}
