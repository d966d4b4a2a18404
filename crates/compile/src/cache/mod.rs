//! The compile cache: content-addressed, in memory and on disk, explainable, portable.

mod disk;
mod entry;
mod explain;
mod key;
mod stats;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

pub(crate) use disk::{Disk, Lock, LockAttempt, Read as Found};
pub use entry::{Blob, CacheEntry, Unreadable};
pub use key::{CacheKey, KeyParts, PluginParts, ProgramParts};
pub use stats::Stats;

use crate::error::CompileError;
use crate::recent::Recent;
use disk::Read;

/// How a cache is kept.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Folder on disk; `None` for memory only.
    pub folder: Option<PathBuf>,
    /// Most entries in memory (`cache_max_size`).
    pub max_entries: usize,
    /// Most bytes on disk.
    pub max_bytes: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig { folder: None, max_entries: 100, max_bytes: 20 << 30 }
    }
}

/// The folder the `tpu` command uses: `$TPUBRIDGE_CACHE`, else `$XDG_CACHE_HOME/tpubridge`, else `~/.cache/tpubridge`.
pub fn default_folder(env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("TPUBRIDGE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("tpubridge")))
        .or_else(|| set("HOME").map(|home| home.join(".cache").join("tpubridge")))
}

/// A compile cache. Cheap to share by reference between threads; processes share its folder.
#[derive(Debug)]
pub struct Cache {
    memory: Mutex<Recent<CacheKey, Arc<CacheEntry>>>,
    disk: Option<Disk>,
    stats: Mutex<Stats>,
}

/// What a look-up found.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The entry.
    Hit(Arc<CacheEntry>),
    /// Nothing; with a warning when something unreadable stood there.
    Miss(Option<String>),
}

/// A row of `tpu cache list`.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Key.
    pub key: String,
    /// Module name.
    pub module: String,
    /// Target.
    pub target: String,
    /// Compiler.
    pub plugin: String,
    /// Options that differ from none, as `name=value`.
    pub options: Vec<String>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Seconds the compilation took.
    pub compile_seconds: f64,
    /// When it was made, in seconds since the epoch.
    pub created_unix: u64,
    /// When it was last used, in seconds since the epoch.
    pub used_unix: u64,
}

impl Cache {
    /// Opens a cache. Nothing is created until something is stored. A folder of another user, or one that others can write
    /// to, is refused: an entry is machine code.
    pub fn open(config: &CacheConfig) -> Result<Cache, CompileError> {
        let disk = config.folder.as_deref().map(|folder| Disk::open(folder, config.max_bytes)).transpose()?;
        if let Some(disk) = &disk {
            disk.sweep();
        }
        Ok(Cache { memory: Mutex::new(Recent::new(config.max_entries)), disk, stats: Mutex::default() })
    }

    /// Looks an entry up and counts the answer.
    pub fn get(&self, key: &CacheKey) -> Lookup {
        let found = self.find(key);
        self.count(match &found {
            Lookup::Hit(entry) => Stats { hits: 1, seconds_saved: entry.compile_seconds, ..Stats::default() },
            Lookup::Miss(warning) => Stats { misses: 1, unreadable: warning.is_some().into(), ..Stats::default() },
        });
        found
    }

    /// Looks an entry up without counting.
    fn find(&self, key: &CacheKey) -> Lookup {
        if let Some(entry) = lock(&self.memory).get(key) {
            return Lookup::Hit(entry);
        }
        let Some(disk) = &self.disk else { return Lookup::Miss(None) };
        match disk.read(key) {
            Ok(Read::Found(entry)) => {
                let entry = Arc::new(*entry);
                lock(&self.memory).put(*key, Arc::clone(&entry));
                Lookup::Hit(entry)
            }
            Ok(Read::Absent) => Lookup::Miss(None),
            Ok(Read::Unreadable(why)) => {
                let _ = disk.remove(key);
                Lookup::Miss(Some(format!("cache entry {key} is unreadable ({why}); compiling again")))
            }
            Err(error) => Lookup::Miss(Some(format!("cache entry {key} cannot be read ({error}); compiling again"))),
        }
    }

    /// The entry another process or thread stored in the meantime; does not count as a look-up.
    pub fn recheck(&self, key: &CacheKey) -> Option<Arc<CacheEntry>> {
        match self.find(key) {
            Lookup::Hit(entry) => Some(entry),
            Lookup::Miss(_) => None,
        }
    }

