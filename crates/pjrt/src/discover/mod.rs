//! Finding plugins: a given path, the environment, Python's site-packages, and the managed folder.

mod managed;
mod package;
mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use package::version_in;
pub use package::{PackageVersion, package_of};

/// Where to look.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// A path the user gave. It comes first.
    pub explicit: Option<PathBuf>,
    /// Environment variables, by name.
    pub variables: BTreeMap<String, OsString>,
    /// How long the Python interpreter may take to say where its packages are. `None`: it is not asked.
    pub python_timeout: Option<Duration>,
}

impl Discovery {
    /// Looks where the current process's environment says.
    pub fn from_environment() -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self { explicit: None, variables: variables.collect(), python_timeout: Some(Duration::from_secs(5)) }
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

/// Why a file was looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginOrigin {
    /// The user gave its path.
    Explicit,
    /// An environment variable names it.
    Variable(&'static str),
    /// It is in the site-packages of a Python environment.
    SitePackages(PathBuf),
    /// It is in our own folder.
    Managed(PathBuf),
}

impl fmt::Display for PluginOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Explicit => f.write_str("given path"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::SitePackages(folder) => write!(f, "Python packages in {}", folder.display()),
            Self::Managed(folder) => write!(f, "managed folder {}", folder.display()),
        }
    }
}

/// A file that looks like a plugin. Only loading it shows whether it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPlugin {
    /// A short name, such as `libtpu`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Why it was looked at.
    pub origin: PluginOrigin,
    /// Version of the package it belongs to, where that is known without loading.
    pub version: Option<String>,
}

/// A place that was looked at and holds no plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The file or folder.
    pub path: PathBuf,
    /// Why it was looked at.
    pub origin: PluginOrigin,
    /// Why it is no plugin.
    pub why: String,
}

/// What a search found, best first, and what it looked at in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Files that look like plugins, in the order of preference.
    pub found: Vec<FoundPlugin>,
    /// Everything else that was looked at.
    pub rejected: Vec<Rejected>,
}

impl Search {
    /// The best plugin of a name.
    pub fn named(&self, name: &str) -> Option<&FoundPlugin> {
        self.found.iter().find(|found| found.name == name)
    }

    fn reject(&mut self, path: impl Into<PathBuf>, origin: &PluginOrigin, why: impl Into<String>) {
        self.rejected.push(Rejected { path: path.into(), origin: origin.clone(), why: why.into() });
    }

    fn consider(&mut self, candidate: FoundPlugin) {
        match check_shared_library(&candidate.path) {
            Ok(()) => self.found.push(candidate),
            Err(why) => self.reject(candidate.path, &candidate.origin, why),
        }
    }

    /// The same file under several names counts once, where it is preferred most.
    fn remove_duplicates(&mut self) {
        let mut seen = BTreeSet::new();
        self.found.retain(|found| seen.insert(fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone())));
    }
}

/// Looks for plugins: the given path, environment variables, the active virtual environment, our own folder, and last the
/// packages of the Python interpreter on the path, because asking it takes a process. Nothing is loaded.
pub fn plugins(discovery: &Discovery) -> Search {
    let mut search = Search::default();
    if let Some(path) = &discovery.explicit {
        let found =
            FoundPlugin { name: name_of(path), path: path.clone(), origin: PluginOrigin::Explicit, version: None };
        search.consider(found);
    }
    from_variables(discovery, &mut search);
    python::search_active_environment(discovery, &mut search);
    managed::search(discovery, &mut search);
    python::search_interpreter(discovery, &mut search);
    search.remove_duplicates();
    search
}

/// The best plugin of a name. Python is asked only when everything else has none.
pub fn first(discovery: &Discovery, name: &str) -> Option<FoundPlugin> {
    let without_python = Discovery { python_timeout: None, ..discovery.clone() };
    [&without_python, discovery].into_iter().find_map(|discovery| plugins(discovery).named(name).cloned())
}

/// Our own folder, whether or not it exists: `$TPUBRIDGE_HOME/plugins`, or `tpubridge/plugins` in the user's data folder.
/// `None` where neither is known.
pub fn managed_folder(discovery: &Discovery) -> Option<PathBuf> {
    managed::folder(discovery)
}

fn from_variables(discovery: &Discovery, search: &mut Search) {
    if let Some(value) = discovery.variable("TPUBRIDGE_PLUGIN_PATH") {
        let origin = PluginOrigin::Variable("TPUBRIDGE_PLUGIN_PATH");
        for path in std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()) {
            search.consider(FoundPlugin { name: name_of(&path), path, origin: origin.clone(), version: None });
        }
    }
    if let Some(value) = discovery.variable("TPU_LIBRARY_PATH") {
        let origin = PluginOrigin::Variable("TPU_LIBRARY_PATH");
        search.consider(FoundPlugin { name: "libtpu".into(), path: value.into(), origin, version: None });
    }
    if let Some(value) = discovery.variable("PJRT_NAMES_AND_LIBRARY_PATHS") {
        let origin = PluginOrigin::Variable("PJRT_NAMES_AND_LIBRARY_PATHS");
        for entry in value.to_string_lossy().split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry.split_once(':') {
                Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                    let (name, path) = (name.to_string(), path.into());
                    search.consider(FoundPlugin { name, path, origin: origin.clone(), version: None });
                }
                _ => search.reject(entry, &origin, "not of the form name:path"),
            }
        }
    }
}

