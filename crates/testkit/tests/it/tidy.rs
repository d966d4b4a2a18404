//! Rules of the house: layers, arrows, purposes, sizes, names, unsafe code, and documents that name what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::repository;

use crate::arrows::{self, Source};
use crate::rules;

/// Crates by layer, lowest first; a crate may depend on lower layers only.
const LAYERS: &[&[&str]] = &[
    &["channel", "chips", "telemetry", "tensor", "trust", "pjrt-sys", "trace-derive", "xplane"],
    &["hlo", "pjrt", "weights", "xla"],
    &["cpu", "data", "kernel", "trace"],
    &["compile", "cpu-plugin", "fuzzing", "nn"],
    &["runtime", "plan", "torch"],
    &["fleet", "onnx", "operate", "quantize", "train"],
    &["cloud", "infer", "k8s"],
    &["cli", "tpubridge"],
];

/// Files that may hold unsafe code, each for a reason of its own.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/pjrt-sys/",
    "crates/pjrt/",
    "crates/cpu/examples/peak.rs",
    "crates/cpu/src/plugin/",
    "crates/cpu/src/kernels/",
    "crates/cpu/src/lower/group.rs",
    "crates/cpu/src/lower/ops/",
    "crates/cpu/src/memory.rs",
    "crates/cpu/src/program.rs",
    "crates/cpu/src/program/guarded.rs",
    "crates/runtime/src/backend/builtin.rs",
    "crates/data/src/mapped.rs",
    "crates/fleet/src/glibc.rs",
    "crates/quantize/src/methods/vectors.rs",
    "crates/weights/src/pages.rs",
    "crates/cli/src/stop.rs",
];

/// Crates that no one depends on by name: the plugin is given away as a library, the others are for tests.
const UNPUBLISHED: &[&str] = &["cpu-plugin", "fuzzing", "testkit"];

const MAX_LINES: usize = 800;
const MAX_LIB_LINES: usize = 100;
const VAGUE_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "base"];

fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![repository()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !["target", "corpus", "artifacts", "node_modules"].contains(&name.as_str())
                {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap().to_string_lossy().into_owned()
}

pub(crate) fn report(rule: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let layer_of: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(layer, crates)| crates.iter().map(move |name| (*name, layer))).collect();
    let mut offenders = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        if name == "testkit" {
            continue;
        }
        let Some(layer) = layer_of.get(name.as_str()) else {
            offenders.push(format!("{name} has no layer"));
            continue;
        };
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or("");
        let dependencies = dependencies.split("\n[").next().unwrap_or("");
        for line in dependencies.lines() {
            let dependency = line.split(['.', '=', ' ']).next().unwrap_or("");
            match layer_of.get(dependency) {
                Some(below) if below >= layer => offenders.push(format!("{name} depends on {dependency}")),
                _ if dependency == "testkit" => offenders.push(format!("{name} depends on testkit outside tests")),
                _ => {}
            }
        }
    }
    report("layers", &offenders);
}

#[test]
fn every_file_opens_with_its_purpose() {
    let offenders: Vec<String> = files("rs")
        .iter()
        .filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! "))
        .map(|p| relative(p))
        .collect();
    report("files without a purpose sentence", &offenders);
}

#[test]
fn files_stay_small() {
    let mut offenders = Vec::new();
    for path in files("rs") {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        let limit = if path.ends_with("src/lib.rs") { MAX_LIB_LINES } else { MAX_LINES };
        if lines > limit {
            offenders.push(format!("{}: {lines} lines, limit {limit}", relative(&path)));
        }
    }
    report("long files", &offenders);
}

#[test]
fn names_explain() {
    let offenders: Vec<String> = files("rs")
        .iter()
        .filter(|path| path.file_stem().is_some_and(|stem| VAGUE_NAMES.contains(&stem.to_string_lossy().as_ref())))
        .map(|p| relative(p))
        .collect();
    report("vague names", &offenders);
}

#[test]
fn unsafe_code_has_an_address() {
    let mut offenders = Vec::new();
    for path in files("rs") {
        let relative = relative(&path);
        if UNSAFE_ALLOWED.iter().any(|prefix| relative.starts_with(prefix)) {
            continue;
        }
        if let Some(why) = rules::unsafety(&fs::read_to_string(&path).unwrap()) {
            offenders.push(format!("{relative} {why}"));
        }
    }
    let configurations = [".cargo/config.toml", ".cargo/config"].map(|path| repository().join(path));
    for path in files("toml").into_iter().chain(configurations.into_iter().filter(|path| path.exists())) {
        let relative = relative(&path);
        if let Some(why) = rules::unsafe_manifest(&relative, &fs::read_to_string(&path).unwrap()) {
            offenders.push(format!("{relative} {why}"));
        }
    }
    report("unsafe code outside its places", &offenders);
}

