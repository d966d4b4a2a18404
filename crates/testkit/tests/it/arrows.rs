//! Which modules of a crate import each other: arrows between its top-level modules, and the circles they make.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code, paths, without_tests};

/// A source file: its place under `src`, as `a/b.rs`, and its text.
pub(crate) struct Source {
    pub(crate) place: String,
    pub(crate) text: String,
}

/// Arrows from one top-level module to others, each with a file that has it.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// A file: its module, its place, and the paths it names.
type ReadFile<'a> = (Vec<String>, &'a str, BTreeSet<Vec<String>>);

/// The arrows between top-level modules of a crate. A name that the crate's root re-exports stands for its module; the root
/// itself and tests have no arrows.
pub(crate) fn arrows(sources: &[Source]) -> Arrows {
    let mut read: Vec<ReadFile<'_>> = Vec::new();
    let mut tests: Vec<Vec<String>> = Vec::new();
    for source in sources {
        let module = module_of(&source.place);
        let (code, skipped) = without_tests(&code(&source.text));
        tests.extend(skipped.into_iter().map(|name| [module.clone(), vec![name]].concat()));
        read.push((module, &source.place, paths(&code)));
    }
    read.retain(|(module, ..)| !tests.iter().any(|test| module.starts_with(test)));
    let modules: BTreeSet<&String> = read.iter().filter_map(|(module, ..)| module.first()).collect();
    let mut exported: BTreeMap<&String, &String> = BTreeMap::new();
    for (_, _, paths) in read.iter().filter(|(module, ..)| module.is_empty()) {
        for path in paths {
            let path = if ["self", "crate"].contains(&path[0].as_str()) { &path[1..] } else { &path[..] };
            if let [from, .., name] = path
                && modules.contains(from)
            {
                exported.insert(name, from);
            }
        }
    }
    let mut arrows = Arrows::new();
    for (module, place, paths) in &read {
        let Some(own) = module.first() else { continue };
        arrows.entry(own.clone()).or_default();
        for path in paths {
            let Some(name) = under_root(module.len(), path) else { continue };
            let Some(to) = modules.get(name).or(exported.get(name)) else { continue };
            if *to != own {
                arrows.entry(own.clone()).or_default().entry(to.to_string()).or_insert_with(|| place.to_string());
            }
        }
    }
    arrows
}

/// The module a file is: empty for the crate's root.
fn module_of(place: &str) -> Vec<String> {
    let mut parts: Vec<String> = place.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if ["mod", "lib", "main"].contains(&parts.last().map_or("", String::as_str)) {
        parts.pop();
    }
    parts
}

/// The name right under the crate's root that a path in a module of this depth goes through.
fn under_root(depth: usize, path: &[String]) -> Option<&String> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path.get(1),
        Some("super") if ups == depth => path.get(ups),
        _ => None,
    }
}

/// Modules that reach each other, as sorted lists.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = arrows.keys().map(|from| (from, reached(arrows, from))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, to) in &reach {
        let circle: Vec<String> = to
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(from)))
            .map(|m| m.to_string())
            .collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

fn reached<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut pending: Vec<&String> = arrows.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(next) = pending.pop() {
        if seen.insert(next) {
            pending.extend(arrows.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    seen
}

/// The arrows inside a circle, in words.
pub(crate) fn explained(arrows: &Arrows, circle: &[String]) -> String {
    let inside = |to: &String| circle.contains(to);
    let mut lines = Vec::new();
    for from in circle {
        for (to, place) in arrows.get(from).into_iter().flatten().filter(|(to, _)| inside(to)) {
            lines.push(format!("{from} -> {to} (src/{place})"));
        }
    }
    lines.join("\n      ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&[&str]]) {
        let sources: Vec<Source> =
            files.iter().map(|(place, text)| Source { place: place.to_string(), text: text.to_string() }).collect();
        assert_eq!(circles(&arrows(&sources)), expected);
    }

    #[test]
    fn circles_are_seen() {
        check(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::X;"), ("b.rs", "")], &[]);
        check(&[("a.rs", "use crate::b::X;"), ("b.rs", "fn f() { crate::a::g() }")], &[&["a", "b"]]);
        // By `super`, by groups, from inner files, and around three.
        check(&[("a/mod.rs", ""), ("a/x.rs", "use super::super::b::X;"), ("b.rs", "use super::a;")], &[&["a", "b"]]);
        check(
            &[
                ("a.rs", "use crate::{b::X};"),
                ("b/y.rs", "use crate::c;"),
                ("b.rs", ""),
                ("c.rs", "use crate::{d, a::Y};"),
                ("d.rs", ""),
            ],
            &[&["a", "b", "c"]],
        );
    }

    #[test]
    fn names_of_the_root_stand_for_their_modules() {
        let root = ("lib.rs", "mod a; mod b; pub use a::{Thing, inner::Other};");
        check(&[root, ("a.rs", "use crate::b::X;"), ("b.rs", "use crate::Other;")], &[&["a", "b"]]);
        check(&[root, ("a.rs", ""), ("b.rs", "use crate::{Thing, Other};")], &[]);
    }

    #[test]
    fn tests_and_own_modules_make_no_circle() {
        let tests = "#[cfg(test)]\nmod tests { use crate::a::X; }\n#[cfg(test)]\nmod more;";
        check(&[("a.rs", "use crate::b::X;"), ("b.rs", tests), ("b/more.rs", "use crate::a;")], &[]);
        check(&[("a/mod.rs", "use crate::a::x;"), ("a/x.rs", "use super::y; use crate::a::y;"), ("a/y.rs", "")], &[]);
    }
}
