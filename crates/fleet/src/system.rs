//! The machine as checks and setup see it: a file-system root, an environment, a C library.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pjrt::discover::Discovery;

/// Longest text read from `/proc`, `/sys` or a configuration file.
const TEXT_LIMIT_BYTES: u64 = 4 << 20;

/// How long the machine's Python may take to say where its packages are.
const PYTHON_LIMIT: Duration = Duration::from_secs(5);

/// A machine to look at: the real one, or a folder made to look like one.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    env: BTreeMap<OsString, OsString>,
    glibc: Option<String>,
}

impl System {
    /// This machine, with the environment as it is now.
    pub fn host() -> Self {
        Self { root: PathBuf::from("/"), env: std::env::vars_os().collect(), glibc: crate::glibc::version() }
    }

    /// A machine whose `/proc`, `/sys`, `/dev` and `/tmp` lie under `root`.
    pub fn new(root: impl Into<PathBuf>, env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { root: root.into(), env: env.into_iter().collect(), glibc: None }
    }

    /// The same machine with this version of glibc, or with another C library.
    pub fn with_glibc(mut self, version: Option<String>) -> Self {
        self.glibc = version;
        self
    }

    /// The same machine with one variable set.
    pub fn with_var(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Where an absolute path of the machine lies.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let path = absolute.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A variable's value; an empty one counts as not set.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }

    /// A variable's value as text, with bytes that are not UTF-8 replaced.
    pub fn text_var(&self, name: &str) -> Option<String> {
        self.var(name).map(|v| v.to_string_lossy().into_owned())
    }

    /// All variables.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().map(|(k, v)| (k.as_os_str(), v.as_os_str()))
    }

    /// Version of glibc; `None` on another C library.
    pub fn glibc(&self) -> Option<&str> {
        self.glibc.as_deref()
    }

    /// Folder for temporary files: `$TMPDIR`, else `/tmp`.
    pub fn temp_dir(&self) -> PathBuf {
        self.path(self.var("TMPDIR").map_or(Path::new("/tmp"), Path::new))
    }

    /// The first executable file of this name on `$PATH`.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.var("PATH")?;
        std::env::split_paths(path)
            .filter(|dir| dir.is_absolute())
            .map(|dir| self.path(dir).join(name))
            .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
    }

    /// Where to look for plugins on this machine. Python is only asked on the real one.
    pub fn discovery(&self) -> Discovery {
        let real = self.root == Path::new("/");
        let variables = self.env.iter().filter_map(|(name, value)| {
            let placed = if Path::new(value).is_absolute() { self.path(value).into_os_string() } else { value.clone() };
            // One path is placed under the root; a list of paths, such as `PATH`, is of no use to a search there.
            Some((name.to_str()?.to_owned(), if real { value.clone() } else { placed }))
        });
        Discovery { explicit: None, variables: variables.collect(), python_timeout: real.then_some(PYTHON_LIMIT) }
    }

    /// A small text file of the machine; bytes that are not UTF-8 are replaced.
    pub(crate) fn read_text(&self, absolute: impl AsRef<Path>) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(self.path(absolute))?.take(TEXT_LIMIT_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Names in a folder of the machine, sorted; empty where it cannot be read.
    pub(crate) fn names_in(&self, absolute: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned())).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_under_the_root() {
        let system = System::new("/fake", []);
        assert_eq!(system.path("/proc/locks"), Path::new("/fake/proc/locks"));
        assert_eq!(System::new("/", []).path("/proc/locks"), Path::new("/proc/locks"));
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let system = System::new("/", []).with_var("A", "").with_var("B", "x");
        assert_eq!(system.var("A"), None);
        assert_eq!(system.text_var("B").as_deref(), Some("x"));
    }
}
