//! Objects of buckets and files of web servers, read in place: ranges as streams, several at once, and always of one version.
//!
//! What a server says is checked: an answer that is longer than what was asked for ends there, one that is shorter is asked for
//! again from where it ended, and an object that became another one is an error. Nothing of an answer is kept here.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ops::Range;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::resolve_bucket_region;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    Attribute, ClientConfigKey, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
};
use tokio::runtime::Runtime;

use super::remote::{
    emulator, failed, google_bucket, parts, received, retry, runtime, s3_bucket, timeout, timeout_key,
};
use super::{Access, choose_cryptography};
use crate::error::{Cause, Error, StoreFailure};

/// Threads that drive requests: one is too few for a fast network.
const THREADS: usize = 2;

/// The largest object that is believed to exist. Stores take up to 50 TB.
const MAX_OBJECT_BYTES: u64 = 64 << 40;

/// The longest entity tag that is kept.
const MAX_TAG_BYTES: usize = 1024;

/// Most objects below one prefix.
const MAX_LISTED: usize = 1 << 22;

/// How long a bucket may take to say where it is: nothing depends on it.
const LOCATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer to that question.
const MAX_LOCATION_BYTES: usize = 64 << 10;

/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Reads objects where they are: `s3://bucket/name`, `gs://bucket/name`, `https://host/name`.
#[derive(Debug)]
pub struct ObjectReader {
    access: Access,
    /// Clients by bucket; web servers have one for each file, because its address may carry a signature.
    clients: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    runtime: Option<Runtime>,
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An object somewhere. Making one asks nobody.
#[derive(Clone, Debug)]
pub struct RemoteObject {
    client: Arc<dyn ObjectStore>,
    path: Path,
    address: String,
    is_web: bool,
}

impl RemoteObject {
    /// Where it is, without what may be a secret in the address.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// One version of an object: what every answer about it must agree with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its size.
    pub size_bytes: u64,
    /// What the server calls its contents: the entity tag, else the time of the last change; none where it says neither.
    pub tag: Option<String>,
}

impl ObjectVersion {
    fn of(meta: &ObjectMeta, address: &str) -> Result<ObjectVersion, Error> {
        if meta.size > MAX_OBJECT_BYTES {
            let message = format!("the server says that it has {} bytes, which no store keeps", meta.size);
            return Err(Error::format(address, message));
        }
        // Servers that know neither say 1970.
        let changed = meta.last_modified.timestamp();
        let tag = meta.e_tag.clone().or_else(|| (changed != 0).then(|| format!("changed {changed}")));
        if tag.as_ref().is_some_and(|tag| tag.len() > MAX_TAG_BYTES) {
            return Err(Error::format(address, "the server's entity tag is too long"));
        }
        Ok(ObjectVersion { size_bytes: meta.size, tag })
    }
}

/// Takes the bytes of a range, in their order.
pub trait RangeSink: Send {
    /// The next bytes; never more than were asked for in all. An error ends the range.
    fn push(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// A request failed and is repeated from where it ended.
    fn repeated(&mut self) {}

    /// The range has ended. Not called where the reader is dropped first.
    fn end(self: Box<Self>, result: Result<(), Error>);
}

impl ObjectReader {
    /// Reads with these credentials, endpoints and limits.
    pub fn new(access: Access) -> Result<ObjectReader, Error> {
        let runtime = Some(runtime(THREADS)?);
        Ok(ObjectReader { access, clients: Mutex::default(), runtime })
    }

    /// Whether this is an address of an object elsewhere, of any scheme, and no path.
    pub fn is_address(location: &str) -> bool {
        location.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme != "file" && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
        })
    }

