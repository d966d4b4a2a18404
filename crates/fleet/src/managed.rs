//! The managed folder: where it lies, how it is laid out, which plugins are in it.
//!
//! Layout: `<home>/plugins/<name>/<version>/<file>.so` with a `plugin.json` beside the library. `pjrt::discover` finds
//! the libraries there and has the rule for the folder's place. Names that begin with a dot are locks and unfinished
//! downloads; those hold libraries only two folders down, where discovery does not look.

use std::cmp::Ordering;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, System};

/// Version of the form of `plugin.json`.
pub(crate) const RECORD_VERSION: u32 = 1;
/// Name of the record beside a plugin's library.
pub(crate) const RECORD_FILE: &str = "plugin.json";
const RECORD_LIMIT_BYTES: u64 = 64 << 10;

/// What is known of an installed plugin; the contents of its `plugin.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRecord {
    /// Version of this form.
    pub version: u32,
    /// Package name, such as `libtpu`.
    pub name: String,
    /// Package version, such as `0.0.51`.
    pub package_version: String,
    /// Name of the library in the same folder.
    pub file: String,
    /// Size of the library.
    pub file_bytes: u64,
    /// sha256 of the library, hexadecimal.
    pub sha256: String,
    /// sha256 of the wheel it came from; unknown when the installer unpacked it.
    pub wheel_sha256: Option<String>,
}

/// A plugin found in the managed folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlugin {
    /// The library.
    pub path: PathBuf,
    /// Package name, from the folder.
    pub name: String,
    /// Package version, from the folder.
    pub version: String,
    /// The record beside it; `None` when it is missing, unreadable or of another form.
    pub record: Option<PluginRecord>,
}

/// The managed folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `$TPUBRIDGE_HOME`, else `$XDG_DATA_HOME/tpubridge`, else `~/.local/share/tpubridge`.
    pub fn of(system: &System) -> Result<Self, Error> {
        pjrt::discover::managed_folder(&system.discovery())
            .and_then(|plugins| Some(Self(plugins.parent()?.to_owned())))
            .ok_or(Error::NoHome)
    }

    /// A folder chosen by the caller.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Folder of all versions of a plugin.
    pub fn plugin_dir(&self, name: &str) -> PathBuf {
        self.0.join("plugins").join(name)
    }

    /// Folder of one version of a plugin.
    pub fn version_dir(&self, name: &str, version: &str) -> PathBuf {
        self.plugin_dir(name).join(version)
    }

    /// All installed plugins, by name, newest version first.
    pub fn plugins(&self) -> Vec<InstalledPlugin> {
        let mut found = Vec::new();
        for name in visible_folders(&self.0.join("plugins")) {
            for version in visible_folders(&self.plugin_dir(&name)) {
                let dir = self.version_dir(&name, &version);
                let record = read_record(&dir);
                let file = record.as_ref().map(|r| r.file.clone()).or_else(|| only_library(&dir));
                if let Some(path) = file.map(|f| dir.join(f)).filter(|p| p.is_file()) {
                    found.push(InstalledPlugin { path, name: name.clone(), version, record });
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| compare_versions(&b.version, &a.version)));
        found
    }
}

/// The record in a plugin's folder; `None` when it is missing, unreadable or of another form.
pub(crate) fn read_record(dir: &Path) -> Option<PluginRecord> {
    let mut bytes = Vec::new();
    std::fs::File::open(dir.join(RECORD_FILE)).ok()?.take(RECORD_LIMIT_BYTES).read_to_end(&mut bytes).ok()?;
    let record: PluginRecord = serde_json::from_slice(&bytes).ok()?;
    let plain_name = Path::new(&record.file).file_name().is_some_and(|n| n == record.file.as_str());
    (record.version == RECORD_VERSION && plain_name).then_some(record)
}

fn visible_folders(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|e| e.path().is_dir())
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect()
}

fn only_library(dir: &Path) -> Option<String> {
    let mut names = std::fs::read_dir(dir)
        .ok()?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".so") && !n.starts_with('.'));
    names.next().filter(|_| names.next().is_none())
}

/// Orders versions by their numeric parts, so that 0.0.9 comes before 0.0.51.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    let parts = |v: &str| -> Vec<(u64, String)> {
        v.split(['.', '-', '+'])
            .map(|part| {
                let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                (part[..digits].parse().unwrap_or(u64::MAX), part[digits..].to_owned())
            })
            .collect()
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_follows_the_environment() {
        let check = |vars: &[(&str, &str)], expected: Option<&str>| {
            let system = System::new("/", vars.iter().map(|(k, v)| ((*k).into(), (*v).into())));
            assert_eq!(Home::of(&system).ok().map(|h| h.path().to_owned()), expected.map(PathBuf::from), "{vars:?}");
        };
        check(&[("TPUBRIDGE_HOME", "/t"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")], Some("/t"));
        check(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")], Some("/x/tpubridge"));
        check(&[("XDG_DATA_HOME", ""), ("HOME", "/h")], Some("/h/.local/share/tpubridge"));
        check(&[], None);
    }

    #[test]
    fn versions_order_by_number() {
        let mut versions = ["0.0.51", "0.0.9", "0.0.11.1", "0.0.11", "1.0.0", "99999999999999999999.1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(versions, ["0.0.9", "0.0.11", "0.0.11.1", "0.0.51", "1.0.0", "99999999999999999999.1"]);
    }

    #[test]
    fn listing_takes_whole_plugins_only() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let put = |path: &str, text: &str| {
            let path = dir.path().join("plugins").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("libtpu/0.0.9/libtpu.so", "x");
        put("libtpu/0.0.51/libtpu.so", "x");
        put("libtpu/0.0.51/plugin.json", "not json");
        put("libtpu/.tmp-1/libtpu.so", "x");
        put("libtpu/0.0.52/README", "x");
        put("other/1/a.so", "x");
        put("other/1/b.so", "x");
        put(
            "other/1/plugin.json",
            r#"{"version":1,"name":"other","package_version":"1","file":"b.so","file_bytes":1,"sha256":"","wheel_sha256":null}"#,
        );
        put(
            "outside/1/plugin.json",
            r#"{"version":1,"name":"o","package_version":"1","file":"../../libtpu/0.0.9/libtpu.so","file_bytes":1,"sha256":"","wheel_sha256":null}"#,
        );
        let found: Vec<_> = home.plugins().into_iter().map(|p| (p.name, p.version, p.record.is_some())).collect();
        let expected = [("libtpu", "0.0.51", false), ("libtpu", "0.0.9", false), ("other", "1", true)];
        assert_eq!(found, expected.map(|(n, v, r)| (n.to_owned(), v.to_owned(), r)));
    }
}
