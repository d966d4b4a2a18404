//! Signatures in minisign's form: Ed25519 over a file's BLAKE2b digest, in a small text file beside it.
//!
//! `minisign -V` checks what is signed here, and what `minisign -S` signs is checked here. Secret keys are read without a
//! password only (`minisign -G -W`): a program that signs by itself would have to keep the password beside the key.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Serialize, Serializer};
use zeroize::{Zeroize, Zeroizing};

use crate::blake2b::Blake2b;

/// What a file of keys or signatures may have; they have a few hundred bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

const ED25519_PLAIN: &[u8; 2] = b"Ed";
const ED25519_PREHASHED: &[u8; 2] = b"ED";
const NO_PASSWORD: &[u8; 2] = &[0, 0];
const CHECKSUM_BLAKE2B: &[u8; 2] = b"B2";

const UNTRUSTED: &str = "untrusted comment: ";
const TRUSTED: &str = "trusted comment: ";

/// Algorithm, number, key.
const PUBLIC_BYTES: usize = 2 + 8 + 32;
/// Algorithm, number, signature.
const SIGNATURE_BYTES: usize = 2 + 8 + 64;
/// Three algorithms, salt and limits of the password, number, seed and public key, checksum.
const SECRET_BYTES: usize = 6 + 32 + 8 + 8 + 8 + 64 + 32;

/// The digest that is signed.
pub type FileDigest = Blake2b<64>;

/// Which key: a random number that key and signature files carry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a key or a signature is not taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum SignatureError {
    /// The text is no public key.
    NotAPublicKey,
    /// The text is no secret key, or a damaged one.
    NotASecretKey,
    /// The secret key needs a password.
    Password,
    /// The text is no signature.
    NotASignature,
    /// The signature is of the older form, over the file and not over its digest.
    NotPrehashed,
    /// None of the keys that are trusted made the signature.
    UnknownKey(KeyId),
    /// The key did not sign these bytes.
    Wrong(KeyId),
    /// A file could not be read or written.
    Io(PathBuf, io::Error),
}

impl SignatureError {
    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            SignatureError::NotAPublicKey => {
                "give the .pub file that `tpu key new` or `minisign -G` wrote, or its last line"
            }
            SignatureError::NotASecretKey => "give the .key file that `tpu key new` wrote",
            SignatureError::Password => "sign with `minisign -S`, which asks for it, or make a key with `tpu key new`",
            SignatureError::NotASignature => "sign again with `tpu key sign` or `minisign -S`",
            SignatureError::NotPrehashed => "sign again with `minisign -S -H`, or with `tpu key sign`",
            SignatureError::UnknownKey(_) => {
                "if you know whose key it is, `tpu key trust FILE.pub`, or give it with --key"
            }
            SignatureError::Wrong(_) => "do not use it: it is not what was signed; get it and its signature again",
            SignatureError::Io(..) => "check the path and the permissions",
        }
    }
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignatureError::NotAPublicKey => f.write_str("it is not a public key"),
            SignatureError::NotASecretKey => f.write_str("it is not a secret key, or it is damaged"),
            SignatureError::Password => f.write_str("the secret key needs a password"),
            SignatureError::NotASignature => f.write_str("it is not a signature"),
            SignatureError::NotPrehashed => f.write_str("the signature is of minisign's older form"),
            SignatureError::UnknownKey(id) => write!(f, "key {id}, which signed it, is not trusted here"),
            SignatureError::Wrong(id) => write!(f, "the signature is wrong: key {id} did not sign this"),
            SignatureError::Io(path, _) => write!(f, "{} cannot be used", path.display()),
        }
    }
}

impl std::error::Error for SignatureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SignatureError::Io(_, source) => Some(source),
            _ => None,
        }
    }
}

/// A key that tells who signed.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    id: KeyId,
    key: [u8; 32],
    /// What its file calls it; nobody vouches for that.
    comment: String,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id)
    }
}

impl PublicKey {
    /// The first key of a text: minisign's two lines, or the second one alone.
    pub fn parse(text: &str) -> Result<PublicKey, SignatureError> {
        PublicKey::parse_all(text)?.into_iter().next().ok_or(SignatureError::NotAPublicKey)
    }

