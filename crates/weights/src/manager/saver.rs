//! Saving checkpoints: one complete checkpoint after the other, and which of the old ones are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Instant;

use serde_json::Value;

use super::group::{GroupSave, SaveGroup};
use super::owner::{Owner, Record, current_owner};
use super::snapshot::{Snapshot, SnapshotPiece};
use super::write::Part;
use super::{CheckpointManager, step_of};
use crate::error::Error;
use crate::region::{TensorRegion, why_no_tiling};
use crate::store::Lock;

/// Tensors' files are about this large: large enough for few requests, small enough that one can be uploaded again.
const FILE_BYTES: u64 = 2 << 30;

/// Which checkpoints are kept when a new one is complete. The new one always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How many of the newest are kept, the new one included (`max_to_keep`); all of them if `None`.
    pub newest: Option<NonZeroUsize>,
    /// Beside those, checkpoints whose step is a multiple of this are kept for good.
    pub every_steps: Option<NonZeroU64>,
}

impl Keep {
    /// Nothing is deleted.
    pub const ALL: Keep = Keep { newest: None, every_steps: None };

    /// The newest few; 0 counts as 1.
    pub fn newest(count: usize) -> Keep {
        Keep { newest: Some(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)), every_steps: None }
    }

    /// Also every multiple of `steps`, for good; 0 adds nothing.
    pub fn and_every(self, steps: u64) -> Keep {
        Keep { every_steps: NonZeroU64::new(steps), ..self }
    }
}

/// What a save did.
#[derive(Debug)]
pub struct SaveReport {
    /// The step that was saved.
    pub step: u64,
    /// Bytes of the checkpoint.
    pub size_bytes: u64,
    /// Seconds it took until it was complete and safe; without the time to delete others.
    pub seconds: f64,
    /// Steps whose checkpoints were deleted.
    pub deleted: Vec<u64>,
    /// What could not be deleted, and why: the new checkpoint is complete nevertheless.
    pub warnings: Vec<Error>,
}

impl SaveReport {
    fn new(step: u64, size_bytes: u64, started: Instant) -> SaveReport {
        let seconds = started.elapsed().as_secs_f64();
        SaveReport { step, size_bytes, seconds, deleted: Vec::new(), warnings: Vec::new() }
    }
}

/// What is known of a checkpoint that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Good,
    Damaged,
    /// Written by a newer release: not ours to judge.
    Newer,
}

/// The one writer of a [`CheckpointManager`]: it takes the checkpoints over from any that was there, which can neither commit nor
/// delete from then on. On a local disk other processes are kept out as long as it lives.
#[derive(Debug)]
pub struct Saver {
    manager: CheckpointManager,
    keep: Keep,
    file_bytes: u64,
    /// The right to write; of several processes the first one has it.
    owner: Option<Owner>,
    /// Whether the store answered last time.
    is_reachable: bool,
    /// Filled by the first save, and again after a failed one.
    known: Option<BTreeMap<u64, Condition>>,
    /// The processes that save together.
    group: Option<Box<dyn SaveGroup>>,
    /// Saves begun so far.
    saves: u64,
    _lock: Option<Lock>,
}

impl Saver {
    /// Locks the checkpoints for writing, and takes them over.
    pub fn new(manager: CheckpointManager, keep: Keep) -> Result<Saver, Error> {
        Saver::with_group(manager, keep, None)
    }

    /// Saves together with other processes: each gives [`Saver::save`] the pieces it has, and none of them has all. The first
    /// process owns the checkpoints, commits and deletes.
    pub fn among(manager: CheckpointManager, keep: Keep, group: Box<dyn SaveGroup>) -> Result<Saver, Error> {
        Saver::with_group(manager, keep, Some(group))
    }

