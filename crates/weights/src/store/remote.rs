//! A prefix of a bucket as a store: ranges read side by side, large objects written in parts, requests repeated a few times.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::gcp::{GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig, StaticCredentialProvider, UpdateVersion,
};
use tokio::runtime::Runtime;

use super::{Access, RecordVersion, StoredObject, Swap, choose_cryptography, is_plain_name};
use crate::error::{Cause, Error, StoreFailure};

/// Smallest part of an upload, and the range one request reads. Stores want at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Stores take at most 10,000 parts; some are left for sizes that were guessed too small.
const MAX_PARTS: u64 = 9_000;

/// Requests of one object at the same time.
const REQUESTS_AT_ONCE: usize = 4;

/// An entity tag that no object has: as long as S3's, and nothing has this hash.
const NO_E_TAG: &str = "\"00000000000000000000000000000000\"";

/// A generation that no object has: Google's are times in microseconds.
const NO_GENERATION: &str = "1";

/// More objects than the checkpoints of a run have.
const MAX_LISTED: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Bucket {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn ObjectStore>,
    /// As it was given, without a slash at its end.
    location: String,
    prefix: Path,
    /// Drives the requests on a thread of its own, so that callers may block anywhere, even inside another runtime.
    runtime: Option<Runtime>,
    #[cfg(test)]
    gate: Option<Gate>,
}

/// Called before each request.
#[cfg(test)]
struct Gate(Arc<dyn Fn() + Send + Sync>);

