//! Quantized models that we write: the tools that define the formats read them to the same numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::{Needed, Random, repository, require};
use weights::quant::gguf::{GgmlType, GgufFile};
use weights::quant::{
    Block, CompressedGroup, Inputs, PackedMatrix, QuantizedFolder, QuantizedWeight, Strategy, compressed_tensors_config,
};
use weights::{SafeTensors, write};

use crate::quantized_seeds::{llama_config, llama_entries, llama_weight, matrix, write_llama};

/// What their tools make of a folder or file; what they print.
fn read_back(python: &Path, model: &Path, target: &Path, options: &[&str]) -> String {
    let script = repository().join("crates/testkit/python/read_quantized.py");
    let output = Command::new(python).arg(script).arg(model).arg(target).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn group(targets: &[&str], bits: u32, strategy: Strategy, inputs: Inputs) -> CompressedGroup {
    let targets = targets.iter().map(|target| target.to_string()).collect();
    CompressedGroup { targets, bits, is_float: false, is_symmetric: true, strategy, inputs }
}

/// A matrix of a module for every way of writing, with the group that says how.
fn written() -> Vec<(String, CompressedGroup, PackedMatrix)> {
    let random = &mut Random::new(9);
    let (by_group, by_channel) =
        (Block { out_features: 1, in_features: 32 }, Block { out_features: 1, in_features: 64 });
    let mut found = Vec::new();
    let mut put = |name: &str, group: CompressedGroup, matrix: PackedMatrix| {
        // Scales of files have this type; ours are numbers of it.
        found.push((name.to_string(), group, matrix.with_dense(DType::BF16).unwrap()));
    };
    let int8 = matrix(DType::I8, 40, 64, by_channel, random);
    put("a.int8", group(&["re:.*int8$"], 8, Strategy::Channel, Inputs::Dynamic), int8.clone());
    put("a.int8_alone", group(&["re:.*int8_alone"], 8, Strategy::Channel, Inputs::Float), int8);
    put(
        "a.int4",
        group(&["re:.*int4$"], 4, Strategy::Channel, Inputs::Float),
        matrix(DType::I4, 40, 64, by_channel, random),
    );
    let int4 = matrix(DType::I4, 40, 64, by_group, random);
    put("a.int4_groups", group(&["re:.*int4_groups"], 4, Strategy::Group(32), Inputs::Float), int4.clone());
    let zeros = (0..80).map(|n| (n % 16) as i8 - 8).collect();
    let asymmetric =
        CompressedGroup { is_symmetric: false, ..group(&["re:.*int4_zeros"], 4, Strategy::Group(32), Inputs::Float) };
    put("a.int4_zeros", asymmetric, int4.with_zero_points(zeros).unwrap());
    let three = matrix(DType::I2, 40, 64, by_group, random);
    put("a.int2", group(&["re:.*int2"], 2, Strategy::Group(32), Inputs::Float), three);
    let float =
        |targets: &[&str], strategy, inputs| CompressedGroup { is_float: true, ..group(targets, 8, strategy, inputs) };
    let fp8 = matrix(DType::F8E4M3FN, 40, 64, by_channel, random);
    put("a.fp8", float(&["re:.*fp8$"], Strategy::Channel, Inputs::Dynamic), fp8);
    let whole = matrix(DType::F8E4M3FN, 40, 64, Block { out_features: 40, in_features: 64 }, random);
    put(
        "a.fp8_static",
        float(&["re:.*fp8_static"], Strategy::Tensor, Inputs::Static),
        whole.with_input_scale(0.25).unwrap(),
    );
    let blocks = matrix(DType::F8E4M3FN, 40, 64, Block { out_features: 32, in_features: 32 }, random);
    put("a.fp8_blocks", float(&["re:.*fp8_blocks"], Strategy::Block(32, 32), Inputs::Dynamic), blocks);
    found
}

#[test]
fn their_tool_reads_our_compressed_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let written = written();
    let groups: Vec<CompressedGroup> = written.iter().map(|(_, group, _)| group.clone()).collect();
    let config = json!({ "model_type": "llama", "quantization_config": compressed_tensors_config(&groups, &["lm_head".into()]) });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let tensors: Vec<(String, Literal)> =
        written.iter().flat_map(|(module, group, matrix)| group.tensors(module, matrix).unwrap()).collect();
    let path = folder.path().join("model.safetensors");
    write(&path, tensors.iter().map(|(name, literal)| (name.as_str(), literal)), &BTreeMap::new()).unwrap();

    // We read it to the same matrices.
    let model = QuantizedFolder::open(folder.path()).unwrap();
    for (module, _, matrix) in &written {
        let read = model.read(&format!("{module}.weight")).unwrap();
        assert_eq!(read, QuantizedWeight::Packed(matrix.clone()), "{module}");
    }
    let Some(python) = require("their_tool_reads_our_compressed_tensors", Needed::QuantizePython) else { return };
    let dense = folder.path().join("dense");
    read_back(&python, folder.path(), &dense, &[]);
    let dense = SafeTensors::open(&dense).unwrap();
    for (module, _, matrix) in &written {
        let theirs = dense.read(&format!("{module}.weight")).unwrap();
        assert_eq!(theirs, matrix.to_literal(DType::BF16).unwrap(), "{module}");
    }
}

