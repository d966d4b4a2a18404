//! Text: golden files, error messages, round trips and corpora.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::{Golden, Mutator, Needed, golden_files, require};

use hlo::text::{Form, Locations, PrintOptions, parse, parse_attr, parse_bytes, parse_type, print, print_with};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/text")
}

/// Compares with the file beside the input.
fn check_golden(input: &Path, extension: &str, actual: &str) {
    Golden::new(input.with_extension(extension)).check(actual);
}

/// Every way of printing reads back as the same module, and printing twice changes nothing.
fn check_round_trips(name: &str, text: &[u8]) -> Result<String, String> {
    let module = parse_bytes(text).map_err(|error| format!("{name}: {error}"))?;
    let printed = print(&module);
    let again = parse(&printed).map_err(|error| format!("{name}: reading what was printed: {error}"))?;
    let mut bare = module.clone();
    bare.strip_locations();
    if again != bare {
        return Err(format!("{name}: the printed module reads back different"));
    }
    if print(&again) != printed {
        return Err(format!("{name}: printing is not a fixed point"));
    }
    for form in [Form::Pretty, Form::Generic] {
        let options = PrintOptions { locations: Locations::Aliases, form };
        let full = print_with(&module, options);
        let read = parse(&full).map_err(|error| format!("{name}: {form:?} with locations: {error}"))?;
        if read != module {
            return Err(format!("{name}: {form:?} with locations reads back different"));
        }
    }
    Ok(printed)
}

#[test]
fn golden_files_print_as_expected() {
    for path in golden_files(&data(), ".mlir") {
        let text = fs::read(&path).unwrap();
        let printed = check_round_trips(&path.display().to_string(), &text).unwrap();
        check_golden(&path, "printed", &printed);
    }
}

#[test]
fn locations_print_as_aliases() {
    let path = data().join("locations.mlir");
    let module = parse(&fs::read_to_string(&path).unwrap()).unwrap();
    let options = PrintOptions { locations: Locations::Aliases, form: Form::Pretty };
    check_golden(&path, "located", &print_with(&module, options));
}

#[test]
fn generic_form_prints_as_expected() {
    let path = data().join("control_flow.mlir");
    let module = parse(&fs::read_to_string(&path).unwrap()).unwrap();
    let options = PrintOptions { locations: Locations::Omit, form: Form::Generic };
    check_golden(&path, "generic", &print_with(&module, options));
}

#[test]
fn errors_name_the_place_and_the_reason() {
    for path in golden_files(&data().join("errors"), ".mlir") {
        let text = fs::read(&path).unwrap();
        match parse_bytes(&text) {
            Ok(module) => panic!("{} was read:\n{}", path.display(), print(&module)),
            Err(error) => check_golden(&path, "error", &format!("{error}\n")),
        }
    }
}

#[test]
fn single_types_and_attributes_read() {
    assert_eq!(parse_type("tensor<4x?xf32>").unwrap(), hlo::Type::tensor([4, hlo::DYNAMIC], tensor::DType::F32));
    assert_eq!(parse_attr("[1, 2 : i32]").unwrap(), hlo::Attr::Array([hlo::Attr::i64(1), hlo::Attr::i32(2)].into()));
    assert!(parse_type("tensor<4xf32> x").is_err());
    assert!(parse_attr("").is_err());
}

#[test]
fn equal_programs_in_different_forms_are_equal_modules() {
    let pretty = "func.func @f(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }";
    let generic = r#"func.func @f(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = "stablehlo.reduce"(%a, %b) <{dimensions = array<i64: 0>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %1 = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          "stablehlo.return"(%1) : (tensor<f32>) -> ()
        }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        "func.return"(%0) : (tensor<f32>) -> ()
      }"#;
    assert_eq!(parse(pretty).unwrap(), parse(generic).unwrap());
}

/// Regions nested to the limit, on a thread with a small stack.
#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    let nested = |levels: usize| {
        let open = "%p = \"stablehlo.if\"(%c) ({\n";
        let names: Vec<String> = (0..levels).map(|i| open.replace("%p", &format!("%v{i}"))).collect();
        let close = "stablehlo.return %c : tensor<i1>\n}, {\nstablehlo.return %c : tensor<i1>\n}) : (tensor<i1>) -> tensor<i1>\n";
        format!("func.func @f(%c: tensor<i1>) {{\n{}{}return\n}}", names.concat(), close.repeat(levels))
    };
    assert!(parse(&nested(200)).is_ok());
    assert!(parse(&nested(100_000)).is_err());
    assert!(parse_attr(&"[".repeat(100_000)).is_err());
    assert!(parse_type(&"tuple<".repeat(100_000)).is_err());
    assert!(parse_type(&"(".repeat(100_000)).is_err());
    assert!(parse_attr(&format!("loc({}", "callsite(".repeat(100_000))).is_err());
}

