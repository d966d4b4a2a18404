//! The owner of the checkpoints: the one run that may commit and delete, and how one that was replaced is kept from both.
//!
//! A run may be paused at any moment, for any time: its machine is suspended, its network is cut, it swaps. Meanwhile another
//! run goes on from its checkpoints. When the first one wakes it must not commit, nor delete, whatever it was about to do
//! next. A look at the owner before a write is not enough, because the pause may lie between the look and the
//! write. So the truth is in one small record, which is only changed by compare-and-swap: a conditional put in a bucket, the
//! making of the file of the next number on a disk. It names the owner with an epoch, and it lists the checkpoints.
//!
//! **Rules of a writer.**
//! 1. *Take*: swap in an epoch of its own; then list the store and swap out the checkpoints whose manifest is not there.
//! 2. *Commit*: write the tensors' files; swap in the step with name and checksum of the manifest; write the manifest;
//!    look that the record is still its own.
//! 3. *Delete*: list the store; swap out the checkpoints that go, or look that the record is still its own where none does; then
//!    delete names of that list, and no others.
//! 4. Names are used once: those of tensors' files are random, that of a manifest has series, epoch and number.
//!
//! **Rule of a reader.** A manifest counts if the record lists it. One of another series counts too: it was copied here, or
//! written by a release that had no record, and no run of this series writes such names. Without a record every manifest counts.
//!
//! **Why that is enough.** Let run A be replaced by B, that is, B's take came before A's next swap.
//! - *A cannot commit.* If A has not announced its checkpoint, its swap fails. If it has, either B's listing saw the manifest,
//!   and then the checkpoint was complete before B went on, or B has swapped it out, and a manifest that comes later is
//!   listed by nobody. A does not call it saved: its look finds B. And if A's look found A, the manifest was there before B took
//!   over, so B saw it: what was called saved stays.
//! - *A cannot overwrite.* It writes no name that B writes (rule 4).
//! - *A cannot delete.* What A deletes was in a list from before a moment at which A was the owner (rule 3). B writes
//!   only after its take, so nothing of B's is in that list. What was there before B and counts for B is listed in the
//!   record; A's swap took it out before, so that B never counted on it, or failed.
//! - *Files of the processes of A's group* have random names and are named by no manifest that counts: the next cleaning of
//!   the owner deletes them.
//!
//! A swap whose answer was lost is looked up: every version of the record differs from all others by its count of updates.
//!
//! All this rests on the store's conditions, so that a run begins with two puts that must be refused. And it rests on
//! writers that know the record: see [`keep_earlier_releases_out`].

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::envelope::{opened, sealed};
use super::keep_out::keep_earlier_releases_out;
use crate::error::Error;
use crate::store::{RecordVersion, Store, StoredObject, Swap};

/// The newest version of the record this release writes and reads.
const RECORD_VERSION: u64 = 1;

/// The record, in the store's root.
const RECORD: &str = "owner";

/// Longest record that is read.
const MAX_BYTES: usize = 16 << 20;

/// Swaps that may be lost to other runs that start at the same moment.
const MAX_TAKES: usize = 16;

/// The manifest of releases without a record.
const PLAIN_MANIFEST: &str = "manifest.json";

/// A run that saves checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    /// A random number.
    id: String,
    host: String,
    process_id: u32,
    since_unix_seconds: u64,
    /// It ended by itself: nobody has to be warned of it.
    has_ended: bool,
}

/// A checkpoint that counts, if its manifest is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Announced {
    step: u64,
    manifest: String,
    crc32: u32,
}

/// A checkpoint of another series that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Removed {
    step: u64,
    manifest: String,
}

/// Who may write, and which checkpoints count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Changes so far: no two versions are alike.
    update: u64,
    epoch: u64,
    /// A random number: manifests of this place have it in their names.
    series: String,
    owner: Run,
    checkpoints: Vec<Announced>,
    removed: Vec<Removed>,
}