#[test]
fn every_place_of_unsafe_code_is_used() {
    let files: Vec<(String, String)> =
        files("rs").iter().map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect();
    let is_used =
        |prefix: &str| files.iter().any(|(path, text)| path.starts_with(prefix) && rules::unsafety(text).is_some());
    let offenders: Vec<String> =
        UNSAFE_ALLOWED.iter().filter(|prefix| !is_used(prefix)).map(|prefix| prefix.to_string()).collect();
    report("listed for unsafe code, but without any", &offenders);
}

/// `cpu` and `pjrt` meet at the C API of PJRT, as with any plugin; a program that uses both is above them.
#[test]
fn cpu_and_pjrt_never_import_each_other() {
    let manifest = |name: &str| fs::read_to_string(repository().join("crates").join(name).join("Cargo.toml"));
    let mut offenders = Vec::new();
    for (name, other) in [("cpu", "pjrt"), ("pjrt", "cpu")] {
        let mut pending = vec![name.to_string()];
        let mut seen = BTreeSet::new();
        while let Some(next) = pending.pop() {
            let Ok(text) = manifest(&next) else { continue };
            for dependency in rules::dependencies(&text) {
                let dependency = dependency.strip_prefix("tpubridge-").unwrap_or(&dependency).to_string();
                if dependency == other {
                    offenders.push(format!("{name} depends on {other}, by {next}"));
                } else if seen.insert(dependency.clone()) {
                    pending.push(dependency);
                }
            }
        }
        for source in sources(name) {
            if rules::imports(&source.text, other) {
                offenders.push(format!("crates/{name}/src/{} imports {other}", source.place));
            }
        }
    }
    report("`cpu` and `pjrt` know each other", &offenders);
}

/// Packages that a package is built from, itself among them; what only its tests need is left out.
fn built_from(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .args(["--locked", "--offline"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_string).collect()
}

/// README's first command is `cargo run`: with several binaries in the workspace cargo runs the one that is named.
#[test]
fn cargo_run_means_tpu() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let named: Vec<&str> = text.split("\"default_run\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(named, ["tpu"]);
}

/// A plan asks the compiler about a program: it needs no layers, no files of weights, no texts, no images and no network.
#[test]
fn plan_needs_no_models_and_no_network() {
    const HEAVY: [&str; 6] = ["tpubridge-nn", "tpubridge-weights", "reqwest", "hyper", "tokenizers", "zune-jpeg"];
    let needed = built_from("tpubridge-plan");
    let offenders: Vec<String> = HEAVY.iter().filter(|name| needed.contains(**name)).map(|n| n.to_string()).collect();
    report("tpubridge-plan is built from", &offenders);
    // The names are right: what trains is built from all of them.
    let training = built_from("tpubridge-train");
    let unknown: Vec<String> = HEAVY.iter().filter(|name| !training.contains(**name)).map(|n| n.to_string()).collect();
    report("tpubridge-train is not built from", &unknown);
}

#[test]
fn hlo_does_no_input_or_output() {
    let mut offenders = Vec::new();
    for source in sources("hlo").iter().filter(|source| !source.place.ends_with("tests.rs")) {
        let found = rules::input_or_output(&source.text);
        offenders.extend(found.iter().map(|what| format!("crates/hlo/src/{}: {what}", source.place)));
    }
    report("input and output in `hlo`", &offenders);
}

#[test]
fn modules_import_without_circles() {
    let mut offenders = Vec::new();
    for name in crates() {
        let arrows = arrows::arrows(&sources(&name));
        for circle in arrows::circles(&arrows) {
            offenders.push(format!("{name} {circle:?}\n      {}", arrows::explained(&arrows, &circle)));
        }
    }
    report("modules that import each other in a circle", &offenders);
}

pub(crate) fn crates() -> Vec<String> {
    let entries = fs::read_dir(repository().join("crates")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The source files of a crate.
pub(crate) fn sources(name: &str) -> Vec<Source> {
    let src = repository().join("crates").join(name).join("src");
    let place = |path: &Path| path.strip_prefix(&src).ok().map(|place| place.to_string_lossy().into_owned());
    let read = |path: &PathBuf| Some(Source { place: place(path)?, text: fs::read_to_string(path).unwrap() });
    let sources: Vec<Source> = files("rs").iter().filter_map(read).collect();
    assert!(!sources.is_empty(), "crates/{name} has no sources");
    sources
}

#[test]
fn every_op_file_is_in_the_table() {
    let ops = repository().join("crates/hlo/src/ops");
    let table = fs::read_to_string(repository().join("crates/hlo/src/ir/kind.rs")).unwrap();
    let mut offenders = Vec::new();
    for path in files("rs").iter().filter(|p| p.starts_with(&ops) && !p.starts_with(ops.join("rules"))) {
        let text = fs::read_to_string(path).unwrap();
        let Some(name) =
            text.split("pub(crate) const DEF: OpDef").nth(1).and_then(|rest| rest.split("name: \"").nth(1))
        else {
            continue;
        };
        let name = name.split('"').next().unwrap_or("");
        if !table.contains(&format!("\"{name}\";")) {
            offenders.push(format!("{}: {name}", relative(path)));
        }
    }
    report("ops missing from the table", &offenders);
}

#[test]
fn documents_name_what_exists() {
    let roots: BTreeSet<String> = fs::read_dir(repository())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with(".git") && name != "target")
        .collect();
    let mut offenders = Vec::new();
    for path in files("md") {
        let text = fs::read_to_string(&path).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let named = quoted.trim_start_matches("./");
            let first = named.split('/').next().unwrap_or("");
            let is_path = named.contains('/') && roots.contains(first) && !named.contains([' ', '<', '*', '{', '$']);
            if is_path && !repository().join(named).exists() {
                offenders.push(format!("{}: {quoted}", relative(&path)));
            }
        }
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            if !path.parent().unwrap().join(target).exists() {
                offenders.push(format!("{}: link to {target}", relative(&path)));
            }
        }
    }
    report("documents that name missing files", &offenders);
}