    fn with_group(manager: CheckpointManager, keep: Keep, group: Option<Box<dyn SaveGroup>>) -> Result<Saver, Error> {
        let (mut lock, mut owner) = (None, None);
        if group.as_ref().is_none_or(|group| group.process() == 0) {
            lock = manager.store.lock().map_err(|error| match error {
                Error::Busy { location, .. } => Error::Busy { location, by: current_owner(&manager.store) },
                error => error,
            })?;
            owner = Some(Owner::take(&manager.store, |step| manager.files_of(step))?);
        }
        let file_bytes = FILE_BYTES;
        Ok(Saver { manager, keep, file_bytes, owner, is_reachable: true, known: None, group, saves: 0, _lock: lock })
    }

    /// The run that was replaced, where it had not ended as far as can be told: it can save no more.
    pub fn replaced(&self) -> Option<&str> {
        // Where there is a lock, the other run would hold it if it lived.
        self.owner.as_ref().filter(|_| self._lock.is_none())?.replaced.as_deref()
    }

    /// The number of its taking over, among all of these checkpoints.
    #[cfg(test)]
    pub(super) fn epoch(&self) -> Option<u64> {
        self.owner.as_ref().map(|owner| owner.record().epoch())
    }

    /// Makes the tensors' files about this large. A piece is never split, so that a file may be larger.
    pub fn with_file_bytes(mut self, file_bytes: u64) -> Saver {
        self.file_bytes = file_bytes;
        self
    }

    /// The manager.
    pub fn manager(&self) -> &CheckpointManager {
        &self.manager
    }

    /// Saves a checkpoint. Until its manifest is written, which is the last thing that is, every checkpoint that was
    /// there stays, also one of the same step; then it exists, and those that are not to be kept are deleted.
    pub fn save(&mut self, snapshot: Snapshot) -> Result<SaveReport, Error> {
        let saved = self.save_now(snapshot, Instant::now());
        self.is_reachable = saved.is_ok();
        saved
    }

    fn save_now(&mut self, snapshot: Snapshot, started: Instant) -> Result<SaveReport, Error> {
        if let Some(group) = self.group.take() {
            let saved = self.save_among(&*group, snapshot, started);
            self.group = Some(group);
            return saved;
        }
        let Snapshot { step, pieces, metadata } = snapshot;
        check_tiling(&pieces)?;
        self.clean()?;
        let part = self.manager.write_part(step, 0, pieces, self.file_bytes)?;
        let size_bytes = self.commit(step, vec![part], metadata)?;
        Ok(self.tidy(SaveReport::new(step, size_bytes, started)))
    }

    fn save_among(&mut self, group: &dyn SaveGroup, snapshot: Snapshot, started: Instant) -> Result<SaveReport, Error> {
        let Snapshot { step, pieces, metadata } = snapshot;
        let save = GroupSave { group, number: self.saves };
        self.saves += 1;
        let is_first = group.process() == 0;
        save.begun(if is_first { self.clean() } else { Ok(()) })?;
        let parts = save.write(&self.manager, step, pieces, self.file_bytes);
        if !is_first {
            parts?;
            return Ok(SaveReport::new(step, save.ended(Ok(0))?, started));
        }
        let committed = parts.and_then(|parts| {
            group.still_member().map_err(|source| Error::Group { source })?;
            self.commit(step, parts, metadata)
        });
        if committed.is_err() {
            // Parts of others may be left.
            self.known = None;
        }
        let size_bytes = save.ended(committed)?;
        Ok(self.tidy(SaveReport::new(step, size_bytes, started)))
    }

    /// Makes a checkpoint of what was written, and sees that it is there. Gives its size.
    fn commit(&mut self, step: u64, parts: Vec<Part>, metadata: Value) -> Result<u64, Error> {
        let mut known = match self.known.take() {
            Some(known) => known,
            None => self.conditions()?,
        };
        let owner = self.owner.as_mut().ok_or_else(not_the_owner)?;
        // If this fails, a store may have the manifest nevertheless; the next save looks.
        let committed = self.manager.commit(owner, step, parts, metadata);
        let seen = committed.and_then(|size_bytes| self.manager.load(step).map(|_| size_bytes));
        let size_bytes = seen.map_err(|error| self.explained(error))?;
        known.insert(step, Condition::Good);
        self.known = Some(known);
        Ok(size_bytes)
    }