/// A manifest that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestFile {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    /// As it was announced; `None` in another series.
    pub(super) crc32: Option<u32>,
}

/// The right to write, as long as nobody takes it.
#[derive(Debug)]
pub(super) struct Owner {
    store: Store,
    record: Record,
    version: RecordVersion,
    /// Whether a swap failed without an answer: the store may have it nevertheless, now or later.
    is_unsure: bool,
    /// Manifests written so far.
    manifests: u64,
    /// The run that was replaced, if it had not ended.
    pub(super) replaced: Option<String>,
}

impl Record {
    /// What the store says, with its version.
    pub(super) fn read(store: &Store) -> Result<Option<(Record, RecordVersion)>, Error> {
        let Some((text, version)) = store.read_record(RECORD, MAX_BYTES)? else { return Ok(None) };
        Ok(Some((opened(&text, RECORD_VERSION, &store.address(RECORD))?, version)))
    }

    #[cfg(test)]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The manifest that counts among the files of a step's folder.
    pub(super) fn manifest_of(record: Option<&Record>, step: u64, files: &[StoredObject]) -> Option<ManifestFile> {
        let of =
            |file: &StoredObject, crc32| ManifestFile { name: file.name.clone(), size_bytes: file.size_bytes, crc32 };
        let listed =
            record.into_iter().flat_map(|record| record.checkpoints.iter().rev().filter(|known| known.step == step));
        for known in listed {
            if let Some(file) = files.iter().find(|file| file.name == known.manifest) {
                return Some(of(file, Some(known.crc32)));
            }
        }
        let foreign = files.iter().filter(|file| is_foreign(record, step, &file.name));
        // Of several the last one: the one of releases without a record is the oldest.
        foreign.max_by_key(|file| (file.name != PLAIN_MANIFEST, &file.name)).map(|file| of(file, None))
    }

    /// All manifests of a step's folder that would count if others did not.
    fn all_of(&self, step: u64, files: &[StoredObject]) -> Vec<String> {
        let is_listed = |name: &str| self.checkpoints.iter().any(|known| known.step == step && known.manifest == name);
        let names = files.iter().map(|file| &file.name);
        names.filter(|name| is_listed(name) || is_foreign(Some(self), step, name)).cloned().collect()
    }
}

/// Whether a manifest is of another series and is not being deleted.
fn is_foreign(record: Option<&Record>, step: u64, name: &str) -> bool {
    let is_removed = |record: &Record| record.removed.iter().any(|gone| gone.step == step && gone.manifest == name);
    let is_own = |record: &Record| name.strip_prefix("manifest-").is_some_and(|rest| rest.starts_with(&record.series));
    is_manifest(name) && !record.is_some_and(|record| is_removed(record) || is_own(record))
}

/// Whether a file is a manifest by its name.
pub(super) fn is_manifest(name: &str) -> bool {
    name == PLAIN_MANIFEST || (name.starts_with("manifest-") && name.ends_with(".json"))
}

