//! Quantized models as their own tools wrote them, kept quantized on the device: the logits of transformers on the dequantized model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nn::hf::{self, DenseOrder, FileBlocks, ModelConfig, ParameterReader, WeightChange};
use nn::models::{LanguageModel, Llama, RunOptions};
use nn::quant::{ActivationQuant, InputAxis, MapWeights, QuantScheme, Weight, ZeroPoints, nearest_codes};
use tensor::{DType, Literal};
use testkit::{Needed, require};
use trace::{Key, Spec, Tensor, Tree};
use weights::SafeTensors;
use weights::quant::{
    CompressedGroup, Inputs, PackedMatrix, QuantizedFolder, ScaleBlock, ScaleStrategy, compressed_tensors_config,
};

use crate::harness::{apply, floats, of_ints, off_by, shape_of, with_key};

/// Folders of whole models, with the logits that transformers has for the dequantized weights.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let has_logits = |path: &PathBuf| {
        let file = SafeTensors::open(&path.join("expected.safetensors"));
        file.is_ok_and(|file| file.entries().contains_key("logits"))
    };
    let mut found: Vec<PathBuf> = entries.filter(has_logits).collect();
    found.sort();
    found
}

/// Whether matrices of the files are in blocks that a device keeps.
fn has_blocks(files: &QuantizedFolder) -> bool {
    files.names().any(|name| files.block_format(name).is_some())
}

/// How far the logits of a case are off, how far they may be, and whether weights had to be rounded to other codes.
fn compared(case: &Path, blocks: FileBlocks) -> (f32, f32, bool) {
    let gguf = case.join("model.gguf");
    let files = QuantizedFolder::open(if gguf.is_file() { &gguf } else { case }).unwrap();
    let config = ModelConfig::parse(&files.config().unwrap().to_string()).unwrap();
    let ModelConfig::Llama(sizes) = &config else { panic!("{} is no Llama", case.display()) };
    let key = Tensor::of(Spec::new(DType::U32, [2]));
    let model = trace::shapes_of(&key, |key| Llama::init(&Key::from_data(key), sizes, &RunOptions::default())).unwrap();
    let mut reader =
        ParameterReader::open_blocks(&files, config.family(), &model, ActivationQuant::None, DenseOrder::InOut, blocks)
            .unwrap();
    let paths = reader.model().paths();
    let has_kept = paths.iter().any(|path| path.ends_with(".blocks"));
    assert_eq!(has_kept, blocks == FileBlocks::Kept && has_blocks(&files), "{}", case.display());
    let mut inputs: Vec<Literal> = paths.iter().map(|path| reader.read(path).unwrap()).collect();
    let (loaded, weights) = reader.finish();
    let peer = SafeTensors::open(&case.join("expected.safetensors")).unwrap();
    let (tokens, expected) = (peer.read("tokens").unwrap(), peer.read("logits").unwrap());
    let tokens = Literal::new(tokens.dtype(), [1, tokens.num_elements()], tokens.into_bytes()).unwrap();
    inputs.push(tokens.clone());
    let outputs = apply(&(loaded, shape_of(&tokens)), &inputs, |(model, tokens)| model.logits(tokens));
    let is_rounded = weights.iter().any(|weight| matches!(weight.change, WeightChange::Requantized(_)));
    // The tools round each weight to the type they give; codes and scales on a device do not.
    let most = match peer.entries()["model.layers.0.mlp.down_proj.weight"].dtype {
        _ if is_rounded => 0.05,
        DType::F32 => 1e-4,
        DType::F16 => 5e-3,
        _ => 0.02,
    };
    (off_by(&floats(&outputs[0]), &floats(&expected)), most, is_rounded)
}