    /// Every key of a text. A line that is neither a comment nor a key is an error.
    pub fn parse_all(text: &str) -> Result<Vec<PublicKey>, SignatureError> {
        let mut keys = Vec::new();
        let mut comment = "";
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(said) = line.strip_prefix(UNTRUSTED) {
                comment = said;
                continue;
            }
            let bytes: [u8; PUBLIC_BYTES] = decode(line).ok_or(SignatureError::NotAPublicKey)?;
            let key = bytes.strip_prefix(ED25519_PLAIN).and_then(|rest| rest.split_first_chunk());
            let (id, key) = key.ok_or(SignatureError::NotAPublicKey)?;
            let key = key.try_into().map_err(|_| SignatureError::NotAPublicKey)?;
            keys.push(PublicKey { id: KeyId(*id), key, comment: std::mem::take(&mut comment).to_string() });
        }
        Ok(keys)
    }

    /// A key given on a command line: a file, or the key itself.
    pub fn open(given: &str) -> Result<PublicKey, SignatureError> {
        if let Ok(key) = PublicKey::parse(given) {
            return Ok(key);
        }
        PublicKey::parse(&read_text(Path::new(given))?)
    }

    /// Its number.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What its file calls it.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// As minisign's file.
    pub fn text(&self) -> String {
        let bytes = [&ED25519_PLAIN[..], &self.id.0, &self.key].concat();
        let comment =
            if self.comment.is_empty() { format!("minisign public key {}", self.id) } else { self.comment.clone() };
        format!("{UNTRUSTED}{comment}\n{}\n", STANDARD.encode(bytes))
    }

    fn check(&self, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        let key = UnparsedPublicKey::new(&ED25519, &self.key);
        key.verify(message, signature).map_err(|_| SignatureError::Wrong(self.id))
    }
}

/// A key that signs.
pub struct SecretKey {
    id: KeyId,
    pair: Ed25519KeyPair,
    seed: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

impl SecretKey {
    /// A new key.
    pub fn generate() -> Result<SecretKey, SignatureError> {
        let mut seed = Zeroizing::new([0; 32]);
        let mut id = [0; 8];
        let random = SystemRandom::new();
        let filled = random.fill(&mut *seed).and_then(|()| random.fill(&mut id));
        filled.map_err(|_| {
            SignatureError::Io("the system's random numbers".into(), io::Error::other("there are none"))
        })?;
        SecretKey::of(id, seed)
    }

    fn of(id: [u8; 8], seed: Zeroizing<[u8; 32]>) -> Result<SecretKey, SignatureError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| SignatureError::NotASecretKey)?;
        Ok(SecretKey { id: KeyId(id), pair, seed })
    }

    /// Reads a file of `tpu key new` or `minisign -G -W`.
    pub fn open(path: &Path) -> Result<SecretKey, SignatureError> {
        SecretKey::parse(&Zeroizing::new(read_text(path)?))
    }

    /// The key of a text.
    pub fn parse(text: &str) -> Result<SecretKey, SignatureError> {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(UNTRUSTED));
        let bytes: Option<[u8; SECRET_BYTES]> = line.and_then(decode);
        let bytes = Zeroizing::new(bytes.ok_or(SignatureError::NotASecretKey)?);
        let (algorithms, rest) = bytes.split_at(6);
        if &algorithms[..2] != ED25519_PLAIN || &algorithms[4..] != CHECKSUM_BLAKE2B {
            return Err(SignatureError::NotASecretKey);
        }
        if &algorithms[2..4] != NO_PASSWORD {
            return Err(SignatureError::Password);
        }
        let (id, rest) = rest[48..].split_at(8);
        let (pair, checksum) = rest.split_at(64);
        if secret_checksum(id, pair)[..] != *checksum {
            return Err(SignatureError::NotASecretKey);
        }
        let (seed, public) = pair.split_at(32);
        let seed = seed.try_into().map_err(|_| SignatureError::NotASecretKey)?;
        let key = SecretKey::of(id.try_into().map_err(|_| SignatureError::NotASecretKey)?, Zeroizing::new(seed))?;
        if key.pair.public_key().as_ref() != public {
            return Err(SignatureError::NotASecretKey);
        }
        Ok(key)
    }

    /// As minisign's file without a password.
    pub fn text(&self) -> Zeroizing<String> {
        let pair = Zeroizing::new([&self.seed[..], self.pair.public_key().as_ref()].concat());
        let algorithms = [&ED25519_PLAIN[..], NO_PASSWORD, CHECKSUM_BLAKE2B].concat();
        let checksum = secret_checksum(&self.id.0, &pair);
        let bytes = Zeroizing::new([&algorithms[..], &[0; 48], &self.id.0, &pair, &checksum].concat());
        let encoded = Zeroizing::new(STANDARD.encode(&*bytes));
        Zeroizing::new(format!("{UNTRUSTED}minisign secret key {}, without a password\n{}\n", self.id, *encoded))
    }

    /// Writes the file, for its owner alone. A file that is there stays.
    pub fn save(&self, path: &Path) -> Result<(), SignatureError> {
        let failed = |error| SignatureError::Io(path.to_path_buf(), error);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// What others need to check its signatures.
    pub fn public(&self, comment: &str) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        let comment = comment.chars().filter(|c| !c.is_control()).take(200).collect();
        PublicKey { id: self.id, key, comment }
    }

    /// Its number.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// A signature of a digest, as minisign's file. What the comment says is signed too; it is one line.
    pub fn sign(&self, digest: FileDigest, comment: &str) -> String {
        let comment: String = comment.chars().map(|c| if c == '\n' || c == '\r' { ' ' } else { c }).collect();
        let signature = self.pair.sign(&digest.finish());
        let bytes = [&ED25519_PREHASHED[..], &self.id.0, signature.as_ref()].concat();
        let whole = self.pair.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let (line, whole) = (STANDARD.encode(bytes), STANDARD.encode(whole.as_ref()));
        format!("{UNTRUSTED}signature by key {}\n{line}\n{TRUSTED}{comment}\n{whole}\n", self.id)
    }
}

