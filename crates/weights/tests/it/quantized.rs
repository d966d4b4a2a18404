//! Quantized models as their own tools wrote them: read to the numbers that these tools make of them, to the last bit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tensor::{DType, Literal};
use testkit::{Needed, require};
use weights::SafeTensorsFolder;
use weights::quant::{QuantizedFolder, QuantizedWeight, Storage};

/// The folders of cases whose names begin so.
fn cases(test: &str, prefix: &str) -> Vec<PathBuf> {
    let Some(folder) = require(test, Needed::Quantized) else { return Vec::new() };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let is_case = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    let mut found: Vec<PathBuf> = entries.filter(is_case).map(|entry| entry.path()).collect();
    assert!(!found.is_empty(), "no case begins with {prefix}");
    found.sort();
    found
}

/// The dense parameters as the tool has them.
fn expected(case: &Path) -> BTreeMap<String, Literal> {
    let file = SafeTensorsFolder::open(&case.join("expected.safetensors")).unwrap();
    let names: Vec<String> = file.entries().map(|(name, _)| name.to_string()).collect();
    let kept = names.into_iter().filter(|name| name != "logits" && name != "tokens");
    kept.map(|name| (name.clone(), file.read(&name).unwrap())).collect()
}

/// Distance of two floats in units of the last place.
fn units_apart(first: f32, second: f32) -> u32 {
    let ordered = |value: f32| {
        let bits = value.to_bits() as i32;
        if bits < 0 { i32::MIN - bits } else { bits }
    };
    ordered(first).abs_diff(ordered(second))
}

/// A weight as a dense tensor of a type.
fn dense(weight: &QuantizedWeight, dtype: DType) -> Literal {
    match weight {
        QuantizedWeight::Dense(literal) => literal.cast(dtype).unwrap(),
        QuantizedWeight::Packed(matrix) => matrix.to_literal(dtype).unwrap(),
        QuantizedWeight::Codebook(matrix) => {
            assert_eq!(matrix.dense(), dtype);
            matrix.to_literal(dtype).unwrap()
        }
    }
}

/// Every parameter of a model is what its tool says, at most so many units of the last place away.
fn check(case: &Path, model: &Path, units: u32) {
    let folder = QuantizedFolder::open(model).unwrap();
    let expected = expected(case);
    let names: Vec<&str> = folder.names().collect();
    assert_eq!(names, expected.keys().map(String::as_str).collect::<Vec<_>>(), "{}", case.display());
    for (name, wanted) in &expected {
        let spec = folder.spec(name).unwrap();
        assert_eq!(spec.dims, wanted.dims(), "{} {name}", case.display());
        let weight = folder.read(name).unwrap();
        if let (Storage::Packed(spec), QuantizedWeight::Packed(matrix)) = (&spec.storage, &weight) {
            assert_eq!(*spec, matrix.spec(), "{} {name}", case.display());
            assert_eq!(spec.dense, wanted.dtype(), "{} {name}", case.display());
        }
        let found = dense(&weight, wanted.dtype());
        if found == *wanted {
            continue;
        }
        let values = |literal: &Literal| literal.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
        for (place, (found, wanted)) in values(&found).into_iter().zip(values(wanted)).enumerate() {
            let apart = units_apart(found, wanted);
            assert!(apart <= units, "{} {name} at {place}: {found} is not {wanted}, {apart} units", case.display());
        }
    }
}

#[test]
fn compressed_tensors_are_read_to_the_bit() {
    for case in cases("compressed_tensors", "compressed-") {
        check(&case, &case, 0);
    }
}

#[test]
fn gptq_awq_and_fp8_are_read_to_the_bit() {
    for prefix in ["gptq-", "awq-", "fp8-"] {
        for case in cases("gptq_awq_and_fp8", prefix) {
            check(&case, &case, 0);
        }
    }
}

#[test]
fn bitsandbytes_and_gpt_oss_are_read_to_the_bit() {
    for case in cases("bitsandbytes_and_gpt_oss", "bitsandbytes-").into_iter().chain(cases("gpt_oss", "gpt-oss")) {
        // The tool multiplies by the largest value of a row, then by 1/127: twice rounded.
        let units = if case.ends_with("bitsandbytes-int8") { 1 } else { 0 };
        check(&case, &case, units);
    }
}

#[test]
fn gguf_is_read_to_the_bit() {
    for case in cases("gguf", "gguf-") {
        let file = case.join("model.gguf");
        check(&case, &file, 0);
        // The configuration is the one that the model was made with.
        let model = QuantizedFolder::open(&file).unwrap();
        let text = std::fs::read_to_string(case.join("config.json")).unwrap();
        let wanted: Value = serde_json::from_str(&text).unwrap();
        for (key, found) in model.config().unwrap().as_object().unwrap() {
            assert_eq!(Some(found), wanted.get(key), "{} {key}", case.display());
        }
        let metadata = model.gguf().unwrap().metadata();
        assert_eq!(metadata["tokenizer.ggml.tokens"].as_list().unwrap()[7].as_text(), Some("token 7"));
    }
}

#[test]
fn codebooks_are_read_to_the_bit() {
    for case in cases("codebooks", "aqlm-").into_iter().chain(cases("codebooks", "vptq")) {
        check(&case, &case, 0);
    }
}
