//! One remote file: which of its blocks are here, which are on the way, and reading those that are needed.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crc32fast::Hasher;
use weights::{ObjectVersion, RangeSink, RemoteObject};

use super::folder::CachedObject;
use super::{Job, RemoteFailure, Shared, Urgency};
use crate::error::DataError;

/// Most blocks of a file: larger files have larger blocks.
const MAX_BLOCKS: u64 = 1 << 20;

/// A part of which this share is here already is fetched whole: 1 / 4.
const WHOLE_PART_FROM: u32 = 4;

/// How often a block is read from the disk before the disk is called damaged.
const MAX_READS: usize = 8;

/// A file elsewhere, read in blocks that are kept on disk. Copies share it.
#[derive(Clone)]
pub struct RemoteFile {
    pub(super) inner: Arc<FileInner>,
}

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteFile({}, {:?})", self.inner.object.address(), self.inner.version)
    }
}

pub(super) struct FileInner {
    pub(super) shared: Arc<Shared>,
    pub(super) object: RemoteObject,
    pub(super) version: ObjectVersion,
    pub(super) cached: CachedObject,
    block_bytes: u64,
    blocks: usize,
    part_blocks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that are here, and the checksums of those.
    here: Bits,
    sums: Vec<u32>,
    /// Blocks that are on the way.
    fetching: Bits,
    /// For each part: blocks that are here, and when one was last asked for.
    parts: Vec<Part>,
    failures: u64,
    failure: Option<RemoteFailure>,
}

#[derive(Clone, Debug, Default)]
struct Part {
    here: u32,
    fetching: u32,
    used: u64,
}

#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(bits: usize) -> Bits {
        Bits(vec![0; bits.div_ceil(64)])
    }

    fn get(&self, n: usize) -> bool {
        self.0.get(n / 64).is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    fn set(&mut self, n: usize, on: bool) {
        if let Some(word) = self.0.get_mut(n / 64) {
            *word = if on { *word | 1 << (n % 64) } else { *word & !(1 << (n % 64)) };
        }
    }
}

impl State {
    /// The checksum of a block that is here.
    fn sum(&self, n: usize) -> Option<u32> {
        self.sums.get(n).copied().filter(|_| self.here.get(n))
    }

    fn is_missing(&self, n: usize) -> bool {
        !self.here.get(n) && !self.fetching.get(n)
    }

    /// A block is here.
    fn keep(&mut self, n: usize, sum: u32, part_blocks: usize) {
        let Some(known) = self.sums.get_mut(n) else { return };
        *known = sum;
        if !self.here.get(n)
            && let Some(part) = self.parts.get_mut(n / part_blocks)
        {
            self.here.set(n, true);
            part.here += 1;
        }
    }

    /// A block is on the way, or no longer.
    fn set_fetching(&mut self, n: usize, on: bool, part_blocks: usize) {
        if self.fetching.get(n) == on {
            return;
        }
        self.fetching.set(n, on);
        if let Some(part) = self.parts.get_mut(n / part_blocks) {
            part.fetching = if on { part.fetching + 1 } else { part.fetching.saturating_sub(1) };
        }
    }
}

