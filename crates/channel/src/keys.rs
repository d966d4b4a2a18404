//! The keys of a connection's two directions, and sealing and opening with them.

use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;
use ring::{digest, hkdf};

use crate::secret::Secret;

/// Bytes of a public key.
pub(crate) const PUBLIC_BYTES: usize = 32;
/// Bytes that a seal adds.
pub(crate) const TAG_BYTES: usize = 16;

/// One direction of a connection: its key and how many records it had.
pub(crate) struct Direction {
    key: LessSafeKey,
    records: u64,
}

impl std::fmt::Debug for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direction").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Direction {
    /// Seals a record in place; `header` is bound to it. Gives what goes after it.
    pub(crate) fn seal(&mut self, header: &[u8], record: &mut [u8]) -> io::Result<[u8; TAG_BYTES]> {
        let nonce = self.nonce()?;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), record);
        let tag = sealed.map_err(|_| io::Error::other("a record cannot be sealed"))?;
        tag.as_ref().first_chunk().copied().ok_or_else(|| io::Error::other("a seal of another size"))
    }

    /// Opens a record with its tag in place, and gives what was sealed; an error where it is not what the other side sealed.
    pub(crate) fn open<'a>(&mut self, header: &[u8], record: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let nonce = self.nonce()?;
        let opened = self.key.open_in_place(nonce, Aad::from(header), record);
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "a record was not sealed by the other side");
        opened.map(|opened| &*opened).map_err(wrong)
    }

    /// Each number is used once; a record that comes twice or too early is opened with a number that does not fit.
    fn nonce(&mut self) -> io::Result<Nonce> {
        let mut bytes = [0; NONCE_LEN];
        bytes[NONCE_LEN - 8..].copy_from_slice(&self.records.to_be_bytes());
        self.records = self.records.checked_add(1).ok_or_else(|| io::Error::other("too many records"))?;
        Ok(Nonce::assume_unique_for_key(bytes))
    }
}

/// A side's own half of the exchange.
pub(crate) struct Ephemeral {
    private: EphemeralPrivateKey,
    pub(crate) public: [u8; PUBLIC_BYTES],
}

/// The keys of both directions.
pub(crate) struct Keys {
    pub(crate) of_caller: Direction,
    pub(crate) of_listener: Direction,
}

impl Ephemeral {
    pub(crate) fn new() -> io::Result<Ephemeral> {
        let failed = |_| io::Error::other("the operating system gives no random bytes");
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
        let computed = private.compute_public_key().map_err(failed)?;
        let public = computed.as_ref().first_chunk().copied();
        Ok(Ephemeral { private, public: public.ok_or_else(|| io::Error::other("a public key of another size"))? })
    }

    /// The keys of a connection, the same on both sides: of the secret, of both halves, and of what the connection is for.
    pub(crate) fn agree(
        self,
        theirs: &[u8; PUBLIC_BYTES],
        of_caller: &[u8; PUBLIC_BYTES],
        of_listener: &[u8; PUBLIC_BYTES],
        secret: &Secret,
        context: &[u8],
    ) -> io::Result<Keys> {
        let mut transcript = digest::Context::new(&digest::SHA256);
        transcript.update(&(context.len() as u64).to_le_bytes());
        [context, of_caller, of_listener].iter().for_each(|part| transcript.update(part));
        let transcript = transcript.finish();
        let expand = |shared: &[u8]| {
            let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &secret.key()).extract(shared);
            let direction = |name: &[u8]| {
                let info = [name, transcript.as_ref()];
                let key = extracted.expand(&info, &AES_256_GCM).map_err(|_| io::Error::other("no key"))?;
                Ok::<_, io::Error>(Direction { key: LessSafeKey::new(UnboundKey::from(key)), records: 0 })
            };
            Ok(Keys { of_caller: direction(b"caller")?, of_listener: direction(b"listener")? })
        };
        // A public key of small order is refused here.
        let agreed = agree_ephemeral(self.private, &UnparsedPublicKey::new(&X25519, theirs), expand);
        agreed.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::InvalidData, "a public key that is none")))
    }
}
