//! Trainings in few bits and of adapters: stopped and resumed to the bit, checkpoints without what is frozen, and gradients that
//! travel narrow between slices.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use nn::hf;
use nn::models::{Gpt2, Gpt2Config, Llama, RunOptions};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, TreeArrays};
use tensor::{DType, Literal};
use trace::{Key, Site};
use train::trainer::{Ended, TrainEvent};
use train::{Finished, MeshChoice, Training};
use weights::quant::{CompressedGroup, Inputs, PackedMatrix, ScaleBlock, ScaleStrategy, compressed_tensors_config};
use weights::{CheckpointManager, SafeTensors};

const TRAINING: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 32
n_positions = 16
n_embd = 32
n_layer = 2
n_head = 4
embd_pdrop = 0.0
resid_pdrop = 0.0
attn_pdrop = 0.0

[run]
precision = "mixed"

[data]
kind = "synthetic"
sequence_length = 16

[optimizer]
name = "adamw"
learning_rate = 3e-3

[train]
steps = 6
batch_size = 8
log_every = 1
save_every = 3
"#;

fn sizes() -> Gpt2Config {
    Gpt2Config {
        vocab_size: 32,
        n_positions: 16,
        n_embd: 32,
        n_layer: 2,
        n_head: 4,
        embd_pdrop: 0.0,
        resid_pdrop: 0.0,
        attn_pdrop: 0.0,
        initializer_range: 0.1,
        ..Gpt2Config::default()
    }
}

fn backend(devices: usize) -> Backend {
    Backend::auto(&Config::new(Mode::Training).device(Target::Cpu).cpu_devices(devices)).unwrap()
}

/// A model of a seed as a Hugging Face folder.
fn write_model(folder: &Path, seed: u64) {
    std::fs::create_dir_all(folder).unwrap();
    let make = move |(): &()| Gpt2::init(&Key::from_seed(seed), &sizes(), &RunOptions::default());
    let model: Gpt2 = backend(1).jit(make).call(()).unwrap();
    let params: Vec<Literal> = model.to_literals().unwrap().into_iter().map(|(_, literal)| literal).collect();
    hf::save(folder, hf::Family::Gpt2, &model, &params, u64::MAX).unwrap();
    let mut config = serde_json::to_value(sizes()).unwrap();
    config["model_type"] = "gpt2".into();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

fn read(home: &Path, changes: &[&str], mesh: Option<&str>) -> Result<Training, train::Error> {
    let file = home.join("training.toml");
    std::fs::write(&file, TRAINING).unwrap();
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    Training::read(&file, &changes, &MeshChoice { axes: mesh.map(str::to_string), ..MeshChoice::default() })
}

/// Trains in a folder of the home; gives the losses of all steps.
fn train(
    home: &Path,
    folder: &str,
    changes: &[&str],
    mesh: Option<&str>,
) -> Result<(Finished, Vec<f64>), train::Error> {
    let training = read(home, changes, mesh)?.in_folder(Some(home.join(folder).display().to_string()));
    let devices = training.rules().map_or(1, |rules| rules.logical_axes().mesh.num_devices());
    let mut losses = Vec::new();
    let finished = training.run(&backend(devices), &AtomicBool::new(false), &mut |event| {
        if let TrainEvent::Step(measured) = event {
            losses.extend(measured.loss());
        }
    })?;
    Ok((finished, losses))
}

/// All tensors of the checkpoint of a step.
fn saved(home: &Path, folder: &str, step: u64) -> Vec<(String, Literal)> {
    let manager = CheckpointManager::open(&home.join(folder).join("checkpoints").display().to_string()).unwrap();
    let saved = manager.load(step).unwrap();
    let names: Vec<(String, tensor::DType)> = saved.tensors().map(|t| (t.name.to_string(), t.dtype)).collect();
    names.into_iter().map(|(name, dtype)| (name.clone(), saved.read_as(&name, dtype).unwrap())).collect()
}

/// Six steps at once, and three and three, with the same changes: the state is the same to the bit.
fn resumes_to_the_bit(home: &Path, name: &str, changes: &[&str]) -> Vec<(String, Literal)> {
    let (whole, losses) = train(home, &format!("{name}-whole"), changes, None).unwrap();
    assert_eq!((whole.step, whole.ended), (6, Ended::Finished), "{name}");
    assert!(losses[5] < losses[0], "{name}: {losses:?}");
    let parts = format!("{name}-parts");
    train(home, &parts, &[changes, &["train.steps=3"]].concat(), None).unwrap();
    let (rest, _) = train(home, &parts, changes, None).unwrap();
    assert_eq!((rest.first_step, rest.step), (3, 6), "{name}");
    let (one, other) = (saved(home, &format!("{name}-whole"), 6), saved(home, &parts, 6));
    assert_eq!(one.len(), other.len());
    for ((path, one), (_, other)) in one.iter().zip(&other) {
        assert_eq!(one.bytes(), other.bytes(), "{name}: {path}");
    }
    one
}

#[test]
fn trainings_in_few_bits_resume_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let delayed = ["run.precision=\"fp8\"", "run.matmul.scaling=\"delayed\"", "run.matmul.amax_history=4"];
    let state = resumes_to_the_bit(folder.path(), "fp8", &delayed);
    let history = state.iter().find(|(path, _)| path.contains("overwrite_with_gradient.layers.attention.query"));
    let (path, history) = history.unwrap();
    assert_eq!(history.dims(), [2, 3, 4], "{path}");
    // Of six steps four are remembered, and none is zero.
    assert!(history.bytes().chunks(4).all(|number| number != [0; 4]), "{path}");

    let int8 = ["optimizer.moment_dtype=\"int8\"", "model.n_embd=64", "run.qat=\"w8a8\""];
    let state = resumes_to_the_bit(folder.path(), "states", &int8);
    let of = |path: &str| &state.iter().find(|(found, _)| found == path).unwrap_or_else(|| panic!("no {path}")).1;
    let matrix = "layers.attention.query.weight";
    assert_eq!(of(&format!("optimizer.0.first.{matrix}")).dtype(), tensor::DType::I8);
    assert_eq!(of(&format!("optimizer.0.second.{matrix}")).dtype(), tensor::DType::U8);
    assert_eq!(of(&format!("optimizer.0.second_scales.{matrix}")).dims(), [2, 64, 1]);
    assert_eq!(of("optimizer.0.second.norm.weight").dtype(), tensor::DType::F32);
}

