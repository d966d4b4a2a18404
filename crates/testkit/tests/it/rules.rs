//! Rules of ARCHITECTURE.md over text: unsafe code, input and output, imports that may not be. `tidy` holds the project to them.

use crate::source::{code, paths, without_tests, words};

/// What of unsafe code a source file has: the keyword, or a lint level for it in any form (`allow`, `expect`, among other
/// lints, inside `cfg_attr`).
pub(crate) fn unsafety(text: &str) -> Option<&'static str> {
    let code = code(text);
    let has = |wanted: &str| words(&code).any(|word| word == wanted);
    match (has("unsafe"), has("unsafe_code")) {
        (true, _) => Some("has unsafe code"),
        (false, true) => Some("sets the lint `unsafe_code`"),
        (false, false) => None,
    }
}

/// What a manifest or a configuration of cargo does about unsafe code that it may not: only the workspace sets the lint, to `deny` or
/// `forbid`, each crate takes the workspace's lints, and no flag takes lints away.
pub(crate) fn unsafe_manifest(path: &str, text: &str) -> Option<&'static str> {
    let lines = || text.lines().map(|line| line.split('#').next().unwrap_or("").replace([' ', '\t'], ""));
    let is_workspace = path == "Cargo.toml";
    let sets = |line: &String| line.contains("unsafe_code") || line.contains("unsafe-code");
    let denies = |line: &String| ["unsafe_code=\"deny\"", "unsafe_code=\"forbid\""].contains(&line.as_str());
    if lines().any(|line| sets(&line) && !(is_workspace && denies(&line))) {
        return Some("sets the lint `unsafe_code`");
    }
    if lines().any(|line| line.contains("--cap-lints")) {
        return Some("caps lints");
    }
    if is_workspace {
        return (!lines().any(|line| denies(&line))).then_some("does not deny `unsafe_code`");
    }
    let takes = || lines().skip_while(|line| line != "[lints]").skip(1).take_while(|line| !line.starts_with('['));
    let is_member = path.starts_with("crates/") && path.ends_with("/Cargo.toml");
    (is_member && !takes().any(|line| line == "workspace=true")).then_some("does not take the lints of the workspace")
}

/// Modules of the standard library that reach outside a program, and what of `std::io` does.
const OUTSIDE: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "net"],
    &["std", "process"],
    &["std", "env"],
    &["std", "os"],
    &["std", "io", "stdin"],
    &["std", "io", "stdout"],
    &["std", "io", "stderr"],
    &["std", "io", "Stdin"],
    &["std", "io", "Stdout"],
    &["std", "io", "Stderr"],
    &["io", "stdin"],
    &["io", "stdout"],
    &["io", "stderr"],
];

const PRINTS: &[&str] = &["print!", "println!", "eprint!", "eprintln!", "dbg!"];