    /// The object of an address.
    pub fn object(&self, address: &str) -> Result<RemoteObject, Error> {
        let shown = without_secrets(address);
        let wrong = |message: &str| Error::Location { location: shown.clone(), message: message.to_string() };
        let Some((scheme, rest)) = address.split_once("://") else { return Err(wrong("it is no address")) };
        match scheme {
            "s3" | "gs" => {
                let (bucket, path, _) = parts(scheme, rest)?;
                if path.as_ref().is_empty() {
                    return Err(wrong("it names a bucket, and no object in it"));
                }
                let client = self.client(scheme, bucket)?;
                Ok(RemoteObject { client, path, address: shown, is_web: false })
            }
            "https" | "http" => {
                let host = host_of(rest);
                if host.is_empty() {
                    return Err(wrong("it names no host"));
                }
                if rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
                    return Err(wrong("it has a user or a password in it; use a signed address, or a bucket"));
                }
                if scheme == "http" && !is_loopback(host) {
                    return Err(wrong(
                        "http is for this machine only, because anybody on the way could change the data; use https",
                    ));
                }
                web_object(address, shown, &self.access, ClientOptions::new())
            }
            _ => Err(wrong(&format!("the scheme `{scheme}` is not known; gs, s3 and https are"))),
        }
    }

    fn client(&self, scheme: &str, bucket: &str) -> Result<Arc<dyn ObjectStore>, Error> {
        let location = format!("{scheme}://{bucket}");
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&location) {
            return Ok(client.clone());
        }
        let client = match scheme {
            "s3" => s3_bucket(bucket, &location, &self.access)?,
            _ => Arc::new(google_bucket(bucket, &location, &self.access)?),
        };
        clients.insert(location, client.clone());
        Ok(client)
    }

    fn wait<T: Send + 'static>(&self, request: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
        let (sender, receiver) = channel();
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { drop(sender.send(request.await)) });
        }
        received(receiver)
    }

    /// The version an object has now.
    pub fn version(&self, object: &RemoteObject) -> Result<ObjectVersion, Error> {
        let (client, path, is_web) = (object.client.clone(), object.path.clone(), object.is_web);
        let asked = self.wait(async move {
            if !is_web {
                return client.head(&path).await;
            }
            // Some web servers refuse HEAD, and ranges are needed anyway. The body is not read.
            let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
            client.get_opts(&path, options).await.map(|found| found.meta)
        })?;
        let meta = asked.map_err(|error| explained(error, &object.address))?;
        ObjectVersion::of(&meta, &object.address)
    }

    /// Objects below an address, with their names after it, sorted by name. Web servers have no listings.
    pub fn list(&self, address: &str) -> Result<Vec<(String, RemoteObject, ObjectVersion)>, Error> {
        let wrong = |message: String| Error::Location { location: without_secrets(address), message };
        let Some((scheme @ ("s3" | "gs"), rest)) = address.split_once("://") else {
            return Err(wrong("only gs:// and s3:// have listings".into()));
        };
        let (bucket, prefix, location) = parts(scheme, rest)?;
        let client = self.client(scheme, bucket)?;
        let (lister, below) = (client.clone(), prefix.clone());
        let listed = self.wait(async move {
            let mut found = lister.list(Some(&below));
            let mut objects = Vec::new();
            while let Some(object) = found.try_next().await? {
                objects.push(object);
                if objects.len() > MAX_LISTED {
                    break;
                }
            }
            Ok(objects)
        })?;
        let listed = listed.map_err(|error: object_store::Error| failed("listing", &location, error))?;
        if listed.len() > MAX_LISTED {
            return Err(wrong(format!("it has more than {MAX_LISTED} objects; give a longer prefix")));
        }
        let mut objects = Vec::with_capacity(listed.len());
        for meta in listed {
            let Some(parts) = meta.location.prefix_match(&prefix) else { continue };
            let name = parts.map(|part| part.as_ref().to_string()).collect::<Vec<_>>().join("/");
            let address = format!("{location}/{name}");
            let version = ObjectVersion::of(&meta, &address)?;
            let object = RemoteObject { client: client.clone(), path: meta.location, address, is_web: false };
            objects.push((name, object, version));
        }
        objects.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(objects)
    }

    /// Where a bucket is, in its cloud's words, such as `US-CENTRAL1` or `us-east-1`. `None` where it does not tell: a server that
    /// only speaks a cloud's interface, a web server, or an account that may not ask.
    pub fn location(&self, address: &str) -> Option<String> {
        let (scheme, rest) = address.split_once("://")?;
        let (bucket, _, _) = parts(scheme, rest).ok()?;
        let bucket = bucket.to_string();
        match scheme {
            "gs" => {
                let google = google_bucket(&bucket, address, &self.access).ok()?;
                let server = emulator(&self.access).unwrap_or_else(|| "https://storage.googleapis.com".to_string());
                let is_google = server.starts_with("https://");
                let asked = async move {
                    let client = reqwest::Client::builder().https_only(is_google).timeout(LOCATION_TIMEOUT);
                    let client = client.redirect(reqwest::redirect::Policy::none()).build().ok()?;
                    let token = google.credentials().get_credential().await.ok()?;
                    let mut request = client.get(format!("{server}/storage/v1/b/{bucket}?fields=location"));
                    if !token.bearer.is_empty() {
                        request = request.bearer_auth(&token.bearer);
                    }
                    let mut answer = request.send().await.ok().filter(|answer| answer.status().is_success())?;
                    let mut bytes = Vec::new();
                    while let Some(chunk) = answer.chunk().await.ok()? {
                        bytes.extend_from_slice(&chunk);
                        if bytes.len() > MAX_LOCATION_BYTES {
                            return None;
                        }
                    }
                    let answer: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
                    answer.get("location")?.as_str().map(str::to_string)
                };
                self.wait(asked).ok()?
            }
            // Servers that speak S3 elsewhere are in no region of Amazon's.
            "s3" if self.access.option("aws_endpoint_url").or(self.access.option("aws_endpoint")).is_none() => {
                choose_cryptography();
                let options = ClientOptions::new().with_timeout(LOCATION_TIMEOUT);
                self.wait(async move { resolve_bucket_region(&bucket, &options).await.ok() }).ok()?
            }
            _ => None,
        }
    }

    /// Starts to read a range of a version. The sink hears of it on a thread of this reader.
    pub fn fetch(&self, object: &RemoteObject, version: &ObjectVersion, range: Range<u64>, sink: Box<dyn RangeSink>) {
        let (object, version, access) = (object.clone(), version.clone(), self.access.clone());
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move {
                let mut sink = sink;
                let result = read_range(&object, &version, range, &access, &mut *sink).await;
                sink.end(result);
            });
        }
    }
}