#[test]
fn quantized_models_have_the_logits_of_their_dequantized_ones() {
    let test = "quantized_models_have_the_logits_of_their_dequantized_ones";
    let Some(folder) = require(test, Needed::Quantized) else { return };
    let cases = cases(&folder);
    assert!(cases.len() > 40, "only {} cases", cases.len());
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let (off, most, is_rounded) = compared(&case, FileBlocks::Unpacked);
        assert!(off < most, "{name}: off by {off}");
        if case.join("model.gguf").is_file() {
            let (off, most, _) = compared(&case, FileBlocks::Kept);
            assert!(off < most, "{name} in blocks: off by {off}");
        }
        // Tables of levels become codes of 8 bits.
        assert_eq!(is_rounded, name.starts_with("bitsandbytes-nf4") || name.starts_with("bitsandbytes-fp4"), "{name}");
    }
}

/// Gemma 3, so that a segment may begin at any place of the layer pattern: two local layers, then a global one.
const SIX_LAYERS: &str = r#"{
    "model_type": "gemma3_text", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 4, "sliding_window_pattern": 3,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
    "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16
}"#;

/// Bits of the layers' feed-forwards; attention has 8 in all of them, and the last layer is dense.
const BITS: [u32; 6] = [8, 4, 4, 8, 8, 16];

const GROUP: usize = 16;

fn sizes() -> (ModelConfig, Llama) {
    let config = ModelConfig::parse(SIX_LAYERS).unwrap();
    let ModelConfig::Llama(sizes) = &config else { panic!("no decoder") };
    let model = trace::shapes_of(&(), |()| Llama::init(&Key::from_seed(1), sizes, &RunOptions::default())).unwrap();
    (config, model)
}

fn bits_of(name: &str) -> Option<u32> {
    let layer: usize = name.strip_prefix("model.layers.")?.split_once('.')?.0.parse().ok()?;
    match BITS[layer] {
        16 => None,
        bits if name.contains(".mlp.") => Some(bits),
        _ if name.contains("_proj.weight") => Some(8),
        _ => None,
    }
}

/// A matrix of an inner width with codes of so many bits, by groups.
fn rounded(dense: &Literal, bits: u32) -> PackedMatrix {
    let [outputs, inputs] = *dense.dims() else { panic!("no matrix") };
    let dtype = if bits == 4 { DType::I4 } else { DType::I8 };
    let scheme = QuantScheme {
        values: dtype,
        group: Some(GROUP),
        zero_points: ZeroPoints::None,
        activations: ActivationQuant::None,
    };
    let (codes, scales) = nearest_codes(dense, &scheme, InputAxis::Last).unwrap();
    let block = ScaleBlock { out_features: 1, in_features: GROUP };
    PackedMatrix::new(outputs, inputs, dtype, codes.into_bytes(), block, floats(&scales)).unwrap()
}

/// Writes the model with layers of different widths.
fn write_mixed(folder: &Path, config: &ModelConfig, model: &Llama) {
    let ModelConfig::Llama(sizes) = config else { panic!("no decoder") };
    let params = with_key(7, |key| Llama::init(key, sizes, &RunOptions::default()));
    hf::save(folder, config.family(), model, &params, u64::MAX).unwrap();
    let dense = SafeTensors::open(&folder.join("model.safetensors")).unwrap();
    let group = |bits: u32, targets: Vec<String>| CompressedGroup {
        targets,
        bits,
        is_float: false,
        is_symmetric: true,
        strategy: ScaleStrategy::Group(GROUP),
        inputs: Inputs::Float,
    };
    let (mut targets, mut tensors, mut ignored) = (BTreeMap::<u32, Vec<String>>::new(), Vec::new(), Vec::new());
    for name in dense.entries().keys() {
        let literal = dense.read(name).unwrap();
        let module = name.trim_end_matches(".weight");
        match bits_of(name) {
            Some(bits) => {
                targets.entry(bits).or_default().push(module.to_string());
                tensors.extend(group(bits, Vec::new()).tensors(module, &rounded(&literal, bits)).unwrap());
            }
            None => {
                ignored.push(module.to_string());
                tensors.push((name.clone(), literal));
            }
        }
    }
    let groups: Vec<CompressedGroup> = targets.into_iter().map(|(bits, targets)| group(bits, targets)).collect();
    let mut json: serde_json::Value = serde_json::from_str(SIX_LAYERS).unwrap();
    json["quantization_config"] = compressed_tensors_config(&groups, &ignored);
    std::fs::write(folder.join("config.json"), json.to_string()).unwrap();
    let path = folder.join("model.safetensors");
    drop(dense);
    weights::write(&path, tensors.iter().map(|(name, literal)| (name.as_str(), literal)), &BTreeMap::new()).unwrap();
}