/// Aliases that refer to each other must not make values of exponential size or unbounded depth.
#[test]
fn aliases_cannot_blow_up() {
    let doubling: String = (1..64).map(|i| format!("#a{i} = [#a{}, #a{}]\n", i - 1, i - 1)).collect();
    assert!(parse(&format!("#a0 = 1\n{doubling}")).is_err());
    let chain: String = (1..100_000).map(|i| format!("#l{i} = loc(\"n\"(#l{}))\n", i - 1)).collect();
    assert!(parse(&format!("#l0 = loc(\"n\")\n{chain}")).is_err());
    let foreign: String = (1..64).map(|i| format!("#f{i} = #x.y<[#f{}, #f{}]>\n", i - 1, i - 1)).collect();
    assert!(parse(&format!("#f0 = #x.y<\"{}\">\n{foreign}", "z".repeat(1000))).is_err());
    let backward: String = (1..100_000).rev().map(|i| format!("#l{i} = loc(\"n\"(#l{}))\n", i - 1)).collect();
    assert!(parse(&format!("{backward}#l0 = loc(\"n\")\n")).is_err());
}

/// Reading a mutated program may fail but must come back, and what is read must print and read again.
#[test]
fn mutated_programs_never_panic() {
    let seeds = golden_files(&data(), ".mlir").iter().map(|path| fs::read(path).unwrap()).collect();
    let mut mutator = Mutator::new(1, seeds);
    for round in 0..20_000 {
        if let Ok(module) = parse_bytes(&mutator.next_input()) {
            let printed = print(&module);
            let again = parse(&printed).unwrap_or_else(|error| panic!("round {round}: {error}\n{printed}"));
            assert_eq!(print(&again), printed, "round {round}");
        }
    }
}

/// Programs of StableHLO's own tests that are not StableHLO: file, text of the program that says so, and why.
const OTHER_LANGUAGES: &[(&str, &str, &str)] = &[
    ("invalid_vhlo_future.mlir", "vhlo.constant_v99", "the versioned dialect as text, with an op that does not exist"),
    ("stablehlo_legalize_to_vhlo_mixed.mlir", "arith.", "ops of the arith dialect in their pretty form"),
];

fn is_other_language(path: &Path, part: &str) -> bool {
    OTHER_LANGUAGES.iter().any(|(file, sign, _)| path.ends_with(file) && part.contains(sign))
}

/// Reads and prints every program under a directory.
fn check_programs_under(dir: PathBuf) {
    let mut pending = vec![dir];
    let (mut read, mut failures) = (0, Vec::new());
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "mlir") {
                let text = fs::read_to_string(&path).unwrap();
                // Test files hold several programs, separated as their own tools separate them.
                for (i, part) in text.split("// -----").enumerate() {
                    read += 1;
                    let name = format!("{}, part {i}", path.display());
                    let failure = check_round_trips(&name, part.as_bytes()).err();
                    if is_other_language(&path, part) {
                        assert!(failure.is_some(), "{name} is read now: take it off the list");
                    } else {
                        failures.extend(failure);
                    }
                }
            }
        }
    }
    assert!(read > 0, "no programs");
    assert!(failures.is_empty(), "{} of {read} programs failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn programs_of_jax_round_trip() {
    if let Some(folder) = require("programs_of_jax_round_trip", Needed::Corpus) {
        check_programs_under(folder);
    }
}

#[test]
fn programs_of_pytorch_round_trip() {
    if let Some(folder) = require("programs_of_pytorch_round_trip", Needed::TorchCorpus) {
        check_programs_under(folder);
    }
}

#[test]
fn conformance_programs_round_trip() {
    if let Some(folder) = require("conformance_programs_round_trip", Needed::Conformance) {
        check_programs_under(folder);
    }
}

/// What we print of every exported program, MLIR's own parser and verifier accept.
#[test]
fn mlir_accepts_what_is_printed() {
    let Some(corpus) = require("mlir_accepts_what_is_printed", Needed::Corpus) else { return };
    let Some(python) = require("mlir_accepts_what_is_printed", Needed::Python) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut written = 0;
    for path in golden_files(&corpus, ".mlir.bc") {
        let module = hlo::bytecode::read(&fs::read(&path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        fs::write(folder.path().join(name), print(&module)).unwrap();
        written += 1;
    }
    assert!(written >= 300, "only {written} programs");
    let script = testkit::repository().join("crates/testkit/python/check_parse.py");
    let checked = std::process::Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let refused: Vec<String> = String::from_utf8_lossy(&checked.stdout)
        .lines()
        .filter(|line| !line.contains("\"ok\": true"))
        .take(5)
        .map(str::to_string)
        .collect();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && refused.is_empty(), "{}\n{said}", refused.join("\n"));
}