/// A file of a web server. One of https stays there: redirects to http are refused.
fn web_object(address: &str, shown: String, access: &Access, options: ClientOptions) -> Result<RemoteObject, Error> {
    choose_cryptography();
    let is_plain = address.starts_with("http://");
    // Without `AllowHttp` redirects to http are refused too.
    let client = HttpBuilder::new()
        .with_client_options(options)
        .with_retry(retry(access))
        .with_config(timeout_key(), timeout(access))
        .with_config(ClientConfigKey::AllowHttp, is_plain.to_string())
        .with_url(address)
        .build()
        .map_err(|error| failed("opening", &shown, error))?;
    Ok(RemoteObject { client: Arc::new(client), path: Path::default(), address: shown, is_web: true })
}

async fn read_range(
    object: &RemoteObject,
    version: &ObjectVersion,
    range: Range<u64>,
    access: &Access,
    sink: &mut dyn RangeSink,
) -> Result<(), Error> {
    let mut next = range.start;
    let (mut tries, mut since) = (0, Instant::now());
    while next < range.end {
        let before = next;
        let error = match read_once(object, version, &mut next, range.end, sink).await {
            Ok(()) => continue,
            Err(Failed::Finally(error)) => return Err(error),
            Err(Failed::Maybe(error)) => error,
        };
        // What came along is kept, and whoever sends something is not given up.
        if next > before {
            (tries, since) = (0, Instant::now());
        }
        tries += 1;
        if tries > access.max_retries || since.elapsed() > access.retry_for {
            return Err(error);
        }
        sink.repeated();
        tokio::time::sleep(pause(access.first_pause, tries)).await;
    }
    Ok(())
}

/// Whether the same request may do better.
enum Failed {
    Finally(Error),
    Maybe(Error),
}

