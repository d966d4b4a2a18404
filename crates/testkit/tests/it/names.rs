//! Names that crates give to others: a public type has a name of its own in the whole workspace.

use std::collections::{BTreeMap, BTreeSet};

use crate::arrows::Source;
use crate::source::{code, paths, without_tests, words};
use crate::tidy::{crates, report, sources};

/// Names that several crates may give, each for a reason.
const SHARED: &[(&str, &str)] = &[
    ("Error", "each crate has one error type, named with its crate: `hlo::Error`"),
    ("GetPjrtApi", "the C API has one name for the function that a plugin exports and for the function's type"),
];

const KINDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Types and traits that a source file makes public, tests apart. `pub(crate)` is not public; a `pub` that nobody can reach is
/// refused by the lint `unreachable_pub`.
fn declared(code: &str) -> Vec<String> {
    let words: Vec<&str> = words(code).filter(|word| *word != "unsafe").collect();
    let names = words.windows(3).filter(|three| three[0] == "pub" && KINDS.contains(&three[1])).map(|three| three[2]);
    // `pub struct $name` of a macro declares nothing by itself.
    names.filter(|name| name.starts_with(char::is_uppercase)).map(str::to_string).collect()
}

/// Types that a source file makes public from modules of its own crate: so those are seen that a macro declares.
fn exported(code: &str, modules: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for statement in code.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or("");
        if statement.starts_with("::") {
            continue;
        }
        for path in paths(&format!("use {statement};")) {
            let is_own = ["crate", "self", "super"].contains(&&*path[0]) || modules.contains(&path[0]);
            let name = path.last().unwrap();
            // Functions and modules are in small letters, constants in large ones.
            let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
            found.extend((is_own && is_type).then(|| name.clone()));
        }
    }
    found
}

/// Public types of a crate by name, with the files that declare them; none where a macro does.
fn public_types(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let stem = |part: &str| part.trim_end_matches(".rs").to_string();
    let modules: BTreeSet<String> = sources.iter().flat_map(|source| source.place.split('/').map(stem)).collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        let (code, _) = without_tests(&code(&source.text));
        for name in declared(&code) {
            found.entry(name).or_default().push(source.place.clone());
        }
        for name in exported(&code, &modules) {
            found.entry(name).or_default();
        }
    }
    found
}

/// Names with more than one meaning, each with the places that declare it.
fn ambiguous(crates: &[(String, Vec<Source>)]) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (krate, sources) in crates {
        for (name, files) in public_types(sources) {
            let of = places.entry(name).or_default();
            match files.is_empty() {
                true => of.push(format!("crates/{krate}")),
                false => of.extend(files.iter().map(|file| format!("crates/{krate}/src/{file}"))),
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

#[test]
fn public_types_have_names_of_their_own() {
    let crates: Vec<(String, Vec<Source>)> = crates().into_iter().map(|name| (name.clone(), sources(&name))).collect();
    let mut found = ambiguous(&crates);
    let mut offenders = Vec::new();
    for (name, why) in SHARED {
        if found.remove(*name).is_none() {
            offenders.push(format!("`{name}` ({why}) is in SHARED and no longer shared: take it out"));
        }
    }
    offenders.extend(found.iter().map(|(name, places)| format!("`{name}`: {}", places.join(", "))));
    report("public types with the same name; rename one, or make it `pub(crate)`", &offenders);
}

#[test]
fn types_with_the_same_name_are_seen() {
    let check = |first: &str, second: &str, expected: &[&str]| {
        let krate = |name: &str, text: &str| {
            let place = |place: &str, text: &str| Source { place: place.to_string(), text: text.to_string() };
            (name.to_string(), vec![place("lib.rs", text), place("inner.rs", "")])
        };
        let found = ambiguous(&[krate("a", first), krate("b", second)]);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected, "{first} / {second}");
    };
    check("pub struct Axis;", "pub enum Axis { X }", &["Axis"]);
    check("pub unsafe trait Axis {}", "pub type Axis<T> = Vec<T>;", &["Axis"]);
    check("pub struct Axis;\npub mod inner { pub struct Axis; }", "", &["Axis"]);
    check("macro_rules! m { ($n:ident) => { pub struct $n; } }\npub use inner::Axis;", "pub struct Axis;", &["Axis"]);
    check("pub use self::inner::{Axis, axis};", "pub use crate::inner::{axis, Axis};", &["Axis"]);
    // Another crate's type under its own name, and what is not public.
    check("pub use b::Axis; pub use ::inner::Axis as _;", "pub struct Axis;", &[]);
    check("pub(crate) struct Axis; struct Role;", "pub struct Axis; pub struct Role;", &[]);
    check("// pub struct Axis;\n#[cfg(test)] mod tests { pub struct Axis; }", "pub struct Axis;", &[]);
}
