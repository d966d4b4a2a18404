//! The checkpoint manager of a training run: complete checkpoints only, each under its step, on any store.
//!
//! A checkpoint is a folder `step-00000200` with the tensors' files and `manifest.json`, which is written last and names
//! every other file. What no manifest names does not exist: it is the rest of a save that was interrupted.

mod background;
mod group;
mod manifest;
mod saved;
mod saver;
mod snapshot;
mod write;

use std::collections::BTreeMap;
use std::time::Instant;

pub use background::{AsyncSaver, WhenBusy};
pub use group::SaveGroup;
pub use manifest::MANIFEST_VERSION;
pub use saved::{Saved, SavedTensor, Types};
pub use saver::{Keep, SaveReport, Saver};
pub use snapshot::{Snapshot, SnapshotPiece};

use crate::error::Error;
use crate::store::{Access, Store, StoredObject};
use manifest::Manifest;

/// Written and deleted to see how fast writing is.
const PROBE: &str = ".probe";

const MANIFEST: &str = "manifest.json";
const FOLDER_PREFIX: &str = "step-";

/// The checkpoints of one training run.
#[derive(Clone, Debug)]
pub struct CheckpointManager {
    store: Store,
}

/// How closely a checkpoint is looked at before it is called good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegrityCheck {
    /// The manifest is right and every file is there in its size. Contents are checked when they are read.
    Sizes,
    /// Every byte is read and compared with its checksum.
    Contents,
}

/// The newest good checkpoint, and what was passed over to reach it.
#[derive(Debug)]
pub struct Found {
    /// The checkpoint.
    pub saved: Saved,
    /// Newer checkpoints that are damaged, with what is wrong: worth a warning.
    pub damaged: Vec<(u64, Error)>,
}

impl CheckpointManager {
    /// Manages the checkpoints at a path or address; see [`Store::open`]. It may be empty, or not exist yet.
    pub fn open(location: &str) -> Result<CheckpointManager, Error> {
        Ok(CheckpointManager::at(Store::open(location)?))
    }

    /// [`CheckpointManager::open`] with these credentials, endpoints and limits.
    pub fn open_with(location: &str, access: &Access) -> Result<CheckpointManager, Error> {
        Ok(CheckpointManager::at(Store::open_with(location, access)?))
    }

    /// Manages the checkpoints at the root of a store.
    pub fn at(store: Store) -> CheckpointManager {
        CheckpointManager { store }
    }

    /// Where the checkpoints are.
    pub fn address(&self) -> String {
        self.store.address("").trim_end_matches('/').to_string()
    }