/// A signature that was read and not checked yet.
#[derive(Clone, Debug)]
pub struct FileSignature {
    id: KeyId,
    signature: [u8; 64],
    comment: String,
    whole: [u8; 64],
}

impl FileSignature {
    /// Reads minisign's file.
    pub fn parse(text: &str) -> Result<FileSignature, SignatureError> {
        let mut lines = text.lines();
        let not = || SignatureError::NotASignature;
        let line = lines.find(|line| !line.starts_with(UNTRUSTED)).ok_or_else(not)?;
        let bytes: [u8; SIGNATURE_BYTES] = decode(line.trim()).ok_or_else(not)?;
        if bytes.starts_with(ED25519_PLAIN) {
            return Err(SignatureError::NotPrehashed);
        }
        let rest = bytes.strip_prefix(ED25519_PREHASHED).ok_or_else(not)?;
        let (id, signature) = rest.split_first_chunk().ok_or_else(not)?;
        let comment = lines.next().and_then(|line| line.strip_prefix(TRUSTED)).ok_or_else(not)?;
        let whole = lines.next().and_then(|line| decode(line.trim())).ok_or_else(not)?;
        let signature = signature.try_into().map_err(|_| not())?;
        Ok(FileSignature { id: KeyId(*id), signature, comment: comment.to_string(), whole })
    }

    /// Reads a signature's file.
    pub fn open(path: &Path) -> Result<FileSignature, SignatureError> {
        FileSignature::parse(&read_text(path)?)
    }

    /// The key of these that the signature says made it.
    pub fn key_among<'a>(&self, keys: &'a [PublicKey]) -> Result<&'a PublicKey, SignatureError> {
        keys.iter().find(|key| key.id == self.id).ok_or(SignatureError::UnknownKey(self.id))
    }

    /// Checks it; gives the comment that was signed with it. Of keys with one number, any may have signed.
    pub fn check(&self, keys: &[PublicKey], digest: FileDigest) -> Result<&str, SignatureError> {
        self.key_among(keys)?;
        let digest = digest.finish();
        let whole = [&self.signature[..], self.comment.as_bytes()].concat();
        let signed_by = |key: &&PublicKey| {
            key.id == self.id && key.check(&digest, &self.signature).is_ok() && key.check(&whole, &self.whole).is_ok()
        };
        keys.iter().find(signed_by).map(|_| self.comment.as_str()).ok_or(SignatureError::Wrong(self.id))
    }

    /// Which key it says made it.
    pub fn key_id(&self) -> KeyId {
        self.id
    }
}

/// Where the signature of a file is.
pub fn signature_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(".minisig");
    name.into()
}

/// What is signed with a file beside its bytes, in minisign's words: when, and under which name.
pub fn signature_comment(name: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("timestamp:{now}\tfile:{name}\thashed")
}

