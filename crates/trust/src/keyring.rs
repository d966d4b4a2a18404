//! Keys this user trusts: a file in the configuration folder, and what a command is given.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::owner::{Sticky, create_private_folder, distrust};
use crate::signature::{PublicKey, SignatureError, read_text};

/// The file of trusted keys in the configuration folder.
const TRUSTED_KEYS: &str = "trusted-keys";

/// This user's configuration folder: `$XDG_CONFIG_HOME/tpubridge`, else `~/.config/tpubridge`.
pub fn config_folder(env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME")
        .map(|folder| folder.join("tpubridge"))
        .or_else(|| set("HOME").map(|home| home.join(".config").join("tpubridge")))
}

/// The file of trusted keys of a configuration folder: minisign's public keys, one after the other.
#[derive(Clone, Debug)]
pub struct Keyring {
    path: PathBuf,
}

impl Keyring {
    /// The keys of a configuration folder. The file need not exist.
    pub fn in_folder(folder: &Path) -> Keyring {
        Keyring { path: folder.join(TRUSTED_KEYS) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every key. A file that others can write to is refused: it decides who is believed.
    pub fn keys(&self) -> Result<Vec<PublicKey>, SignatureError> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let distrusted = distrust(&self.path, Sticky::Refused).or_else(|| distrust(folder, Sticky::Allowed));
        if let Some(distrusted) = distrusted {
            let error = std::io::Error::new(std::io::ErrorKind::PermissionDenied, distrusted);
            return Err(SignatureError::Io(self.path.clone(), error));
        }
        PublicKey::parse_all(&read_text(&self.path)?)
    }

    /// Trusts a key from now on. A key that is there already stays as it is.
    pub fn add(&self, key: &PublicKey) -> Result<(), SignatureError> {
        if self.keys()?.iter().any(|known| known.id() == key.id()) {
            return Ok(());
        }
        let failed = |error| SignatureError::Io(self.path.clone(), error);
        if let Some(folder) = self.path.parent() {
            create_private_folder(folder).map_err(failed)?;
        }
        let mut file = File::options().append(true).create(true).mode(0o600).open(&self.path).map_err(failed)?;
        // One write: two commands at once do not mix their lines.
        file.write_all(key.text().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// No longer trusts keys of a number; whether there was one.
    pub fn remove(&self, id: &str) -> Result<bool, SignatureError> {
        let keys = self.keys()?;
        let kept: Vec<&PublicKey> = keys.iter().filter(|key| !key.id().to_string().eq_ignore_ascii_case(id)).collect();
        if kept.len() == keys.len() {
            return Ok(false);
        }
        let failed = |error| SignatureError::Io(self.path.clone(), error);
        let unfinished = self.path.with_extension("new");
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished).map_err(failed)?;
        let text: String = kept.iter().map(|key| key.text()).collect();
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&unfinished, &self.path).map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::SecretKey;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::in_folder(&folder.path().join("config"));
        assert!(keyring.keys().unwrap().is_empty());
        let [one, two] = ["one", "two"].map(|name| SecretKey::generate().unwrap().public(name));
        keyring.add(&one).unwrap();
        keyring.add(&two).unwrap();
        keyring.add(&one).unwrap();
        assert_eq!(keyring.keys().unwrap(), [one.clone(), two.clone()]);
        assert!(keyring.remove(&one.id().to_string()).unwrap());
        assert!(!keyring.remove(&one.id().to_string()).unwrap());
        assert_eq!(keyring.keys().unwrap(), [two]);
    }

    #[test]
    fn a_file_that_others_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = Keyring::in_folder(folder.path());
        keyring.add(&SecretKey::generate().unwrap().public("")).unwrap();
        fs::set_permissions(keyring.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(keyring.keys(), Err(SignatureError::Io(..))));
    }
}
