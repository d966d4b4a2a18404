//! Places that keep files: a folder, or a prefix of an S3 or Google Cloud Storage bucket, behind one blocking interface.
//!
//! An object appears whole or not at all, under its name, when its writer is finished. Reading is by range, writing is
//! streamed, and neither holds more than a few parts of an object in memory.

mod access;
mod local;
mod objects;
mod remote;
mod sealing;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::Access;
pub(crate) use local::Lock;
pub use objects::{ObjectReader, ObjectVersion, RangeSink, RemoteObject};
pub use tls::choose_cryptography;
use trust::SealingKey;

use crate::error::Error;
use local::{LocalFolder, LocalWriter};
use remote::{Bucket, BucketWriter};
use sealing::{SealedWriter, Sealing};

/// A place that keeps files. Copies share it.
#[derive(Clone, Debug)]
pub struct Store {
    place: Arc<Place>,
    sealing: Option<Arc<Sealing>>,
}

#[derive(Debug)]
enum Place {
    Local(LocalFolder),
    Bucket(Bucket),
}

/// An object that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name below the store's root, parts separated by `/`.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
}

/// A version of a record: what a swap expects to find.
#[derive(Clone, Debug)]
pub enum RecordVersion {
    /// The number of its file.
    Number(u64),
    /// What the bucket calls it.
    Put(object_store::UpdateVersion),
}

/// What came of a swap.
#[derive(Debug)]
pub enum Swap {
    /// The record is in place, as this version.
    Done(RecordVersion),
    /// Another version was there than the expected one.
    Lost,
}

/// An object that is being written. Dropping it unfinished leaves nothing under its name.
#[derive(Debug)]
pub struct ObjectWriter {
    target: Target,
    sealed: Option<SealedWriter>,
}

#[derive(Debug)]
enum Target {
    Local(LocalWriter),
    Bucket(BucketWriter),
}

impl Store {
    /// Opens a path, `file:///…`, `s3://bucket/prefix` or `gs://bucket/prefix`, with credentials and endpoints from the
    /// environment (see [`Access`]). A folder is made when something is first written into it.
    pub fn open(location: &str) -> Result<Store, Error> {
        Store::open_with(location, &Access::from_environment())
    }

