//! Bytecode against text: what is read from an artifact is the program its text says, and what is written reads back.

use std::path::{Path, PathBuf};

use hlo::{Error, Module, OpName, bytecode, text};
use testkit::{Mutator, Needed, golden_files, require};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bytecode")
}

fn artifact(name: &str) -> Vec<u8> {
    let path = data().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Module {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytecode::read(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A program without what two files of it may differ in.
fn comparable(mut module: Module) -> Module {
    module.strip_locations();
    module.funcs.iter_mut().for_each(|func| func.renumber());
    module
}

fn parse(path: &Path) -> Module {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    comparable(text::parse_bytes(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Panics with the first op that differs rather than with two whole programs.
fn assert_same(read: &Module, expected: &Module, what: &Path) {
    if read == expected {
        return;
    }
    let what = what.display();
    assert_eq!(read.name, expected.name, "{what}");
    assert_eq!(read.attrs, expected.attrs, "{what}");
    assert_eq!(read.meshes, expected.meshes, "{what}");
    assert_eq!(read.funcs.len(), expected.funcs.len(), "{what}");
    for (func, wanted) in read.funcs.iter().zip(&expected.funcs) {
        for (op, wanted) in func.ops.iter().zip(&wanted.ops) {
            assert_eq!(op, wanted, "{what}: @{}", func.name);
        }
        assert_eq!(func, wanted, "{what}");
    }
}

/// Reads an artifact, compares it with the program of a text, writes it and reads it back.
fn check(artifact: &Path, text: &Path) {
    let module = read(artifact);
    let written = bytecode::write(&module).unwrap_or_else(|error| panic!("{}: {error}", artifact.display()));
    let again = bytecode::read(&written).unwrap_or_else(|error| panic!("{}: {error}", artifact.display()));
    assert_same(&again, &module, artifact);
    assert_same(&comparable(module), &parse(text), artifact);
}

#[test]
fn every_version_reads_as_its_text() {
    let mut checked = 0;
    for program in ["program", "newer", "sharded", "resources"] {
        for path in golden_files(&data(), ".mlir.bc") {
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{program}."))) {
                check(&path, &data().join(format!("{program}.mlir")));
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 13);
}

#[test]
fn an_artifact_says_what_it_is() {
    let bytes = artifact("program.0_14_0.mlir.bc");
    assert!(bytecode::is_bytecode(&bytes));
    let about = bytecode::artifact(&bytes).unwrap();
    assert_eq!(about.producer, "StableHLO_v0.14.0");
    assert_eq!(about.bytecode_version, 4);
    assert_eq!(about.stablehlo_version, Some((0, 14, 0)));
    let plain = bytecode::artifact(&artifact("program.plain.mlir.bc")).unwrap();
    assert_eq!(plain.stablehlo_version, None);
    assert!(!bytecode::is_bytecode(b"module {}"));
    assert!(bytecode::artifact(b"module {}").is_err());
}

#[test]
fn locations_are_read() {
    let module = bytecode::read(&artifact("program.1_17_0.mlir.bc")).unwrap();
    let main = module.func("main").unwrap();
    let position = main.ops[0].loc.as_ref().and_then(|loc| loc.file_position());
    assert!(matches!(position, Some(("-", line, column)) if line > 1 && column > 1), "{position:?}");
}

#[test]
fn a_program_is_written_at_the_version_it_needs() {
    let written = |name: &str| {
        let bytes = bytecode::write(&bytecode::read(&artifact(name)).unwrap()).unwrap();
        bytecode::artifact(&bytes).unwrap().stablehlo_version
    };
    assert_eq!(written("program.0_9_0.mlir.bc"), Some((1, 10, 0)));
    let sent = text::parse(
        r#"func.func @f(%a: tensor<f32>, %t: !stablehlo.token) -> !stablehlo.token {
            %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
              source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
              : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
            return %0 : !stablehlo.token
        }"#,
    )
    .unwrap();
    let bytes = bytecode::write(&sent).unwrap();
    assert_eq!(bytecode::artifact(&bytes).unwrap().stablehlo_version, Some((1, 12, 0)));
    assert_eq!(comparable(bytecode::read(&bytes).unwrap()), comparable(sent));
}

#[test]
fn ops_of_other_dialects_are_kept() {
    let module = text::parse(
        r#"func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
            %0 = "other.op"(%a) {note = "x", of = @f} : (tensor<2xf32>) -> tensor<2xf32>
            return %0 : tensor<2xf32>
        }"#,
    )
    .unwrap();
    assert!(matches!(&module.funcs[0].ops[0].name, OpName::Extern(name) if &**name == "other.op"));
    let again = bytecode::read(&bytecode::write(&module).unwrap()).unwrap();
    assert_eq!(comparable(again), comparable(module));
}

#[test]
fn mutated_artifacts_are_refused_not_obeyed() {
    let seeds = golden_files(&data(), ".mlir.bc").iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut mutator = Mutator::new(7, seeds);
    let mut refused = 0;
    for _ in 0..4000 {
        match bytecode::read(&mutator.next_input()) {
            Ok(module) => drop(bytecode::write(&module)),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 2000, "only {refused} of 4000 mutations were noticed");
}

#[test]
fn every_cut_is_refused() {
    let bytes = artifact("program.1_17_0.mlir.bc");
    for length in 0..bytes.len() {
        assert!(bytecode::read(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
}

/// A container of one module whose only attribute is built up from `entries`, each an array of two of the one before.
fn nested_arrays(levels: u64) -> Vec<u8> {
    let byte = |value: u64| (value << 1 | 1) as u8;
    let varint = |value: u64| [(value << 2 | 2) as u8, (value >> 6) as u8];
    let mut out = b"ML\xefR\x0dtest\0".to_vec();
    let mut section = |kind: u8, data: &[u8]| {
        out.push(kind);
        out.extend(varint(data.len() as u64));
        out.extend(data);
    };
    let strings = b"builtin\0module\0a\0";
    let mut data = vec![byte(3), byte(2), byte(7), byte(8)];
    data.extend(strings);
    section(0, &data);
    section(1, &[byte(1), byte(0), byte(1), byte(0), byte(1), byte(1 << 1 | 1)]);
    // Attribute 0: unknown location; 1: string `a`; 2: dictionary {a = last}; 3: unit; then the arrays.
    let mut entries = vec![vec![byte(15)], vec![byte(2), byte(2)]];
    let mut dictionary = vec![byte(1), byte(1), byte(1)];
    dictionary.extend(varint(3 + levels));
    entries.push(dictionary);
    entries.push(vec![byte(7)]);
    for level in 0..levels {
        let inner = varint(3 + level);
        entries.push([&[byte(0), byte(2)][..], &inner, &inner].concat());
    }
    section(2, &entries.concat());
    let mut offsets = varint(entries.len() as u64).to_vec();
    offsets.extend([byte(0), byte(0)]);
    offsets.extend(varint(entries.len() as u64));
    entries.iter().for_each(|entry| offsets.push(byte((entry.len() as u64) << 1 | 1)));
    section(3, &offsets);
    // One op: name 0, attributes and a region of one empty block.
    let body = [byte(1), byte(0), byte(0)];
    let mut ir = vec![byte(2), byte(0), 0x11, byte(0), byte(2), byte(1 << 1 | 1), 4];
    ir.extend(varint(body.len() as u64));
    ir.extend(body);
    section(4, &ir);
    out
}

#[test]
fn shared_attributes_do_not_explode() {
    let small = bytecode::read(&nested_arrays(5)).unwrap();
    assert!(small.attrs.get("a").is_some());
    assert!(matches!(bytecode::read(&nested_arrays(60)), Err(Error::Limit { .. })));
    assert!(matches!(bytecode::read(&nested_arrays(400)), Err(Error::Limit { .. })));
}

#[test]
fn the_corpus_reads_as_its_text() {
    let Some(corpus) = require("the_corpus_reads_as_its_text", Needed::Corpus) else { return };
    let artifacts = golden_files(&corpus, ".mlir.bc");
    assert!(!artifacts.is_empty(), "{} has no artifacts", corpus.display());
    for path in artifacts {
        check(&path, &path.with_extension(""));
    }
}

#[test]
fn every_released_version_is_read() {
    let Some(suite) = require("every_released_version_is_read", Needed::Conformance) else { return };
    let artifacts = golden_files(&suite.join("vhlo"), ".mlir.bc");
    assert!(artifacts.len() > 30, "{} artifacts", artifacts.len());
    for path in artifacts {
        if path.to_string_lossy().contains("future") {
            let error = bytecode::read(&std::fs::read(&path).unwrap()).unwrap_err().to_string();
            assert!(error.contains("vhlo.constant_v99") && error.contains("newer"), "{error}");
            continue;
        }
        let module = read(&path);
        let again = bytecode::read(&bytecode::write(&module).unwrap()).unwrap();
        assert_same(&again, &module, &path);
    }
}
