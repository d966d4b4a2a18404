//! Quantized models that we write: the tools that define the formats read them to the same numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::{Needed, Random, repository, require};
use weights::quant::gguf::{GgmlType, GgufFile};
use weights::quant::{
    CompressedGroup, Inputs, PackedMatrix, QuantizedFolder, QuantizedWeight, ScaleBlock, ScaleEncoding, ScaleStrategy,
    compressed_tensors_config,
};
use weights::{SafeTensors, write};

use crate::quantized_seeds::{llama_config, llama_entries, llama_weight, matrix, write_llama};

/// What their tools make of models, each written to a file; what they print. In one process: importing them takes longest.
fn read_back(python: &Path, models: &[(&Path, &Path)]) -> String {
    let script = repository().join("crates/testkit/python/read_quantized.py");
    let paths = models.iter().flat_map(|(model, dense)| [model, dense]);
    let output = Command::new(python).arg(script).args(paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn group(targets: &[&str], bits: u32, strategy: ScaleStrategy, inputs: Inputs) -> CompressedGroup {
    let targets = targets.iter().map(|target| target.to_string()).collect();
    CompressedGroup { targets, bits, is_float: false, is_symmetric: true, strategy, inputs }
}

/// A matrix of a module for every way of writing, with the group that says how.
fn written() -> Vec<(String, CompressedGroup, PackedMatrix)> {
    let random = &mut Random::new(9);
    let (by_group, by_channel) =
        (ScaleBlock { out_features: 1, in_features: 32 }, ScaleBlock { out_features: 1, in_features: 64 });
    let mut found = Vec::new();
    let mut put = |name: &str, group: CompressedGroup, matrix: PackedMatrix| {
        // Scales of files have this type; ours are numbers of it.
        found.push((name.to_string(), group, matrix.with_dense(DType::BF16).unwrap()));
    };
    let int8 = matrix(DType::I8, 40, 64, by_channel, random);
    put("a.int8", group(&["re:.*int8$"], 8, ScaleStrategy::Channel, Inputs::Dynamic), int8.clone());
    put("a.int8_alone", group(&["re:.*int8_alone"], 8, ScaleStrategy::Channel, Inputs::Float), int8);
    put(
        "a.int4",
        group(&["re:.*int4$"], 4, ScaleStrategy::Channel, Inputs::Float),
        matrix(DType::I4, 40, 64, by_channel, random),
    );
    let int4 = matrix(DType::I4, 40, 64, by_group, random);
    put("a.int4_groups", group(&["re:.*int4_groups"], 4, ScaleStrategy::Group(32), Inputs::Float), int4.clone());
    let zeros = (0..80).map(|n| (n % 16) as i8 - 8).collect();
    let asymmetric = CompressedGroup {
        is_symmetric: false,
        ..group(&["re:.*int4_zeros"], 4, ScaleStrategy::Group(32), Inputs::Float)
    };
    put("a.int4_zeros", asymmetric, int4.with_zero_points(zeros).unwrap());
    let three = matrix(DType::I2, 40, 64, by_group, random);
    put("a.int2", group(&["re:.*int2"], 2, ScaleStrategy::Group(32), Inputs::Float), three);
    let float =
        |targets: &[&str], strategy, inputs| CompressedGroup { is_float: true, ..group(targets, 8, strategy, inputs) };
    let fp8 = matrix(DType::F8E4M3FN, 40, 64, by_channel, random);
    put("a.fp8", float(&["re:.*fp8$"], ScaleStrategy::Channel, Inputs::Dynamic), fp8);
    let whole = matrix(DType::F8E4M3FN, 40, 64, ScaleBlock { out_features: 40, in_features: 64 }, random);
    put(
        "a.fp8_static",
        float(&["re:.*fp8_static"], ScaleStrategy::Tensor, Inputs::Static),
        whole.with_input_scale(0.25).unwrap(),
    );
    let blocks = matrix(DType::F8E4M3FN, 40, 64, ScaleBlock { out_features: 32, in_features: 32 }, random);
    let fp4 = |targets: &[&str], size| CompressedGroup {
        is_float: true,
        ..group(targets, 4, ScaleStrategy::Group(size), Inputs::Float)
    };
    put("a.nvfp4", fp4(&["re:.*nvfp4"], 16), fp4_matrix(16, ScaleEncoding::Fp8Over(1344.0 / 0.7), random));
    put("a.mxfp4", fp4(&["re:.*mxfp4"], 32), fp4_matrix(32, ScaleEncoding::PowersOfTwo, random));
    put("a.fp8_blocks", float(&["re:.*fp8_blocks"], ScaleStrategy::ScaleBlock(32, 32), Inputs::Dynamic), blocks);
    found
}

/// A matrix of floats of 4 bits, with scales of an encoding.
fn fp4_matrix(size: usize, encoding: ScaleEncoding, random: &mut Random) -> PackedMatrix {
    let codes = (0..40 * 64).map(|_| random.below(16) as u8).collect();
    let scale = |n: usize| match encoding {
        ScaleEncoding::Fp8Over(global) => (1.0 + (n % 8) as f32 / 8.0) * 2f32.powi((n % 12) as i32 - 4) / global,
        _ => 2f32.powi((n % 20) as i32 - 14),
    };
    let scales = (0..40 * 64 / size).map(scale).collect();
    let block = ScaleBlock { out_features: 1, in_features: size };
    let matrix = PackedMatrix::new(40, 64, DType::F4E2M1FN, codes, block, scales).unwrap();
    matrix.with_scale_encoding(encoding).unwrap()
}

/// A folder with a matrix of every way of writing.
fn write_compressed(folder: &Path, written: &[(String, CompressedGroup, PackedMatrix)]) {
    let groups: Vec<CompressedGroup> = written.iter().map(|(_, group, _)| group.clone()).collect();
    let quantization = compressed_tensors_config(&groups, &["lm_head".into()]);
    let config = json!({ "model_type": "llama", "quantization_config": quantization });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let tensors: Vec<(String, Literal)> =
        written.iter().flat_map(|(module, group, matrix)| group.tensors(module, matrix).unwrap()).collect();
    let tensors = tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    write(&folder.join("model.safetensors"), tensors, &BTreeMap::new()).unwrap();
}

/// A whole model as it is read, written again.
fn write_again(model: &QuantizedFolder, folder: &Path) {
    let groups = [
        group(&["Linear"], 4, ScaleStrategy::Group(32), Inputs::Float),
        group(&["re:.*down_proj"], 8, ScaleStrategy::Channel, Inputs::Float),
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
    let mut config = model.config().unwrap().clone();
    config["quantization_config"] = compressed_tensors_config(&groups, &["lm_head".into()]);
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let tensors = tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    write(&folder.join("model.safetensors"), tensors, &metadata).unwrap();
}

fn floats(weight: &QuantizedWeight) -> Vec<f32> {
    match weight {
        QuantizedWeight::Dense(literal) => literal.cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        QuantizedWeight::Packed(matrix) => matrix.dequantize(),
        QuantizedWeight::Codebook(matrix) => matrix.dequantize(),
    }
}

#[test]
fn we_read_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let written = written();
    write_compressed(folder.path(), &written);
    let model = QuantizedFolder::open(folder.path()).unwrap();
    for (module, _, matrix) in &written {
        let read = model.read(&format!("{module}.weight")).unwrap();
        assert_eq!(read, QuantizedWeight::Packed(matrix.clone()), "{module}");
    }
    let path = folder.path().join("model.gguf");
    write_llama(&path);
    let model = QuantizedFolder::open(&path).unwrap();
    assert_eq!(model.names().count(), llama_entries().len());
    for entry in llama_entries() {
        let (read, expected) = (floats(&model.read(&entry.name).unwrap()), floats(&llama_weight(&entry)));
        // Codes and scales are kept; floats of 16 bits are rounded.
        let tolerance = if entry.kind == GgmlType::BF16 { 1.0 / 128.0 } else { 0.0 };
        let is_near = |(read, expected): (&f32, &f32)| (read - expected).abs() <= tolerance * expected.abs();
        assert!(read.iter().zip(&expected).all(is_near), "{}", entry.name);
        assert_eq!(read.len(), expected.len());
    }
    for (key, value) in llama_config().as_object().unwrap() {
        assert_eq!(model.config().unwrap().get(key), Some(value), "{key}");
    }
}

#[test]
fn their_tools_read_what_we_write() {
    let Some(cases) = require("their_tools_read_what_we_write", Needed::Quantized) else { return };
    let Some(python) = require("their_tools_read_what_we_write", Needed::QuantizePython) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (parts, whole, gguf) = (at("parts"), at("whole"), at("model.gguf"));
    std::fs::create_dir(&parts).unwrap();
    std::fs::create_dir(&whole).unwrap();
    let written = written();
    write_compressed(&parts, &written);
    let case = cases.join("compressed-mixed");
    write_again(&QuantizedFolder::open(&case).unwrap(), &whole);
    write_llama(&gguf);
    let (of_parts, of_whole, of_gguf) = (at("parts.dense"), at("whole.dense"), at("gguf.dense"));
    let printed = read_back(&python, &[(&parts, &of_parts), (&whole, &of_whole), (&gguf, &of_gguf)]);

    // compressed-tensors has the same numbers.
    let dense = SafeTensors::open(&of_parts).unwrap();
    for (module, _, matrix) in &written {
        let theirs = dense.read(&format!("{module}.weight")).unwrap();
        assert_eq!(theirs, matrix.to_literal(DType::BF16).unwrap(), "{module}");
    }
    // transformers has the logits of the dense model.
    let logits = |path: &Path| SafeTensors::open(path).unwrap().read("logits").unwrap().to_vec::<f32>().unwrap();
    let (found, wanted) = (logits(&of_whole), logits(&case.join("expected.safetensors")));
    assert_eq!(found.len(), wanted.len());
    let largest = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-3, "{largest}");
    // The `gguf` package has the same numbers and metadata.
    let metadata: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(metadata["general.architecture"], json!("llama"));
    assert_eq!(metadata["llama.attention.head_count_kv"], json!(1));
    let (dense, file) = (SafeTensors::open(&of_gguf).unwrap(), GgufFile::open(&gguf).unwrap());
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
    let block = ScaleBlock { out_features: 1, in_features: 32 };
    let check = |group: CompressedGroup, matrix: &PackedMatrix, expected: &str| {
        let error = group.tensors("m", matrix).unwrap_err();
        assert!(error.to_string().contains(expected) && error.to_string().contains("`m`"), "{error}");
    };
    let four = matrix(DType::I4, 8, 64, block, random);
    check(group(&["Linear"], 8, ScaleStrategy::Group(32), Inputs::Float), &four, "codes of i4");
    check(group(&["Linear"], 4, ScaleStrategy::Channel, Inputs::Float), &four, "not by Channel");
    check(group(&["Linear"], 4, ScaleStrategy::Group(32), Inputs::Static), &four, "no scale of inputs");
    let fp4 =
        |size, inputs| CompressedGroup { is_float: true, ..group(&["Linear"], 4, ScaleStrategy::Group(size), inputs) };
    let mxfp4 = fp4_matrix(32, ScaleEncoding::PowersOfTwo, random);
    check(fp4(32, Inputs::Dynamic), &mxfp4, "no format of compressed-tensors");
    check(fp4(16, Inputs::Float), &mxfp4, "no format of compressed-tensors");
    check(fp4(32, Inputs::Float), &four, "codes of i4");
    assert!(mxfp4.with_scale_encoding(ScaleEncoding::Fp8Over(0.0)).is_err(), "no scale is over zero");
    let with_minima = four.clone().with_minima(vec![0.5; 16]).unwrap();
    check(group(&["Linear"], 4, ScaleStrategy::Group(32), Inputs::Float), &with_minima, "minima");
    let in_order = four.with_input_groups((0..64).map(|input| input % 2).collect()).unwrap();
    check(group(&["Linear"], 4, ScaleStrategy::Group(32), Inputs::Float), &in_order, "act-order");
}