    /// Stores an entry. A disk that cannot be written is a warning, not a failure.
    pub fn put(&self, entry: Arc<CacheEntry>) -> Option<String> {
        let mut evictions = lock(&self.memory).put(entry.parts.key(), Arc::clone(&entry));
        let mut warning = None;
        if let Some(disk) = &self.disk {
            match disk.write(&entry) {
                Ok(evicted) => evictions += evicted,
                Err(error) => {
                    warning = Some(format!("the result could not be kept in {}: {error}", disk.root().display()));
                }
            }
        }
        if evictions > 0 {
            self.count(Stats { evictions, ..Stats::default() });
        }
        warning
    }

    /// The key the same bytes were found under before.
    pub(crate) fn alias(&self, alias: &CacheKey) -> Option<CacheKey> {
        self.disk.as_ref()?.read_alias(alias)
    }

    /// Remembers under which key these bytes are found; only a shortcut, so failing is silent.
    pub(crate) fn set_alias(&self, alias: &CacheKey, key: &CacheKey) {
        if let Some(disk) = &self.disk {
            let _ = disk.write_alias(alias, key);
        }
    }

    /// The right to compile `key`; `None` when there is no disk to share or it cannot be locked.
    pub(crate) fn try_lock(&self, key: &CacheKey) -> Option<LockAttempt> {
        self.disk.as_ref()?.lock(key).ok()
    }

    /// Why `asked` is not in the cache: the nearest entry's key and what differs, most telling first.
    pub fn explain_miss(&self, asked: &KeyParts) -> Option<(CacheKey, Vec<String>)> {
        let disk = self.disk.as_ref()?;
        let mut candidates = disk.list().ok()?;
        candidates.sort_by_key(|e| std::cmp::Reverse(e.used));
        candidates.truncate(500);
        candidates
            .iter()
            .filter_map(|listed| disk.read_parts(listed).map(|(parts, _, _)| (listed.key, parts)))
            .filter(|(key, _)| *key != asked.key())
            .min_by_key(|(_, parts)| explain::distance(asked, parts))
            .map(|(key, parts)| (key, explain::differences(asked, &parts)))
    }

    /// Counters of this process.
    pub fn stats(&self) -> Stats {
        lock(&self.stats).clone()
    }

    /// Counters of all processes that used the folder.
    pub fn total_stats(&self) -> Stats {
        self.disk.as_ref().map_or_else(|| self.stats(), Disk::stats)
    }

    /// Entries on disk, most recently used first.
    pub fn list(&self) -> Result<Vec<Row>, CompileError> {
        let Some(disk) = &self.disk else { return Ok(Vec::new()) };
        let mut listed = disk.list().map_err(|source| CompileError::io("listing the cache", disk.root(), source))?;
        listed.sort_by_key(|e| std::cmp::Reverse(e.used));
        let row = |e: &disk::Listed| {
            let (parts, compile_seconds, created_unix) = disk.read_parts(e)?;
            Some(Row {
                key: e.key.to_string(),
                module: parts.program.name,
                target: parts.target,
                plugin: parts.plugin.to_string(),
                options: parts
                    .options
                    .iter()
                    .chain(&parts.flags)
                    .chain(&parts.environment)
                    .map(|(n, v)| format!("{n}={v}"))
                    .collect(),
                bytes: e.bytes,
                compile_seconds,
                created_unix,
                used_unix: e.used.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            })
        };
        Ok(listed.iter().filter_map(row).collect())
    }

    /// Number of entries and bytes on disk.
    pub fn disk_usage(&self) -> Result<(u64, u64), CompileError> {
        let Some(disk) = &self.disk else { return Ok((0, 0)) };
        let listed = disk.list().map_err(|source| CompileError::io("listing the cache", disk.root(), source))?;
        Ok((listed.len() as u64, listed.iter().map(|e| e.bytes).sum()))
    }

    /// Removes everything; returns entries and bytes removed from disk.
    pub fn clear(&self) -> Result<(u64, u64), CompileError> {
        lock(&self.memory).clear();
        let Some(disk) = &self.disk else { return Ok((0, 0)) };
        disk.clear().map_err(|source| CompileError::io("clearing the cache", disk.root(), source))
    }

    /// The level on disk, which some operations need.
    pub(crate) fn disk(&self) -> Result<&Disk, CompileError> {
        self.disk.as_ref().ok_or(CompileError::NoCacheFolder)
    }

    fn count(&self, delta: Stats) {
        lock(&self.stats).add(&delta);
        if let Some(disk) = &self.disk {
            disk.add_stats(&delta);
        }
    }
}

