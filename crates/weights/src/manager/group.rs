//! Several processes that save one checkpoint: each writes its own parts, the first writes the manifest when all of them are safe.
//!
//! What a part is made of may be large, so it lies in the checkpoint's folder as a file of its own; processes tell each
//! other its name, size and checksum only. A process that is gone, or a part that could not be written, means that there is
//! no checkpoint: what the others wrote is deleted, now or by the next save.

use serde::{Deserialize, Serialize};

use super::snapshot::SnapshotPiece;
use super::write::Part;
use super::{CheckpointManager, folder_name};
use crate::error::{Cause, Error};

/// Longest record of a part that is read.
const MAX_PART_BYTES: u64 = 64 << 20;

/// The processes that save together, and how they tell each other of it. All of them save the same steps in the same order.
pub trait SaveGroup: Send + std::fmt::Debug {
    /// Number of this process, from 0.
    fn process(&self) -> usize;

    /// How many there are.
    fn processes(&self) -> usize;

    /// Tells all processes something, under a name that is used once.
    fn tell(&self, name: &str, value: &[u8]) -> Result<(), Cause>;

    /// What a process told under a name. Waits for it as long as all processes are there.
    fn hear(&self, name: &str) -> Result<Vec<u8>, Cause>;

    /// An error where this process may be no member any more. Asked right before a checkpoint is committed.
    fn still_member(&self) -> Result<(), Cause>;
}

/// What a process tells of its side of a save: what came of it, or why nothing did.
#[derive(Serialize, Deserialize)]
enum Told<T> {
    Done(T),
    Failed { message: String, is_replaced: bool },
}

/// Where the record of a part lies.
#[derive(Serialize, Deserialize)]
struct PartFile {
    name: String,
    size_bytes: u64,
    crc32: u32,
}

/// One save of a group, counted from 0.
pub(super) struct GroupSave<'a> {
    pub(super) group: &'a dyn SaveGroup,
    pub(super) number: u64,
}

impl GroupSave<'_> {
    /// The first process is ready; nobody writes before, because it cleans up first.
    pub(super) fn begun(&self, ready: Result<(), Error>) -> Result<(), Error> {
        self.by_first("begun", ready)
    }

    /// What came of the save, told by the first process: the size of the checkpoint.
    pub(super) fn ended(&self, saved: Result<u64, Error>) -> Result<u64, Error> {
        self.by_first("ended", saved)
    }

    /// Writes this process's part. The first process gets all of them, the others none.
    pub(super) fn write(
        &self,
        manager: &CheckpointManager,
        step: u64,
        pieces: Vec<SnapshotPiece>,
        file_bytes: u64,
    ) -> Result<Vec<Part>, Error> {
        let process = self.group.process();
        let written = manager.write_part(step, process, pieces, file_bytes);
        if process > 0 {
            let told = written.and_then(|part| self.write_record(manager, step, &part));
            return self.tell(&format!("part/{process}"), told).map(|_| Vec::new());
        }
        let mut parts = Vec::new();
        let mut failed = written.map(|part| parts.push(part)).err();
        for process in 1..self.group.processes() {
            let heard = self.hear::<PartFile>(&format!("part/{process}"), process);
            match heard.and_then(|file| read_record(manager, step, &file)) {
                Ok(part) => parts.push(part),
                // The first error is the one to see: later ones often follow from it.
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        match failed {
            None => Ok(parts),
            Some(error) => {
                // Best effort, so that a full disk is not kept full; what stays is cleaned up by the next save.
                parts.iter().for_each(|part| manager.delete_part(part));
                Err(error)
            }
        }
    }

    fn write_record(&self, manager: &CheckpointManager, step: u64, part: &Part) -> Result<PartFile, Error> {
        let text = serde_json::to_vec(part).map_err(|error| Error::format(folder_name(step), error.to_string()))?;
        let (name, size_bytes, crc32) = (part.record_name(), text.len() as u64, crc32fast::hash(&text));
        let written = manager.store.put(&format!("{}/{name}", folder_name(step)), &text);
        if written.is_err() {
            manager.delete_part(part);
        }
        written.map(|()| PartFile { name, size_bytes, crc32 })
    }

    fn by_first<T: Serialize + for<'de> Deserialize<'de>>(
        &self,
        name: &str,
        here: Result<T, Error>,
    ) -> Result<T, Error> {
        match self.group.process() {
            0 => self.tell(name, here),
            _ => self.hear(name, 0),
        }
    }

    /// Tells all processes how something went here, and gives it back.
    fn tell<T: Serialize>(&self, name: &str, here: Result<T, Error>) -> Result<T, Error> {
        let failed = |error: &Error| Told::Failed { message: error.with_causes(), is_replaced: error.is_replaced() };
        let text = match &here {
            Ok(value) => serde_json::to_vec(&Told::Done(value)),
            Err(error) => serde_json::to_vec::<Told<&T>>(&failed(error)),
        };
        let text = text.map_err(|error| Error::format(name, error.to_string()))?;
        let told = self.group.tell(&self.key(name), &text);
        // What went wrong here says more than that nobody could be told.
        let value = here?;
        told.map_err(|source| Error::Group { source })?;
        Ok(value)
    }

    fn hear<T: for<'de> Deserialize<'de>>(&self, name: &str, process: usize) -> Result<T, Error> {
        let heard = self.group.hear(&self.key(name)).map_err(|source| Error::Group { source })?;
        let said = |message: String, is_replaced| Error::Peer { process, message, is_replaced };
        match serde_json::from_slice(&heard) {
            Ok(Told::Done(value)) => Ok(value),
            Ok(Told::Failed { message, is_replaced }) => Err(said(message, is_replaced)),
            Err(error) => Err(said(format!("it said what this release does not know: {error}"), false)),
        }
    }

    fn key(&self, name: &str) -> String {
        format!("save/{}/{name}", self.number)
    }
}

/// Reads the record of another process's part, which must be as it was written.
fn read_record(manager: &CheckpointManager, step: u64, file: &PartFile) -> Result<Part, Error> {
    let name = format!("{}/{}", folder_name(step), file.name);
    let wrong = |message: String| Error::format(manager.store.address(&name), message);
    if file.size_bytes > MAX_PART_BYTES {
        return Err(wrong(format!("a record of {} bytes is not read", file.size_bytes)));
    }
    let text = manager.store.read(&name, 0, file.size_bytes as usize)?;
    if crc32fast::hash(&text) != file.crc32 {
        return Err(wrong("its checksum is wrong".into()));
    }
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}
