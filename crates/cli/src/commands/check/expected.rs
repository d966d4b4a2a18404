//! The list of cases known to fail, each with its reason.

use std::path::{Path, PathBuf};

use crate::failure::{self, Failure};

/// Lines of `path-suffix[::function]  reason`; `#` starts a comment line.
#[derive(Debug, Default)]
pub(crate) struct ExpectedFailures {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    pattern: String,
    suffix: PathBuf,
    case: Option<String>,
    reason: String,
    matched: bool,
}

impl ExpectedFailures {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|e| failure::file("cannot read", path, e))?;
        Self::parse(&text).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for (n, line) in text.lines().enumerate().map(|(n, line)| (n, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((pattern, reason)) = line.split_once(char::is_whitespace) else {
                return Err(format!("line {}: `{line}` has no reason", n + 1));
            };
            let (suffix, case) = match pattern.split_once("::") {
                Some((suffix, case)) => (suffix, Some(case.to_string())),
                None => (pattern, None),
            };
            if suffix.is_empty() || case.as_deref() == Some("") {
                return Err(format!("line {}: `{pattern}` names no case", n + 1));
            }
            entries.push(Entry {
                pattern: pattern.to_string(),
                suffix: suffix.into(),
                case,
                reason: reason.trim_start().to_string(),
                matched: false,
            });
        }
        Ok(ExpectedFailures { entries })
    }

    /// Why a case is expected to fail, if it is listed.
    pub(crate) fn reason(&mut self, file: &Path, case: &str) -> Option<&str> {
        let entry = self
            .entries
            .iter_mut()
            .find(|e| e.case.as_deref().is_none_or(|c| c == case) && file.ends_with(&e.suffix))?;
        entry.matched = true;
        Some(&entry.reason)
    }

    /// Entries that no case has met so far.
    pub(crate) fn unmatched(&self) -> Vec<String> {
        self.entries.iter().filter(|e| !e.matched).map(|e| e.pattern.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_files_and_cases_by_whole_components() {
        let mut list = ExpectedFailures::parse("# why\n\na/b.mlir::f  not yet\nc.mlir no\tway\nd.mlir x").unwrap();
        assert_eq!(list.reason(Path::new("/x/a/b.mlir"), "f"), Some("not yet"));
        assert_eq!(list.reason(Path::new("/x/a/b.mlir"), "g"), None);
        assert_eq!(list.reason(Path::new("/x/aa/b.mlir"), "f"), None);
        assert_eq!(list.reason(Path::new("c.mlir"), "anything"), Some("no\tway"));
        assert_eq!(list.reason(Path::new("cc.mlir"), "anything"), None);
        assert_eq!(list.unmatched(), ["d.mlir"]);
    }

    #[test]
    fn an_entry_needs_a_case_and_a_reason() {
        assert!(ExpectedFailures::parse("a.mlir").unwrap_err().contains("line 1"));
        assert!(ExpectedFailures::parse("a.mlir:: x").is_err());
        assert!(ExpectedFailures::parse("::f x").is_err());
    }
}