    /// Opens a place with these credentials, endpoints and limits.
    pub fn open_with(location: &str, access: &Access) -> Result<Store, Error> {
        let wrong = |message: &str| Error::Location { location: location.to_string(), message: message.to_string() };
        let place = match location.split_once("://") {
            None if location.is_empty() => return Err(wrong("it is empty")),
            None => Place::Local(LocalFolder::new(Path::new(location))),
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(wrong("an address of a file is file:/// and an absolute path"));
                }
                let path =
                    percent_decoded(path).ok_or_else(|| wrong("a % in an address needs two hexadecimal digits"))?;
                Place::Local(LocalFolder::new(&path))
            }
            Some(("s3", rest)) => Place::Bucket(Bucket::s3(rest, access)?),
            Some(("gs", rest)) => Place::Bucket(Bucket::google(rest, access)?),
            Some((scheme, _)) => return Err(wrong(&format!("the scheme `{scheme}` is not known"))),
        };
        Ok(Store { place: Arc::new(place), sealing: None })
    }

    /// A bucket in memory, in which every request waits for its turn.
    #[cfg(test)]
    pub(crate) fn gated(store: Arc<dyn object_store::ObjectStore>, gate: Arc<dyn Fn() + Send + Sync>) -> Store {
        Store { place: Arc::new(Place::Bucket(Bucket::gated(store, gate).unwrap())), sealing: None }
    }

    /// A folder.
    pub fn folder(path: &Path) -> Store {
        Store { place: Arc::new(Place::Local(LocalFolder::new(path))), sealing: None }
    }

    /// The same place, with objects whose names begin so encrypted. Their exact sizes must be given when they are written.
    pub(crate) fn sealed(mut self, key: SealingKey, prefix: &'static str) -> Store {
        self.sealing = Some(Arc::new(Sealing::new(key, prefix)));
        self
    }

    fn sealing_of(&self, name: &str) -> Option<&Sealing> {
        self.sealing.as_deref().filter(|sealing| sealing.covers(name))
    }

    /// Where an object is: its path, or its address.
    pub fn address(&self, name: &str) -> String {
        match &*self.place {
            Place::Local(folder) => folder.path(name).display().to_string(),
            Place::Bucket(bucket) => bucket.address(name),
        }
    }

    /// Begins an object of about `size_bytes`; a wrong guess costs memory or requests, nothing else.
    pub fn write(&self, name: &str, size_bytes: u64) -> Result<ObjectWriter, Error> {
        self.check_name(name)?;
        let sealing = self.sealing_of(name);
        let stored_bytes = if sealing.is_some() { trust::sealed_size(size_bytes) } else { size_bytes };
        let mut target = match &*self.place {
            Place::Local(folder) => Target::Local(folder.write(name)?),
            Place::Bucket(bucket) => Target::Bucket(bucket.write(name, stored_bytes)?),
        };
        let begun = sealing.map(|sealing| sealing.begin(name, self.address(name), size_bytes)).transpose()?;
        let sealed = match begun {
            Some((sealed, header)) => {
                target.push(&header)?;
                Some(sealed)
            }
            None => None,
        };
        Ok(ObjectWriter { target, sealed })
    }

    /// Writes a small object, replacing one of that name.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut writer = self.write(name, bytes.len() as u64)?;
        writer.push(bytes)?;
        writer.finish()
    }

    /// Reads a range, all of it. The caller knows that it is not larger than the object, so that memory is bounded.
    pub fn read(&self, name: &str, offset: u64, size_bytes: usize) -> Result<Vec<u8>, Error> {
        self.check_name(name)?;
        let stored = |offset: u64, size_bytes: usize| match &*self.place {
            Place::Local(folder) => folder.read(name, offset, size_bytes),
            Place::Bucket(bucket) => bucket.read(name, offset, size_bytes),
        };
        match self.sealing_of(name) {
            None => stored(offset, size_bytes),
            Some(sealing) => sealing.read(name, &self.address(name), (offset, size_bytes), &stored),
        }
    }

    /// All objects below `prefix` (a whole part of a name, or empty for all), sorted by name.
    pub fn list(&self, prefix: &str) -> Result<Vec<StoredObject>, Error> {
        if !prefix.is_empty() {
            self.check_name(prefix)?;
        }
        let mut objects = match &*self.place {
            Place::Local(folder) => folder.list(prefix)?,
            Place::Bucket(bucket) => bucket.list(prefix)?,
        };
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(match &self.sealing {
            Some(sealing) => objects.into_iter().map(|object| sealing.shown(object)).collect(),
            None => objects,
        })
    }

    /// Deletes an object; one that is not there is no error. It is gone from the disk when this returns.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        self.check_name(name)?;
        match &*self.place {
            Place::Local(folder) => folder.delete(name),
            Place::Bucket(bucket) => bucket.delete(name),
        }
    }

    /// The newest version of a record of at most so many bytes; `None` where there is none. Records are small, lie in the root,
    /// and change by [`Store::swap_record`] only.
    pub fn read_record(&self, name: &str, max_bytes: usize) -> Result<Option<(Vec<u8>, RecordVersion)>, Error> {
        self.check_name(name)?;
        match &*self.place {
            Place::Local(folder) => folder.read_record(name, max_bytes),
            Place::Bucket(bucket) => bucket.read_record(name, max_bytes),
        }
    }

    /// Puts a new version of a record in the place of the expected one, or of none. Of several that do so at once, one succeeds.
    pub fn swap_record(&self, name: &str, expected: Option<&RecordVersion>, bytes: &[u8]) -> Result<Swap, Error> {
        self.check_name(name)?;
        match (&*self.place, expected) {
            (Place::Local(folder), None) => folder.swap_record(name, 0, bytes),
            (Place::Local(folder), Some(RecordVersion::Number(number))) => folder.swap_record(name, *number, bytes),
            (Place::Bucket(bucket), None) => bucket.swap_record(name, None, bytes),
            (Place::Bucket(bucket), Some(RecordVersion::Put(version))) => {
                bucket.swap_record(name, Some(version.clone()), bytes)
            }
            // A version of another store is never there.
            _ => Ok(Swap::Lost),
        }
    }

    /// Fails if a swap of this record would not be refused where it must be; the record is there, and these are its bytes. Some
    /// servers that speak S3's interface take conditional puts and ignore their conditions.
    pub fn check_conditions(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.check_name(name)?;
        match &*self.place {
            // A name that is there cannot be made again.
            Place::Local(_) => Ok(()),
            Place::Bucket(bucket) => bucket.check_conditions(name, bytes),
        }
    }

    /// The same place, with nothing encrypted.
    pub(crate) fn plain(&self) -> Store {
        Store { place: self.place.clone(), sealing: None }
    }

    /// Removes a folder that has become empty. Buckets have no folders.
    pub(crate) fn remove_empty_folder(&self, name: &str) -> Result<(), Error> {
        self.check_name(name)?;
        match &*self.place {
            Place::Local(folder) => folder.remove_empty_folder(name),
            Place::Bucket(_) => Ok(()),
        }
    }

    /// Deletes what processes that were killed left at the root. Buckets show nothing unfinished.
    pub(crate) fn remove_unfinished(&self) -> Result<(), Error> {
        match &*self.place {
            Place::Local(folder) => folder.remove_unfinished(),
            Place::Bucket(_) => Ok(()),
        }
    }

    /// Names of the folders at the root. Buckets have none.
    pub(crate) fn folders(&self) -> Result<Vec<String>, Error> {
        match &*self.place {
            Place::Local(folder) => folder.folders(),
            Place::Bucket(_) => Ok(Vec::new()),
        }
    }

    /// Keeps other processes of this machine from writing, as long as the lock lives. Buckets have no locks.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Error> {
        match &*self.place {
            Place::Local(folder) => folder.lock(),
            Place::Bucket(_) => Ok(None),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        if is_plain_name(name) {
            return Ok(());
        }
        let message = "a name has letters, digits, `.`, `_`, `-`, and parts separated by `/`".to_string();
        Err(Error::Location { location: name.to_string(), message })
    }
}

