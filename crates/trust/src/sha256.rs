//! SHA-256 of bytes that come piece by piece, as text.

use ring::digest::{Context, SHA256};

/// A SHA-256 of what is added piece by piece.
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    /// Of nothing yet.
    pub fn new() -> Sha256 {
        Sha256(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest in hexadecimal digits.
    pub fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

#[cfg(test)]
mod tests {
    use super::Sha256;

    #[test]
    fn agrees_with_the_standard() {
        let mut digest = Sha256::new();
        digest.update(b"a");
        digest.update(b"bc");
        assert_eq!(digest.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