/// Counters and entries stay meaningful after a panic elsewhere, so a poisoned lock is entered.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since the epoch.
pub fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use trust::SecretKey;

    use super::entry::tests::entry;
    use super::*;
    use crate::bundle::BundleTrust;

    fn open(folder: &Path) -> Cache {
        Cache::open(&CacheConfig { folder: Some(folder.to_path_buf()), ..CacheConfig::default() }).unwrap()
    }

    fn is_hit(cache: &Cache, digest: &str) -> bool {
        matches!(cache.get(&entry(digest).parts.key()), Lookup::Hit(_))
    }

    #[test]
    fn stores_and_finds_across_openings() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path());
        assert!(!is_hit(&cache, "a"));
        assert_eq!(cache.put(Arc::new(entry("a"))), None);
        assert!(is_hit(&cache, "a"));
        let again = open(folder.path());
        assert!(is_hit(&again, "a"));
        let stats = again.total_stats();
        assert_eq!((stats.hits, stats.misses, stats.seconds_saved), (2, 1, 3.0));
    }

    #[test]
    fn a_corrupt_entry_is_a_miss_with_one_warning() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).put(Arc::new(entry("a")));
        let path = open(folder.path()).disk.as_ref().unwrap().list().unwrap()[0].path.clone();
        std::fs::write(&path, b"garbage").unwrap();
        let cache = open(folder.path());
        let key = entry("a").parts.key();
        assert!(matches!(cache.get(&key), Lookup::Miss(Some(_))));
        assert!(matches!(cache.get(&key), Lookup::Miss(None)));
        assert_eq!(cache.stats().unreadable, 1);
    }

    #[test]
    fn an_entry_under_another_name_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path());
        cache.put(Arc::new(entry("a")));
        let disk = cache.disk.as_ref().unwrap();
        let wrong = entry("b").parts.key();
        disk.write_encoded(&wrong, &entry("a").encode()).unwrap();
        assert!(matches!(open(folder.path()).get(&wrong), Lookup::Miss(Some(_))));
    }

    #[test]
    fn the_disk_bound_drops_the_least_recently_used() {
        let folder = tempfile::tempdir().unwrap();
        let size = entry("a").encode().len() as u64;
        let config = CacheConfig { folder: Some(folder.path().into()), max_entries: 0, max_bytes: 2 * size };
        let cache = Cache::open(&config).unwrap();
        for (age, digest) in [(30, "a"), (20, "b")] {
            cache.put(Arc::new(entry(digest)));
            let disk = cache.disk.as_ref().unwrap();
            let listed = disk.list().unwrap().into_iter().find(|l| l.key == entry(digest).parts.key()).unwrap();
            let file = std::fs::File::options().append(true).open(listed.path).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        assert!(is_hit(&cache, "a"));
        cache.put(Arc::new(entry("c")));
        assert!(is_hit(&cache, "a") && !is_hit(&cache, "b") && is_hit(&cache, "c"));
        assert_eq!(cache.stats().evictions, 1);
    }

    #[test]
    fn a_bundle_moves_entries_to_another_folder() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = open(from.path());
        cache.put(Arc::new(entry("a")));
        cache.put(Arc::new(entry("b")));
        let bundle = to.path().join("warm.bundle");
        assert_eq!(cache.export(None, &bundle, None).unwrap().entries, 2);
        let other = open(&to.path().join("cache"));
        assert_eq!(other.import(&bundle, BundleTrust::Vouched).unwrap().entries, 2);
        assert_eq!(other.import(&bundle, BundleTrust::Vouched).unwrap().skipped, 2);
        assert!(is_hit(&other, "a") && is_hit(&other, "b"));

        let bytes = std::fs::read(&bundle).unwrap();
        for cut in [0, 5, 20, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&bundle, &bytes[..cut]).unwrap();
            let refused = open(&to.path().join("cut")).import(&bundle, BundleTrust::Vouched);
            assert!(refused.is_err(), "cut at {cut}");
        }
        std::fs::write(&bundle, [&bytes[..], b"x"].concat()).unwrap();
        assert!(open(&to.path().join("cut")).import(&bundle, BundleTrust::Vouched).is_err(), "one byte more");
        assert_eq!(open(&to.path().join("cut")).list().unwrap().len(), 0, "all of it or nothing");
    }

    #[test]
    fn a_bundle_is_taken_from_whom_one_trusts() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = open(from.path());
        cache.put(Arc::new(entry("a")));
        let bundle = to.path().join("warm.bundle");
        let key = SecretKey::generate().unwrap();
        let (ours, others) = ([key.public("")], [SecretKey::generate().unwrap().public("")]);
        let import = |keys: &[trust::PublicKey]| {
            let cache = open(tempfile::tempdir().unwrap().path());
            let moved = cache.import(&bundle, BundleTrust::SignedBy(keys));
            assert_eq!(cache.list().unwrap().len(), usize::from(moved.is_ok()));
            moved
        };

        cache.export(None, &bundle, None).unwrap();
        assert!(matches!(import(&ours), Err(CompileError::Unsigned(_))));
        let moved = cache.export(None, &bundle, Some(&key)).unwrap();
        assert_eq!(moved.signed_by, Some(key.id()));
        assert_eq!(import(&ours).unwrap().signed_by, Some(key.id()));
        assert!(matches!(import(&others), Err(CompileError::Signature { .. })));
        assert!(matches!(import(&[]), Err(CompileError::Signature { .. })));

        // Another entry in a bundle that reads well, under the old signature.
        let signature = std::fs::read(to.path().join("warm.bundle.minisig")).unwrap();
        cache.put(Arc::new(entry("b")));
        cache.export(None, &bundle, None).unwrap();
        assert!(matches!(import(&ours), Err(CompileError::Unsigned(_))), "the old signature does not stay");
        std::fs::write(to.path().join("warm.bundle.minisig"), signature).unwrap();
        assert!(matches!(import(&ours), Err(CompileError::Signature { .. })));
        assert!(open(&to.path().join("cache")).import(&bundle, BundleTrust::Vouched).is_ok());
    }

    #[test]
    fn an_executable_belongs_to_its_program() {
        let program = |text: &str| crate::Program::read(text.as_bytes().to_vec()).unwrap();
        let one = program("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }");
        let other = program("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }");
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("b");
        let import = |under: &crate::Program, holding: &[u8]| {
            let mut entry = entry("a");
            entry.parts.program = under.parts();
            entry.blobs.push(Blob { name: crate::blob::PROGRAM.into(), bytes: holding.to_vec() });
            let cache = open(tempfile::tempdir().unwrap().path());
            cache.put(Arc::new(entry));
            cache.export(None, &bundle, None).unwrap();
            open(tempfile::tempdir().unwrap().path()).import(&bundle, BundleTrust::Vouched)
        };
        assert_eq!(import(&one, one.bytes()).unwrap().entries, 1);
        assert!(matches!(import(&one, other.bytes()), Err(CompileError::Bundle { .. })));
        assert!(matches!(import(&one, b"nonsense"), Err(CompileError::Bundle { .. })));
    }

    #[test]
    fn only_the_owner_may_write_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        open(&cache).put(Arc::new(entry("a")));
        open(&cache).set_alias(&entry("a").parts.key(), &entry("b").parts.key());
        let mut seen = 0;
        let mut pending = vec![cache.clone()];
        while let Some(path) = pending.pop() {
            let metadata = std::fs::metadata(&path).unwrap();
            let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", path.display());
            if metadata.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()));
            } else {
                seen += 1;
            }
        }
        assert!(seen >= 2, "an entry and an alias");

        let config = CacheConfig { folder: Some(cache.clone()), ..CacheConfig::default() };
        for open_to_others in [".", "v1", "v1/entries", "v1/aliases"] {
            let path = cache.join(open_to_others);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
            let refused = Cache::open(&config).unwrap_err();
            assert!(matches!(refused, CompileError::CacheFolder(_)), "{open_to_others}: {refused}");
            assert!(refused.remedy().contains("chmod"), "{}", refused.remedy());
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        // In a folder like /tmp, where others cannot touch what is ours, it is ours again.
        std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(is_hit(&open(&cache), "a"));
    }

    #[test]
    fn concurrent_writers_and_readers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let folder = folder.path();
                scope.spawn(move || {
                    let cache = open(folder);
                    for round in 0..20 {
                        let digest = format!("{}", (thread + round) % 10);
                        cache.put(Arc::new(entry(&digest)));
                        assert!(is_hit(&cache, &digest));
                    }
                });
            }
        });
        let cache = open(folder.path());
        assert_eq!(cache.list().unwrap().len(), 10);
        assert_eq!(cache.total_stats().hits, 160);
        assert_eq!(cache.clear().unwrap().0, 10);
        assert!(!is_hit(&cache, "0"));
    }

    #[test]
    fn a_miss_names_the_nearest_entry() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path());
        cache.put(Arc::new(entry("a")));
        let mut asked = entry("a").parts;
        asked.flags.insert("xla_x".into(), "1".into());
        let (key, why) = cache.explain_miss(&asked).unwrap();
        assert_eq!((key, why), (entry("a").parts.key(), vec!["flag xla_x: not set → 1".to_string()]));
    }

    #[test]
    fn a_folder_that_cannot_be_written_only_warns() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not-a-folder");
        std::fs::write(&file, b"").unwrap();
        let cache = open(&file);
        assert!(cache.put(Arc::new(entry("a"))).is_some());
        assert!(is_hit(&cache, "a"), "the memory level still answers");
    }
}
