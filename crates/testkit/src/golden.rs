//! Golden files: the expectation lies beside the input, and a switch rewrites it.

use std::path::{Path, PathBuf};

/// An expected text kept in a file.
#[derive(Clone, Debug)]
pub struct Golden {
    path: PathBuf,
}

impl Golden {
    /// The expectation kept at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Golden {
        Golden { path: path.into() }
    }

    /// Compares, or rewrites the file when `UPDATE_GOLDEN` is set.
    #[track_caller]
    pub fn check(&self, actual: &str) {
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&self.path, actual).unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
            return;
        }
        let expected = std::fs::read_to_string(&self.path)
            .unwrap_or_else(|e| panic!("{}: {e}; UPDATE_GOLDEN=1 writes it", self.path.display()));
        if expected != actual {
            let at = expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count();
            let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_string();
            panic!(
                "{} differs from line {}:\n  expected: {}\n  actual:   {}\nUPDATE_GOLDEN=1 accepts the new text",
                self.path.display(),
                at + 1,
                line(&expected),
                line(actual)
            );
        }
    }
}

/// Files of a folder with the given ending, sorted by name; fails on an empty folder, which would test nothing.
#[track_caller]
pub fn golden_files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no *{ending}", folder.display());
    files
}
