//! A model wrapped for a mesh: its step gives what one device gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use nn::models::{LanguageModel, Llama, LlamaConfig, RunOptions};
use nn::quant::{MapWeights, QuantScheme, QuantizedTensor, Weight, ZeroPoints};
use nn::{ShardingRules, Strategy, hf};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, TreeArrays};
use tensor::{DType, Literal, Spec};
use trace::{Donate, Exchange, Key, PartitionSpec, Reduction, Tensor, grad, shard_map, sync_gradients};
use train::wrap_model;

fn cpu(devices: usize) -> Config {
    Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices)
}

fn floats(dims: &[usize], values: &[f32]) -> Arc<Literal> {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
}

fn read(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

type Model = (Tensor, Tensor);

fn loss((w, b): &Model, x: &Tensor) -> Tensor {
    let y = (&x.matmul(w) + b).tanh();
    (&y * &y).mean_all()
}

/// A step over a wrapped model gives what one device gives; and so does one written for a device's part of the batch, whose
/// gradients are synchronised.
#[test]
fn a_wrapped_model_takes_the_same_step() {
    let single = Backend::auto(&cpu(1)).unwrap();
    let draw = |count: usize, by: f32| (0..count).map(|n| ((n * 7 % 11) as f32 - 5.0) * by).collect::<Vec<_>>();
    let host: BTreeMap<String, Arc<Literal>> = BTreeMap::from([
        ("0".to_string(), floats(&[3, 4], &draw(12, 0.1))),
        ("1".to_string(), floats(&[4], &draw(4, 0.05))),
    ]);
    let batch = floats(&[8, 3], &draw(24, 0.2));
    let model: Model = (Tensor::of(Spec::new(DType::F32, [3, 4])), Tensor::of(Spec::new(DType::F32, [4])));
    let values = (
        (Tensor::on_host(host["0"].clone()), Tensor::on_host(host["1"].clone())),
        vec![Tensor::on_host(batch.clone())],
    );
    let step = |(model, batch): &(Model, Vec<Tensor>)| {
        let (dw, db) = grad(|model| loss(model, &batch[0]), model);
        ((&model.0 - &(&dw * 0.5), &model.1 - &(&db * 0.5)), loss(model, &batch[0]))
    };
    let expected = single.jit(step).call(values).unwrap().to_literals().unwrap();

    // The same by hand: parts of the batch, parameters whole.
    let by_device = |exchange: Exchange| {
        move |(model, batch): &(Model, Vec<Tensor>)| {
            let rows = PartitionSpec::new([&["data"][..], &[]]);
            let whole = [PartitionSpec::replicated(2), PartitionSpec::replicated(1)];
            let outputs = [PartitionSpec::replicated(2), PartitionSpec::replicated(1), PartitionSpec::replicated(0)];
            let (w, b) = model.clone();
            let inputs = [whole.to_vec(), vec![rows]].concat();
            shard_map(&((w, b), batch[0].clone()), &inputs, &outputs, |(model, part)| {
                let gradients = grad(|model| loss(model, part), model);
                let (dw, db) = sync_gradients(&gradients, "data", Reduction::Mean, exchange);
                let loss = loss(model, part).all_reduce("data", Reduction::Mean);
                ((&model.0 - &(&dw * 0.5), &model.1 - &(&db * 0.5)), loss)
            })
        }
    };
    let backend = Backend::auto(&cpu(8)).unwrap();
    // `0` is split along `model`, the rest whole, batches along `data`.
    let rules = ShardingRules::new(&"data=4,model=2".parse().unwrap(), Strategy::Hybrid).unwrap();
    let rules = rules.with_rule("0", vec![vec![], vec!["model".into()]]).with_rule("1", vec![vec![]]);
    let wrapped = wrap_model(&backend, &model, &rules, &mut |path, _| Ok(host[path].clone())).unwrap();
    let placed = |n: usize| wrapped.parameters.arrays().unwrap()[n].1.named_sharding().unwrap().sharding.to_string();
    assert_eq!((placed(0), placed(1)), ("[-, model]".to_string(), "[-]".to_string()));
    let sent = wrapped.sharding.send_batch(&backend, std::slice::from_ref(&batch)).unwrap();
    let inputs = (wrapped.parameters.clone(), sent.into_iter().map(Tensor::from).collect::<Vec<_>>());
    let mut jits: Vec<(&str, Jit<_, (Model, Tensor)>)> = vec![
        ("wrapped", Jit::new(&backend, "wrapped", Donate::Nothing, step)),
        ("tensor", Jit::new(&backend, "tensor", Donate::Nothing, by_device(Exchange::EachTensor))),
        ("type", Jit::new(&backend, "type", Donate::Nothing, by_device(Exchange::EachType))),
    ];
    for (name, jit) in jits.drain(..) {
        let mut jit = jit.on(Some(wrapped.sharding.step()));
        let text = hlo::text::print(jit.program(&inputs).unwrap().0.module());
        let exchanges = text.matches("stablehlo.all_reduce").count();
        assert_eq!(
            exchanges,
            match name {
                "wrapped" => 0,
                "tensor" => 3,
                _ => 2,
            },
            "{name}"
        );
        let results = jit.call(&inputs).unwrap().to_literals().unwrap();
        for ((path, got), (_, want)) in results.iter().zip(&expected) {
            for (a, b) in read(got).iter().zip(read(want)) {
                assert!((a - b).abs() < 1e-5, "{name}: {path} has {a}, not {b}");
            }
        }
    }
}

/// Logits of a quantized Llama on one device, and on two that each have half of every matmul.
#[test]
fn quantized_matmuls_on_a_mesh_are_those_of_one_device() {
    const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 32, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false}"#;
    let hf::ModelConfig::Llama(sizes) = hf::ModelConfig::parse(CONFIG).unwrap() else { panic!("a Llama") };
    let (single, both) = (Backend::auto(&cpu(1)).unwrap(), Backend::auto(&cpu(2)).unwrap());
    let tokens: Vec<i32> = (0..16).map(|n| n * 5 % 32).collect();
    let batch = Arc::new(Literal::from_slice(&tokens, [2, 8]).unwrap());
    let step = |(model, batch): &(Llama, Vec<Tensor>)| (model.clone(), model.logits(&batch[0]));
    // Devices scale their own activations where these are codes too.
    for (text, most) in [("w4a16", 1e-5), ("w8a16-g32", 1e-5), ("w4a16-g64-zp", 1e-5), ("w4a8", 0.03)] {
        let (scheme, sizes): (QuantScheme, LlamaConfig) = (text.parse().unwrap(), sizes.clone());
        let make = move |(): &()| {
            let model = Llama::init(&Key::from_seed(3u64), &sizes, &RunOptions::default()).nearest(&scheme);
            // Zero points of all groups, where the scheme has them.
            model.map_weights(|_, weight, _| match weight {
                Weight::Quantized(quantized) if scheme.zero_points != ZeroPoints::None => {
                    let zero_points = quantized.scales.full_like(2.0).cast(DType::I8);
                    Weight::Quantized(QuantizedTensor { zero_points: Some(zero_points), ..quantized.clone() })
                }
                other => other.clone(),
            })
        };
        let model: Llama = single.jit(make).call(()).unwrap();
        let host: BTreeMap<String, Arc<Literal>> =
            model.to_literals().unwrap().into_iter().map(|(path, literal)| (path, Arc::new(literal))).collect();
        let inputs = (model.clone(), vec![Tensor::on_host(batch.clone())]);
        let (_, expected) = single.jit(step).call(inputs).unwrap();
        let expected = read(&expected.to_literals().unwrap()[0].1);
        let rules = ShardingRules::new(&"model=2".parse().unwrap(), Strategy::Hybrid).unwrap();
        let wrapped = wrap_model(&both, &model, &rules, &mut |path, _| Ok(host[path].clone())).unwrap();
        let sent = wrapped.sharding.send_batch(&both, std::slice::from_ref(&batch)).unwrap();
        let inputs = (wrapped.parameters.clone(), sent.into_iter().map(Tensor::from).collect::<Vec<_>>());
        let mut jit = Jit::new(&both, "quantized", Donate::Nothing, step).on(Some(wrapped.sharding.step()));
        let program = hlo::text::print(jit.program(&inputs).unwrap().0.module());
        // Two matmuls of a layer have parts of the inputs.
        assert_eq!(program.matches("stablehlo.all_reduce").count(), 2, "{text}");
        // Where a device has several groups, each runs the kernel.
        assert_eq!(program.contains("tpubridge.quantized_matmul"), text == "w8a16-g32", "{text}");
        let (_, found) = jit.call(inputs).unwrap();
        let found = read(&found.to_literals().unwrap()[0].1);
        let largest = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max) / largest;
        assert!(off < most, "{text}: off by {off}");
    }
}
