//! Data where it is: files in buckets and on web servers, fetched in blocks as they are needed and kept on disk.
//!
//! A read asks for the blocks it needs; a few requests run at once, those that somebody waits for first. Each host fetches the
//! blocks of its own rows. Memory does not grow with files or with what is on the way: an answer goes to the disk as it comes.

mod file;
mod folder;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use weights::{Access, ObjectReader, ObjectVersion, RemoteObject, StoreFailure};

use crate::error::DataError;
use file::FileInner;
pub use file::{RemoteFile, RemoteFileReader};
use folder::CacheFolder;

/// Most reads ahead that wait for their turn; older ones are dropped, because somebody will ask again.
const MAX_AHEAD: usize = 1 << 14;

/// How remote data is fetched and kept.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The folder where it is kept. Only its owner may write there.
    pub cache_dir: PathBuf,
    /// The most that is kept; half of the disk's free space if absent.
    pub cache_max_bytes: Option<u64>,
    /// Credentials, endpoints, and how long to insist.
    pub access: Access,
    /// Requests at once.
    pub requests: usize,
    /// What one request reads at most.
    pub part_bytes: u64,
    /// What is read where only a few bytes are needed; a power of two.
    pub block_bytes: u64,
}

impl RemoteOptions {
    /// Kept in a folder, with access from the environment.
    pub fn new(cache_dir: PathBuf) -> RemoteOptions {
        RemoteOptions {
            cache_dir,
            cache_max_bytes: None,
            access: Access::from_environment(),
            requests: 8,
            part_bytes: 8 << 20,
            block_bytes: 64 << 10,
        }
    }
}

/// Remote files that share connections and a cache. Copies are the same.
#[derive(Clone, Debug)]
pub struct RemoteData {
    shared: Arc<Shared>,
}

/// What was fetched so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RemoteStats {
    /// Bytes that came over the network.
    pub fetched_bytes: u64,
    /// Bytes that were read, most of them from the cache.
    pub read_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that failed and were repeated.
    pub repeated: u64,
    /// Seconds in which at least one request was under way.
    pub busy_seconds: f64,
    /// Bytes of the cache folder.
    pub cache_bytes: u64,
}

impl RemoteStats {
    /// Bytes for each second in which something was fetched.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.busy_seconds > 0.0).then(|| self.fetched_bytes as f64 / self.busy_seconds)
    }
}

struct Shared {
    reader: ObjectReader,
    folder: CacheFolder,
    options: RemoteOptions,
    queue: Mutex<Queue>,
    files: Mutex<HashMap<String, Weak<FileInner>>>,
    meter: Meter,
    /// Counts reads: what was used when.
    clock: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Meter {
    fetched_bytes: AtomicU64,
    read_bytes: AtomicU64,
    requests: AtomicU64,
    repeated: AtomicU64,
}

#[derive(Default)]
struct Queue {
    running: usize,
    now: VecDeque<Job>,
    ahead: VecDeque<Job>,
    busy_since: Option<Instant>,
    busy_seconds: f64,
}

/// Blocks of a file that somebody wants.
struct Job {
    file: Arc<FileInner>,
    blocks: Range<usize>,
    urgency: Urgency,
}

/// Who waits for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// Somebody does.
    Now,
    /// Nobody yet.
    Ahead,
}

/// Why bytes did not come, for everybody who waits for them.
#[derive(Clone, Debug)]
struct RemoteFailure {
    is_changed: bool,
    message: String,
    remedy: String,
}

impl RemoteFailure {
    fn of(error: &weights::Error) -> RemoteFailure {
        let is_changed = matches!(error, weights::Error::Store { failure: StoreFailure::Changed, .. });
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(below) = cause {
            message.push_str(&format!(": {below}"));
            cause = below.source();
        }
        RemoteFailure { is_changed, message, remedy: error.remedy() }
    }

    fn ended() -> RemoteFailure {
        let message = "a request ended without an answer".to_string();
        RemoteFailure { is_changed: false, message, remedy: "start again; report it if it happens again".to_string() }
    }

