//! Encryption at rest: files in chunks of AES-256-GCM, of which any range can be read without the rest.
//!
//! A file is a header and chunks. Each file has a key of its own, derived from the user's key and a random salt in the header. A chunk's
//! nonce is its number and whether it is the last; header and file name are authenticated with every chunk. So a file that was
//! changed, cut, lengthened, put together from others or given another's name does not decrypt.

use std::fmt;
use std::ops::Range;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

const MAGIC: &[u8; 12] = b"tpubridge-en";
/// Version of the format.
const VERSION: u32 = 1;
/// Magic, version, size of the contents, number of the key, salt.
pub const SEAL_HEADER_BYTES: usize = 12 + 4 + 8 + 8 + 32;
/// Bytes of the contents in a chunk.
const CHUNK_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;

/// Why a file is not decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealError {
    /// It is not encrypted.
    NotSealed,
    /// It has a version this release does not read.
    Version(u32),
    /// Another key encrypted it: the number of that key, and of the one that was given.
    OtherKey(String, String),
    /// It is not what was encrypted under this name: changed, cut short, or another file.
    Damaged,
    /// The system has no random numbers.
    NoRandom,
}

impl SealError {
    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            SealError::NotSealed => "read it without a key if you know that it was written so, or use another folder",
            SealError::Version(_) => "update tpubridge",
            SealError::OtherKey(..) => "give the key it was written with",
            SealError::Damaged => "do not use it; go back to an older copy, and find out who could write there",
            SealError::NoRandom => "check /dev/urandom",
        }
    }

    /// Whether the file is not what was written, as opposed to a key or a release that does not fit.
    pub fn is_damage(&self) -> bool {
        *self == SealError::Damaged
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealError::NotSealed => f.write_str("it is not encrypted, and a key was given"),
            SealError::Version(version) => {
                write!(f, "its encryption has version {version}; this release reads {VERSION}")
            }
            SealError::OtherKey(theirs, ours) => {
                write!(f, "it is encrypted with key {theirs}, and key {ours} was given")
            }
            SealError::Damaged => f.write_str("it is not what was encrypted: changed, cut short, or another file"),
            SealError::NoRandom => f.write_str("the system has no random numbers"),
        }
    }
}

impl std::error::Error for SealError {}

/// The key that a user's files are encrypted with.
#[derive(Clone)]
pub struct SealingKey {
    key: Zeroizing<[u8; 32]>,
    id: [u8; 8],
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id())
    }
}

struct Bytes<const N: usize>;

impl<const N: usize> KeyType for Bytes<N> {
    fn len(&self) -> usize {
        N
    }
}

impl SealingKey {
    /// Of 32 bytes, which must be random.
    pub fn new(key: Zeroizing<[u8; 32]>) -> SealingKey {
        let mut id = [0; 8];
        let derived = Salt::new(HKDF_SHA256, b"tpubridge key number").extract(&*key);
        let expanded = derived.expand(&[b"number"], Bytes::<8>).and_then(|number| number.fill(&mut id));
        // Eight bytes are less than the most that can be derived.
        debug_assert!(expanded.is_ok());
        SealingKey { key, id }
    }