/// Signs a file; gives the signature's.
pub fn sign_file(key: &SecretKey, path: &Path) -> Result<PathBuf, SignatureError> {
    let signed = signature_path(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = key.sign(digest_file(path)?, &signature_comment(&name));
    std::fs::write(&signed, text).map_err(|error| SignatureError::Io(signed.clone(), error))?;
    Ok(signed)
}

/// The digest of a file, read in pieces.
pub fn digest_file(path: &Path) -> Result<FileDigest, SignatureError> {
    let failed = |error| SignatureError::Io(path.to_path_buf(), error);
    let mut file = File::open(path).map_err(failed)?;
    let mut digest = FileDigest::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(digest),
            Ok(read) => digest.update(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

fn secret_checksum(id: &[u8], pair: &[u8]) -> [u8; 32] {
    let mut digest = Blake2b::<32>::new();
    [&ED25519_PLAIN[..], id, pair].into_iter().for_each(|part| digest.update(part));
    digest.finish()
}

fn decode<const N: usize>(line: &str) -> Option<[u8; N]> {
    let mut bytes = STANDARD.decode(line).ok()?;
    let array = bytes.as_slice().try_into().ok();
    bytes.zeroize();
    array
}

/// A small text file.
pub(crate) fn read_text(path: &Path) -> Result<String, SignatureError> {
    let failed = |error| SignatureError::Io(path.to_path_buf(), error);
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text)).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> FileDigest {
        let mut digest = FileDigest::new();
        digest.update(bytes);
        digest
    }

    /// Made by minisign itself, of a file with the text `test`.
    #[test]
    fn a_signature_by_minisign_is_right() {
        let keys = PublicKey::parse_all("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").unwrap();
        let signature = FileSignature::parse(
            "untrusted comment: signature from minisign secret key\n\
             RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
             trusted comment: timestamp:1556193335\tfile:test\n\
             y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==\n",
        )
        .unwrap();
        assert_eq!(signature.check(&keys, digest(b"test")).unwrap(), "timestamp:1556193335\tfile:test");
        assert!(matches!(signature.check(&keys, digest(b"Test")), Err(SignatureError::Wrong(_))));
    }

    #[test]
    fn what_is_signed_is_checked_whole() {
        let key = SecretKey::generate().unwrap();
        let public = [key.public("me")];
        let text = key.sign(digest(b"bytes"), "file:a");
        let check = |text: &str, keys: &[PublicKey], bytes: &[u8]| {
            FileSignature::parse(text).and_then(|signature| signature.check(keys, digest(bytes)).map(str::to_string))
        };
        assert_eq!(check(&text, &public, b"bytes").unwrap(), "file:a");
        assert!(matches!(check(&text, &public, b"other"), Err(SignatureError::Wrong(_))));
        assert!(matches!(check(&text.replace("file:a", "file:b"), &public, b"bytes"), Err(SignatureError::Wrong(_))));
        let stranger = [SecretKey::generate().unwrap().public("")];
        assert!(matches!(check(&text, &stranger, b"bytes"), Err(SignatureError::UnknownKey(_))));
        // A stranger's key that took the number of ours.
        let posing = [PublicKey { id: public[0].id, ..stranger[0].clone() }];
        assert!(matches!(check(&text, &posing, b"bytes"), Err(SignatureError::Wrong(_))));
        assert!(check(&text, &[posing[0].clone(), public[0].clone()], b"bytes").is_ok());
        for cut in 0..text.len() - 1 {
            assert!(check(&text[..cut], &public, b"bytes").is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn keys_print_and_parse() {
        let key = SecretKey::generate().unwrap();
        let again = SecretKey::parse(&key.text()).unwrap();
        assert_eq!((again.id(), again.public("x")), (key.id(), key.public("x")));
        let two = [key.public("one").text(), SecretKey::generate().unwrap().public("two").text()].concat();
        let names: Vec<String> = PublicKey::parse_all(&two).unwrap().iter().map(|k| k.comment().to_string()).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(PublicKey::parse_all("nonsense").is_err() && PublicKey::parse("").is_err());
        // Every damaged key is noticed, or asks for a password.
        let text = key.text();
        let line = text.lines().nth(1).unwrap();
        let mut bytes = STANDARD.decode(line).unwrap();
        for at in (0..bytes.len()).filter(|at| !(6..54).contains(at)) {
            bytes[at] ^= 1;
            assert!(SecretKey::parse(&STANDARD.encode(&bytes)).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(SecretKey::parse(&STANDARD.encode(&bytes)).is_ok());
    }

    #[test]
    fn a_secret_key_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signing.key");
        let key = SecretKey::generate().unwrap();
        key.save(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SecretKey::open(&path).unwrap().id(), key.id());
        assert!(matches!(key.save(&path), Err(SignatureError::Io(..))), "nothing is written over");
    }
}
