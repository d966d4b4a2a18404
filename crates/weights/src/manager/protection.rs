//! Encryption and signatures of checkpoints: for places that others can read or write.
//!
//! Encryption is the store's: everything in the folders of steps goes through it. A signature is a few lines after the manifest's
//! text, over the text and the manifest's name; the manifest of a signed checkpoint holds a SHA-256 of everything in the files.

use std::sync::Arc;

use trust::{FileDigest, FileSignature, PublicKey, SealingKey, SecretKey, Sha256, signature_comment};

use super::manifest::Manifest;
use super::{CheckpointManager, FOLDER_PREFIX};
use crate::error::Error;

/// What a signature's text begins with, on a line of its own.
const SIGNATURE_MARK: &[u8] = b"\nuntrusted comment: ";

/// How checkpoints are kept from those who can read or write the place they are in.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// Encrypts and decrypts them. With a key, a checkpoint that is not encrypted is not read.
    pub encryption_key: Option<SealingKey>,
    /// Signs them.
    pub signing_key: Option<Arc<SecretKey>>,
    /// One of these keys must have signed what is read; `None` where signatures are not looked at.
    pub trusted_keys: Option<Vec<PublicKey>>,
}

impl CheckpointManager {
    /// The same checkpoints, encrypted and signed as this says.
    #[must_use]
    pub fn protected(mut self, protection: Protection) -> CheckpointManager {
        if let Some(key) = &protection.encryption_key {
            self.store = self.store.sealed(key.clone(), FOLDER_PREFIX);
        }
        self.protection = protection;
        self
    }
}

impl Protection {
    /// Whether what is written needs digests that a signature can be over.
    pub(super) fn signs(&self) -> bool {
        self.signing_key.is_some()
    }

    /// The text of a manifest with its signature.
    pub(super) fn signed(&self, name: &str, text: String) -> String {
        let Some(key) = &self.signing_key else { return text };
        let text = text.trim_end().to_string();
        let signature = key.sign(digest(text.as_bytes()), &signature_comment(name));
        format!("{text}\n{signature}")
    }

    /// The text of a manifest without its signature, which is checked where one is asked for.
    pub(super) fn checked<'a>(&self, name: &str, address: &str, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let at = bytes.windows(SIGNATURE_MARK.len()).position(|window| window == SIGNATURE_MARK);
        let (text, signature) = at.map_or((bytes, None), |at| (&bytes[..at], Some(&bytes[at + 1..])));
        let Some(keys) = &self.trusted_keys else { return Ok(text) };
        let wrong = |source| Error::Signature { path: address.into(), source };
        let signature = signature.and_then(|text| std::str::from_utf8(text).ok());
        let signature = signature.ok_or_else(|| Error::Unsigned { path: address.into() })?;
        let signature = FileSignature::parse(signature).map_err(wrong)?;
        let comment = signature.check(keys, digest(text)).map_err(wrong)?;
        if !comment.split('\t').any(|field| field.strip_prefix("file:") == Some(name)) {
            return Err(Error::format(address, format!("it was signed as another file: {comment}")));
        }
        Ok(text)
    }

    /// A signature that is asked for must be over the tensors too.
    pub(super) fn check_digests(&self, manifest: &Manifest, address: &str) -> Result<(), Error> {
        let mut pieces = manifest.tensors.iter().flat_map(|tensor| &tensor.pieces);
        let has_digests = manifest.files.iter().all(|file| file.header_sha256.is_some())
            && pieces.all(|piece| piece.sha256.is_some());
        match self.trusted_keys {
            Some(_) if !has_digests => Err(Error::Unsigned { path: address.into() }),
            _ => Ok(()),
        }
    }
}

fn digest(text: &[u8]) -> FileDigest {
    let mut digest = FileDigest::new();
    digest.update(text);
    digest
}

/// The checksums of some bytes: one that finds damage, and where it is signed one that nobody can make other bytes for.
pub(super) struct Checksums {
    crc32: crc32fast::Hasher,
    sha256: Option<Sha256>,
}

impl Checksums {
    pub(super) fn new(with_sha256: WithSha256) -> Checksums {
        let sha256 = (with_sha256 == WithSha256::Yes).then(Sha256::new);
        Checksums { crc32: crc32fast::Hasher::new(), sha256 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.crc32.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    pub(super) fn finish(self) -> (u32, Option<String>) {
        (self.crc32.finalize(), self.sha256.map(Sha256::finish))
    }
}

/// Whether bytes are hashed with SHA-256 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithSha256 {
    Yes,
    No,
}

impl From<bool> for WithSha256 {
    fn from(is_wanted: bool) -> WithSha256 {
        if is_wanted { WithSha256::Yes } else { WithSha256::No }
    }
}