#[test]
fn adapters_of_a_quantized_model_resume_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    write_model(&home.join("base"), 5);
    let lora = [
        "model={from=\"base\"}",
        "lora={rank=4,alpha=8.0,dropout=0.1,base=\"w4a16-g16\",target_modules=[\"c_attn\",\"c_proj\"],merged=\"merged\"}",
    ];
    let state = resumes_to_the_bit(home, "qlora", &lora);
    // Checkpoints have adapters and their moments, nothing of the model.
    assert!(state.iter().all(|(path, _)| !path.contains("frozen")), "{:?}", state[0]);
    let params: Vec<&String> = state.iter().map(|(path, _)| path).filter(|path| path.starts_with("params.")).collect();
    assert_eq!(params.len(), 2 * 5, "{params:?}");
    let largest = state.iter().map(|(_, literal)| literal.num_elements()).max().unwrap();
    assert!(largest <= 2 * 128 * 4, "{largest}");
    // What PEFT reads, and the merged model.
    for file in ["qlora-whole/adapter/adapter_config.json", "merged/model.safetensors", "merged/config.json"] {
        assert!(home.join(file).is_file(), "{file}");
    }
    // It starts from an adapter: its first loss is the last one's, not the base's.
    let dense = [
        "model={from=\"base\"}",
        "lora={rank=4,alpha=8.0,target_modules=[\"c_attn\",\"c_proj\"],from=\"qlora-whole/adapter\"}",
    ];
    let (_, on) = train(home, "on", &[&dense[..], &["train.steps=1"]].concat(), None).unwrap();
    let plain = ["model={from=\"base\"}", "train.steps=1"];
    let (_, fresh) = train(home, "fresh", &plain, None).unwrap();
    assert!(on[0] < fresh[0] - 0.01, "{on:?} {fresh:?}");
    let (_, merged) = train(home, "from-merged", &["model={from=\"merged\"}", "train.steps=1"], None).unwrap();
    assert!((on[0] / merged[0] - 1.0).abs() < 5e-3, "{on:?} {merged:?}");
    // Another base is another training.
    write_model(&home.join("base"), 6);
    let refused = train(home, "qlora-parts", &[&lora[..], &["train.steps=7"]].concat(), None).unwrap_err();
    assert!(refused.to_string().contains("is of another training"), "{refused}");
}