impl Owner {
    /// Takes the checkpoints over. Whoever had them can neither commit nor delete from now on.
    pub(super) fn take(
        store: &Store,
        files_of: impl Fn(u64) -> Result<Vec<StoredObject>, Error>,
    ) -> Result<Owner, Error> {
        let mut lost = None;
        for _ in 0..MAX_TAKES {
            let found = Record::read(store)?;
            let mine = Run::here();
            let (record, before) = match found {
                None => {
                    // Before anything is here that they would not see.
                    keep_earlier_releases_out(store)?;
                    let series = format!("{:08x}", random() as u32);
                    let (checkpoints, removed) = (Vec::new(), Vec::new());
                    (Record { update: 0, epoch: 1, series, owner: mine, checkpoints, removed }, None)
                }
                Some((record, version)) => {
                    let epoch = record.epoch.saturating_add(1);
                    let replaced = (!record.owner.has_ended).then(|| record.owner.to_string());
                    (Record { update: record.update + 1, epoch, owner: mine, ..record }, Some((version, replaced)))
                }
            };
            let (version, replaced) = before.map_or((None, None), |(version, replaced)| (Some(version), replaced));
            match swapped(store, &record, version.as_ref())? {
                Ok(version) => {
                    let text = sealed(RECORD_VERSION, &record, &store.address(RECORD))?;
                    store.check_conditions(RECORD, text.as_bytes())?;
                    let mut owner =
                        Owner { store: store.clone(), record, version, is_unsure: false, manifests: 0, replaced };
                    owner.forget_unseen(files_of)?;
                    return Ok(owner);
                }
                Err(error) => lost = Some(error),
            }
        }
        Err(lost.unwrap_or_else(|| replaced_by(store, "another run".into())))
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Takes checkpoints out whose manifest is not there: one that comes later does not count.
    fn forget_unseen(&mut self, files_of: impl Fn(u64) -> Result<Vec<StoredObject>, Error>) -> Result<(), Error> {
        let mut unseen = BTreeSet::new();
        let checkpoints = self.record.checkpoints.iter().map(|known| (known.step, &known.manifest));
        let removed = self.record.removed.iter().map(|gone| (gone.step, &gone.manifest));
        for (step, manifest) in checkpoints.chain(removed) {
            if !files_of(step)?.iter().any(|file| file.name == *manifest) {
                unseen.insert((step, manifest.clone()));
            }
        }
        let is_seen = |step: u64, manifest: &String| !unseen.contains(&(step, manifest.clone()));
        self.change(|record| {
            record.checkpoints.retain(|known| is_seen(known.step, &known.manifest));
            // What was to be deleted and is gone needs no memory.
            record.removed.retain(|gone| is_seen(gone.step, &gone.manifest));
        })?;
        Ok(())
    }

    /// The name of the next manifest, which nobody has used.
    pub(super) fn next_manifest(&mut self) -> String {
        self.manifests += 1;
        format!("manifest-{}-{:06}-{:06}.json", self.record.series, self.record.epoch, self.manifests)
    }

    /// Lists a checkpoint whose manifest is written next. One of the same step counts until then.
    pub(super) fn announce(&mut self, step: u64, manifest: &str, crc32: u32) -> Result<(), Error> {
        let announced = Announced { step, manifest: manifest.to_string(), crc32 };
        self.change(|record| record.checkpoints.push(announced.clone()))?;
        Ok(())
    }

    /// Takes checkpoints out, which may be deleted then: all manifests of these steps but the one that is kept. `files` were
    /// listed before.
    pub(super) fn retire(&mut self, steps: &[(u64, &[StoredObject], Option<&str>)]) -> Result<(), Error> {
        let has_changed = self.change(|record| {
            let before = record.clone();
            for (step, files, kept) in steps {
                for manifest in before.all_of(*step, files).into_iter().filter(|name| Some(name.as_str()) != *kept) {
                    if is_foreign(Some(&before), *step, &manifest) {
                        record.removed.push(Removed { step: *step, manifest });
                    }
                }
                record.checkpoints.retain(|known| known.step != *step || Some(known.manifest.as_str()) == *kept);
            }
        })?;
        if has_changed { Ok(()) } else { self.confirm() }
    }

    /// Takes checkpoints of these steps out whose manifest was not in a listing.
    pub(super) fn forget(&mut self, unseen: &dyn Fn(u64, &str) -> bool) -> Result<(), Error> {
        self.change(|record| record.checkpoints.retain(|known| !unseen(known.step, &known.manifest)))?;
        Ok(())
    }

    /// Fails if another run has taken over.
    pub(super) fn confirm(&self) -> Result<(), Error> {
        match Record::read(&self.store)? {
            Some((record, _)) if self.is_mine(&record) => Ok(()),
            Some((record, _)) => Err(replaced_by(&self.store, record.owner.to_string())),
            None => Err(replaced_by(&self.store, "somebody who deleted the record of the owner".into())),
        }
    }

    /// Says that this run has ended, so that the next one warns nobody.
    pub(super) fn release(&mut self) -> Result<(), Error> {
        self.change(|record| record.owner.has_ended = true)?;
        Ok(())
    }

    /// Edits the record and swaps it in, if that changes anything. Where an earlier swap of this run may have arrived without an
    /// answer, the edit is made to what the store has.
    fn change(&mut self, edit: impl Fn(&mut Record)) -> Result<bool, Error> {
        let mut lost = None;
        for _ in 0..MAX_TAKES {
            if self.is_unsure {
                self.look_again()?;
            }
            let mut next = self.record.clone();
            edit(&mut next);
            if next == self.record {
                return Ok(false);
            }
            next.update = self.record.update + 1;
            // Until there is an answer.
            self.is_unsure = true;
            match swapped(&self.store, &next, Some(&self.version))? {
                Ok(version) => {
                    (self.record, self.version, self.is_unsure) = (next, version, false);
                    return Ok(true);
                }
                // Perhaps by an earlier swap of this run that came late.
                Err(error) => lost = Some(error),
            }
        }
        Err(lost.unwrap_or_else(|| replaced_by(&self.store, "another run".into())))
    }

    /// Takes the record as the store has it, if it is still this run's.
    fn look_again(&mut self) -> Result<(), Error> {
        match Record::read(&self.store)? {
            Some((record, version)) if self.is_mine(&record) => {
                (self.record, self.version, self.is_unsure) = (record, version, false);
                Ok(())
            }
            Some((record, _)) => Err(replaced_by(&self.store, record.owner.to_string())),
            None => Err(replaced_by(&self.store, "somebody who deleted the record of the owner".into())),
        }
    }

    fn is_mine(&self, record: &Record) -> bool {
        record.owner.id == self.record.owner.id && record.epoch == self.record.epoch
    }
}

/// Swaps a record in; the inner error says who was first.
fn swapped(
    store: &Store,
    record: &Record,
    expected: Option<&RecordVersion>,
) -> Result<Result<RecordVersion, Error>, Error> {
    let text = sealed(RECORD_VERSION, record, &store.address(RECORD))?;
    let swap = store.swap_record(RECORD, expected, text.as_bytes());
    if let Ok(Swap::Done(version)) = swap {
        return Ok(Ok(version));
    }
    // Perhaps the answer was lost, not the swap.
    let found = Record::read(store);
    match (swap, found) {
        (_, Ok(Some((found, version)))) if found == *record => Ok(Ok(version)),
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        (Ok(_), Ok(Some((found, _)))) => Ok(Err(replaced_by(store, found.owner.to_string()))),
        (Ok(_), Ok(None)) => Ok(Err(replaced_by(store, "somebody who deleted the record of the owner".into()))),
    }
}

fn replaced_by(store: &Store, by: String) -> Error {
    Error::Replaced { location: store.address("").trim_end_matches('/').to_string(), by }
}

/// The run that has the checkpoints, for errors.
pub(super) fn current_owner(store: &Store) -> Option<String> {
    let (record, _) = Record::read(store).ok().flatten()?;
    Some(record.owner.to_string())
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl Run {
    fn here() -> Run {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Run {
            id: format!("{:016x}", random()),
            host: host.trim().to_string(),
            process_id: std::process::id(),
            since_unix_seconds: since,
            has_ended: false,
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = utc(self.since_unix_seconds);
        write!(f, "run {} (process {} on {}, since {since})", self.id, self.process_id, self.host)
    }
}

/// A moment as people write it, by the proleptic Gregorian calendar.
fn utc(unix_seconds: u64) -> String {
    let (mut days, of_day) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let is_leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    // A damaged number must not be a long loop: 400 years have always the same number of days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02} {:02}:{:02}:{:02} UTC", days + 1, of_day / 3600, of_day / 60 % 60, of_day % 60)
}