/// Plugins in a folder of Python packages.
fn from_packages(folder: &Path, origin: &PluginOrigin, search: &mut Search) {
    let libtpu = folder.join("libtpu").join("libtpu.so");
    if libtpu.exists() {
        let version = version_in(folder, "libtpu");
        search.consider(FoundPlugin { name: "libtpu".into(), path: libtpu, origin: origin.clone(), version });
    }
    for namespace in ["jax_plugins", "xla_plugins"] {
        for package in sorted_entries(&folder.join(namespace)) {
            let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in sorted_entries(&package).into_iter().filter(|file| is_plugin_name(file)) {
                let version = version_in(folder, &name);
                search.consider(FoundPlugin { name: name.clone(), path: file, origin: origin.clone(), version });
            }
        }
    }
}

/// Names that plugins of Python packages have: `xla_cuda_plugin.so`, `xla_cpu_pjrt.so`, `pjrt_plugin_….so`.
fn is_plugin_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".so") && (name.ends_with("_plugin.so") || name.contains("pjrt"))
}

/// Entries of a folder by name. Empty where it cannot be read.
fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Cheap tests that spare a user the loader's messages.
fn check_shared_library(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a file".into());
    }
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    match file.read_exact(&mut magic) {
        Ok(()) if cfg!(target_os = "linux") && magic != *b"\x7fELF" => Err("not a shared library".into()),
        Ok(()) => Ok(()),
        Err(_) => Err("too short for a shared library".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn discovery(variables: &[(&str, &Path)]) -> Discovery {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.as_os_str().to_owned()));
        Discovery { explicit: None, variables: variables.collect(), python_timeout: None }
    }

    const ELF: &[u8] = b"\x7fELF and more";

    #[test]
    fn looks_in_the_order_of_preference() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for path in [
            "mine.so",
            "env.so",
            "venv/lib/python3.12/site-packages/libtpu/libtpu.so",
            "venv/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
            "venv/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
            "venv/lib/python3.12/site-packages/xla_plugins/xla_cpu_pjrt/other.so",
            "home/plugins/libtpu/0.0.9/libtpu/libtpu.so",
            "home/plugins/libtpu/0.0.10/libtpu/libtpu.so",
        ] {
            write(&at(path), ELF);
        }
        fs::create_dir_all(at("venv/lib/python3.12/site-packages/libtpu-0.0.51.dist-info")).unwrap();
        let mut discovery = discovery(&[
            ("TPU_LIBRARY_PATH", &at("env.so")),
            ("VIRTUAL_ENV", &at("venv")),
            ("TPUBRIDGE_HOME", &at("home")),
        ]);
        discovery.explicit = Some(at("mine.so"));
        let search = plugins(&discovery);
        let found: Vec<(&str, &Path, Option<&str>)> = search
            .found
            .iter()
            .map(|found| {
                let path = found.path.strip_prefix(root.path()).unwrap();
                (found.name.as_str(), path, found.version.as_deref())
            })
            .collect();
        let site = "venv/lib/python3.12/site-packages";
        assert_eq!(
            found,
            [
                ("mine", Path::new("mine.so"), None),
                ("libtpu", Path::new("env.so"), None),
                ("libtpu", &Path::new(site).join("libtpu/libtpu.so"), Some("0.0.51")),
                ("xla_cuda13", &Path::new(site).join("jax_plugins/xla_cuda13/xla_cuda_plugin.so"), None),
                ("xla_cpu_pjrt", &Path::new(site).join("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"), None),
                ("libtpu", Path::new("home/plugins/libtpu/0.0.10/libtpu/libtpu.so"), Some("0.0.10")),
                ("libtpu", Path::new("home/plugins/libtpu/0.0.9/libtpu/libtpu.so"), Some("0.0.9")),
            ]
        );
        assert_eq!(search.named("libtpu").unwrap().path, at("env.so"));
    }

    #[test]
    fn says_why_something_is_no_plugin() {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().join("text.so");
        write(&text, b"#!/bin/sh\n");
        let empty = root.path().join("empty.so");
        write(&empty, b"");
        let list = format!("tpu:{},broken,x:{}", text.display(), root.path().display());
        let mut discovery = discovery(&[("PJRT_NAMES_AND_LIBRARY_PATHS", Path::new(&list))]);
        discovery.explicit = Some(root.path().join("missing.so"));
        discovery.variables.insert("TPUBRIDGE_PLUGIN_PATH".into(), empty.into());
        let search = plugins(&discovery);
        assert!(search.found.is_empty());
        let why: Vec<&str> = search.rejected.iter().map(|rejected| rejected.why.as_str()).collect();
        assert!(why[0].contains("No such file"), "{why:?}");
        assert_eq!(
            why[1..5],
            ["too short for a shared library", "not a shared library", "not of the form name:path", "not a file"]
        );
    }

    #[test]
    fn one_file_counts_once() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("libtpu.so");
        write(&file, ELF);
        let mut discovery = discovery(&[("TPU_LIBRARY_PATH", &file)]);
        discovery.explicit = Some(file);
        let search = plugins(&discovery);
        assert_eq!(search.found.len(), 1);
        assert_eq!(search.found[0].origin, PluginOrigin::Explicit);
    }
}