/// A Llama of a seed as a folder of compressed-tensors: weights of linear layers in 4 bits, by groups.
fn write_quantized(folder: &Path, seed: u64) {
    const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 32, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false}"#;
    let config = hf::ModelConfig::parse(CONFIG).unwrap();
    let hf::ModelConfig::Llama(sizes) = config.clone() else { panic!("a Llama") };
    let make = move |(): &()| Llama::init(&Key::from_seed(seed), &sizes, &RunOptions::default());
    let model: Llama = backend(1).jit(make).call(()).unwrap();
    let params: Vec<Literal> = model.to_literals().unwrap().into_iter().map(|(_, literal)| literal).collect();
    let dense = tempfile::tempdir().unwrap();
    hf::save(dense.path(), config.family(), &model, &params, u64::MAX).unwrap();
    let group = CompressedGroup {
        targets: vec!["Linear".into()],
        bits: 4,
        is_float: false,
        is_symmetric: true,
        strategy: ScaleStrategy::Group(16),
        inputs: Inputs::Float,
    };
    let files = SafeTensors::open(&dense.path().join("model.safetensors")).unwrap();
    let mut tensors = Vec::new();
    for name in files.entries().keys() {
        let literal = files.read(name).unwrap();
        let Some(module) = name.strip_suffix("_proj.weight") else {
            tensors.push((name.clone(), literal));
            continue;
        };
        let [rows, columns] = *literal.dims() else { panic!("{name}") };
        let values = literal.to_vec::<f32>().unwrap();
        let scale = |values: &[f32]| values.iter().fold(1e-6f32, |most, value| most.max(value.abs())) / 7.0;
        let scales: Vec<f32> = values.chunks(16).map(scale).collect();
        let code = |(n, value): (usize, &f32)| (value / scales[n / 16]).round() as i8 as u8;
        let codes = values.iter().enumerate().map(code).collect();
        let block = ScaleBlock { out_features: 1, in_features: 16 };
        let matrix = PackedMatrix::new(rows, columns, DType::I4, codes, block, scales.clone()).unwrap();
        tensors.extend(group.tensors(&format!("{module}_proj"), &matrix).unwrap());
    }
    std::fs::create_dir_all(folder).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(CONFIG).unwrap();
    json["quantization_config"] = compressed_tensors_config(&[group], &["lm_head".into()]);
    std::fs::write(folder.join("config.json"), json.to_string()).unwrap();
    let tensors = tensors.iter().map(|(name, literal)| (name.as_str(), literal));
    weights::write(&folder.join("model.safetensors"), tensors, &Default::default()).unwrap();
}

#[test]
fn adapters_beside_a_quantized_folder_leave_its_codes_as_they_are() {
    // Traced on a stack as a program's main thread has it: those of tests are a quarter of that.
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    thread.spawn(adapters_beside_a_quantized_folder).unwrap().join().unwrap();
}

fn adapters_beside_a_quantized_folder() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    write_quantized(&home.join("quantized"), 5);
    let lora = ["model={from=\"quantized\"}", "lora={rank=4,alpha=8.0,merged=\"merged\"}"];
    // Without `base` the frozen weights are what the folder has.
    let (program, _) = read(home, &lora, None).unwrap().export(&Site::default()).unwrap();
    let text = hlo::text::print(program.module());
    assert!(text.contains("tensor<2x32x64xi4>") && !text.contains("tensor<2x32x64xf32>"), "{text}");
    let state = resumes_to_the_bit(home, "stored", &lora);
    assert!(state.iter().all(|(path, _)| !path.contains("frozen")));
    // The first loss is that of the dequantized weights.
    let first =
        |name: &str, changes: &[&str]| train(home, name, &[changes, &["train.steps=1"]].concat(), None).unwrap().1[0];
    let (stored, dense) = (first("first", &lora), first("dense", &["model={from=\"quantized\"}"]));
    assert!((stored / dense - 1.0).abs() < 5e-3, "{stored} and {dense}");
    // What is merged is a dense model, and says so.
    let json = std::fs::read_to_string(home.join("merged/config.json")).unwrap();
    assert!(!json.contains("quantization_config"), "{json}");
    let merged = first("from-merged", &["model={from=\"merged\"}"]);
    assert!(merged < dense, "{merged} and {dense}");
}

