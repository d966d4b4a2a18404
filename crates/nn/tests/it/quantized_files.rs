//! Quantized models as their own tools wrote them, kept quantized on the device: the logits of transformers on the dequantized model.

use std::path::{Path, PathBuf};

use nn::hf::{self, ModelConfig, WeightChange};
use nn::models::{LanguageModel, Llama, RunOptions};
use nn::quant::ActivationQuant;
use tensor::{DType, Literal};
use testkit::{Needed, require};
use trace::{Key, Spec, Tensor};
use weights::SafeTensors;
use weights::quant::QuantizedFolder;

use crate::harness::{apply, floats, off_by, shape_of};

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

/// How far the logits of a case are off, how far they may be, and whether weights had to be rounded to other codes.
fn compared(case: &Path) -> (f32, f32, bool) {
    let gguf = case.join("model.gguf");
    let files = QuantizedFolder::open(if gguf.is_file() { &gguf } else { case }).unwrap();
    let config = ModelConfig::parse(&files.config().unwrap().to_string()).unwrap();
    let ModelConfig::Llama(sizes) = &config else { panic!("{} is no Llama", case.display()) };
    let key = Tensor::of(Spec::new(DType::U32, [2]));
    let model = trace::shapes_of(&key, |key| Llama::init(&Key::from_data(key), sizes, &RunOptions::default())).unwrap();
    let loaded = hf::load_packed(&files, config.family(), &model, ActivationQuant::None).unwrap();
    let peer = SafeTensors::open(&case.join("expected.safetensors")).unwrap();
    let (tokens, expected) = (peer.read("tokens").unwrap(), peer.read("logits").unwrap());
    let tokens = Literal::new(tokens.dtype(), [1, tokens.num_elements()], tokens.into_bytes()).unwrap();
    let mut inputs = loaded.params;
    inputs.push(tokens.clone());
    let outputs = apply(&(loaded.model, shape_of(&tokens)), &inputs, |(model, tokens)| model.logits(tokens));
    let is_rounded = loaded.weights.iter().any(|weight| matches!(weight.change, WeightChange::Requantized(_)));
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
        let (off, most, is_rounded) = compared(&case);
        assert!(off < most, "{name}: off by {off}");
        // Tables of levels become codes of 8 bits.
        assert_eq!(is_rounded, name.starts_with("bitsandbytes-nf4") || name.starts_with("bitsandbytes-fp4"), "{name}");
    }
}
