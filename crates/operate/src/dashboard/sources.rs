//! Which folders are runs: those that are named, those below them, and those that match a pattern, now and later.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Runs that are shown at most.
const MAX_RUNS: usize = 100;
/// Entries of folders that are looked at, at most, each time.
const MAX_ENTRIES: usize = 20_000;
/// Levels below a folder in which runs are looked for.
const MAX_DEPTH: usize = 3;

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DashboardError {
    /// No run is named.
    NoRuns,
    /// It is there, and is no folder.
    NoFolder(String),
}

impl fmt::Display for DashboardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DashboardError::NoRuns => f.write_str("no run is named"),
            DashboardError::NoFolder(text) => write!(f, "{text} is no folder"),
        }
    }
}

impl std::error::Error for DashboardError {}

impl DashboardError {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        "give folders of `tpu train`, folders that hold them, or a pattern in quotes, as 'runs/*'"
    }
}

/// Where runs are looked for.
#[derive(Clone, Debug)]
pub(super) struct RunSources {
    named: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundRuns {
    pub(super) folders: Vec<PathBuf>,
    /// Those of which there is no run yet.
    pub(super) waiting: Vec<String>,
    /// Whether there were more than are shown.
    pub(super) has_more: bool,
}

impl RunSources {
    /// Folders and patterns. A folder that is not there yet is waited for.
    pub(super) fn new(named: &[String]) -> Result<RunSources, DashboardError> {
        let named: Vec<String> = named.iter().filter(|text| !text.trim().is_empty()).cloned().collect();
        if named.is_empty() {
            return Err(DashboardError::NoRuns);
        }
        if let Some(file) = named.iter().map(Path::new).find(|path| path.exists() && !path.is_dir()) {
            return Err(DashboardError::NoFolder(file.display().to_string()));
        }
        Ok(RunSources { named })
    }

    /// Looks.
    pub(super) fn find(&self) -> FoundRuns {
        let mut found = FoundRuns::default();
        let mut entries = MAX_ENTRIES;
        for text in &self.named {
            let mut folders = Vec::new();
            for folder in matching(Path::new(text), &mut entries) {
                runs_below(&folder, MAX_DEPTH, &mut entries, &mut folders);
            }
            if folders.is_empty() {
                found.waiting.push(text.clone());
            }
            for folder in folders {
                if !found.folders.contains(&folder) {
                    found.folders.push(folder);
                }
            }
        }
        found.has_more = found.folders.len() > MAX_RUNS || entries == 0;
        found.folders.truncate(MAX_RUNS);
        found
    }
}

/// Whether a folder is that of a run.
fn is_run(folder: &Path) -> bool {
    folder.join("metrics").join("metrics.jsonl").is_file()
        || folder.join(telemetry::TRAINING_RECORD_FILE).is_file()
        || folder.join("processes").is_dir()
        || folder.join("goodput").is_dir()
}

/// The folder if it is one of a run, else the runs below it. Links are followed where they are named only.
fn runs_below(folder: &Path, depth: usize, entries: &mut usize, found: &mut Vec<PathBuf>) {
    if is_run(folder) {
        found.push(folder.to_path_buf());
    } else if depth > 0 && found.len() <= MAX_RUNS {
        for (name, path) in folders_in(folder, Links::Left, entries) {
            if !name.as_encoded_bytes().starts_with(b".") {
                runs_below(&path, depth - 1, entries, found);
            }
        }
    }
}

/// What is done with links to folders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Followed,
    Left,
}

/// The folders in a folder, by name.
fn folders_in(folder: &Path, links: Links, entries: &mut usize) -> Vec<(std::ffi::OsString, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if *entries == 0 {
            break;
        }
        *entries -= 1;
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || (kind.is_symlink() && path.is_dir()));
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_folder && (links == Links::Followed || !is_link) {
            found.push((entry.file_name(), path));
        }
    }
    found.sort();
    found
}

/// The folders that a path with `*` and `?` stands for, by name. A folder that has these in its name is itself.
fn matching(pattern: &Path, entries: &mut usize) -> Vec<PathBuf> {
    if pattern.is_dir() {
        return vec![pattern.to_path_buf()];
    }
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let is_pattern = |name: &OsStr| name.as_encoded_bytes().iter().any(|byte| b"*?".contains(byte));
        match component {
            Component::Normal(name) if is_pattern(name) => {
                let mut next = Vec::new();
                for folder in &found {
                    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder.as_path() };
                    for (known, path) in folders_in(folder, Links::Followed, entries) {
                        let is_hidden =
                            known.as_encoded_bytes().starts_with(b".") && !name.as_encoded_bytes().starts_with(b".");
                        if !is_hidden && matches(name.as_encoded_bytes(), known.as_encoded_bytes()) {
                            next.push(path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path));
                        }
                    }
                }
                found = next;
            }
            other => found.iter_mut().for_each(|folder| folder.push(other)),
        }
    }
    found.retain(|folder| folder.is_dir());
    found
}

/// Whether a name is as a pattern says. Goes back to the last `*` only, so that no pattern takes long.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(place) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(wanted) if wanted == byte || *wanted == b'?' => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, place) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let check = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in [("*", "a"), ("a*c", "abbc"), ("a?c", "abc"), ("*a*b*", "xxaxxb"), ("", ""), ("**", "")]
        {
            assert!(check(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "b"), ("a*c", "abcd"), ("?", ""), ("", "a"), ("a?", "a")] {
            assert!(!check(pattern, name), "{pattern} {name}");
        }
        assert!(!check(&"*a".repeat(5000), &"a".repeat(4000)));
    }

    #[test]
    fn runs_are_found_by_name_below_and_by_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for run in ["runs/a", "runs/b", "runs/deep/er/c", "runs/.hidden/d"] {
            std::fs::create_dir_all(root.join(run).join("processes")).unwrap();
        }
        std::fs::create_dir_all(root.join("runs/empty")).unwrap();
        std::os::unix::fs::symlink(root.join("runs"), root.join("runs/empty/loop")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        let text = |name: &str| root.join(name).display().to_string();
        let find = |names: &[&str]| {
            let sources = RunSources::new(&names.iter().map(|name| text(name)).collect::<Vec<_>>()).unwrap();
            let found = sources.find();
            let names = found.folders.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string());
            (names.collect::<Vec<_>>().join(" "), found.waiting.len())
        };
        assert_eq!(find(&["runs"]), ("runs/a runs/b runs/deep/er/c".into(), 0));
        assert_eq!(find(&["runs/b", "runs/?", "later"]), ("runs/b runs/a".into(), 1));
        assert_eq!(find(&["r*/[a]*", "runs/*/er"]), ("runs/deep/er/c".into(), 1));
        assert_eq!(find(&["later/*"]), (String::new(), 1));
        std::fs::create_dir_all(root.join("later/x/goodput")).unwrap();
        assert_eq!(find(&["later/*"]), ("later/x".into(), 0));
        assert_eq!(RunSources::new(&[]).unwrap_err(), DashboardError::NoRuns);
        assert!(matches!(RunSources::new(&[text("file")]), Err(DashboardError::NoFolder(_))));
    }
}