    fn error(&self, address: &str) -> DataError {
        if self.is_changed {
            return DataError::Changed { address: address.to_string() };
        }
        DataError::Remote { message: self.message.clone(), remedy: self.remedy.clone() }
    }
}

impl From<weights::Error> for DataError {
    fn from(error: weights::Error) -> DataError {
        let address = match &error {
            weights::Error::Store { object, .. } => object.clone(),
            _ => String::new(),
        };
        RemoteFailure::of(&error).error(&address)
    }
}

impl RemoteData {
    /// Opens the cache; no server is asked.
    pub fn new(options: RemoteOptions) -> Result<RemoteData, DataError> {
        if !options.block_bytes.is_power_of_two() || options.part_bytes < options.block_bytes || options.requests == 0 {
            return Err(DataError::Options(
                "blocks are a power of two, parts are no smaller, requests are some".into(),
            ));
        }
        // Less could not hold what is on the way and what is being read.
        let least_bytes = options.part_bytes * (2 * options.requests as u64 + 2);
        let folder = CacheFolder::open(&options.cache_dir, options.cache_max_bytes, least_bytes)?;
        let reader = ObjectReader::new(options.access.clone())?;
        let shared = Shared {
            reader,
            folder,
            options,
            queue: Mutex::default(),
            files: Mutex::default(),
            meter: Meter::default(),
            clock: AtomicU64::new(1),
        };
        Ok(RemoteData { shared: Arc::new(shared) })
    }

    /// Whether a path is an address of something elsewhere.
    pub fn is_address(path: &str) -> bool {
        ObjectReader::is_address(path)
    }

    /// Opens a file: asks for its size and version, which it must keep from then on.
    pub fn open(&self, address: &str) -> Result<RemoteFile, DataError> {
        if let Some(inner) = self.shared.opened(address) {
            return Ok(RemoteFile { inner });
        }
        let object = self.shared.reader.object(address)?;
        let version = self.shared.reader.version(&object)?;
        if version.tag.is_none() {
            let address = object.address();
            tracing::warn!(%address, "the server gives neither ETag nor Last-Modified: a change of the file may go unnoticed");
        }
        self.shared.open(address, object, version)
    }

    /// Files below an address of a bucket, with their names after it, sorted by name. They are opened when they are needed.
    pub(crate) fn list(&self, address: &str) -> Result<Vec<(String, ListedFile)>, DataError> {
        let found = self.shared.reader.list(address)?;
        Ok(found.into_iter().map(|(name, object, version)| (name, ListedFile { object, version })).collect())
    }

    /// Opens a file of a listing, without a request.
    pub(crate) fn open_listed(&self, file: &ListedFile) -> Result<RemoteFile, DataError> {
        if let Some(inner) = self.shared.opened(file.object.address()) {
            return Ok(RemoteFile { inner });
        }
        self.shared.open(file.object.address(), file.object.clone(), file.version.clone())
    }

    /// Buckets that files were opened from, with the bytes of those files.
    pub fn buckets(&self) -> BTreeMap<String, u64> {
        let mut buckets = BTreeMap::new();
        for file in self.shared.lock_files().values().filter_map(Weak::upgrade) {
            let Some((scheme @ ("gs" | "s3"), rest)) = file.object.address().split_once("://") else { continue };
            let bucket = format!("{scheme}://{}", rest.split('/').next().unwrap_or_default());
            *buckets.entry(bucket).or_default() += file.version.size_bytes;
        }
        buckets
    }

    /// Where a bucket is, in its cloud's words; `None` where it does not tell.
    pub fn location(&self, bucket: &str) -> Option<String> {
        self.shared.reader.location(bucket)
    }

