//! Inputs that fuzzing found, and a few of each kind to start from, go through the targets again.

use std::fs;

use fuzzing::Bench;
use fuzzing::targets::TARGETS;

#[test]
fn every_input_that_was_kept_goes_through_its_target() {
    let corpus = testkit::repository().join("fuzz/corpus");
    let bench = Bench::new();
    for (name, target) in TARGETS {
        let mut count = 0;
        for entry in fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("fuzz/corpus/{name}: {error}")) {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&bench, &fs::read(path).unwrap());
            count += 1;
        }
        assert!(count > 0, "fuzz/corpus/{name} is empty");
    }
}

/// Each target is a file in `fuzz/fuzz_targets` and a binary in its manifest.
#[test]
fn every_target_is_built() {
    let fuzz = testkit::repository().join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).exists(), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