#[cfg(test)]
impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Waiting for the thread is not allowed inside another runtime, and nothing is left to wait for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Bucket {
    pub(super) fn s3(rest: &str, access: &Access) -> Result<Bucket, Error> {
        let (bucket, prefix, location) = parts("s3", rest)?;
        Bucket::new(s3_bucket(bucket, &location, access)?, location, prefix)
    }

    pub(super) fn google(rest: &str, access: &Access) -> Result<Bucket, Error> {
        let (bucket, prefix, location) = parts("gs", rest)?;
        Bucket::new(Arc::new(google_bucket(bucket, &location, access)?), location, prefix)
    }

    fn new(store: Arc<dyn ObjectStore>, location: String, prefix: Path) -> Result<Bucket, Error> {
        let runtime = runtime(1)?;
        let shared = Shared {
            store,
            location,
            prefix,
            runtime: Some(runtime),
            #[cfg(test)]
            gate: None,
        };
        Ok(Bucket { shared: Arc::new(shared) })
    }

    #[cfg(test)]
    pub(super) fn gated(store: Arc<dyn ObjectStore>, gate: Arc<dyn Fn() + Send + Sync>) -> Result<Bucket, Error> {
        let mut bucket = Bucket::new(store, "memory://".into(), Path::default())?;
        if let Some(shared) = Arc::get_mut(&mut bucket.shared) {
            shared.gate = Some(Gate(gate));
        }
        Ok(bucket)
    }

    /// The object of a record is replaced under conditions: `If-Match` and `If-None-Match` in S3, generations in Google's.
    pub(super) fn read_record(&self, name: &str, max_bytes: usize) -> Result<Option<(Vec<u8>, RecordVersion)>, Error> {
        let (store, location) = (self.shared.store.clone(), self.shared.path(&record_name(name)));
        let address = self.shared.address(&record_name(name));
        let answer = self.shared.start(async move {
            let found = store.get(&location).await?;
            let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            let size_bytes = found.meta.size;
            if size_bytes > max_bytes as u64 {
                return Ok(Err(size_bytes));
            }
            Ok(Ok((found.bytes().await?, version)))
        });
        match received(answer)? {
            Ok(Ok((bytes, version))) => Ok(Some((bytes.to_vec(), RecordVersion::Put(version)))),
            Ok(Err(size_bytes)) => Err(Error::format(&address, format!("{size_bytes} bytes are not read"))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("reading", &address, error)),
        }
    }

    pub(super) fn swap_record(&self, name: &str, expected: Option<UpdateVersion>, bytes: &[u8]) -> Result<Swap, Error> {
        let (store, location) = (self.shared.store.clone(), self.shared.path(&record_name(name)));
        let (payload, mode) = (PutPayload::from(bytes.to_vec()), expected.map_or(PutMode::Create, PutMode::Update));
        let put = self.shared.start(async move { store.put_opts(&location, payload, PutOptions::from(mode)).await });
        match received(put)? {
            Ok(put) => Ok(Swap::Done(RecordVersion::Put(UpdateVersion { e_tag: put.e_tag, version: put.version }))),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(Swap::Lost),
            Err(error) => Err(failed("writing", &self.shared.address(&record_name(name)), error)),
        }
    }

    /// Two puts that must be refused: one of a new object where there is one, one in the place of a version that never was. A
    /// store that takes them has the bytes it had, unless two runs use it at once.
    pub(super) fn check_conditions(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let never = UpdateVersion { e_tag: Some(NO_E_TAG.into()), version: Some(NO_GENERATION.into()) };
        for expected in [None, Some(never)] {
            if let Swap::Done(_) = self.swap_record(name, expected, bytes)? {
                return Err(Error::Unconditional { location: self.shared.location.clone() });
            }
        }
        Ok(())
    }

    pub(super) fn address(&self, name: &str) -> String {
        self.shared.address(name)
    }

    pub(super) fn write(&self, name: &str, size_bytes: u64) -> Result<BucketWriter, Error> {
        let part_bytes = usize::try_from(size_bytes.div_ceil(MAX_PARTS)).unwrap_or(usize::MAX).max(PART_BYTES);
        let shared = self.shared.clone();
        let location = shared.path(name);
        let address = shared.address(name);
        Ok(BucketWriter {
            shared,
            location,
            address,
            part_bytes,
            buffer: Vec::new(),
            upload: None,
            sent: VecDeque::new(),
        })
    }

    pub(super) fn read(&self, name: &str, offset: u64, size_bytes: usize) -> Result<Vec<u8>, Error> {
        let (location, address) = (self.shared.path(name), self.shared.address(name));
        let mut bytes = Vec::with_capacity(size_bytes);
        let mut asked = VecDeque::new();
        let mut next = 0;
        while bytes.len() < size_bytes {
            while next < size_bytes && asked.len() < REQUESTS_AT_ONCE {
                let end = size_bytes.min(next + PART_BYTES);
                let range = offset + next as u64..offset + end as u64;
                let (store, location) = (self.shared.store.clone(), location.clone());
                asked
                    .push_back((end - next, self.shared.start(async move { store.get_range(&location, range).await })));
                next = end;
            }
            let Some((expected, answer)) = asked.pop_front() else { break };
            let part = match received(answer)? {
                Ok(part) => part,
                Err(object_store::Error::NotFound { .. }) => return Err(Error::format(&address, "it is missing")),
                Err(error) => return Err(failed("reading", &address, error)),
            };
            if part.len() != expected {
                return Err(Error::format(&address, "it ends too early"));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<StoredObject>, Error> {
        let below = if prefix.is_empty() { self.shared.prefix.clone() } else { self.shared.path(prefix) };
        let (store, root) = (self.shared.store.clone(), self.shared.prefix.clone());
        let answer = self.shared.start(async move {
            let mut found = store.list(Some(&below));
            let mut objects = Vec::new();
            while let Some(object) = found.try_next().await? {
                let Some(parts) = object.location.prefix_match(&root) else { continue };
                let parts: Vec<String> = parts.map(|part| part.as_ref().to_string()).collect();
                objects.push(StoredObject { name: parts.join("/"), size_bytes: object.size });
                if objects.len() >= MAX_LISTED {
                    break;
                }
            }
            Ok(objects)
        });
        let address = self.shared.address(prefix);
        let objects = received(answer)?.map_err(|error: object_store::Error| failed("listing", &address, error))?;
        if objects.len() >= MAX_LISTED {
            let message = format!("it holds more than {MAX_LISTED} objects; give a longer prefix");
            return Err(Error::Location { location: address, message });
        }
        Ok(objects)
    }

    pub(super) fn delete(&self, name: &str) -> Result<(), Error> {
        let (store, location) = (self.shared.store.clone(), self.shared.path(name));
        match received(self.shared.start(async move { store.delete(&location).await }))? {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("deleting", &self.shared.address(name), error)),
        }
    }
}

impl Shared {
    fn address(&self, name: &str) -> String {
        if name.is_empty() { self.location.clone() } else { format!("{}/{name}", self.location) }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Starts a request on the runtime's thread.
    fn start<T: Send + 'static>(&self, request: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
        #[cfg(test)]
        if let Some(Gate(gate)) = &self.gate {
            gate();
        }
        let (sender, receiver) = channel();
        if let Some(runtime) = &self.runtime {
            // A receiver that is gone is a caller that gave up.
            runtime.spawn(async move { drop(sender.send(request.await)) });
        }
        receiver
    }
}

pub(super) fn received<T>(answer: Receiver<T>) -> Result<T, Error> {
    answer.recv().map_err(|_| Error::Thread { doing: "the object store", source: None })
}

/// An object that is uploaded while it is written. Small ones are one request.
#[derive(Debug)]
pub(super) struct BucketWriter {
    shared: Arc<Shared>,
    location: Path,
    address: String,
    part_bytes: usize,
    buffer: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    sent: VecDeque<Receiver<object_store::Result<()>>>,
}

impl BucketWriter {
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.part_bytes - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == self.part_bytes {
                self.send_part()?;
            }
        }
        Ok(())
    }

    fn send_part(&mut self) -> Result<(), Error> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => {
                let (store, location) = (self.shared.store.clone(), self.location.clone());
                let begun = received(self.shared.start(async move { store.put_multipart(&location).await }))?;
                none.insert(begun.map_err(|error| failed("writing", &self.address, error))?)
            }
        };
        let part = upload.put_part(PutPayload::from(std::mem::take(&mut self.buffer)));
        self.sent.push_back(self.shared.start(part));
        while self.sent.len() >= REQUESTS_AT_ONCE {
            self.wait_for_part()?;
        }
        Ok(())
    }

    fn wait_for_part(&mut self) -> Result<(), Error> {
        let Some(part) = self.sent.pop_front() else { return Ok(()) };
        received(part)?.map_err(|error| failed("writing", &self.address, error))
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        if self.upload.is_none() {
            let (store, location) = (self.shared.store.clone(), self.location.clone());
            let payload = PutPayload::from(std::mem::take(&mut self.buffer));
            let put = received(self.shared.start(async move { store.put(&location, payload).await }))?;
            return put.map(drop).map_err(|error| failed("writing", &self.address, error));
        }
        if !self.buffer.is_empty() {
            self.send_part()?;
        }
        while !self.sent.is_empty() {
            self.wait_for_part()?;
        }
        let Some(mut upload) = self.upload.take() else { return Ok(()) };
        let completed = received(self.shared.start(async move {
            let result = upload.complete().await;
            if result.is_err() {
                // Best effort: parts that stay are invisible, and a rule of the bucket can remove them.
                let _ = upload.abort().await;
            }
            result
        }))?;
        completed.map(drop).map_err(|error| failed("writing", &self.address, error))
    }
}

