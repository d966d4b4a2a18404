//! Which files are programs, and the programs of one file: parts between `// -----` lines, or one bytecode artifact.

use std::fs;
use std::path::{Path, PathBuf};

use hlo::bytecode;

use crate::failure::{self, Failure};

const SPLIT: &str = "// -----";
const DISABLED: &str = "RUN-DISABLED";
/// Endings of the programs a folder is searched for; a file that is named itself may have any.
const ENDINGS: [&str; 5] = ["mlir", "bc", "stablehlo", "pt2", "onnx"];
/// Folders nest at most this deep below a named one.
const MAX_FOLDER_DEPTH: usize = 64;

/// One program of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<'f> {
    /// Text or bytecode.
    pub(crate) bytes: &'f [u8],
    /// Counted from 1.
    pub(crate) number: usize,
    /// Lines of the file before the part.
    pub(crate) lines_before: u32,
}

/// The programs under the given paths, in the order given and sorted within folders.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        let kind = fs::metadata(path).map_err(|e| failure::file("cannot read", path, e))?;
        if kind.is_dir() { search(path, 0, &mut files)? } else { files.push(path.clone()) }
    }
    Ok(files)
}

fn search(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if depth > MAX_FOLDER_DEPTH {
        return Err(Failure::new(format!("{}: folders nest deeper than {MAX_FOLDER_DEPTH}", folder.display())));
    }
    let failed = |e| failure::file("cannot read", folder, e);
    let mut entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // The entry's own type: a link to a folder is not followed, so there are no cycles.
        if entry.file_type().map_err(failed)?.is_dir() {
            search(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|e| ENDINGS.iter().any(|&ending| e == ending)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

/// The programs of a file; parts that hold nothing but comments are none.
pub(crate) fn split(bytes: &[u8]) -> Vec<Part<'_>> {
    let whole = || vec![Part { bytes, number: 1, lines_before: 0 }];
    if bytecode::is_bytecode(bytes) {
        return whole();
    }
    // The reader says where text stops being text.
    let Ok(text) = std::str::from_utf8(bytes) else { return whole() };
    let mut parts = Vec::new();
    let (mut number, mut from, mut at) = (1, 0, 0);
    let (mut lines_before, mut has_code) = (0, false);
    for (line_number, line) in (1u32..).zip(text.split_inclusive('\n')) {
        if line.trim_end() == SPLIT {
            if has_code {
                parts.push(Part { bytes: &bytes[from..at], number, lines_before });
            }
            number += 1;
            (from, lines_before, has_code) = (at + line.len(), line_number, false);
        } else {
            has_code |= is_code(line);
        }
        at += line.len();
    }
    if has_code {
        parts.push(Part { bytes: &bytes[from..], number, lines_before });
    }
    parts
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// Why the file's author switched its interpretation off: `// RUN-DISABLED(reason) command`.
///
/// A marker with a command that does not interpret switches something else off.
pub(crate) fn disabled(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix("//")?.trim_start().strip_prefix(DISABLED)?;
        let (reason, command) = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')')?,
            None => ("", rest),
        };
        let command = command.trim_start_matches(':').trim();
        let interprets = command.is_empty() || command.contains("interpret");
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        interprets.then(|| format!("{DISABLED}: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, u32, &str)]) {
        let parts = split(text.as_bytes());
        let found: Vec<_> =
            parts.iter().map(|p| (p.number, p.lines_before, std::str::from_utf8(p.bytes).unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn parts_know_where_they_begin() {
        check("a\nb", &[(1, 0, "a\nb")]);
        check("a\n// -----\nb\n", &[(1, 0, "a\n"), (2, 2, "b\n")]);
        check("// only a comment\n// -----\r\nb", &[(2, 2, "b")]);
        check("a\n  // ----- not a marker\n", &[(1, 0, "a\n  // ----- not a marker\n")]);
        check("// -----\n// -----\n\n", &[]);
        check("", &[]);
    }

    #[test]
    fn disabled_interpretation_has_its_reason() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(disabled(text.as_bytes()).as_deref(), expected);
        check("// RUN: x\n// RUN-DISABLED(inaccurate) opt | translate --interpret", Some("RUN-DISABLED: inaccurate"));
        check("// RUN-DISABLED(no support): translate --interpret %s", Some("RUN-DISABLED: no support"));
        check("// RUN-DISABLED", Some("RUN-DISABLED: no reason given"));
        check("// RUN-DISABLED(llvm): opt -emit-bytecode", None);
        check("// RUN: translate --interpret", None);
    }
}