    /// Steps of complete checkpoints, oldest first. Their files are not looked at.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        Ok(self.folders()?.into_iter().filter(|(_, files)| has_manifest(files)).map(|(step, _)| step).collect())
    }

    /// The newest step, if there is one. Its files are not looked at; [`CheckpointManager::latest_good`] does that.
    pub fn latest(&self) -> Result<Option<u64>, Error> {
        Ok(self.steps()?.last().copied())
    }

    /// Opens a checkpoint: its manifest is checked, and that every file is there in its size.
    pub fn load(&self, step: u64) -> Result<Saved, Error> {
        let files = self.store.list(&folder_name(step))?;
        let files: Vec<StoredObject> = files.into_iter().filter_map(|file| in_folder(step, file)).collect();
        self.load_listed(step, &files)
    }

    /// The newest checkpoint that is good, passing over damaged ones. A store that cannot be reached is an error, not
    /// a damaged checkpoint: training must not go back because of a network that is down. So is a newer version.
    pub fn latest_good(&self, check: IntegrityCheck) -> Result<Found, Error> {
        let mut damaged = Vec::new();
        for (step, files) in self.folders()?.into_iter().rev().filter(|(_, files)| has_manifest(files)) {
            let opened = self.load_listed(step, &files);
            let checked = opened.and_then(|saved| match check {
                IntegrityCheck::Sizes => Ok(saved),
                IntegrityCheck::Contents => saved.verify().map(|()| saved),
            });
            match checked {
                Ok(saved) => return Ok(Found { saved, damaged }),
                Err(error) if error.is_damage() => damaged.push((step, error)),
                Err(error) => return Err(error),
            }
        }
        match damaged.into_iter().next() {
            // Nothing is good: what is wrong with the newest one says more than that there is none.
            Some((_, error)) => Err(error),
            None => Err(Error::NoCheckpoint { location: self.address(), step: None }),
        }
    }

    /// Seconds it takes to write so many bytes where the checkpoints go, safely. They are deleted again.
    pub fn try_write(&self, size_bytes: u64) -> Result<f64, Error> {
        let started = Instant::now();
        let mut writer = self.store.write(PROBE, size_bytes)?;
        let chunk = vec![0x5a; usize::try_from(size_bytes).unwrap_or(usize::MAX).min(1 << 20)];
        let mut left = size_bytes;
        while left > 0 {
            let now = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            writer.push(&chunk[..now])?;
            left -= now as u64;
        }
        writer.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        self.store.delete(PROBE)?;
        Ok(seconds)
    }

    fn load_listed(&self, step: u64, files: &[StoredObject]) -> Result<Saved, Error> {
        let none = || Error::NoCheckpoint { location: self.address(), step: Some(step) };
        let manifest = files.iter().find(|file| file.name == MANIFEST).ok_or_else(none)?;
        let name = format!("{}/{MANIFEST}", folder_name(step));
        let address = self.store.address(&name);
        if manifest.size_bytes > manifest::MAX_BYTES {
            return Err(Error::format(address, format!("a manifest of {} bytes is not read", manifest.size_bytes)));
        }
        let text = self.store.read(&name, 0, manifest.size_bytes as usize)?;
        let manifest = Manifest::read(&text, step, &address)?;
        for file in &manifest.files {
            let address = self.store.address(&format!("{}/{}", folder_name(step), file.name));
            match files.iter().find(|found| found.name == file.name) {
                None => return Err(Error::format(address, "it is missing")),
                Some(found) if found.size_bytes != file.size_bytes => {
                    let message = format!("it has {} bytes of {}", found.size_bytes, file.size_bytes);
                    return Err(Error::format(address, message));
                }
                Some(_) => {}
            }
        }
        Ok(Saved::new(self.store.clone(), folder_name(step), manifest))
    }

    /// The files of every step's folder, complete or not, with names inside the folder.
    fn folders(&self) -> Result<BTreeMap<u64, Vec<StoredObject>>, Error> {
        let mut folders: BTreeMap<u64, Vec<StoredObject>> = BTreeMap::new();
        for file in self.store.list("")? {
            let Some(step) = file.name.split('/').next().and_then(step_of) else { continue };
            if let Some(file) = in_folder(step, file) {
                folders.entry(step).or_default().push(file);
            }
        }
        Ok(folders)
    }
}

fn has_manifest(files: &[StoredObject]) -> bool {
    files.iter().any(|file| file.name == MANIFEST)
}

fn folder_name(step: u64) -> String {
    format!("{FOLDER_PREFIX}{step:08}")
}

/// The step of a folder's name; names we would not have given are not ours.
fn step_of(folder: &str) -> Option<u64> {
    let step = folder.strip_prefix(FOLDER_PREFIX)?.parse().ok()?;
    (folder_name(step) == folder).then_some(step)
}

fn in_folder(step: u64, file: StoredObject) -> Option<StoredObject> {
    let name = file.name.strip_prefix(&folder_name(step))?.strip_prefix('/')?.to_string();
    Some(StoredObject { name, ..file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_their_step() {
        for step in [0, 7, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(step_of(&folder_name(step)), Some(step));
        }
        for name in ["step-7", "step-000000007", "step-", "step-+0000007", "7", "step-0000000x"] {
            assert_eq!(step_of(name), None, "{name}");
        }
    }
}