/// A whole model, read and written again: transformers loads it and computes the logits of the dense model.
#[test]
fn transformers_loads_what_we_write() {
    let Some(cases) = require("transformers_loads_what_we_write", Needed::Quantized) else { return };
    let Some(python) = require("transformers_loads_what_we_write", Needed::QuantizePython) else { return };
    let case = cases.join("compressed-mixed");
    let model = QuantizedFolder::open(&case).unwrap();
    let groups = [
        group(&["Linear"], 4, Strategy::Group(32), Inputs::Float),
        group(&["re:.*down_proj"], 8, Strategy::Channel, Inputs::Float),
    ];
    let mut tensors = Vec::new();
    for name in model.names() {
        match model.read(name).unwrap() {
            QuantizedWeight::Packed(matrix) => {
                let module = name.strip_suffix(".weight").unwrap();
                tensors.extend(groups[usize::from(module.ends_with("down_proj"))].tensors(module, &matrix).unwrap());
            }
            QuantizedWeight::Dense(literal) => tensors.push((name.to_string(), literal)),
            QuantizedWeight::Codebook(_) => panic!("{name}"),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut config = model.config().unwrap().clone();
    config["quantization_config"] = compressed_tensors_config(&groups, &["lm_head".into()]);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let path = folder.path().join("model.safetensors");
    write(&path, tensors.iter().map(|(name, literal)| (name.as_str(), literal)), &metadata).unwrap();
    let dense = folder.path().join("dense");
    read_back(&python, folder.path(), &dense, &["--model"]);
    let logits = |path: &Path| SafeTensors::open(path).unwrap().read("logits").unwrap().to_vec::<f32>().unwrap();
    let (found, wanted) = (logits(&dense), logits(&case.join("expected.safetensors")));
    assert_eq!(found.len(), wanted.len());
    let largest = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-3, "{largest}");
}

#[test]
fn their_tool_reads_our_gguf() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write_llama(&path);
    let floats = |weight: &QuantizedWeight| match weight {
        QuantizedWeight::Dense(literal) => literal.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        QuantizedWeight::Packed(matrix) => matrix.dequantize(),
        QuantizedWeight::Codebook(matrix) => matrix.dequantize(),
    };
    // We read it to the same numbers under the same names: scales fit into 16 bits, floats of 16 bits are rounded.
    let model = QuantizedFolder::open(&path).unwrap();
    let names: Vec<String> = model.names().map(str::to_string).collect();
    assert_eq!(names.len(), llama_entries().len());
    for entry in llama_entries() {
        let read = model.read(&entry.name).unwrap();
        let expected = llama_weight(&entry);
        match entry.kind.name() {
            "F16" => assert_eq!(floats(&read).len(), floats(&expected).len()),
            "BF16" => assert_eq!(floats(&read).len(), floats(&expected).len()),
            _ => assert_eq!(floats(&read), floats(&expected), "{}", entry.name),
        }
    }
    for (key, value) in llama_config().as_object().unwrap() {
        assert_eq!(model.config().unwrap().get(key), Some(value), "{key}");
    }
    let Some(python) = require("their_tool_reads_our_gguf", Needed::QuantizePython) else { return };
    let dense = folder.path().join("dense");
    let printed: Value = serde_json::from_str(read_back(&python, &path, &dense, &[]).lines().last().unwrap()).unwrap();
    assert_eq!(printed["general.architecture"], json!("llama"));
    assert_eq!(printed["llama.attention.head_count_kv"], json!(1));
    let (dense, file) = (SafeTensors::open(&dense).unwrap(), GgufFile::open(&path).unwrap());
    assert_eq!(dense.entries().len(), file.tensors().len());
    for name in file.tensors().keys() {
        let theirs = dense.read(name).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(theirs, floats(&file.read(name).unwrap()), "{name}");
    }
}

