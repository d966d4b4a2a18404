//! Keeps releases out that know no record of the owner: they would take every checkpoint of now for the rest of an
//! interrupted save, begin at step 0, and delete it.
//!
//! They cannot be changed, but they look at the newest step first, they know a checkpoint by its `manifest.json`, and they refuse
//! one of a newer version before they train. So the largest step there is has such a file, and no other.

use super::folder_name;
use crate::error::Error;
use crate::store::Store;

/// The step of the file. Nothing is saved under it.
pub(super) const STEP: u64 = u64::MAX;

/// Those releases read version 1.
const CONTENTS: &str = "{\"version\":2,\"about\":\"This is no checkpoint. It keeps releases of tpubridge out that would delete \
                        the checkpoints beside it, because they know no record of their owner (owner.json, owner-N.json).\"}\n";

/// Makes earlier releases refuse these checkpoints with an error that says to update. Never encrypted: it must be read without
/// a key.
pub(super) fn keep_earlier_releases_out(store: &Store) -> Result<(), Error> {
    store.plain().put(&format!("{}/manifest.json", folder_name(STEP)), CONTENTS.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::{CheckpointManager, Keep, Protection, Saver, Snapshot, SnapshotPiece};
    use super::*;
    use std::sync::Arc;
    use tensor::Literal;

    /// What a release without a record does with a folder, step for step: the folders that have a `manifest.json`, newest
    /// first, and of the first one its version.
    fn as_earlier_releases_see(folder: &std::path::Path) -> (u64, u64) {
        let steps = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
            let path = entry.unwrap().path();
            let step = path.file_name()?.to_str()?.strip_prefix("step-")?.parse::<u64>().ok()?;
            path.join("manifest.json").is_file().then_some(step)
        });
        let newest = steps.max().unwrap();
        let text = std::fs::read(folder.join(folder_name(newest)).join("manifest.json")).unwrap();
        let envelope: serde_json::Value = serde_json::from_slice(&text).unwrap();
        (newest, envelope["version"].as_u64().unwrap())
    }

    #[test]
    fn earlier_releases_find_a_newer_version_first() {
        for is_encrypted in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let encryption_key = is_encrypted.then(|| trust::SealingKey::generate().unwrap());
            let protection = Protection { encryption_key, ..Protection::default() };
            let manager = CheckpointManager::at(Store::folder(folder.path())).protected(protection);
            let mut saver = Saver::new(manager.clone(), Keep::newest(1)).unwrap();
            assert!(manager.steps().unwrap().is_empty());
            for step in [1, 2, 3] {
                let pieces = vec![SnapshotPiece::whole("w", Arc::new(Literal::from([step as f32])))];
                let saved = saver.save(Snapshot { step, pieces, metadata: serde_json::Value::Null }).unwrap();
                assert!(saved.warnings.is_empty(), "{:?}", saved.warnings);
                // What it saves, keeps and cleans up is not changed by it, and it stays.
                assert_eq!(manager.steps().unwrap(), [step]);
                assert_eq!(as_earlier_releases_see(folder.path()), (STEP, 2));
            }
            assert!(saver.discard_after(3).unwrap().is_empty());
            drop(saver);
            drop(Saver::new(manager.clone(), Keep::newest(1)).unwrap());
            assert_eq!(as_earlier_releases_see(folder.path()), (STEP, 2));
            assert!(manager.load(STEP).is_err());
        }
    }
}
