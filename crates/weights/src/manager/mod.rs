//! The checkpoint manager of a training run: complete checkpoints only, each under its step, on any store.
//!
//! A checkpoint is a folder `step-00000200` with the tensors' files and a manifest, which is written last and names every
//! other file. What no manifest names does not exist: it is the rest of a save that was interrupted. Beside the folders
//! lies the record of the [`owner`], the one run that may write; it lists the manifests that count.

mod background;
mod envelope;
mod group;
mod keep_out;
mod manifest;
mod owner;
mod protection;
mod saved;
mod saver;
mod snapshot;
#[cfg(test)]
mod two_writers;
mod write;

use std::collections::BTreeMap;
use std::time::Instant;

pub use background::{AsyncSaver, WhenBusy};
pub use group::SaveGroup;
pub use manifest::MANIFEST_VERSION;
pub use protection::Protection;
pub use saved::{Saved, SavedTensor, Types};
pub use saver::{Keep, SaveReport, Saver};
pub use snapshot::{Snapshot, SnapshotPiece};

use crate::error::Error;
use crate::store::{Access, Store, StoredObject};
use manifest::Manifest;
use owner::{ManifestFile, Record};

/// Written and deleted to see how fast writing is.
const PROBE: &str = ".probe";

/// How often checkpoints are looked for anew because a run changed them meanwhile.
const MAX_LOOKS: usize = 5;

const FOLDER_PREFIX: &str = "step-";

/// The checkpoints of one training run.
#[derive(Clone, Debug)]
pub struct CheckpointManager {
    store: Store,
    protection: Protection,
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
        CheckpointManager { store, protection: Protection::default() }
    }

    /// Where the checkpoints are.
    pub fn address(&self) -> String {
        self.store.address("").trim_end_matches('/').to_string()
    }

    /// Steps of complete checkpoints, oldest first. Their files are not looked at.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        Ok(self.complete()?.into_iter().map(|(step, ..)| step).collect())
    }

    /// The newest step, if there is one. Its files are not looked at; [`CheckpointManager::latest_good`] does that.
    pub fn latest(&self) -> Result<Option<u64>, Error> {
        Ok(self.steps()?.last().copied())
    }

    /// Opens a checkpoint: its manifest is checked, and that every file is there in its size.
    pub fn load(&self, step: u64) -> Result<Saved, Error> {
        let (files, manifest) = self.consistent(|record| {
            let files = self.files_of(step)?;
            let manifest = Record::manifest_of(record, step, &files);
            Ok((files, manifest))
        })?;
        let none = || Error::NoCheckpoint { location: self.address(), step: Some(step) };
        self.load_listed(step, &files, &manifest.ok_or_else(none)?)
    }

    /// The newest checkpoint that is good, passing over damaged ones. A store that cannot be reached is an error, not
    /// a damaged checkpoint: training must not go back because of a network that is down. So is a newer version.
    pub fn latest_good(&self, check: IntegrityCheck) -> Result<Found, Error> {
        let mut record = self.record()?;
        for look in 1.. {
            let found = self.newest_of(record.as_ref(), check);
            let is_damaged = match &found {
                Ok(found) => !found.damaged.is_empty(),
                Err(error) => error.is_damage() || matches!(error, Error::NoCheckpoint { .. }),
            };
            // What is missing may have been deleted meanwhile, because something newer is there.
            let after = if is_damaged && look < MAX_LOOKS { self.record()? } else { record.clone() };
            if after == record {
                return found;
            }
            record = after;
        }
        self.newest_of(record.as_ref(), check)
    }

    fn newest_of(&self, record: Option<&Record>, check: IntegrityCheck) -> Result<Found, Error> {
        let mut damaged = Vec::new();
        for (step, files, manifest) in self.complete_in(record)?.into_iter().rev() {
            let opened = self.load_listed(step, &files, &manifest);
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

    /// Complete checkpoints with their files and manifests, oldest first.
    fn complete(&self) -> Result<Vec<(u64, Vec<StoredObject>, ManifestFile)>, Error> {
        self.consistent(|record| self.complete_in(record))
    }

    fn complete_in(&self, record: Option<&Record>) -> Result<Vec<(u64, Vec<StoredObject>, ManifestFile)>, Error> {
        let complete = self.folders()?.into_iter().filter_map(|(step, files)| {
            let manifest = Record::manifest_of(record, step, &files)?;
            Some((step, files, manifest))
        });
        Ok(complete.collect())
    }

    fn record(&self) -> Result<Option<Record>, Error> {
        Ok(Record::read(&self.store)?.map(|(record, _)| record))
    }

    /// Lists something while the record stays as it is. One that changes all the time is taken as it is at last.
    fn consistent<T>(&self, list: impl Fn(Option<&Record>) -> Result<T, Error>) -> Result<T, Error> {
        let mut record = self.record()?;
        for look in 1.. {
            let listed = list(record.as_ref())?;
            let after = self.record()?;
            if after == record || look >= MAX_LOOKS {
                return Ok(listed);
            }
            record = after;
        }
        list(record.as_ref())
    }

    fn load_listed(&self, step: u64, files: &[StoredObject], manifest: &ManifestFile) -> Result<Saved, Error> {
        let name = format!("{}/{}", folder_name(step), manifest.name);
        let address = self.store.address(&name);
        if manifest.size_bytes > manifest::MAX_BYTES {
            return Err(Error::format(address, format!("a manifest of {} bytes is not read", manifest.size_bytes)));
        }
        let text = self.store.read(&name, 0, manifest.size_bytes as usize)?;
        if self.protection.encryption_key.is_none() && trust::is_sealed(&text) {
            return Err(Error::NoKey { path: address.into() });
        }
        let announced = manifest.crc32;
        let manifest = Manifest::read(self.protection.checked(&name, &address, &text)?, step, &address)?;
        self.protection.check_digests(&manifest, &address)?;
        // Last: what was changed says itself what is wrong with it.
        if announced.is_some_and(|crc32| crc32 != crc32fast::hash(&text)) {
            return Err(Error::format(address, "it is not the manifest that was announced"));
        }
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

    /// The files of a step's folder, with names inside it.
    fn files_of(&self, step: u64) -> Result<Vec<StoredObject>, Error> {
        Ok(self.store.list(&folder_name(step))?.into_iter().filter_map(|file| in_folder(step, file)).collect())
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

fn folder_name(step: u64) -> String {
    format!("{FOLDER_PREFIX}{step:08}")
}

/// The step of a folder's name; names we would not have given are not ours.
fn step_of(folder: &str) -> Option<u64> {
    let step = folder.strip_prefix(FOLDER_PREFIX)?.parse().ok()?;
    (folder_name(step) == folder && step != keep_out::STEP).then_some(step)
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
        for step in [0, 7, 99_999_999, 100_000_000, u64::MAX - 1] {
            assert_eq!(step_of(&folder_name(step)), Some(step));
        }
        for name in
            ["step-7", "step-000000007", "step-", "step-+0000007", "7", "step-0000000x", "step-18446744073709551615"]
        {
            assert_eq!(step_of(name), None, "{name}");
        }
    }
}