    /// A new one.
    pub fn generate() -> Result<SealingKey, SealError> {
        let mut key = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut *key).map_err(|_| SealError::NoRandom)?;
        Ok(SealingKey::new(key))
    }

    /// Its number, which files carry; it tells nothing of the key.
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// As 64 hexadecimal digits, which `KeySource` reads.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(hex(&*self.key))
    }

    fn of_file(&self, salt: &[u8]) -> LessSafeKey {
        let derived = Salt::new(HKDF_SHA256, salt).extract(&*self.key);
        let key = derived.expand(&[b"tpubridge file"], &AES_256_GCM).map(UnboundKey::from);
        LessSafeKey::new(key.expect("a key of the cipher's length can be derived"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a file whose contents have so many.
pub fn sealed_size(contents: u64) -> u64 {
    let tags = chunks_of(contents).saturating_mul(TAG_BYTES as u64);
    contents.saturating_add(tags).saturating_add(SEAL_HEADER_BYTES as u64)
}

/// Bytes of the contents of a file that has so many; `None` where no file has that size.
pub fn contents_size(sealed: u64) -> Option<u64> {
    let body = sealed.checked_sub(SEAL_HEADER_BYTES as u64)?;
    let chunks = body.div_ceil((CHUNK_BYTES + TAG_BYTES) as u64).max(1);
    let contents = body.checked_sub(chunks * TAG_BYTES as u64)?;
    (sealed_size(contents) == sealed).then_some(contents)
}

/// An empty file has one chunk too: that it is empty is authenticated.
fn chunks_of(contents: u64) -> u64 {
    contents.div_ceil(CHUNK_BYTES as u64).max(1)
}

/// What is common to writing and reading a file.
struct Chunks {
    key: LessSafeKey,
    /// Header and name.
    authenticated: Vec<u8>,
    contents: u64,
}

impl Chunks {
    fn new(key: &SealingKey, name: &str, header: &[u8; SEAL_HEADER_BYTES], contents: u64) -> Chunks {
        let key = key.of_file(&header[32..]);
        Chunks { key, authenticated: [&header[..], name.as_bytes()].concat(), contents }
    }

    fn nonce(&self, chunk: u64) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&chunk.to_be_bytes());
        nonce[11] = u8::from(chunk + 1 == chunks_of(self.contents));
        Nonce::assume_unique_for_key(nonce)
    }

    fn size_of(&self, chunk: u64) -> usize {
        let begin = chunk.saturating_mul(CHUNK_BYTES as u64);
        usize::try_from(self.contents.saturating_sub(begin)).unwrap_or(usize::MAX).min(CHUNK_BYTES)
    }
}

/// Encrypts a file as it is written.
pub struct Sealer {
    chunks: Chunks,
    chunk: u64,
    /// Contents that do not fill a chunk yet.
    waiting: Vec<u8>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer(chunk {} of {})", self.chunk, chunks_of(self.chunks.contents))
    }
}

impl Sealer {
    /// Of a file of this name and exactly so many bytes; and the header, which is written first.
    pub fn new(key: &SealingKey, name: &str, contents: u64) -> Result<(Sealer, [u8; SEAL_HEADER_BYTES]), SealError> {
        let mut header = [0; SEAL_HEADER_BYTES];
        header[..12].copy_from_slice(MAGIC);
        header[12..16].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&contents.to_le_bytes());
        header[24..32].copy_from_slice(&key.id);
        SystemRandom::new().fill(&mut header[32..]).map_err(|_| SealError::NoRandom)?;
        let chunks = Chunks::new(key, name, &header, contents);
        Ok((Sealer { chunks, chunk: 0, waiting: Vec::with_capacity(CHUNK_BYTES + TAG_BYTES) }, header))
    }

    /// Adds contents; `write` gets what is encrypted of it. More than was announced is an error.
    pub fn push<E: From<SealError>>(
        &mut self,
        mut bytes: &[u8],
        write: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let size = self.chunks.size_of(self.chunk);
            let now = bytes.len().min(size.saturating_sub(self.waiting.len()));
            if now == 0 {
                return Err(SealError::Damaged.into());
            }
            self.waiting.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if self.waiting.len() == size {
                self.seal(write)?;
            }
        }
        Ok(())
    }

    fn seal<E: From<SealError>>(&mut self, write: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let (nonce, authenticated) = (self.chunks.nonce(self.chunk), Aad::from(&self.chunks.authenticated));
        let sealed = self.chunks.key.seal_in_place_append_tag(nonce, authenticated, &mut self.waiting);
        sealed.map_err(|_| SealError::Damaged)?;
        write(&self.waiting)?;
        self.waiting.clear();
        self.chunk += 1;
        Ok(())
    }

    /// Ends the file. Less than was announced is an error.
    pub fn finish<E: From<SealError>>(mut self, write: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.chunks.contents == 0 && self.chunk == 0 {
            self.seal(write)?;
        }
        if self.chunk == chunks_of(self.chunks.contents) { Ok(()) } else { Err(SealError::Damaged.into()) }
    }
}

/// Decrypts ranges of a file.
pub struct Unsealer {
    chunks: Chunks,
}