#[test]
fn layers_of_different_widths_keep_their_widths() {
    let folder = tempfile::tempdir().unwrap();
    let (config, model) = sizes();
    write_mixed(folder.path(), &config, &model);
    let files = QuantizedFolder::open(folder.path()).unwrap();
    let loaded = hf::load_packed(&files, config.family(), &model, ActivationQuant::None).unwrap();

    // Segments where the form changes, each with its own types.
    let up = |range: &str| format!("layers.{range}.feed_forward.dense.up.weight");
    let dtypes: BTreeMap<String, DType> =
        loaded.model.paths().into_iter().zip(loaded.model.specs()).map(|(path, spec)| (path, spec.dtype)).collect();
    for (range, dtype) in [("0-0", DType::I8), ("1-2", DType::I4), ("3-4", DType::I8)] {
        assert_eq!(dtypes.get(&format!("{}.values", up(range))), Some(&dtype), "{range} of {dtypes:?}");
    }
    assert_eq!(dtypes.get(&up("5-5")), Some(&DType::F32));
    // The bytes are those that the widths promise: codes, and a scale of four bytes for each group.
    let held = |path: &&String| path.contains(".feed_forward.dense.") && path.contains("1-2");
    let bits: usize = loaded
        .model
        .paths()
        .iter()
        .zip(&loaded.params)
        .filter(|(path, _)| held(path))
        .map(|(_, literal)| literal.num_elements() * literal.dtype().bits() as usize)
        .sum();
    let elements = 2 * 3 * 32 * 64;
    assert_eq!(bits, elements * 4 + elements / GROUP * 32);
    let report = hf::load_report(&loaded.weights).join("\n");
    assert!(report.contains("quantized layers of `layers` are in 3 segments"), "{report}");

    // The logits of the same folder made dense in one stack, whole and with a KV cache.
    let dense = hf::load(&files, config.family(), &model).unwrap();
    let tokens: Vec<i32> = (0..12).map(|n| (n * 7 + 3) % 64).collect();
    let tokens = of_ints(&[1, 12], &tokens);
    let run = |model: &Llama, params: Vec<Literal>| {
        let inputs = [params, vec![tokens.clone()]].concat();
        apply(&(model.clone(), shape_of(&tokens)), &inputs, |(model, tokens)| {
            let cache = model.cache(1, 16);
            let (_, cache) = model.prefill(&tokens.slice(1, 0..11), &cache);
            let position = Tensor::scalar(DType::I32, 11.0);
            let (last, _) = model.decode_step(&tokens.slice(1, 11..12).squeeze(1), &position, &cache);
            (model.logits(tokens), last)
        })
    };
    let (expected, actual) = (run(&model, dense), run(&loaded.model, loaded.params));
    for (one, other) in actual.iter().zip(&expected) {
        let off = off_by(&floats(one), &floats(other));
        assert!(off < 1e-4, "off by {off}");
    }
    // What is in segments stays in those when it is loaded again.
    let again = loaded.model.map_weights(|_, weight, _| match weight {
        Weight::Quantized(quantized) => Weight::Dense(Tensor::of(quantized.spec(DType::F32))),
        other => other.clone(),
    });
    let again = hf::load_packed(&files, config.family(), &again, ActivationQuant::None).unwrap();
    assert_eq!((again.model.paths(), again.model.specs()), (loaded.model.paths(), loaded.model.specs()));
}