/// What was begun and not finished is given up, so that its parts do not stay in the bucket.
impl Drop for BucketWriter {
    fn drop(&mut self) {
        if let Some(mut upload) = self.upload.take() {
            // Parts still under way would arrive after the end of the upload.
            self.sent.drain(..).for_each(|part| drop(part.recv()));
            let _ = received(self.shared.start(async move { upload.abort().await }));
        }
    }
}

/// The client of a bucket of S3; `location` is what errors name.
pub(super) fn s3_bucket(bucket: &str, location: &str, access: &Access) -> Result<Arc<dyn ObjectStore>, Error> {
    choose_cryptography();
    let mut builder = AmazonS3Builder::new().with_retry(retry(access));
    builder = builder.with_config(AmazonS3ConfigKey::Client(timeout_key()), timeout(access));
    for (name, value) in &access.options {
        if name.starts_with("aws_")
            && let Ok(key) = name.parse::<AmazonS3ConfigKey>()
        {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).build().map_err(|error| failed("opening", location, error))?;
    Ok(Arc::new(store))
}

/// The client of a bucket of Google's; `location` is what errors name.
pub(super) fn google_bucket(bucket: &str, location: &str, access: &Access) -> Result<GoogleCloudStorage, Error> {
    choose_cryptography();
    let mut builder = GoogleCloudStorageBuilder::new().with_retry(retry(access));
    builder = builder.with_config(GoogleConfigKey::Client(timeout_key()), timeout(access));
    if let Some(address) = emulator(access) {
        builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
        // Both, because the client asks for a token when it writes even if nothing is to be signed.
        let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
        builder = builder.with_base_url(&address).with_skip_signature(true);
        builder = builder.with_credentials(Arc::new(nobody));
    }
    for (name, value) in &access.options {
        if name.starts_with("google_")
            && let Ok(key) = name.parse::<GoogleConfigKey>()
        {
            builder = builder.with_config(key, value);
        }
    }
    builder.with_bucket_name(bucket).build().map_err(|error| failed("opening", location, error))
}

/// The address of a server in the place of Google's, as Google's own libraries take it: no credentials, and http where nothing
/// else is said.
pub(super) fn emulator(access: &Access) -> Option<String> {
    let host = access.option("storage_emulator_host")?;
    let address = if host.contains("://") { host.to_string() } else { format!("http://{host}") };
    Some(address.trim_end_matches('/').to_string())
}

/// Threads that drive requests.
pub(super) fn runtime(threads: usize) -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("object-store")
        .enable_all()
        .build()
        .map_err(|source| Error::Thread { doing: "the object store", source: Some(source) })
}

