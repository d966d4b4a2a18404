//! Which files a path means: one profile, or the newest recording of a folder with one file for each host.

use super::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    Space,
    Chrome,
}

impl Format {
    fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy();
        if name.ends_with(".xplane.pb") {
            Some(Format::Space)
        } else if name.ends_with(".trace.json.gz") || name.ends_with(".trace.json") {
            Some(Format::Chrome)
        } else {
            None
        }
    }
}

/// Folders below a folder that are looked into.
const DEEPEST: usize = 6;
const MOST_FILES: usize = 1 << 14;

/// The files of a path. A file is taken whatever its name; in a folder the newest recording is taken, the XSpaces of all
/// its hosts, or their traces where there is no XSpace.
pub(super) fn find(path: &Path) -> Result<Vec<(PathBuf, Format)>, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        let is_json = path.extension().is_some_and(|extension| extension == "json" || extension == "gz");
        let fallback = if is_json { Format::Chrome } else { Format::Space };
        return Ok(vec![(path.to_path_buf(), Format::of(path).unwrap_or(fallback))]);
    }
    let mut found: Vec<(PathBuf, Format)> = Vec::new();
    let mut pending = vec![(path.to_path_buf(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        let entries = fs::read_dir(&folder).map_err(|source| Error::Read { path: folder.clone(), source })?;
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEEPEST {
                pending.push((path, depth + 1));
            } else if let Some(format) = Format::of(&path)
                && found.len() < MOST_FILES
            {
                found.push((path, format));
            }
        }
    }
    // Recordings are folders named by their time, or by their steps.
    let folders = found.iter().filter_map(|(file, _)| file.parent());
    let Some(newest) = folders.max_by_key(|folder| in_order(folder)).map(Path::to_path_buf) else {
        return Err(Error::NoProfile { path: path.to_path_buf() });
    };
    found.retain(|(file, _)| file.parent() == Some(&newest));
    if found.iter().any(|(_, format)| *format == Format::Space) {
        found.retain(|(_, format)| *format == Format::Space);
    }
    found.sort();
    Ok(found)
}

/// A path such that numbers in it are in their order: `steps-95-99` before `steps-100-104`.
fn in_order(path: &Path) -> Vec<(String, u128)> {
    let text = path.to_string_lossy();
    let mut parts = Vec::new();
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(words);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((word.to_string(), number.parse().unwrap_or(if number.is_empty() { 0 } else { u128::MAX })));
        rest = after;
    }
    parts
}

/// Bytes of the files that a path means.
pub(crate) fn size_bytes(path: &Path) -> Result<u64, Error> {
    let size = |(path, _): (PathBuf, Format)| fs::metadata(&path).map_or(0, |metadata| metadata.len());
    Ok(find(path)?.into_iter().map(size).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_recording_is_taken_with_all_its_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        };
        assert!(matches!(find(folder.path()), Err(Error::NoProfile { .. })));
        write("plugins/profile/2026_01_01/a.xplane.pb");
        write("plugins/profile/2026_01_02/a.trace.json.gz");
        write("plugins/profile/2026_01_02/a.xplane.pb");
        write("plugins/profile/2026_01_02/b.xplane.pb");
        let names: Vec<String> = find(folder.path())
            .unwrap()
            .iter()
            .map(|(path, _)| path.strip_prefix(folder.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["plugins/profile/2026_01_02/a.xplane.pb", "plugins/profile/2026_01_02/b.xplane.pb"]);
        assert!(matches!(find(&folder.path().join("absent")), Err(Error::Read { .. })));
        // Windows of steps are in the order of their numbers.
        write("run/plugins/profile/steps-95-99/a.xplane.pb");
        write("run/plugins/profile/steps-100-104/a.xplane.pb");
        let found = find(&folder.path().join("run")).unwrap();
        assert!(found[0].0.to_string_lossy().contains("steps-100-104"), "{found:?}");
        assert_eq!(size_bytes(folder.path()).unwrap(), 0);
    }
}
