//! The managed folder: `plugins/<name>/<version>/`, newest version first.

use std::path::{Path, PathBuf};

use super::{Discovery, FoundPlugin, PluginOrigin, Search, from_packages, is_plugin_name, sorted_entries};

pub(super) fn folder(discovery: &Discovery) -> Option<PathBuf> {
    if let Some(home) = discovery.variable("TPUBRIDGE_HOME") {
        return Some(Path::new(home).join("plugins"));
    }
    let data = match (discovery.variable("XDG_DATA_HOME"), discovery.variable("HOME")) {
        (Some(data), _) => PathBuf::from(data),
        (None, Some(home)) => Path::new(home).join(".local").join("share"),
        (None, None) => return None,
    };
    Some(data.join("tpubridge").join("plugins"))
}

pub(super) fn search(discovery: &Discovery, search: &mut Search) {
    let Some(folder) = folder(discovery) else { return };
    let origin = PluginOrigin::Managed(folder.clone());
    if !folder.is_dir() {
        search.reject(folder, &origin, "the folder does not exist");
        return;
    }
    for plugin in sorted_entries(&folder) {
        let name = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut versions = sorted_entries(&plugin);
        versions.retain(|version| version.is_dir());
        versions.sort_by_key(|version| {
            std::cmp::Reverse(version_key(&version.file_name().unwrap_or_default().to_string_lossy()))
        });
        for version in versions {
            from_version(&version, &name, &origin, search);
        }
    }
}

fn from_version(folder: &Path, name: &str, origin: &PluginOrigin, search: &mut Search) {
    let version = folder.file_name().map(|version| version.to_string_lossy().into_owned());
    let before = search.found.len();
    for file in sorted_entries(folder).into_iter().filter(|file| file.ends_with("libtpu.so") || is_plugin_name(file)) {
        search.consider(FoundPlugin {
            name: name.into(),
            path: file,
            origin: origin.clone(),
            version: version.clone(),
        });
    }
    from_packages(folder, origin, search);
    // A package's own metadata is as good as the folder's name; without it, the folder's name counts.
    for found in &mut search.found[before..] {
        found.version = found.version.take().or_else(|| version.clone());
    }
    if search.found.len() == before {
        search.reject(folder, origin, "no plugin in this folder");
    }
}

/// Numbers of a version, then its name: `0.0.10` is newer than `0.0.9`.
pub(super) fn version_key(version: &str) -> (Vec<u64>, String) {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    (numbers, version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version_key("0.0.10") > version_key("0.0.9"));
        assert!(version_key("1.0") > version_key("0.9.9"));
        assert!(version_key("0.0.51.post1") > version_key("0.0.51"));
    }

    #[test]
    fn the_folder_follows_the_environment() {
        let folder_of = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
            folder(&Discovery { explicit: None, variables, python_timeout: None })
        };
        assert_eq!(folder_of(&[("TPUBRIDGE_HOME", "/t"), ("HOME", "/h")]), Some("/t/plugins".into()));
        assert_eq!(folder_of(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]), Some("/d/tpubridge/plugins".into()));
        assert_eq!(folder_of(&[("HOME", "/h")]), Some("/h/.local/share/tpubridge/plugins".into()));
        assert_eq!(folder_of(&[("HOME", "")]), None);
    }
}