#[test]
fn floats_become_the_blocks_of_their_reference() {
    use weights::quant::gguf::{GgufEntry, llama_metadata, write_gguf};

    let Some(folder) = require("floats_become_the_blocks", Needed::Quantized) else { return };
    let metadata = llama_metadata(&llama_config()).unwrap();
    for kind in [GgmlType::Q4_0, GgmlType::Q8_0] {
        // The same model, quantized by the `gguf` package.
        let theirs = QuantizedFolder::open(&folder.join(format!("gguf-{}", kind.name())).join("model.gguf")).unwrap();
        let floats = SafeTensors::open(&folder.join("gguf-F32/expected.safetensors")).unwrap();
        let name = "model.layers.1.mlp.down_proj.weight";
        let dims = floats.entries()[name].dims.clone();
        let target = tempfile::tempdir().unwrap();
        let path = target.path().join("model.gguf");
        let entries = [
            GgufEntry { name: name.into(), dims: dims.clone(), kind },
            GgufEntry { name: "model.embed_tokens.weight".into(), dims: vec![4, 32], kind: GgmlType::F32 },
        ];
        write_gguf(&path, &metadata, &entries, |name| {
            Ok(QuantizedWeight::Dense(match name {
                "model.embed_tokens.weight" => Literal::zeros(DType::F32, [4, 32]).unwrap(),
                _ => floats.read(name)?,
            }))
        })
        .unwrap();
        let ours = QuantizedFolder::open(&path).unwrap();
        assert_eq!(ours.read(name).unwrap(), theirs.read(name).unwrap(), "{}", kind.name());
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    let random = &mut Random::new(1);
    let block = Block { out_features: 1, in_features: 32 };
    let check = |group: CompressedGroup, matrix: &PackedMatrix, expected: &str| {
        let error = group.tensors("m", matrix).unwrap_err();
        assert!(error.to_string().contains(expected) && error.to_string().contains("`m`"), "{error}");
    };
    let four = matrix(DType::I4, 8, 64, block, random);
    check(group(&["Linear"], 8, Strategy::Group(32), Inputs::Float), &four, "codes of i4");
    check(group(&["Linear"], 4, Strategy::Channel, Inputs::Float), &four, "not by Channel");
    check(group(&["Linear"], 4, Strategy::Group(32), Inputs::Static), &four, "no scale of inputs");
    let with_minima = four.clone().with_minima(vec![0.5; 16]).unwrap();
    check(group(&["Linear"], 4, Strategy::Group(32), Inputs::Float), &with_minima, "minima");
    let in_order = four.with_input_groups((0..64).map(|input| input % 2).collect()).unwrap();
    check(group(&["Linear"], 4, Strategy::Group(32), Inputs::Float), &in_order, "act-order");
}
