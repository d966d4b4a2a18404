//! The commands of README.md and of the tutorials work as they are printed.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::repository;

use crate::harness::Bench;

/// A command of a document.
#[derive(Debug, PartialEq)]
struct Printed {
    line: usize,
    command: String,
}

/// The `tpu` commands of the `console` blocks of a page. A block that is not run says why in a comment before it.
fn commands(text: &str) -> Result<Vec<Printed>, String> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if let Some(kind) = line.strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(kind),
            };
            if block == Some("console,no_run") && !before.starts_with("<!-- no_run: ") {
                return Err(format!(
                    "line {line_number}: a block that is not run needs a comment `<!-- no_run: reason -->`"
                ));
            }
        } else if let (Some("console"), Some(command)) = (block, line.strip_prefix("$ ")) {
            if !command.starts_with("tpu ") {
                return Err(format!("line {line_number}: `{command}` is no command of ours"));
            }
            found.push(Printed { line: line_number, command: command.to_string() });
        }
        before = line;
    }
    Ok(found)
}

/// Words of a command, as a shell cuts them: quotes keep spaces, a lone `#` begins a comment.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '#' && word.is_none() => break,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c == ' ' => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(repository().join("docs/tutorials"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.insert(0, repository().join("README.md"));
    pages
}

#[test]
fn commands_work_as_printed() {
    let Some(bench) = Bench::with_libtpu("commands_work_as_printed") else { return };
    copy(&repository().join("examples"), &bench.path("examples"));
    let mut count = 0;
    for page in pages() {
        let name = page.strip_prefix(repository()).unwrap().display().to_string();
        let printed = commands(&fs::read_to_string(&page).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        for Printed { line, command } in printed {
            let words = words(&command);
            let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let ran = bench.run(&args);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, Some(0), "{name}:{line}: {command}\n{said}");
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} commands were found: are the blocks still marked `console`?");
}

#[test]
fn blocks_are_read_as_they_are_marked() {
    let page = "```console\n$ tpu run 'a b' --x  # note\nsome output\n```\n<!-- no_run: long -->\n```console,no_run\n$ tpu plan x\n```\n";
    let found = commands(page).unwrap();
    assert_eq!(found, [Printed { line: 2, command: "tpu run 'a b' --x  # note".into() }]);
    assert_eq!(words(&found[0].command), ["tpu", "run", "a b", "--x"]);
    assert!(commands("```console,no_run\n$ tpu plan x\n```\n").unwrap_err().contains("no_run"));
    assert!(commands("```console\n$ rm x\n```\n").is_err());
}