fn record_name(name: &str) -> String {
    format!("{name}.json")
}

pub(super) fn retry(access: &Access) -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: access.first_pause, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: access.max_retries, retry_timeout: access.retry_for }
}

pub(super) fn timeout_key() -> ClientConfigKey {
    ClientConfigKey::Timeout
}

pub(super) fn timeout(access: &Access) -> String {
    format!("{}ms", access.request_timeout.as_millis())
}

/// Bucket, prefix, and the location as it is shown.
pub(super) fn parts<'a>(scheme: &str, rest: &'a str) -> Result<(&'a str, Path, String), Error> {
    let wrong =
        |message: &str| Error::Location { location: format!("{scheme}://{rest}"), message: message.to_string() };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_end_matches('/');
    if bucket.is_empty() || !is_plain_name(bucket) {
        return Err(wrong("it names no bucket"));
    }
    if prefix.split('/').any(|part| part == "." || part == "..") {
        return Err(wrong("its prefix has a `.` or `..`"));
    }
    let path = Path::parse(prefix).map_err(|error| wrong(&format!("its prefix cannot be used: {error}")))?;
    let location =
        if prefix.is_empty() { format!("{scheme}://{bucket}") } else { format!("{scheme}://{bucket}/{prefix}") };
    Ok((bucket, path, location))
}

pub(super) fn failed(doing: &'static str, object: &str, error: object_store::Error) -> Error {
    use object_store::Error as Said;
    let text = error.to_string();
    let answered = |codes: [&str; 2]| codes.iter().any(|code| text.contains(&format!("status code: {code}")));
    let failure = match &error {
        Said::NotFound { .. } => StoreFailure::NotFound,
        Said::PermissionDenied { .. } | Said::Unauthenticated { .. } => StoreFailure::NotAllowed,
        // Of failed listings the client tells the status in its text only.
        _ if answered(["403", "401"]) => StoreFailure::NotAllowed,
        _ if answered(["404", "410"]) => StoreFailure::NotFound,
        _ => StoreFailure::Other,
    };
    Error::Store { doing, object: object.to_string(), failure, source: Cause::from(StoreSaid(text)) }
}

/// What a store said. The text of the client's error has all its causes in it, so that this has none of its own.
#[derive(Debug)]
struct StoreSaid(String);

impl std::fmt::Display for StoreSaid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreSaid {}