/// Input and output in the code of a file, tests apart.
pub(crate) fn input_or_output(text: &str) -> Vec<String> {
    let (code, _) = without_tests(&code(text));
    let mut found: Vec<String> = paths(&code)
        .iter()
        .filter(|path| {
            OUTSIDE.iter().any(|outside| path.iter().zip(*outside).all(|(a, b)| a == b) && path.len() >= outside.len())
        })
        .map(|path| path.join("::"))
        .collect();
    let is_macro = |name: &str| {
        code.match_indices(name).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    found.extend(PRINTS.iter().filter(|name| is_macro(name)).map(|name| name.to_string()));
    found
}

/// Whether the code of a file names something of a crate, tests apart.
pub(crate) fn imports(text: &str, library: &str) -> bool {
    let (code, _) = without_tests(&code(text));
    let is_extern = words(&code).zip(words(&code).skip(2)).any(|(first, third)| first == "extern" && third == library);
    is_extern || paths(&code).iter().any(|path| path[0] == library)
}

/// Crates that a manifest names in any table of normal or build dependencies.
pub(crate) fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_table = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let is_kind =
                |kind: &str| table == kind || table.starts_with("target.") && table.ends_with(&format!(".{kind}"));
            is_table = is_kind("dependencies") || is_kind("build-dependencies");
            // `[dependencies.name]`.
            let named = ["dependencies.", "build-dependencies."].iter().find_map(|kind| table.strip_prefix(kind));
            found.extend(named.map(|name| name.trim_matches('"').to_string()));
        } else if is_table && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("").trim_matches('"');
            let package = line.split("package").nth(1).and_then(|rest| rest.split('"').nth(1));
            found.push(name.to_string());
            found.extend(package.map(str::to_string));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_allowing_unsafe_code_is_seen() {
        for text in [
            "#![allow(unsafe_code)]",
            "#![allow(dead_code, unsafe_code)]",
            "#[expect(unsafe_code, reason = \"none\")]\nfn f() {}",
            "#[cfg_attr(unix, allow(unsafe_code))]\nfn f() {}",
            "#[warn(\n    unsafe_code\n)]\nfn f() {}",
        ] {
            assert_eq!(unsafety(text), Some("sets the lint `unsafe_code`"), "{text}");
        }
        for text in [
            "fn f() { unsafe { g() } }",
            "unsafe impl Send for X {}",
            "#[unsafe(no_mangle)] fn f() {}",
            "pub unsafe fn f() {}",
        ] {
            assert_eq!(unsafety(text), Some("has unsafe code"), "{text}");
        }
        for text in ["// unsafe code\nfn f() {}", "const X: &str = \"allow(unsafe_code)\";", "fn is_unsafe() {}"] {
            assert_eq!(unsafety(text), None, "{text}");
        }
    }

    #[test]
    fn every_manifest_that_allows_unsafe_code_is_seen() {
        let member = "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n";
        let check = |path: &str, text: &str, expected: Option<&str>| {
            assert_eq!(unsafe_manifest(path, text), expected, "{text}")
        };
        check("crates/x/Cargo.toml", member, None);
        check("crates/x/tests/data/y.toml", "a = 1", None);
        check("crates/x/Cargo.toml", "[package]\nname = \"x\"", Some("does not take the lints of the workspace"));
        check("crates/x/Cargo.toml", "[lints]\nworkspace = false", Some("does not take the lints of the workspace"));
        let own = "[lints.rust]\nunsafe_code = \"allow\"";
        check("crates/x/Cargo.toml", own, Some("sets the lint `unsafe_code`"));
        check(
            "fuzz/Cargo.toml",
            "[lints.rust]\nunsafe_code = { level = \"allow\" }",
            Some("sets the lint `unsafe_code`"),
        );
        check(".cargo/config.toml", "[build]\nrustflags = [\"-Aunsafe-code\"]", Some("sets the lint `unsafe_code`"));
        check(".cargo/config.toml", "[build]\nrustflags = [\"--cap-lints\", \"allow\"]", Some("caps lints"));
        check("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"", None);
        check("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"", Some("sets the lint `unsafe_code`"));
        check("Cargo.toml", "[workspace.lints.rust]\n# unsafe_code = \"deny\"", Some("does not deny `unsafe_code`"));
    }

    #[test]
    fn input_and_output_are_seen() {
        let check = |text: &str, expected: &[&str]| assert_eq!(input_or_output(text), expected, "{text}");
        check("use std::fs::File;", &["std::fs::File"]);
        check("use std::{collections::HashMap, fs, io::{self, stdin}};", &["std::fs", "std::io::stdin"]);
        check("fn f() { std::process::exit(1); io::stdout(); }", &["io::stdout", "std::process::exit"]);
        check("fn f() { println!(\"x\"); dbg!(1); }", &["println!", "dbg!"]);
        check("use std::io::Read; use std::fmt; macro_rules! my_print { () => {} } my_print!();", &[]);
        check("// std::fs\n#[cfg(test)]\nmod tests { use std::fs; fn f() { println!(); } }", &[]);
    }

    #[test]
    fn imports_of_a_crate_are_seen() {
        assert!(imports("use pjrt::Client;", "pjrt"));
        assert!(imports("use {tensor::X, pjrt::Client};", "pjrt") || imports("fn f() -> pjrt::Client { g() }", "pjrt"));
        assert!(imports("extern crate pjrt;", "pjrt"));
        assert!(!imports("use pjrt_sys::X; use crate::pjrt::Y; // pjrt::Z", "pjrt"));
        assert!(!imports("#[cfg(test)] mod tests { use pjrt::Client; }", "pjrt"));
    }

    #[test]
    fn dependencies_of_every_table_are_seen() {
        let manifest = "[dependencies]\na.workspace = true\nb = { path = \"../b\", package = \"c\" }\n# d = \"1\"\n\n\
            [dev-dependencies]\ne = \"1\"\n[target.'cfg(unix)'.dependencies]\nf = \"1\"\n[build-dependencies]\ng = \"1\"\n\
            [dependencies.h]\nversion = \"1\"\n[features]\ni = []\n";
        assert_eq!(dependencies(manifest), ["a", "b", "c", "f", "g", "h"]);
    }
}
