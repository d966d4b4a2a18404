//! Who a worker is: the keys of its ssh server, published by the provider, or kept from the first meeting.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weights::Store;

use super::ssh::{HostTrust, SshError};
use crate::job::JobHostKeys;
use crate::supervisor::Place;

/// Keys of a worker as the provider publishes them, `ssh-ed25519 AAAA…` each; none where it does not.
pub type HostKeySource = Box<dyn Fn(&Place) -> Result<Vec<String>, String> + Send + Sync>;

/// Where keys that were kept are, below the folder of the job.
const KEPT: &str = "known-hosts";
/// Longest text of the keys of one worker.
const MAX_BYTES: usize = 1 << 16;

/// The keys of the workers of a job.
pub(super) struct HostKeyBook {
    /// What ssh reads.
    file: PathBuf,
    store: Store,
    rule: JobHostKeys,
    source: Option<HostKeySource>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Aliases whose keys are in the file.
    aliases: BTreeSet<String>,
    /// Aliases that a person was told about.
    told: BTreeSet<String>,
}

/// The name of a worker whatever its address: a new machine may have the address of an old one, but not its key.
pub(super) fn alias(place: &Place) -> String {
    format!("{}-{}-{}", place.unit, place.unit_slice, place.worker)
}

impl HostKeyBook {
    pub(super) fn new(folder: &Path, store: Store, rule: JobHostKeys, source: Option<HostKeySource>) -> HostKeyBook {
        let file = folder.join("known_hosts");
        HostKeyBook { file, store, rule, source, known: Mutex::new(Known::default()) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a worker is to be met. Its keys are asked for once, before anything is sent to it.
    pub(super) fn trust(&self, place: &Place) -> Result<HostTrust, SshError> {
        let alias = alias(place);
        if self.known().aliases.contains(&alias) {
            return Ok(HostTrust::Known);
        }
        let published = match &self.source {
            Some(source) => source(place)
                .map_err(|error| SshError::Unreachable(format!("its keys could not be asked for: {error}")))?,
            None => Vec::new(),
        };
        let keys = if published.is_empty() { self.kept(&alias) } else { published };
        if !keys.is_empty() {
            self.write(&alias, &keys)?;
            return Ok(HostTrust::Known);
        }
        match self.rule {
            JobHostKeys::First => Ok(HostTrust::First),
            JobHostKeys::Published => Err(SshError::Failed(
                "the keys of its ssh server are not published, and cloud.host_keys = \"published\" believes no others"
                    .into(),
            )),
        }
    }

    /// A worker without published keys has answered: the key that it showed is the one it must have from now on, also for
    /// the next supervisor. A warning, once for each worker.
    pub(super) fn met(&self, place: &Place) -> Option<String> {
        let alias = alias(place);
        if self.known().aliases.contains(&alias) {
            return None;
        }
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let shown = text.lines().filter_map(|line| line.strip_prefix(&alias)?.strip_prefix(' '));
        let shown: Vec<String> = shown.map(str::to_string).collect();
        if shown.is_empty() {
            return None;
        }
        let is_kept = self.store.put(&format!("{KEPT}/{alias}"), shown.join("\n").as_bytes()).is_ok();
        let mut known = self.known();
        known.aliases.insert(alias.clone());
        let words = if is_kept { "it is kept in the job's folder" } else { "it could not be kept" };
        known.told.insert(alias.clone()).then(|| {
            format!(
                "warning: {alias} published no key of its ssh server; the first that it showed is believed, and {words}"
            )
        })
    }

    fn kept(&self, alias: &str) -> Vec<String> {
        let name = format!("{KEPT}/{alias}");
        let found = self.store.list(KEPT).unwrap_or_default().into_iter().find(|object| object.name == name);
        let size = found.and_then(|object| usize::try_from(object.size_bytes).ok()).filter(|size| *size <= MAX_BYTES);
        let bytes = size.and_then(|size| self.store.read(&name, 0, size).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines().filter(|line| is_key(line)).map(str::to_string).collect()
    }

    fn write(&self, alias: &str, keys: &[String]) -> Result<(), SshError> {
        let mut known = self.known();
        if known.aliases.contains(alias) {
            return Ok(());
        }
        let lines: String = keys.iter().filter(|key| is_key(key)).map(|key| format!("{alias} {key}\n")).collect();
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&self.file);
        let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        written.map_err(|error| SshError::Failed(format!("{}: {error}", self.file.display())))?;
        known.aliases.insert(alias.to_string());
        Ok(())
    }
}

/// A kind and a key, in one line of a file that has others.
fn is_key(line: &str) -> bool {
    let is_plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_graphic());
    let words: Vec<&str> = line.split(' ').collect();
    words.len() >= 2 && words.iter().all(|word| is_plain(word)) && !words[0].starts_with(['@', '#', '|'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(worker: u32) -> Place {
        Place {
            unit: "job-r1-1".into(),
            zone: "us-west4-a".into(),
            unit_slice: 0,
            slice: 0,
            worker,
            internal: "127.0.0.1".parse().unwrap(),
            external: None,
        }
    }

    fn book(folder: &Path, name: &str, rule: JobHostKeys, source: Option<HostKeySource>) -> HostKeyBook {
        let own = folder.join(name);
        std::fs::create_dir_all(&own).unwrap();
        HostKeyBook::new(&own, Store::open(folder.join("job").to_str().unwrap()).unwrap(), rule, source)
    }

    #[test]
    fn published_keys_are_written_and_nothing_else_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let source: HostKeySource = Box::new(|place| match place.worker {
            0 => Ok(vec!["ssh-ed25519 AAAA".into(), "evil\nother ssh-ed25519 BBBB".into(), "@revoked x".into()]),
            1 => Ok(Vec::new()),
            _ => Err("429".into()),
        });
        let book = book(folder.path(), "a", JobHostKeys::Published, Some(source));
        assert_eq!(book.trust(&place(0)), Ok(HostTrust::Known));
        assert_eq!(std::fs::read_to_string(&book.file).unwrap(), "job-r1-1-0-0 ssh-ed25519 AAAA\n");
        assert!(matches!(book.trust(&place(1)), Err(SshError::Failed(_))));
        assert!(matches!(book.trust(&place(2)), Err(SshError::Unreachable(_))));
    }

    #[test]
    fn the_first_key_is_told_and_the_next_supervisor_believes_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let first = book(folder.path(), "a", JobHostKeys::First, None);
        assert_eq!((first.trust(&place(0)), first.met(&place(0))), (Ok(HostTrust::First), None));
        // What ssh writes when it accepts a new key.
        std::fs::write(&first.file, "job-r1-1-0-0 ssh-ed25519 AAAA\n").unwrap();
        assert!(first.met(&place(0)).unwrap().contains("the first that it showed is believed"));
        assert_eq!((first.met(&place(0)), first.trust(&place(0))), (None, Ok(HostTrust::Known)));
        let next = book(folder.path(), "b", JobHostKeys::First, None);
        assert_eq!(next.trust(&place(0)), Ok(HostTrust::Known));
        assert_eq!(std::fs::read_to_string(&next.file).unwrap(), "job-r1-1-0-0 ssh-ed25519 AAAA\n");
        assert_eq!(next.trust(&place(1)), Ok(HostTrust::First));
    }
}