    /// Who took over, where that is why files are not there any more.
    fn explained(&self, error: Error) -> Error {
        if !error.is_damage() && !matches!(error, Error::NoCheckpoint { .. }) {
            return error;
        }
        let confirmed = self.owner.as_ref().map_or(Ok(()), Owner::confirm);
        confirmed.err().filter(Error::is_replaced).unwrap_or(error)
    }

    /// Deletes what a new checkpoint makes superfluous: files of an earlier save of the same step, then older checkpoints.
    fn tidy(&mut self, mut report: SaveReport) -> SaveReport {
        let Some(mut known) = self.known.take() else { return report };
        let step = report.step;
        report.warnings.extend(self.delete_unnamed(step).err());
        for old in self.superseded(step, &known) {
            match self.delete_step(old) {
                Ok(()) => {
                    known.remove(&old);
                    report.deleted.push(old);
                }
                Err(error) => report.warnings.push(error),
            }
        }
        if report.warnings.is_empty() {
            self.known = Some(known);
        }
        report
    }

    /// Deletes what interrupted saves left, before the first save and after one that failed.
    fn clean(&mut self) -> Result<(), Error> {
        if self.known.is_some() {
            return Ok(());
        }
        let owner = self.owner.as_mut().ok_or_else(not_the_owner)?;
        let folders = self.manager.folders()?;
        // Announced, but not written: a manifest that comes late must not count, because its files go now.
        let is_unseen =
            |step: u64, name: &str| !folders.get(&step).is_some_and(|files| files.iter().any(|file| file.name == name));
        owner.forget(&is_unseen)?;
        for (step, files) in &folders {
            match Record::manifest_of(self.owner.as_ref().map(Owner::record), *step, files) {
                None => self.delete_step(*step)?,
                Some(_) => self.delete_unnamed(*step)?,
            }
        }
        for name in self.manager.store.folders()? {
            if step_of(&name).is_some_and(|step| !folders.contains_key(&step)) {
                self.manager.store.remove_empty_folder(&name)?;
            }
        }
        self.manager.store.remove_unfinished()?;
        self.known = Some(self.conditions()?);
        Ok(())
    }

    /// Deletes a checkpoint, or what is in its folder.
    fn delete_step(&mut self, step: u64) -> Result<(), Error> {
        let owner = self.owner.as_mut().ok_or_else(not_the_owner)?;
        let files = self.manager.files_of(step)?;
        owner.retire(&[(step, &files, None)])?;
        self.manager.delete_files(step, files.iter().map(|file| file.name.as_str()))
    }