/// Reads on from `next`, which counts what the sink has got.
async fn read_once(
    object: &RemoteObject,
    version: &ObjectVersion,
    next: &mut u64,
    end: u64,
    sink: &mut dyn RangeSink,
) -> Result<(), Failed> {
    let address = &object.address;
    let options = GetOptions { range: Some(GetRange::Bounded(*next..end)), ..GetOptions::default() };
    let found = object.client.get_opts(&object.path, options).await.map_err(|error| {
        use object_store::Error as Said;
        let is_final = matches!(
            error,
            Said::NotFound { .. }
                | Said::PermissionDenied { .. }
                | Said::Unauthenticated { .. }
                | Said::NotSupported { .. }
                | Said::Precondition { .. }
        );
        let error = explained(error, address);
        if is_final { Failed::Finally(error) } else { Failed::Maybe(error) }
    })?;
    if ObjectVersion::of(&found.meta, address).map_err(Failed::Finally)? != *version {
        return Err(Failed::Finally(said(
            address,
            StoreFailure::Changed,
            "it is no longer what it was when it was opened",
        )));
    }
    if let Some(encoding) = found.attributes.get(&Attribute::ContentEncoding)
        && !matches!(encoding.as_ref(), "" | "identity")
    {
        let message = format!("it is stored with Content-Encoding {}; store it as it is", encoding.as_ref());
        return Err(Failed::Finally(Error::format(address, message)));
    }
    let mut stream = found.into_stream();
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(|error| Failed::Maybe(failed("reading", address, error)))?;
        if bytes.len() as u64 > end - *next {
            return Err(Failed::Finally(said(address, StoreFailure::Other, "the server sent more than was asked for")));
        }
        sink.push(&bytes)
            .map_err(|source| Failed::Finally(Error::Io { doing: "keeping", path: address.into(), source }))?;
        *next += bytes.len() as u64;
        if *next == end {
            return Ok(());
        }
    }
    Err(Failed::Maybe(said(address, StoreFailure::Other, "the answer ended too early")))
}

/// An error of the client, where it says less than is known.
fn explained(error: object_store::Error, address: &str) -> Error {
    match error {
        object_store::Error::NotSupported { .. } => {
            Error::format(address, "its server does not answer requests for ranges, which streaming needs")
        }
        error => failed("reading", address, error),
    }
}

fn said(address: &str, failure: StoreFailure, message: &str) -> Error {
    Error::Store { doing: "reading", object: address.to_string(), failure, source: Cause::from(message) }
}

/// Between half of a pause and all of it; pauses double. Several that failed at once do not come back at once.
fn pause(first: Duration, tries: usize) -> Duration {
    let longest = first.saturating_mul(1 << tries.min(10)).min(MAX_PAUSE);
    let random = RandomState::new().build_hasher().finish();
    longest.mul_f64(0.5 + 0.5 * (random >> 11) as f64 / (1u64 << 53) as f64)
}

/// An address as it may be shown: what follows `?` may be a signature.
fn without_secrets(address: &str) -> String {
    let shown = address.split(['?', '#']).next().unwrap_or_default();
    match shown.split_once("://") {
        Some((scheme, rest)) => match rest.split_once('/') {
            Some((authority, path)) => {
                format!("{scheme}://{}/{path}", authority.rsplit('@').next().unwrap_or_default())
            }
            None => format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or_default()),
        },
        None => shown.to_string(),
    }
}

