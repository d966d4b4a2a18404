//! Who may be believed, and who did what: owners of folders, signatures, trusted keys, encryption at rest, the audit log.

mod audit;
mod blake2b;
mod key_source;
mod keyring;
mod owner;
mod sealed;
mod sha256;
mod signature;

pub use audit::{AUDIT_FILE, AUDIT_VARIABLE, AUDIT_VERSION, AuditEvent, AuditLog, AuditOutcome, utc};
pub use blake2b::Blake2b;
pub use key_source::{KeySource, KeySourceError};
pub use keyring::{Keyring, config_folder};
pub use owner::{Distrust, Distrusted, Sticky, create_private_folder, distrust};
pub use sealed::{SEAL_HEADER_BYTES, SealError, Sealer, SealingKey, Unsealer, contents_size, is_sealed, sealed_size};
pub use sha256::Sha256;
pub use signature::{
    FileDigest, FileSignature, KeyId, PublicKey, SecretKey, SignatureError, digest_file, sign_file, signature_comment,
    signature_path,
};
