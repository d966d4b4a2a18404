//! Which package a plugin's library is part of, and its version, told by the folders around it.

use std::path::Path;

use super::managed::version_key;
use super::sorted_entries;

/// A package and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageVersion {
    /// Name, as in `libtpu`.
    pub package: String,
    /// Version, as in `0.0.51`.
    pub version: String,
}

/// The package a library is part of: from the metadata folder (`libtpu-0.0.51.dist-info`) of the Python packages it lies among,
/// else from our own folder's layout `<package>/<version>/<library>`. Of several versions the newest counts.
pub fn package_of(library: &Path) -> Option<PackageVersion> {
    // The library itself, and the folders between it and the metadata, may have the package's name.
    let mut names: Vec<String> =
        library.file_stem().map(|stem| stem.to_string_lossy().into_owned()).into_iter().collect();
    for folder in library.ancestors().skip(1).take(4) {
        if let Some(found) = newest(folder, &names) {
            return Some(found);
        }
        names.extend(name(folder));
    }
    let version = library.parent().and_then(name).filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))?;
    let package = library.parent()?.parent().and_then(name)?;
    Some(PackageVersion { package, version })
}

/// Version of a package whose metadata is in a folder.
pub(super) fn version_in(folder: &Path, package: &str) -> Option<String> {
    newest(folder, &[package.to_string()]).map(|found| found.version)
}

/// The newest package of one of these names whose metadata is in a folder.
fn newest(folder: &Path, names: &[String]) -> Option<PackageVersion> {
    let packages = sorted_entries(folder).into_iter().filter_map(|entry| {
        let name = entry.file_name()?.to_str()?.strip_suffix(".dist-info")?;
        let (package, version) = name.split_once('-')?;
        Some(PackageVersion { package: package.to_string(), version: version.to_string() })
    });
    packages
        .filter(|found| names.iter().any(|name| is_same(name, &found.package)))
        .max_by_key(|found| version_key(&found.version))
}

/// Python takes names for the same whatever their case, and whether they have `-`, `_` or `.`.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    plain(a) == plain(b)
}

fn name(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_told_by_the_folders_around_a_library() {
        let site = tempfile::tempdir().unwrap();
        for folder in [
            "libtpu",
            "libtpu-0.0.9.dist-info",
            "libtpu-0.0.51.dist-info",
            "xla_plugins/xla_cpu_pjrt",
            "XLA_CPU_pjrt-0.0.1.dist-info",
            "loose",
            "flat/plugin-1.2.dist-info",
        ] {
            std::fs::create_dir_all(site.path().join(folder)).unwrap();
        }
        let check = |library: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(package, version)| (package.to_string(), version.to_string()));
            let found = package_of(&site.path().join(library)).map(|found| (found.package, found.version));
            assert_eq!(found, expected, "{library}");
        };
        check("libtpu/libtpu.so", Some(("libtpu", "0.0.51")));
        check("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", Some(("XLA_CPU_pjrt", "0.0.1")));
        check("loose/other.so", None);
        check("flat/plugin.so", Some(("plugin", "1.2")));
        // Our own folder has no metadata.
        let home = tempfile::tempdir().unwrap();
        let ours = home.path().join("libtpu/0.0.40/libtpu.so");
        let found = package_of(&ours).map(|found| (found.package, found.version));
        assert_eq!(found, Some(("libtpu".to_string(), "0.0.40".to_string())));
        assert_eq!(version_in(site.path(), "libtpu").as_deref(), Some("0.0.51"));
        assert_eq!(version_in(site.path(), "xla-cpu-pjrt").as_deref(), Some("0.0.1"));
        assert_eq!(version_in(site.path(), "jax"), None);
    }
}