/// The host of what follows the scheme, without its port.
fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.starts_with('[') {
        return authority.split_inclusive(']').next().unwrap_or_default();
    }
    authority.split(':').next().unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::path::Path as FilePath;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use testkit::{WebServer, make_certificates};

    use super::*;

    /// A server of one file over https, which sends clients elsewhere once it is told to. Its address.
    fn https_server(folder: &FilePath, bytes: Vec<u8>, to: String, sends_on: Arc<AtomicBool>) -> String {
        choose_cryptography();
        let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let connection = ServerConnection::new(config.clone()).unwrap();
                let mut stream = BufReader::new(StreamOwned::new(connection, client));
                let mut range = None;
                let mut line = String::new();
                // A client that goes away ends its connection, and nothing else.
                while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                        let (start, end) = value.trim().split_once('-').unwrap();
                        range = Some((start.parse::<usize>().unwrap(), end.parse::<usize>().unwrap()));
                    }
                    line.clear();
                }
                let stream = stream.get_mut();
                let (start, end) = range.unwrap_or((0, bytes.len() - 1));
                let body = &bytes[start..=end.min(bytes.len() - 1)];
                let _ = match sends_on.load(Ordering::SeqCst) {
                    true => write!(stream, "HTTP/1.1 302 Found\r\nlocation: {to}\r\n"),
                    false => {
                        let size = bytes.len();
                        write!(stream, "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {start}-{end}/{size}\r\n")
                    }
                };
                let length = if sends_on.load(Ordering::SeqCst) { 0 } else { body.len() };
                let _ = write!(stream, "etag: \"one\"\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                let _ = stream.write_all(&body[..length]);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        format!("https://127.0.0.1:{port}/a.bin")
    }

    /// Keeps what comes, and tells the end.
    struct Kept(Vec<u8>, std::sync::mpsc::Sender<Result<Vec<u8>, Error>>);

    impl RangeSink for Kept {
        fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }

        fn end(self: Box<Self>, result: Result<(), Error>) {
            let Kept(bytes, to) = *self;
            let _ = to.send(result.map(|()| bytes));
        }
    }

    #[test]
    fn an_https_server_cannot_send_a_reader_to_http() {
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path(), "127.0.0.1");
        let contents: Vec<u8> = (0..5000u32).map(|n| (n % 251) as u8).collect();
        let plain = WebServer::start(contents.clone(), Some("one"));
        let sends_on = Arc::new(AtomicBool::new(false));
        let address = https_server(folder.path(), contents.clone(), plain.address("a.bin"), sends_on.clone());
        let authority = std::fs::read(folder.path().join("ca.pem")).unwrap();
        let authority = object_store::Certificate::from_pem(&authority).unwrap();
        // The server's own authority is the only one believed, so that nothing depends on this machine's.
        let options = ClientOptions::new().with_root_certificate(authority).with_no_system_certificates(true);
        let access = Access { max_retries: 1, first_pause: Duration::from_millis(1), ..Access::default() };
        let object = web_object(&address, address.clone(), &access, options).unwrap();
        let reader = ObjectReader::new(access).unwrap();
        let version = reader.version(&object).unwrap();
        let read = |range: Range<u64>| {
            let (sender, receiver) = channel();
            reader.fetch(&object, &version, range, Box::new(Kept(Vec::new(), sender)));
            receiver.recv().unwrap()
        };
        assert!(read(0..3000).unwrap() == contents[..3000]);
        // In the middle of a run the server sends it on, to one that has the same file.
        sends_on.store(true, Ordering::SeqCst);
        let refused = read(3000..5000).unwrap_err();
        let causes = std::iter::successors(Some(&refused as &dyn std::error::Error), |error| error.source());
        let said: String = causes.map(|error| format!("{error}; ")).collect();
        assert!(said.contains("redirect"), "{said}");
        assert_eq!(plain.heal().0, Vec::<String>::new(), "the other server was asked");
        sends_on.store(false, Ordering::SeqCst);
        assert!(read(3000..5000).unwrap() == contents[3000..]);
    }

    #[test]
    fn addresses_are_understood_or_refused() {
        let reader = ObjectReader::new(Access::default()).unwrap();
        let check = |address: &str, expected: &str| {
            let found = match reader.object(address) {
                Ok(object) => object.address().to_string(),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{address}: {found}");
        };
        check("s3://bucket/a/b=1/c d.bin", "s3://bucket/a/b=1/c d.bin");
        check("gs://bucket/x", "gs://bucket/x");
        check("gs://bucket", "names a bucket");
        check("gs://bucket/a/../b", "`..`");
        check("https://example.com/a?signature=hunter2", "https://example.com/a");
        check("https:///a", "no host");
        check("https://user:hunter2@example.com/a", "password");
        check("http://example.com/a", "use https");
        check("http://127.0.0.1:9/a", "http://127.0.0.1:9/a");
        check("http://[::1]:9/a", "http://[::1]:9/a");
        check("http://localhost@example.com/a", "password");
        check("http://127.0.0.1.example.com/a", "use https");
        check("ftp://example.com/a", "`ftp` is not known");
        for address in ["https://user:hunter2@example.com/a?hunter2", "https://user:hunter2@example.com"] {
            assert!(!without_secrets(address).contains("hunter2"), "{address}");
        }
    }

    #[test]
    fn paths_are_no_addresses() {
        for address in ["s3://a/b", "gs://a", "https://a/b", "ftp://a"] {
            assert!(ObjectReader::is_address(address), "{address}");
        }
        for path in ["a/b", "/a", "file:///a", "a b://c", "://a", "C:/a"] {
            assert!(!ObjectReader::is_address(path), "{path}");
        }
    }

    #[test]
    fn pauses_grow_and_differ() {
        let first = Duration::from_millis(100);
        for tries in 1..20 {
            let longest = first.saturating_mul(1 << tries.min(10)).min(MAX_PAUSE);
            for _ in 0..10 {
                let pause = pause(first, tries);
                assert!(pause >= longest / 2 && pause <= longest, "{tries}: {pause:?}");
            }
        }
        assert_ne!(pause(first, 5), pause(first, 5));
    }
}