#[test]
fn trainings_that_do_not_go_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let refused = |changes: &[&str], mesh: Option<&str>, words: &str| {
        let message = train(home, "refused", changes, mesh).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    refused(&["run.precision=\"fp9\""], None, "unknown variant `fp9`");
    refused(&["run.matmul.scaling=\"current\""], None, "run.matmul is for run.precision");
    refused(&["lora={rank=4,alpha=8.0}"], None, "model.from is not set");
    write_model(&home.join("base"), 5);
    let from = "model={from=\"base\"}";
    refused(&[from, "lora={rank=0,alpha=8.0}"], None, "lora.rank is 0");
    refused(&[from, "lora={rank=4,alpha=8.0,dropout=1.0}"], None, "lora.dropout is 1");
    refused(&[from, "lora={rank=4,alpha=8.0}", "run.qat=\"w8a8\""], None, "remove one of them");
    let unknown = "lora={rank=4,alpha=8.0,target_modules=[\"q_proj\"]}";
    refused(&[from, unknown], None, "layers are c_attn, c_fc, c_proj");
    refused(&[from, "lora={rank=4,alpha=8.0,base=\"w4a16-g5\"}"], None, "groups of 5 do not divide");
    refused(&["mesh.dcn_gradients=\"int8\""], Some("data=2"), "no axis between slices");
    let delayed = ["mesh.dcn_gradients=\"int8\"", "run.precision=\"fp8\"", "run.matmul.scaling=\"delayed\""];
    refused(&delayed, Some("dcn:replica=2"), "needs run.matmul.scaling = \"current\"");
    let delayed = ["run.precision=\"fp8\"", "run.matmul.scaling=\"delayed\""];
    refused(&delayed, Some("stage=2"), "pipeline stages take it in parts");
    let images = ["model={model_type=\"vit\"}", "data={kind=\"shapes\",size=32}", "run.precision=\"fp8\""];
    refused(&images, None, "are for language models");
}

#[test]
fn gradients_between_slices_are_narrow_and_lose_little() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let mesh = Some("dcn:replica=2,fsdp=2");
    // Gradients of bf16 matmuls have no more digits than bf16.
    let wide = ["model.n_embd=64", "train.steps=12", "run.precision=\"f32\""];
    let (_, exact) = train(home, "exact", &wide, mesh).unwrap();
    for (dtype, bound, element) in [("bf16", 2e-3, "ui16"), ("int8", 2e-2, "i8")] {
        let option = format!("mesh.dcn_gradients=\"{dtype}\"");
        let changes = [&wide[..], &[option.as_str()]].concat();
        let (_, losses) = train(home, dtype, &changes, mesh).unwrap();
        let off = losses.iter().zip(&exact).map(|(one, other)| (one / other - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < bound, "{dtype}: {losses:?} {exact:?}");
        assert!(losses != exact, "{dtype}: nothing was rounded");
        // What was not sent is part of the state, on its slice.
        let state = saved(home, dtype, 12);
        let (_, residual) = state.iter().find(|(path, _)| path == "residual.layers.attention.query.weight").unwrap();
        assert_eq!(residual.dims(), [2, 2, 64, 64]);
        assert!(residual.bytes().iter().any(|byte| *byte != 0));
        // In the program slices exchange codes, and scales of rows; no gradient of a matrix travels in f32.
        let (program, _) = read(home, &changes, mesh).unwrap().export(&Site::default()).unwrap();
        let text = hlo::text::print(program.module());
        let gathers: Vec<&str> = text.lines().filter(|line| line.contains("all_gather")).collect();
        let of = |end: &str| gathers.iter().filter(|line| line.contains(&format!("x{end}>"))).count();
        assert_eq!((of(element), of("f32") - of("1xf32")), (6, 0), "{dtype}: {gathers:?}");
    }
}
