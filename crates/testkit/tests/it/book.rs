//! The documentation is one book: every page has its place in the summary, and prose stays readable.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::repository;

const MAX_PROSE: usize = 160;
const MAX_CELL: usize = 120;
const MAX_README_LINES: usize = 120;

/// Pages that commands and benchmarks write.
const GENERATED: &[&str] =
    &["docs/accuracy.md", "docs/accuracy-rust.md", "docs/kernel-cycles.md", "docs/optimizer-levels.md", "docs/pods.md"];

/// Words that a reader from JAX, MaxText or PyTorch searches for.
const SEARCHED: &[&str] = &[
    "grouped matmul",
    "KV cache",
    "GQA",
    "MLA",
    "tensor parallelism",
    "pipeline parallelism",
    "expert parallelism",
    "sequence parallelism",
    "gradient checkpointing",
    "gradient norm",
    "validation",
    "load-balancing loss",
];

fn report(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

/// Markdown files below a folder, relative to the repository.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(repository()).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

fn read(page: &Path) -> String {
    fs::read_to_string(repository().join(page)).unwrap()
}

/// Targets of the links of a text, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next())
}

/// Lines outside of code blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// Cells of a row of a table; `\|` is part of a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').replace("\\|", "\u{0}");
    row.trim_end_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read(Path::new("docs/SUMMARY.md"));
    let mut listed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for target in links(&summary) {
        *listed.entry(Path::new("docs").join(target)).or_default() += 1;
    }
    let pages = pages(&repository().join("docs"));
    let mut offenders = Vec::new();
    for page in pages.iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        match listed.remove(page) {
            Some(1) => {}
            Some(times) => offenders.push(format!("{} is listed {times} times", page.display())),
            None => offenders.push(format!("{} is not listed", page.display())),
        }
    }
    offenders.extend(listed.keys().map(|page| format!("{} does not exist", page.display())));
    report("docs/SUMMARY.md", &offenders);
}

#[test]
fn prose_can_be_read() {
    let mut documents = pages(&repository().join("docs"));
    documents.retain(|page| !GENERATED.iter().any(|generated| page == Path::new(generated)));
    documents.push("README.md".into());
    let mut offenders = Vec::new();
    for page in &documents {
        let text = read(page);
        for (number, line) in prose(&text) {
            let at = format!("{}:{number}", page.display());
            if line.trim_start().starts_with('|') {
                let long = cells(line).into_iter().map(|cell| cell.chars().count()).filter(|size| *size > MAX_CELL);
                offenders.extend(long.map(|size| format!("{at}: a cell of {size} characters")));
            } else if line.chars().count() > MAX_PROSE {
                offenders.push(format!("{at}: {} characters", line.chars().count()));
            }
        }
    }
    report("long lines and cells", &offenders);
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_stay_in_the_book() {
    let docs = repository().join("docs").canonicalize().unwrap();
    let mut offenders = Vec::new();
    for page in pages(&docs) {
        let text = read(&page);
        for link in
            text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://"))
        {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let at = format!("{}: {link}", page.display());
            match repository().join(&target).canonicalize() {
                Ok(target) if !target.starts_with(&docs) => offenders.push(format!("{at} leads out of the book")),
                Ok(target) if !wanted.is_empty() => {
                    let text = fs::read_to_string(target).unwrap();
                    let has = prose(&text).iter().any(|(_, line)| line.starts_with('#') && anchor(line) == wanted);
                    offenders.extend((!has).then(|| format!("{at} names no heading")));
                }
                Ok(_) => {}
                Err(_) => offenders.push(format!("{at} does not exist")),
            }
        }
    }
    report("links", &offenders);
}

#[test]
fn the_first_page_is_short() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= MAX_README_LINES, "README.md has {lines} lines, at most {MAX_README_LINES}");
}

#[test]
fn pages_are_found_by_the_words_of_the_field() {
    let guides: Vec<String> = pages(&repository().join("docs"))
        .iter()
        .filter(|page| !page.ends_with("glossary.md"))
        .map(|page| read(page).to_lowercase())
        .collect();
    let glossary = read(Path::new("docs/glossary.md")).to_lowercase();
    let is_missing = |word: &&&str| {
        let word = word.to_lowercase();
        !guides.iter().any(|guide| guide.contains(&word))
    };
    let mut offenders: Vec<String> =
        SEARCHED.iter().filter(is_missing).map(|word| format!("no guide has {word}")).collect();
    // The glossary explains each by its last word at least: "Sequence (context) parallelism".
    let explained = |word: &&&str| !word.to_lowercase().split([' ', '-']).all(|part| glossary.contains(part));
    offenders.extend(SEARCHED.iter().filter(explained).map(|word| format!("the glossary lacks {word}")));
    report("words of the field", &offenders);
}

#[test]
fn rows_are_cut_into_cells() {
    assert_eq!(cells("| a | `b\\|c` | |"), ["a", "`b|c`", ""]);
    assert_eq!(prose("a\n```\nb\n```\nc"), [(1, "a"), (5, "c")]);
    assert_eq!(anchor("## In models: `x`, y"), "in-models-x-y");
    assert_eq!(links("[x](a.md#b) and [y](c.md)").collect::<Vec<_>>(), ["a.md", "c.md"]);
}
