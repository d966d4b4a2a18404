//! The cryptography of encrypted connections.

/// Chooses it for this process, unless somebody has. Clients that may use encryption cannot be made before.
pub fn choose_cryptography() {
    // `Err` says that a choice was made already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