/// The packages of the repository by name, each with the packages it needs to be published first. What tests need by path
/// alone is left out when a package is published.
fn packages() -> BTreeMap<String, Vec<String>> {
    let package = |folder: &str| match folder {
        "tpubridge" => folder.to_string(),
        _ => format!("tpubridge-{folder}"),
    };
    let folders: BTreeSet<String> = fs::read_dir(repository().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !UNPUBLISHED.contains(&name.as_str()))
        .collect();
    let needs = |folder: &String| {
        let manifest = fs::read_to_string(repository().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let lines = manifest.lines().filter(|line| !line.contains("path = \"../"));
        let names = lines.filter_map(|line| line.split(['.', '=', ' ']).next());
        let own = names.filter(|name| folders.contains(*name) && *name != folder);
        (package(folder), own.map(package).collect())
    };
    folders.iter().map(needs).collect()
}

#[test]
fn crates_can_be_published() {
    let mut offenders = Vec::new();
    for name in packages().keys() {
        let folder = name.strip_prefix("tpubridge-").unwrap_or(name);
        let manifest = fs::read_to_string(repository().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let library = format!("[lib]\nname = \"{}\"", folder.replace('-', "_"));
        let is_named = folder == "cli" || folder == "tpubridge" || manifest.contains(&library);
        if !manifest.contains(&format!("name = \"{name}\"")) || !is_named {
            offenders.push(format!("{folder}: the package is {name}, its library has the folder's name"));
        }
        for field in
            ["description", "repository", "homepage", "readme", "keywords", "categories", "[package.metadata.docs.rs]"]
        {
            if !manifest.lines().any(|line| line.starts_with(field)) {
                offenders.push(format!("{folder}: no {field}"));
            }
        }
    }
    report("metadata for crates.io", &offenders);
}

#[test]
fn crates_are_published_after_what_they_need() {
    let text = fs::read_to_string(repository().join("docs/release.md")).unwrap();
    let section = text.split("## Crates").nth(1).unwrap().split("\n## ").next().unwrap();
    let place: BTreeMap<&str, usize> = section
        .lines()
        .filter_map(|line| Some((line.split_once(". ")?.0.parse().ok()?, line)))
        .flat_map(|(place, line)| line.split('`').skip(1).step_by(2).map(move |name| (name, place)))
        .collect();
    let mut offenders = Vec::new();
    for (name, needed) in packages() {
        let Some(own) = place.get(&*name) else {
            offenders.push(format!("{name} is not in the list"));
            continue;
        };
        let late = needed.iter().filter(|needed| place.get(&***needed).is_none_or(|place| place >= own));
        offenders.extend(late.map(|needed| format!("{name} needs {needed}, which is not before it")));
    }
    report("order of publication in docs/release.md", &offenders);
}