    /// Deletes the files of a step's folder that its checkpoint does not name. Of one that is damaged all are left.
    fn delete_unnamed(&mut self, step: u64) -> Result<(), Error> {
        let owner = self.owner.as_mut().ok_or_else(not_the_owner)?;
        let files = self.manager.files_of(step)?;
        let Some(manifest) = Record::manifest_of(Some(owner.record()), step, &files) else { return Ok(()) };
        let named = match self.manager.load_listed(step, &files, &manifest) {
            Ok(saved) => saved.file_names(),
            Err(error) if error.is_damage() || matches!(error, Error::Newer { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_left = |name: &&str| *name != manifest.name && !named.contains(*name);
        let left: Vec<&str> = files.iter().map(|file| file.name.as_str()).filter(is_left).collect();
        if left.is_empty() {
            return Ok(());
        }
        owner.retire(&[(step, &files, Some(&manifest.name))])?;
        self.manager.delete_files(step, left.into_iter())
    }

    /// Deletes all checkpoints after a good one, from which a run is begun again on purpose. Otherwise the next start
    /// would find the newer ones and go on from there.
    pub fn discard_after(&mut self, step: u64) -> Result<Vec<u64>, Error> {
        let known = self.conditions()?;
        if known.get(&step) != Some(&Condition::Good) {
            return Err(Error::NoCheckpoint { location: self.manager.address(), step: Some(step) });
        }
        let later: Vec<u64> =
            known.range(step.saturating_add(1)..).map(|(later, _)| *later).filter(|l| *l != step).collect();
        self.known = None;
        // The newest first: if this is interrupted, no gap is left between checkpoints of different runs.
        for later in later.iter().rev() {
            self.delete_step(*later)?;
        }
        Ok(later)
    }

    fn conditions(&self) -> Result<BTreeMap<u64, Condition>, Error> {
        let judge = |(step, files, manifest): (u64, Vec<_>, _)| match self.manager.load_listed(step, &files, &manifest)
        {
            Ok(_) => Ok((step, Condition::Good)),
            Err(Error::Newer { .. }) => Ok((step, Condition::Newer)),
            Err(error) if error.is_damage() => Ok((step, Condition::Damaged)),
            Err(error) => Err(error),
        };
        self.manager.complete()?.into_iter().map(judge).collect()
    }

    /// Older checkpoints that need not be kept now that this step is complete. Damaged ones do not count as kept, and
    /// later ones are left alone.
    fn superseded(&self, step: u64, known: &BTreeMap<u64, Condition>) -> Vec<u64> {
        let Some(newest) = self.keep.newest else { return Vec::new() };
        let older = known.range(..step);
        let good = older.clone().rev().filter(|(_, condition)| **condition == Condition::Good);
        let kept: BTreeSet<u64> = good.take(newest.get() - 1).map(|(step, _)| *step).collect();
        let for_good = |step: u64| self.keep.every_steps.is_some_and(|every| step.is_multiple_of(every.get()));
        let deletable = older.filter(|(older, condition)| {
            let forever = for_good(**older) && **condition == Condition::Good;
            !kept.contains(older) && !forever && **condition != Condition::Newer
        });
        deletable.map(|(step, _)| *step).collect()
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        // Best effort, and not where a store that does not answer would be waited for.
        if let Some(owner) = self.owner.as_mut().filter(|_| self.is_reachable) {
            let _ = owner.release();
        }
    }
}

/// Only the first of several processes commits and deletes.
fn not_the_owner() -> Error {
    Error::Thread { doing: "committing in the first process", source: None }
}

/// Found before anything is written, because gigabytes may follow.
fn check_tiling(pieces: &[SnapshotPiece]) -> Result<(), Error> {
    let mut tensors: BTreeMap<&str, (&[usize], Vec<&TensorRegion>)> = BTreeMap::new();
    for piece in pieces {
        let tensor = tensors.entry(&piece.name).or_insert_with(|| (&piece.dims, Vec::new()));
        tensor.1.push(&piece.region);
    }
    for (name, (dims, regions)) in tensors {
        if let Some(message) = why_no_tiling(&regions, dims) {
            return Err(Error::Tensor { name: name.to_string(), message });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_good_ones_and_every_nth_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let check = |keep: Keep, step: u64, known: &[(u64, Condition)], expected: &[u64]| {
            let manager = CheckpointManager::at(crate::Store::folder(folder.path()));
            let saver = Saver::new(manager, keep).unwrap();
            assert_eq!(saver.superseded(step, &known.iter().copied().collect()), expected, "{keep:?} {step}");
        };
        use Condition::{Damaged, Good, Newer};
        let five = [(10, Good), (20, Good), (30, Good), (40, Good), (50, Good)];
        check(Keep::ALL, 50, &five, &[]);
        check(Keep::newest(2), 50, &five, &[10, 20, 30]);
        check(Keep::newest(0), 50, &five, &[10, 20, 30, 40]);
        check(Keep::newest(2).and_every(20), 50, &five, &[10, 30]);
        check(Keep::newest(9), 50, &five, &[]);
        // Damaged ones do not count, and are not worth keeping.
        check(Keep::newest(2), 50, &[(20, Good), (30, Damaged), (40, Damaged), (50, Good)], &[30, 40]);
        check(Keep::newest(1).and_every(10), 50, &[(20, Good), (30, Damaged), (50, Good)], &[30]);
        check(Keep::newest(1), 50, &[(20, Newer), (50, Good)], &[]);
        // Later ones are another run's business.
        check(Keep::newest(1), 20, &five, &[10]);
    }
}
