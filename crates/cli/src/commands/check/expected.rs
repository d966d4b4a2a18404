//! The list of cases known to fail, each with its reason.

use std::path::{Path, PathBuf};

use crate::failure::{self, Failure};

/// Modes that an entry may be limited to.
const MODES: [&str; 3] = ["compiled", "interpreter", "plugin"];

/// Lines of `path-suffix[::function]  reason`, with `[mode]` before those of one mode; `#` starts a comment line.
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
    /// The entries for a mode.
    pub(crate) fn read(path: &Path, mode: &str) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|e| failure::file("cannot read", path, e))?;
        Self::parse(&text, mode).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str, mode: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for (n, line) in text.lines().enumerate().map(|(n, line)| (n, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (only, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((only, rest)) if MODES.contains(&only) => (Some(only), rest.trim_start()),
                Some((other, _)) => return Err(format!("line {}: `{other}` is none of {}", n + 1, MODES.join(", "))),
                None => (None, line),
            };
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
            if only.is_some_and(|only| only != mode) {
                continue;
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
        let mut list =
            ExpectedFailures::parse("# why\n\na/b.mlir::f  not yet\nc.mlir no\tway\nd.mlir x", "compiled").unwrap();
        assert_eq!(list.reason(Path::new("/x/a/b.mlir"), "f"), Some("not yet"));
        assert_eq!(list.reason(Path::new("/x/a/b.mlir"), "g"), None);
        assert_eq!(list.reason(Path::new("/x/aa/b.mlir"), "f"), None);
        assert_eq!(list.reason(Path::new("c.mlir"), "anything"), Some("no\tway"));
        assert_eq!(list.reason(Path::new("cc.mlir"), "anything"), None);
        assert_eq!(list.unmatched(), ["d.mlir"]);
    }

    #[test]
    fn an_entry_needs_a_case_and_a_reason() {
        let error = |text| ExpectedFailures::parse(text, "compiled").unwrap_err();
        assert!(error("a.mlir").contains("line 1"));
        error("a.mlir:: x");
        error("::f x");
        error("[compiled] x");
        assert_eq!(error("[slow] a.mlir x"), "line 1: `slow` is none of compiled, interpreter, plugin");
    }

    #[test]
    fn entries_of_another_mode_do_not_count() {
        let text = "[compiled] a.mlir::f  flushed\n[plugin]b.mlir x\nc.mlir x";
        let reason = |mode| {
            let mut list = ExpectedFailures::parse(text, mode).unwrap();
            let reason = list.reason(Path::new("a.mlir"), "f").map(str::to_string);
            (reason, list.unmatched())
        };
        assert_eq!(reason("compiled"), (Some("flushed".into()), vec!["c.mlir".into()]));
        assert_eq!(reason("interpreter"), (None, vec!["c.mlir".into()]));
    }
}