impl FileInner {
    pub(super) fn open(
        shared: &Arc<Shared>,
        object: RemoteObject,
        version: ObjectVersion,
    ) -> Result<FileInner, DataError> {
        let size_bytes = version.size_bytes;
        let block_bytes = size_bytes.div_ceil(MAX_BLOCKS).next_power_of_two().max(shared.options.block_bytes);
        let blocks = size_bytes.div_ceil(block_bytes) as usize;
        let part_blocks = (shared.options.part_bytes / block_bytes).max(1) as usize;
        let (cached, known) = shared.folder.object(object.address(), &version, block_bytes)?;
        let mut state = State {
            here: Bits::new(blocks),
            sums: vec![0; blocks],
            fetching: Bits::new(blocks),
            parts: vec![Part::default(); blocks.div_ceil(part_blocks)],
            failures: 0,
            failure: None,
        };
        for (block, sum) in known {
            state.keep(block as usize, sum, part_blocks);
        }
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(FileInner {
            shared: shared.clone(),
            object,
            version,
            cached,
            block_bytes,
            blocks,
            part_blocks,
            state,
            changed,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes_of(&self, blocks: &Range<usize>) -> Range<u64> {
        blocks.start as u64 * self.block_bytes..(blocks.end as u64 * self.block_bytes).min(self.version.size_bytes)
    }

    fn blocks_of(&self, bytes: &Range<u64>) -> Range<usize> {
        let end = bytes.end.min(self.version.size_bytes);
        (bytes.start.min(end) / self.block_bytes) as usize..end.div_ceil(self.block_bytes) as usize
    }

    /// The first run of these blocks that is neither here nor on the way, now on the way, and what is left of them.
    pub(super) fn claim(&self, blocks: &Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
        let mut state = self.lock();
        let first = blocks.clone().find(|n| state.is_missing(*n))?;
        let most = blocks.end.min(first + self.part_blocks);
        let end = (first..most).find(|n| !state.is_missing(*n)).unwrap_or(most);
        (first..end).for_each(|n| state.set_fetching(n, true, self.part_blocks));
        Some((first..end, end..blocks.end))
    }

    /// Asks for these bytes, as far as they are not here.
    pub(super) fn want(self: &Arc<Self>, bytes: &Range<u64>, urgency: Urgency) {
        let blocks = self.blocks_of(bytes);
        let mut jobs = Vec::new();
        {
            let mut state = self.lock();
            let used = self.shared.clock.fetch_add(1, Ordering::Relaxed);
            let mut at = blocks.start;
            while at < blocks.end {
                let number = at / self.part_blocks;
                let end = blocks.end.min((number + 1) * self.part_blocks);
                let is_here = !(at..end).any(|n| state.is_missing(n));
                if !is_here {
                    jobs.push(Job { file: self.clone(), blocks: at..end, urgency });
                }
                if let Some(part) = state.parts.get_mut(number) {
                    part.used = used;
                    if !is_here && part.here * WHOLE_PART_FROM >= self.part_blocks as u32 {
                        let whole = number * self.part_blocks..((number + 1) * self.part_blocks).min(self.blocks);
                        jobs.push(Job { file: self.clone(), blocks: whole, urgency: Urgency::Ahead });
                    }
                }
                at = end;
            }
        }
        self.shared.submit(jobs);
    }

    /// Fetches a run that was claimed.
    pub(super) fn fetch(self: &Arc<Self>, run: Range<usize>) {
        let bytes = self.bytes_of(&run);
        let sink = BlockSink {
            file: self.clone(),
            next: run.start,
            run,
            offset: bytes.start,
            sum: Hasher::new(),
            done: Vec::new(),
            is_ended: false,
        };
        self.shared.meter.requests.fetch_add(1, Ordering::Relaxed);
        self.shared.reader.fetch(&self.object, &self.version, bytes, Box::new(sink));
    }

    /// The bytes of a block, checked.
    fn block(self: &Arc<Self>, block: usize, bytes: &mut Vec<u8>) -> Result<(), DataError> {
        let range = self.bytes_of(&(block..block + 1));
        let mut damaged = 0;
        loop {
            let sum = self.wait_for(block, &range)?;
            bytes.resize((range.end - range.start) as usize, 0);
            let read = self.cached.read(bytes, range.start);
            if read.is_ok() && crc32fast::hash(bytes) == sum {
                self.shared.meter.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                return Ok(());
            }
            // Another process made room, the disk is damaged, or a crash left it half written: it is fetched again.
            damaged += 1;
            if damaged == MAX_READS {
                let message = format!("block {block} does not stay what was written; the disk may be damaged or full");
                return Err(DataError::format(self.cached.path(), message));
            }
            self.forget(block..block + 1);
        }
    }

    fn wait_for(self: &Arc<Self>, block: usize, range: &Range<u64>) -> Result<u32, DataError> {
        let mut state = self.lock();
        let failures = state.failures;
        if let Some(sum) = state.sum(block) {
            return Ok(sum);
        }
        drop(state);
        self.want(range, Urgency::Now);
        state = self.lock();
        loop {
            if let Some(sum) = state.sum(block) {
                return Ok(sum);
            }
            if state.failures != failures
                && let Some(failure) = &state.failure
            {
                return Err(failure.error(self.object.address()));
            }
            let (again, waited) = match self.changed.wait_timeout(state, Duration::from_secs(1)) {
                Ok(woken) => woken,
                Err(poisoned) => poisoned.into_inner(),
            };
            state = again;
            // It may have come and gone again, to make room.
            if waited.timed_out() && state.is_missing(block) {
                drop(state);
                self.want(range, Urgency::Now);
                state = self.lock();
            }
        }
    }

    fn forget(&self, blocks: Range<usize>) {
        let mut state = self.lock();
        for n in blocks {
            if state.here.get(n)
                && let Some(part) = state.parts.get_mut(n / self.part_blocks)
            {
                part.here = part.here.saturating_sub(1);
                state.here.set(n, false);
            }
        }
    }

    /// Parts that may go to make room, with when they were last used.
    pub(super) fn removable(&self) -> Vec<(u64, usize)> {
        let state = self.lock();
        let parts = state.parts.iter().enumerate();
        parts.filter(|(_, part)| part.here > 0 && part.fetching == 0).map(|(n, part)| (part.used, n)).collect()
    }

    /// Gives the room of a part back; says how much that was.
    pub(super) fn remove_part(&self, part: usize) -> u64 {
        let blocks = part * self.part_blocks..((part + 1) * self.part_blocks).min(self.blocks);
        let here = self.lock().parts.get(part).map_or(0, |part| u64::from(part.here));
        self.forget(blocks.clone());
        let bytes = self.bytes_of(&blocks);
        match self.cached.punch(bytes.start, bytes.end - bytes.start) {
            Ok(()) => here * self.block_bytes,
            Err(error) => {
                tracing::warn!(path = %self.cached.path().display(), %error, "no room can be made in the data cache");
                0
            }
        }
    }
}

impl RemoteFile {
    /// Where it is.
    pub fn address(&self) -> &str {
        self.inner.object.address()
    }

    /// Bytes.
    pub fn size_bytes(&self) -> u64 {
        self.inner.version.size_bytes
    }

    /// A name of this version of it; none where its server does not tell versions apart.
    pub(crate) fn version_key(&self) -> Option<&str> {
        self.inner.version.tag.as_ref().map(|_| self.inner.cached.key.as_str())
    }

    /// Says that these bytes will be read soon, so that they come together. Nothing waits.
    pub fn prefetch(&self, bytes: Range<u64>) {
        self.inner.want(&bytes, Urgency::Ahead);
    }

    /// Says that these bytes are read next.
    pub(crate) fn expect(&self, bytes: Range<u64>) {
        self.inner.want(&bytes, Urgency::Now);
    }

    /// Reads exactly these bytes.
    pub fn read_at(&self, bytes: Range<u64>) -> Result<Vec<u8>, DataError> {
        if bytes.start > bytes.end || bytes.end > self.size_bytes() {
            return Err(DataError::format(Path::new(self.address()), format!("it has no bytes {bytes:?}")));
        }
        let file = &self.inner;
        if file.blocks_of(&bytes).len() > 1 {
            file.want(&bytes, Urgency::Now);
        }
        let mut found = Vec::with_capacity((bytes.end - bytes.start) as usize);
        let mut block_bytes = Vec::new();
        for block in file.blocks_of(&bytes) {
            let range = file.bytes_of(&(block..block + 1));
            file.block(block, &mut block_bytes)?;
            let (start, end) = (bytes.start.max(range.start), bytes.end.min(range.end));
            let inside = (start - range.start) as usize..(end - range.start) as usize;
            found.extend_from_slice(block_bytes.get(inside).unwrap_or_default());
        }
        Ok(found)
    }

    /// Reads it from begin to end, with parts on the way ahead of the reader.
    pub fn reader(&self) -> RemoteFileReader {
        RemoteFileReader { file: self.clone(), position: 0, block: None, bytes: Vec::new(), asked: 0, failed: None }
    }
}

/// A remote file from begin to end.
#[derive(Debug)]
pub struct RemoteFileReader {
    file: RemoteFile,
    position: u64,
    block: Option<usize>,
    bytes: Vec<u8>,
    /// Up to where it was asked for.
    asked: u64,
    failed: Option<DataError>,
}

impl RemoteFileReader {
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Why reading failed, where that is known better than an I/O error can say.
    pub(crate) fn take_error(&mut self) -> Option<DataError> {
        self.failed.take()
    }
}

impl Read for RemoteFileReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let file = &self.file.inner;
        if self.position >= file.version.size_bytes || into.is_empty() {
            return Ok(0);
        }
        let options = &file.shared.options;
        let ahead = self.position + options.part_bytes * options.requests as u64;
        while self.asked < ahead.min(file.version.size_bytes) {
            file.want(&(self.asked..self.asked + options.part_bytes), Urgency::Ahead);
            self.asked += options.part_bytes;
        }
        let block = (self.position / file.block_bytes) as usize;
        if self.block != Some(block) {
            self.block = None;
            if let Err(error) = file.block(block, &mut self.bytes) {
                let message = error.to_string();
                self.failed = Some(error);
                return Err(std::io::Error::other(message));
            }
            self.block = Some(block);
        }
        let inside = (self.position - block as u64 * file.block_bytes) as usize;
        let rest = self.bytes.get(inside..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

/// Takes the bytes of a run of blocks: to the disk, block by block, with a checksum of each.
struct BlockSink {
    file: Arc<FileInner>,
    run: Range<usize>,
    /// The block that is being written.
    next: usize,
    offset: u64,
    sum: Hasher,
    done: Vec<(u32, u32)>,
    is_ended: bool,
}

impl RangeSink for BlockSink {
    fn push(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        let file = self.file.clone();
        file.shared.meter.fetched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        file.cached.write(bytes, self.offset)?;
        while !bytes.is_empty() {
            let range = file.bytes_of(&(self.next..self.next + 1));
            let (now, later) = bytes.split_at(bytes.len().min((range.end - self.offset) as usize));
            self.sum.update(now);
            self.offset += now.len() as u64;
            bytes = later;
            if self.offset == range.end {
                let sum = std::mem::take(&mut self.sum).finalize();
                self.done.push((self.next as u32, sum));
                let mut state = file.lock();
                state.set_fetching(self.next, false, file.part_blocks);
                state.keep(self.next, sum, file.part_blocks);
                drop(state);
                file.changed.notify_all();
                file.shared.folder.add(range.end - range.start);
                self.next += 1;
            }
        }
        Ok(())
    }

    fn repeated(&mut self) {
        self.file.shared.meter.repeated.fetch_add(1, Ordering::Relaxed);
    }

    fn end(mut self: Box<Self>, result: Result<(), weights::Error>) {
        self.ended(result.err().map(|error| RemoteFailure::of(&error)));
    }
}

impl BlockSink {
    fn ended(&mut self, failure: Option<RemoteFailure>) {
        self.is_ended = true;
        let file = &self.file;
        // A list that misses blocks costs requests in the next run.
        if !self.done.is_empty()
            && let Err(error) = file.cached.note(&self.done)
        {
            tracing::warn!(path = %file.cached.path().display(), %error, "fetched data will be fetched again");
        }
        let mut state = file.lock();
        (self.next..self.run.end).for_each(|n| state.set_fetching(n, false, file.part_blocks));
        if failure.is_some() {
            state.failures += 1;
            state.failure = failure;
        }
        drop(state);
        file.changed.notify_all();
        file.shared.ended();
    }
}

impl Drop for BlockSink {
    fn drop(&mut self) {
        if !self.is_ended {
            self.ended(Some(RemoteFailure::ended()));
        }
    }
}
