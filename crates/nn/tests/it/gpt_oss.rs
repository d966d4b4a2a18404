//! gpt-oss as it is published: experts in MXFP4, each layer's in one tensor.

use std::collections::BTreeMap;
use std::path::Path;

use nn::hf::{self, Family, ModelConfig};
use nn::models::{Llama, RunOptions};
use nn::quant::ActivationQuant;
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree};
use weights::SafeTensors;
use weights::quant::QuantizedFolder;

const CONFIG: &str = r#"{"model_type":"gpt_oss","vocab_size":16,"hidden_size":32,"intermediate_size":64,"num_hidden_layers":2,
    "num_attention_heads":2,"num_key_value_heads":1,"head_dim":8,"num_local_experts":3,"num_experts_per_tok":2,
    "max_position_embeddings":64"#;

/// What codes of four bits mean.
const LEVELS: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn code(n: usize) -> u8 {
    (n * 7 + n / 13 + n / 32) as u8 % 16
}

fn level(code: u8) -> f32 {
    let value = LEVELS[usize::from(code % 8)];
    if code < 8 { value } else { -value }
}

fn write(folder: &Path, config: &str, tensors: &BTreeMap<String, Literal>) {
    std::fs::write(folder.join("config.json"), config).unwrap();
    let tensors = tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    weights::write(&folder.join("model.safetensors"), tensors, &BTreeMap::new()).unwrap();
}

#[test]
fn experts_in_mxfp4_are_those_of_dense_files() {
    let ModelConfig::Llama(sizes) = ModelConfig::parse(&format!("{CONFIG}}}")).unwrap() else { panic!("a Llama") };
    let model = trace::shapes_of(&(), |()| {
        Llama::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), &sizes, &RunOptions::default())
    })
    .unwrap();
    let params: Vec<Literal> = model
        .specs()
        .iter()
        .enumerate()
        .map(|(n, spec)| {
            let count = spec.dims.iter().product();
            let values: Vec<f32> = (0..count).map(|at| ((at * 31 + n * 17) % 101) as f32 / 101.0).collect();
            Literal::from_slice(&values, spec.dims.clone()).unwrap()
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    hf::save(folder.path(), Family::GptOss, &model, &params, u64::MAX).unwrap();
    let saved = SafeTensors::open(&folder.path().join("model.safetensors")).unwrap();
    let mut dense: BTreeMap<String, Literal> =
        saved.entries().keys().map(|name| (name.to_string(), saved.read(name).unwrap())).collect();
    assert!(dense.contains_key("model.layers.1.mlp.experts.gate_up_proj_bias"));
    let mut packed = dense.clone();
    for layer in 0..2 {
        for (projection, inputs, outputs) in [("gate_up_proj", 32, 128), ("down_proj", 64, 32)] {
            let name = format!("model.layers.{layer}.mlp.experts.{projection}");
            let (experts, groups) = (3, inputs / 32);
            let codes: Vec<u8> = (0..experts * outputs * inputs).map(|n| code(n + layer)).collect();
            let scales: Vec<u8> = (0..experts * outputs * groups).map(|n| 120 + (n % 5) as u8).collect();
            let mut values = vec![0f32; codes.len()];
            for (at, &code) in codes.iter().enumerate() {
                let (expert, output, input) = (at / (outputs * inputs), at / inputs % outputs, at % inputs);
                let scale = 2f32.powi(i32::from(scales[at / 32]) - 127);
                values[(expert * inputs + input) * outputs + output] = level(code) * scale;
            }
            dense.insert(name.clone(), Literal::from_slice(&values, [experts, inputs, outputs]).unwrap());
            let blocks: Vec<u8> = codes.chunks_exact(2).map(|pair| pair[0] | pair[1] << 4).collect();
            packed.remove(&name);
            let blocks = Literal::from_slice(&blocks, [experts, outputs, groups, 16]).unwrap();
            packed.insert(format!("{name}_blocks"), blocks);
            packed.insert(format!("{name}_scales"), Literal::from_slice(&scales, [experts, outputs, groups]).unwrap());
        }
    }
    let (plain, mxfp4) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(plain.path(), &format!("{CONFIG}}}"), &dense);
    write(mxfp4.path(), &format!(r#"{CONFIG},"quantization_config":{{"quant_method":"mxfp4"}}}}"#), &packed);
    let (plain, mxfp4) = (QuantizedFolder::open(plain.path()).unwrap(), QuantizedFolder::open(mxfp4.path()).unwrap());
    let expected = hf::load(&plain, Family::GptOss, &model).unwrap();
    assert!(hf::load(&mxfp4, Family::GptOss, &model).unwrap() == expected);
    // On a device they stay codes, of all three matrices, with nothing lost.
    let loaded = hf::load_packed(&mxfp4, Family::GptOss, &model, ActivationQuant::None).unwrap();
    assert_eq!(loaded.weights.len(), 3);
    assert!(loaded.weights.iter().all(|weight| weight.change == hf::WeightChange::Exact && weight.scheme.is_some()));
    packed.remove("model.layers.1.mlp.experts.down_proj_bias");
    let lacking = tempfile::tempdir().unwrap();
    write(lacking.path(), &format!(r#"{CONFIG},"quantization_config":{{"quant_method":"mxfp4"}}}}"#), &packed);
    let lacking = QuantizedFolder::open(lacking.path()).unwrap();
    let refused = hf::load(&lacking, Family::GptOss, &model).unwrap_err().to_string();
    assert!(refused.contains("model.layers.1.mlp.experts.0.down_proj.bias"), "{refused}");
}