    /// What was fetched so far.
    pub fn stats(&self) -> RemoteStats {
        let Meter { fetched_bytes, read_bytes, requests, repeated } = &self.shared.meter;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let queue = self.shared.lock_queue();
        RemoteStats {
            fetched_bytes: get(fetched_bytes),
            read_bytes: get(read_bytes),
            requests: get(requests),
            repeated: get(repeated),
            busy_seconds: queue.busy_seconds + queue.busy_since.map_or(0.0, |since| since.elapsed().as_secs_f64()),
            cache_bytes: self.shared.folder.used_bytes(),
        }
    }
}

/// A file of a listing.
#[derive(Clone, Debug)]
pub(crate) struct ListedFile {
    object: RemoteObject,
    version: ObjectVersion,
}

impl ListedFile {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.version.size_bytes
    }
}

impl Shared {
    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_files(&self) -> MutexGuard<'_, HashMap<String, Weak<FileInner>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, address: &str) -> Option<Arc<FileInner>> {
        self.lock_files().get(address)?.upgrade()
    }

    fn open(
        self: &Arc<Self>,
        address: &str,
        object: RemoteObject,
        version: ObjectVersion,
    ) -> Result<RemoteFile, DataError> {
        let mut files = self.lock_files();
        if let Some(inner) = files.get(address).and_then(Weak::upgrade) {
            return Ok(RemoteFile { inner });
        }
        if files.len().is_power_of_two() {
            files.retain(|_, file| file.strong_count() > 0);
        }
        let inner = Arc::new(FileInner::open(self, object, version)?);
        files.insert(address.to_string(), Arc::downgrade(&inner));
        Ok(RemoteFile { inner })
    }

    fn submit(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.lock_queue();
        for job in jobs {
            let row = if job.urgency == Urgency::Now { &mut queue.now } else { &mut queue.ahead };
            row.push_back(job);
        }
        let too_many = queue.ahead.len().saturating_sub(MAX_AHEAD);
        let dropped: Vec<Job> = queue.ahead.drain(..too_many).collect();
        drop(queue);
        drop(dropped);
        self.start();
    }

    /// Starts what may run.
    fn start(&self) {
        loop {
            let mut queue = self.lock_queue();
            if queue.running >= self.options.requests {
                return;
            }
            let Some(job) = queue.now.pop_front().or_else(|| queue.ahead.pop_front()) else { return };
            let Some((run, rest)) = job.file.claim(&job.blocks) else {
                // Its file may be gone with it, and must not go while the queue is held.
                drop(queue);
                continue;
            };
            queue.running += 1;
            queue.busy_since.get_or_insert_with(Instant::now);
            if !rest.is_empty() {
                let later = Job { file: job.file.clone(), blocks: rest, urgency: job.urgency };
                let row = if job.urgency == Urgency::Now { &mut queue.now } else { &mut queue.ahead };
                row.push_front(later);
            }
            drop(queue);
            job.file.fetch(run);
        }
    }

    /// A request has ended.
    fn ended(&self) {
        {
            let mut queue = self.lock_queue();
            queue.running -= 1;
            if queue.running == 0
                && let Some(since) = queue.busy_since.take()
            {
                queue.busy_seconds += since.elapsed().as_secs_f64();
            }
        }
        self.make_room();
        self.start();
    }

    /// Keeps the cache below its limit: first what nobody opened, then what was not read for longest.
    fn make_room(&self) {
        let open: Vec<Arc<FileInner>> = self.lock_files().values().filter_map(Weak::upgrade).collect();
        let is_open = |key: &str| open.iter().any(|file| file.cached.key == key);
        let mut excess_bytes = self.folder.make_room(is_open);
        if excess_bytes == 0 {
            return;
        }
        let mut parts: Vec<(u64, usize, usize)> = Vec::new();
        for (n, file) in open.iter().enumerate() {
            parts.extend(file.removable().into_iter().map(|(used, part)| (used, n, part)));
        }
        parts.sort_unstable();
        for (_, n, part) in parts {
            if excess_bytes == 0 {
                return;
            }
            let Some(file) = open.get(n) else { continue };
            let bytes = file.remove_part(part);
            self.folder.remove_bytes(bytes);
            excess_bytes = excess_bytes.saturating_sub(bytes);
        }
    }
}