impl ObjectWriter {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let ObjectWriter { target, sealed } = self;
        match sealed {
            Some(sealed) => sealed.push(bytes, &mut |bytes| target.push(bytes)),
            None => target.push(bytes),
        }
    }

    /// Makes the object appear. When this returns, a crash of the machine does not take it away.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(sealed) = self.sealed.take() {
            sealed.finish(&mut |bytes| self.target.push(bytes))?;
        }
        match self.target {
            Target::Local(writer) => writer.finish(),
            Target::Bucket(writer) => writer.finish(),
        }
    }
}

impl Target {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Target::Local(writer) => writer.push(bytes),
            Target::Bucket(writer) => writer.push(bytes),
        }
    }
}

/// Whether a name cannot lead anywhere but below the root, on any kind of store.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let plain = |part: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty() && part != "." && part != ".." && part.chars().all(known)
    };
    name.len() <= 1024 && name.split('/').all(plain)
}

fn percent_decoded(text: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_out() {
        for name in ["a", "step-00000001/manifest.json", ".lock", "a..b"] {
            assert!(is_plain_name(name), "{name}");
        }
        for name in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a b", "a\0", "ä", "a%2f..", "*"] {
            assert!(!is_plain_name(name), "{name}");
        }
    }

    #[test]
    fn locations_are_understood_or_refused() {
        let check = |location: &str, expected: &str| {
            let found = match Store::open_with(location, &Access::default()) {
                Ok(store) => store.address("x"),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{location}: {found}");
        };
        check("runs/a", "runs/a/x");
        check("file:///tmp/a%20b", "/tmp/a b/x");
        check("file://localhost/tmp/a", "/tmp/a/x");
        check("file://elsewhere/tmp", "absolute path");
        check("file:///tmp/%zz", "hexadecimal");
        check("file:///tmp/%é", "hexadecimal");
        check("", "empty");
        check("ftp://a/b", "`ftp` is not known");
        check("s3://", "bucket");
        check("s3:///prefix", "bucket");
        check("s3://bucket/a/b/", "s3://bucket/a/b/x");
        check("s3://bucket", "s3://bucket/x");
        check("gs://bucket/a", "gs://bucket/a/x");
        check("s3://bucket/a/../b", "prefix");
    }
}
