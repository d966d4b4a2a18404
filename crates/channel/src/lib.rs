//! Connections between processes that share a secret: each side proves that it knows it, and everything after is encrypted.
//!
//! # Why not TLS
//! The processes of a run have no names that an authority could certify, and they share one secret anyway. TLS with pinned
//! certificates needs a certificate for each process and a way to make and spread them; rustls does not take a shared key
//! instead. So the exchange here is the smallest that a shared key allows, with the primitives of `ring` that rustls uses:
//!
//! 1. The caller sends eight bytes that name the protocol and a fresh X25519 key.
//! 2. The listener sends a fresh key of its own and an empty sealed record. Its seal proves that it knows the secret.
//! 3. The caller sends its first sealed message. Its seal proves the same.
//!
//! The keys of both directions come by HKDF-SHA256 from the secret, the shared X25519 value and a hash of both public keys and
//! of the *context*: what the connection is for. So a recorded connection cannot be replayed, sent back, or used for another
//! purpose, and a secret that leaks later does not open what was recorded before. Records are sealed by AES-256-GCM with a
//! counter: one that is changed, left out, repeated or reordered ends the connection.
//!
//! Who talks to the listener can test guesses of the secret at home, as with every such exchange. So a secret has at least
//! [`MIN_SECRET_CHARS`] characters, and [`Secret::generate`] makes one of 256 random bits.
//!
//! Without a secret the same exchange runs with a key that everybody knows. It protects nothing, so such a process stays on the
//! loopback interface: see [`Secret::allows`].

mod connection;
mod gate;
mod keys;
mod secret;

pub use connection::{Channel, HandshakeError, MAX_HANDSHAKE_BYTES, Wait};
pub use gate::{Gate, HANDSHAKE_TIMEOUT, MAX_FIRST_BYTES, MAX_STRANGERS};
pub use secret::{MIN_SECRET_CHARS, SECRET, SECRET_FILE, Secret};
