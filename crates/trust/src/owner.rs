//! Folders that only their owner can change: what is found in them was put there by this user.

use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

/// Why what lies in a folder may be somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrusted {
    /// The folder or file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: Distrust,
}

/// What is wrong with a folder or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to another user.
    Owner {
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Others may write to it: its mode.
    Writable(u32),
}

impl Distrusted {
    /// What helps.
    pub fn remedy(&self) -> String {
        let path = self.path.display();
        match self.why {
            Distrust::Owner { .. } => {
                format!("name a folder of your own, or make this one yours: chown -R $USER {path}")
            }
            Distrust::Writable(_) => format!("empty it if you do not know what is in it, then: chmod -R go-w {path}"),
        }
    }
}

impl fmt::Display for Distrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.why {
            Distrust::Owner { owner, user } => write!(f, "{path} belongs to user {owner}, and this is user {user}"),
            Distrust::Writable(mode) => write!(f, "users other than its owner may write to {path} (mode {mode:04o})"),
        }
    }
}

impl std::error::Error for Distrusted {}

/// Whether others may put files of their own beside ours, as in `/tmp`, where they cannot touch ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sticky {
    /// They may: what is ours inside is looked at too.
    Allowed,
    /// They may not.
    Refused,
}

/// Why a folder is not to be believed; `None` where it is this user's or root's and nobody else can write to it. What does not
/// exist is nobody's.
pub fn distrust(path: &Path, sticky: Sticky) -> Option<Distrusted> {
    let why = judge(&Looked::of(&fs::metadata(path).ok()?), rustix::process::geteuid().as_raw(), sticky)?;
    Some(Distrusted { path: path.to_path_buf(), why })
}

/// What of a file's record decides.
#[derive(Clone, Copy)]
struct Looked {
    owner: u32,
    mode: u32,
}

impl Looked {
    fn of(metadata: &Metadata) -> Looked {
        Looked { owner: metadata.uid(), mode: metadata.mode() & 0o7777 }
    }
}

fn judge(looked: &Looked, user: u32, sticky: Sticky) -> Option<Distrust> {
    if looked.owner != user && looked.owner != ROOT {
        return Some(Distrust::Owner { owner: looked.owner, user });
    }
    let apart = sticky == Sticky::Allowed && looked.mode & STICKY != 0;
    let others_write = looked.mode & OTHERS_WRITE != 0 && !apart;
    others_write.then_some(Distrust::Writable(looked.mode))
}

/// Creates a folder, and those above it that are missing, for this user alone.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn another_owner_and_open_folders_are_distrusted() {
        let check = |owner: u32, mode: u32, expected: Option<Distrust>| {
            assert_eq!(judge(&Looked { owner, mode }, 1000, Sticky::Allowed), expected, "{owner} {mode:o}");
        };
        check(1000, 0o700, None);
        check(1000, 0o755, None);
        check(0, 0o755, None);
        check(0, 0o1777, None);
        check(1001, 0o700, Some(Distrust::Owner { owner: 1001, user: 1000 }));
        check(1001, 0o1777, Some(Distrust::Owner { owner: 1001, user: 1000 }));
        check(1000, 0o775, Some(Distrust::Writable(0o775)));
        check(0, 0o757, Some(Distrust::Writable(0o757)));
        let refused = judge(&Looked { owner: 1000, mode: 0o1777 }, 1000, Sticky::Refused);
        assert_eq!(refused, Some(Distrust::Writable(0o1777)));
    }

    #[test]
    fn a_private_folder_is_trusted_until_it_is_opened_to_others() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a/b");
        assert_eq!(distrust(&folder, Sticky::Allowed), None, "it does not exist");
        create_private_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(distrust(&folder, Sticky::Allowed), None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let found = distrust(&folder, Sticky::Allowed).unwrap();
        assert!(found.to_string().contains("0777") && found.remedy().contains("chmod -R go-w"), "{found}");
    }
}