impl fmt::Debug for Unsealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unsealer({} bytes)", self.chunks.contents)
    }
}

impl Unsealer {
    /// Reads a file's header. What it says is authenticated by the first chunk that is read.
    pub fn new(key: &SealingKey, name: &str, header: &[u8]) -> Result<Unsealer, SealError> {
        if !is_sealed(header) {
            return Err(SealError::NotSealed);
        }
        let header: &[u8; SEAL_HEADER_BYTES] = header.try_into().map_err(|_| SealError::Damaged)?;
        let (words, _) = header[12..].split_at(20);
        let version = words.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if version != VERSION {
            return Err(SealError::Version(version));
        }
        let contents = words[4..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if words[12..] != key.id {
            return Err(SealError::OtherKey(hex(&words[12..]), key.id()));
        }
        Ok(Unsealer { chunks: Chunks::new(key, name, header, contents) })
    }

    /// Where the chunks of a range of the contents are in the file; `None` where the contents end before.
    pub fn range(&self, offset: u64, size: usize) -> Option<Range<u64>> {
        let end = offset.checked_add(size as u64).filter(|end| *end <= self.chunks.contents)?;
        let first = offset / CHUNK_BYTES as u64;
        let last = if size == 0 { first } else { (end - 1) / CHUNK_BYTES as u64 };
        let last = last.min(chunks_of(self.chunks.contents) - 1);
        let first = first.min(last);
        let at = |chunk: u64| SEAL_HEADER_BYTES as u64 + chunk * (CHUNK_BYTES + TAG_BYTES) as u64;
        Some(at(first)..at(last) + (self.chunks.size_of(last) + TAG_BYTES) as u64)
    }

    /// Decrypts what [`Unsealer::range`] named; gives the contents of the range.
    pub fn open(&self, offset: u64, size: usize, mut sealed: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let range = self.range(offset, size).ok_or(SealError::Damaged)?;
        if (range.end - range.start) != sealed.len() as u64 {
            return Err(SealError::Damaged);
        }
        let first = (range.start - SEAL_HEADER_BYTES as u64) / (CHUNK_BYTES + TAG_BYTES) as u64;
        let mut filled = 0;
        let mut begin = 0;
        let mut chunk = first;
        while begin < sealed.len() {
            let end = begin + self.chunks.size_of(chunk) + TAG_BYTES;
            let part = sealed.get_mut(begin..end).ok_or(SealError::Damaged)?;
            let (nonce, authenticated) = (self.chunks.nonce(chunk), Aad::from(&self.chunks.authenticated));
            let opened = self.chunks.key.open_in_place(nonce, authenticated, part);
            let length = opened.map_err(|_| SealError::Damaged)?.len();
            sealed.copy_within(begin..begin + length, filled);
            filled += length;
            begin = end;
            chunk += 1;
        }
        sealed.truncate(filled);
        let skip = usize::try_from(offset - first * CHUNK_BYTES as u64).map_err(|_| SealError::Damaged)?;
        sealed.drain(..skip);
        sealed.truncate(size);
        Ok(sealed)
    }
}

/// Whether bytes begin as an encrypted file does.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: &SealingKey, name: &str, contents: &[u8], piece: usize) -> Vec<u8> {
        let (mut sealer, header) = Sealer::new(key, name, contents.len() as u64).unwrap();
        let mut file = header.to_vec();
        let mut write = |bytes: &[u8]| -> Result<(), SealError> {
            file.extend_from_slice(bytes);
            Ok(())
        };
        contents.chunks(piece).for_each(|piece| sealer.push(piece, &mut write).unwrap());
        sealer.finish(&mut write).unwrap();
        file
    }

    fn open(key: &SealingKey, name: &str, file: &[u8], offset: u64, size: usize) -> Result<Vec<u8>, SealError> {
        let header = file.get(..SEAL_HEADER_BYTES).ok_or(SealError::Damaged)?;
        let unsealer = Unsealer::new(key, name, header)?;
        let range = unsealer.range(offset, size).ok_or(SealError::Damaged)?;
        let sealed = file.get(range.start as usize..range.end as usize).ok_or(SealError::Damaged)?;
        unsealer.open(offset, size, sealed.to_vec())
    }

    fn contents(size: usize) -> Vec<u8> {
        (0..size).map(|n| (n * 31 % 251) as u8).collect()
    }

    #[test]
    fn any_range_comes_back() {
        let key = SealingKey::generate().unwrap();
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 77] {
            let plain = contents(size);
            let file = seal(&key, "a", &plain, 50_000);
            assert_eq!(
                (file.len() as u64, contents_size(file.len() as u64)),
                (sealed_size(size as u64), Some(size as u64))
            );
            for (offset, length) in [(0, size), (0, 0), (size, 0), (size / 2, size - size / 2), (size / 3, size / 4)] {
                let found = open(&key, "a", &file, offset as u64, length).unwrap();
                assert!(found == plain[offset..offset + length], "{size}: {offset} {length}");
            }
            assert!(open(&key, "a", &file, 0, size + 1).is_err());
            assert!(open(&key, "a", &file, u64::MAX, 1).is_err());
        }
    }

    #[test]
    fn no_two_files_are_alike() {
        let key = SealingKey::generate().unwrap();
        let (one, two) = (seal(&key, "a", &[0; 1000], 9), seal(&key, "a", &[0; 1000], 9));
        assert_ne!(one[SEAL_HEADER_BYTES..], two[SEAL_HEADER_BYTES..]);
    }

    #[test]
    fn what_was_changed_does_not_decrypt() {
        let key = SealingKey::generate().unwrap();
        let size = 2 * CHUNK_BYTES + 100;
        let file = seal(&key, "a", &contents(size), size);
        let read = |file: &[u8], name: &str| open(&key, name, file, 0, size);
        assert!(read(&file, "a").is_ok());
        assert_eq!(read(&file, "b"), Err(SealError::Damaged), "another name");
        for at in (0..SEAL_HEADER_BYTES).chain([SEAL_HEADER_BYTES, 70_000, file.len() - 1]) {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(read(&changed, "a").is_err(), "byte {at}");
        }
        // Cut at a chunk's end, with a header that says so.
        let sealed_chunk = CHUNK_BYTES + TAG_BYTES;
        let mut cut = file[..SEAL_HEADER_BYTES + 2 * sealed_chunk].to_vec();
        cut[16..24].copy_from_slice(&(2 * CHUNK_BYTES as u64).to_le_bytes());
        assert_eq!(open(&key, "a", &cut, 0, 10), Err(SealError::Damaged));
        // Chunks in another order, or of another file of the same key.
        let mut swapped = file.clone();
        let (one, two) = swapped[SEAL_HEADER_BYTES..].split_at_mut(sealed_chunk);
        one.swap_with_slice(&mut two[..sealed_chunk]);
        assert_eq!(read(&swapped, "a"), Err(SealError::Damaged));
        let mut mixed = seal(&key, "a", &contents(size), size);
        mixed[SEAL_HEADER_BYTES..].copy_from_slice(&file[SEAL_HEADER_BYTES..]);
        assert_eq!(read(&mixed, "a"), Err(SealError::Damaged));

        assert!(matches!(open(&SealingKey::generate().unwrap(), "a", &file, 0, 1), Err(SealError::OtherKey(..))));
        assert_eq!(open(&key, "a", &contents(100), 0, 1), Err(SealError::NotSealed));
    }

    #[test]
    fn sizes_must_be_as_announced() {
        let key = SealingKey::generate().unwrap();
        let mut write = |_: &[u8]| -> Result<(), SealError> { Ok(()) };
        let (mut sealer, _) = Sealer::new(&key, "a", 10).unwrap();
        sealer.push(&[0; 9], &mut write).unwrap();
        assert!(sealer.finish(&mut write).is_err());
        let (mut sealer, _) = Sealer::new(&key, "a", 10).unwrap();
        assert!(sealer.push(&[0; 11], &mut write).is_err());
        for size in [0, 63, 64, 79, SEAL_HEADER_BYTES as u64 + CHUNK_BYTES as u64 + 33 - 1] {
            assert_eq!(contents_size(size), None, "{size}");
        }
    }
}
