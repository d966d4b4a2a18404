//! The secret that the processes of a run share: from a file or the environment, never shown.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

/// The variable that holds the secret.
pub const SECRET: &str = "TPUBRIDGE_SECRET";
/// The variable that names a file with the secret.
pub const SECRET_FILE: &str = "TPUBRIDGE_SECRET_FILE";
/// Characters of a secret at least.
pub const MIN_SECRET_CHARS: usize = 32;
/// Bytes of a secret at most.
const MAX_SECRET_BYTES: u64 = 4 << 10;
/// Random bytes of a secret that is made here.
const GENERATED_BYTES: usize = 32;

/// What the processes of a run share, or the lack of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    /// `None` where there is no secret.
    key: Option<[u8; 32]>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.key.is_some() { "Secret(…)" } else { "Secret(none)" })
    }
}

impl Secret {
    /// No secret: for processes of one machine.
    pub fn none() -> Secret {
        Secret::default()
    }

    /// A secret as people and files have it; white space around it does not count.
    pub fn from_text(text: &str) -> Result<Secret, String> {
        let text = text.trim();
        let length = text.chars().count();
        if length < MIN_SECRET_CHARS || text.len() as u64 > MAX_SECRET_BYTES {
            return Err(format!(
                "a secret has {MIN_SECRET_CHARS} to {MAX_SECRET_BYTES} characters, this one {length}: `tpu config secret` makes one"
            ));
        }
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"tpubridge secret 1");
        context.update(text.as_bytes());
        Ok(Secret { key: key_of(context.finish().as_ref()) })
    }

    /// The secret of this environment: the text of [`SECRET`], or the contents of the file that [`SECRET_FILE`] names.
    pub fn from_environment(environment: impl Fn(&str) -> Option<String>) -> Result<Secret, String> {
        let of = |variable: &str| environment(variable).filter(|text| !text.trim().is_empty());
        match (of(SECRET), of(SECRET_FILE)) {
            (None, None) => Ok(Secret::none()),
            (Some(_), Some(_)) => Err(format!("{SECRET} and {SECRET_FILE} are both set: set one")),
            (Some(text), None) => Secret::from_text(&text).map_err(|why| format!("{SECRET}: {why}")),
            (None, Some(path)) => {
                let failed = |why: &dyn fmt::Display| format!("{SECRET_FILE} is `{path}`: {why}");
                let file = std::fs::File::open(&path).map_err(|error| failed(&error))?;
                let mut text = String::new();
                file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
                Secret::from_text(&text).map_err(|why| failed(&why))
            }
        }
    }

    /// A name that nobody had before, for a run.
    pub fn fresh_name() -> Result<String, String> {
        Ok(hexadecimal(&random::<16>()?))
    }

    /// The text of a new secret: 256 random bits.
    pub fn generate() -> Result<String, String> {
        Ok(hexadecimal(&random::<GENERATED_BYTES>()?))
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.key.is_some()
    }

    /// Whether a process with this secret, or without one, may listen at an address or connect to it.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.is_set() || address.to_canonical().is_loopback()
    }

    /// A secret for another purpose, from which this one cannot be found.
    pub fn derive(&self, purpose: &str) -> Secret {
        let derived = |key: &[u8; 32]| {
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose.as_bytes());
            key_of(tag.as_ref())
        };
        Secret { key: self.key.as_ref().and_then(derived) }
    }

    /// What [`from_hexadecimal`](Self::from_hexadecimal) reads: to hand a derived secret to a plugin. Empty without one.
    pub fn to_hexadecimal(&self) -> String {
        self.key.as_ref().map(|key| hexadecimal(key)).unwrap_or_default()
    }

    /// A secret that was written by [`to_hexadecimal`](Self::to_hexadecimal).
    pub fn from_hexadecimal(text: &str) -> Option<Secret> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut key = [0; 32];
        for (n, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
        }
        Some(Secret { key: Some(key) })
    }

    /// The key of the exchange; that of no secret is known to all.
    pub(crate) fn key(&self) -> [u8; 32] {
        self.key.unwrap_or_default()
    }
}

fn key_of(bytes: &[u8]) -> Option<[u8; 32]> {
    bytes.first_chunk::<32>().copied()
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the operating system gives no random bytes".to_string())?;
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_derived_and_never_shown() {
        let text = Secret::generate().unwrap();
        assert_eq!(text.len(), 64);
        assert_ne!(Secret::generate().unwrap(), text);
        let secret = Secret::from_text(&format!(" {text}\n")).unwrap();
        assert_eq!(secret, Secret::from_text(&text).unwrap());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        let derived = secret.derive("links");
        assert!(derived != secret && derived != secret.derive("other"));
        assert_eq!(Secret::from_hexadecimal(&derived.to_hexadecimal()), Some(derived));
        assert_eq!(Secret::none().derive("links"), Secret::none());
        for wrong in ["", "é", &"g".repeat(64), &"1".repeat(63)] {
            assert_eq!(Secret::from_hexadecimal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn environments_with_too_little_or_too_much_are_refused() {
        let read = |pairs: &[(&str, &str)]| {
            let look = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            Secret::from_environment(look)
        };
        let long = "x".repeat(40);
        assert_eq!(read(&[]), Ok(Secret::none()));
        assert_eq!(read(&[(SECRET, &long)]), Secret::from_text(&long));
        let message = read(&[(SECRET, "short")]).unwrap_err();
        assert!(message.contains("TPUBRIDGE_SECRET: ") && message.contains("tpu config secret"), "{message}");
        assert!(!message.contains("short"), "{message}");
        assert!(read(&[(SECRET, &long), (SECRET_FILE, "f")]).unwrap_err().contains("set one"));
        assert!(read(&[(SECRET_FILE, "/nowhere")]).unwrap_err().contains("/nowhere"));
        // A device without an end is not read to its end.
        assert!(read(&[(SECRET_FILE, "/dev/zero")]).unwrap_err().contains("characters"));
    }

    #[test]
    fn without_a_secret_only_the_loopback_interface_is_allowed() {
        let secret = Secret::from_text(&"x".repeat(32)).unwrap();
        for (address, without) in [("127.0.0.9", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.0.0.1", false)]
        {
            let address = address.parse().unwrap();
            assert_eq!((Secret::none().allows(address), secret.allows(address)), (without, true));
        }
        assert!(!Secret::none().allows("0.0.0.0".parse().unwrap()));
    }
}
