//! Where an encryption key comes from: a file, a variable, or a command that asks a key management service.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::sealed::SealingKey;

/// What a key's text may have.
const MAX_TEXT_BYTES: u64 = 4096;
/// How long a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Where a key comes from. Written `file:PATH`, `env:NAME` or `command:LINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file that only its owner reads.
    File(PathBuf),
    /// A variable of this process.
    Variable(String),
    /// A line for the shell, which prints the key.
    Command(String),
}

/// Why there is no key.
#[derive(Debug)]
pub enum KeySourceError {
    /// The text names no source.
    Unknown(String),
    /// The source could not be read.
    Unreadable(KeySource, io::Error),
    /// Others can read the file: its mode.
    Open(PathBuf, u32),
    /// What the source gave is not a key.
    NotAKey(KeySource),
}

impl KeySourceError {
    /// What helps.
    pub fn remedy(&self) -> String {
        match self {
            KeySourceError::Unknown(_) => "write file:PATH, env:NAME or command:LINE".into(),
            KeySourceError::Unreadable(KeySource::Command(_), _) => {
                "run the command by hand and see what it says".into()
            }
            KeySourceError::Unreadable(KeySource::Variable(name), _) => format!("set ${name}"),
            KeySourceError::Unreadable(KeySource::File(_), _) => "check the path and the permissions".into(),
            KeySourceError::Open(path, _) => format!("chmod 600 {}", path.display()),
            KeySourceError::NotAKey(_) => "a key is 32 random bytes as 64 hexadecimal digits or in base64; \
                                           `tpu key new --encryption` makes one"
                .into(),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "file:{}", path.display()),
            KeySource::Variable(name) => write!(f, "env:{name}"),
            KeySource::Command(line) => write!(f, "command:{line}"),
        }
    }
}

impl fmt::Display for KeySourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySourceError::Unknown(text) => write!(f, "`{text}` does not say where a key is"),
            KeySourceError::Unreadable(source, _) => write!(f, "there is no key from {source}"),
            KeySourceError::Open(path, mode) => {
                write!(f, "others can read the key in {} (mode {mode:04o})", path.display())
            }
            KeySourceError::NotAKey(source) => write!(f, "what {source} gives is not a key"),
        }
    }
}

impl std::error::Error for KeySourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KeySourceError::Unreadable(_, source) => Some(source),
            _ => None,
        }
    }
}

impl std::str::FromStr for KeySource {
    type Err = KeySourceError;

    fn from_str(text: &str) -> Result<KeySource, KeySourceError> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(KeySource::File(path.into())),
            Some(("env", name)) if !name.is_empty() => Ok(KeySource::Variable(name.to_string())),
            Some(("command", line)) if !line.trim().is_empty() => Ok(KeySource::Command(line.to_string())),
            _ => Err(KeySourceError::Unknown(text.to_string())),
        }
    }
}

impl KeySource {
    /// Reads the key.
    pub fn key(&self) -> Result<SealingKey, KeySourceError> {
        let failed = |error| KeySourceError::Unreadable(self.clone(), error);
        let text = match self {
            KeySource::File(path) => {
                let file = File::open(path).map_err(failed)?;
                let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
                if mode & 0o077 != 0 {
                    return Err(KeySourceError::Open(path.clone(), mode));
                }
                let mut text = Zeroizing::new(Vec::new());
                file.take(MAX_TEXT_BYTES).read_to_end(&mut text).map_err(failed)?;
                text
            }
            KeySource::Variable(name) => match std::env::var_os(name) {
                Some(value) => Zeroizing::new(value.into_encoded_bytes()),
                None => return Err(failed(io::Error::other("it is not set"))),
            },
            KeySource::Command(line) => printed(line).map_err(failed)?,
        };
        parse(&text).ok_or_else(|| KeySourceError::NotAKey(self.clone()))
    }
}

/// 64 hexadecimal digits, base64 of 32 bytes, or 32 bytes.
fn parse(text: &[u8]) -> Option<SealingKey> {
    if let Ok(raw) = <[u8; 32]>::try_from(text) {
        return Some(SealingKey::new(Zeroizing::new(raw)));
    }
    let text = text.trim_ascii();
    let mut key = Zeroizing::new([0; 32]);
    if text.len() == 64 {
        for (byte, digits) in key.iter_mut().zip(text.chunks_exact(2)) {
            let digits =
                std::str::from_utf8(digits).ok().filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
    } else {
        let decoded = Zeroizing::new(STANDARD.decode(text).ok()?);
        *key = decoded.as_slice().try_into().ok()?;
    }
    Some(SealingKey::new(key))
}

/// What a command prints; its own complaints go to standard error.
fn printed(line: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut child = Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Zeroizing::new(Vec::new());
        let read = pipe.map_or(Ok(0), |pipe| pipe.take(MAX_TEXT_BYTES).read_to_end(&mut text));
        read.map(|_| text)
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > COMMAND_LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the command did not end within 60 s"));
        }
        std::thread::sleep(LOOK);
    };
    if !status.success() {
        return Err(io::Error::other(format!("the command failed ({status})")));
    }
    reader.join().map_err(|_| io::Error::other("the command's output was lost"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_comes_from_a_file_or_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = SealingKey::generate().unwrap();
        std::fs::write(&path, format!("{}\n", *key.text())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let read = |text: &str| text.parse::<KeySource>().and_then(|source| source.key());
        let file = format!("file:{}", path.display());
        assert_eq!(read(&file).unwrap().id(), key.id());
        assert_eq!(read(&format!("command:cat '{}'", path.display())).unwrap().id(), key.id());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&file), Err(KeySourceError::Open(..))));

        assert!(matches!(read("command:exit 3"), Err(KeySourceError::Unreadable(..))));
        assert!(matches!(read("command:echo short"), Err(KeySourceError::NotAKey(_))));
        assert!(read("command:head -c 100000 /dev/zero").is_err(), "too long");
        assert!(matches!(read("env:TPUBRIDGE_NO_SUCH_KEY"), Err(KeySourceError::Unreadable(..))));
        for bad in ["", "file:", "env:", "command: ", "/a/path", "kms:x"] {
            assert!(matches!(read(bad), Err(KeySourceError::Unknown(_))), "{bad}");
        }
    }

    #[test]
    fn keys_are_read_in_every_form() {
        let key = SealingKey::generate().unwrap();
        let hex = key.text();
        let raw: Vec<u8> = hex
            .as_bytes()
            .chunks(2)
            .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
            .collect();
        for text in
            [raw.clone(), hex.as_bytes().to_vec(), hex.to_uppercase().into_bytes(), STANDARD.encode(&raw).into_bytes()]
        {
            assert_eq!(parse(&text).unwrap().id(), key.id());
        }
        for bad in [&b""[..], b"+f", &[b'+'; 64], &[b'z'; 64], &raw[..31]] {
            assert!(parse(bad).is_none());
        }
    }
}
