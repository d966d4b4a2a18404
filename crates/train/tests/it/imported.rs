//! Programs of PyTorch that are trained: losses and weights are those of PyTorch itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use serde_json::json;
use tensor::{DType, Literal};
use testkit::Needed;
use train::data::{ArrayFiles, Batching, Dataset, Shuffle, Split, TokenDataset, TokenWidth, WindowOptions};
use train::trainer::TrainEvent;
use train::{MeshChoice, Training, state_dict};
use weights::Protection;

const STEPS: usize = 50;
const BATCH: usize = 8;
const SEQUENCE: usize = 16;
const VOCABULARY: u32 = 61;

fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Data, and a training file for each model.
fn prepare(folder: &Path) {
    let mut state = 1;
    // Each token follows from the one before or is drawn.
    let mut token = 0;
    let mut next = |state: &mut u64| {
        token = if draw(state).is_multiple_of(3) { draw(state) } else { token * 7 + 3 } % u64::from(VOCABULARY);
        (token as u16).to_le_bytes()
    };
    let tokens: Vec<u8> = (0..4000).flat_map(|_| next(&mut state)).collect();
    std::fs::write(folder.join("tokens.bin"), tokens).unwrap();
    let mut pixels: Vec<f32> = Vec::new();
    let mut labels: Vec<i64> = Vec::new();
    for _ in 0..96 {
        let label = (draw(&mut state) % 10) as i64;
        labels.push(label);
        pixels.extend((0..3 * 64).map(|n| {
            let noise = (draw(&mut state) % 1000) as f32 / 500.0 - 1.0;
            noise + if n % 10 == label { 1.5 } else { 0.0 }
        }));
    }
    let arrays = BTreeMap::from([
        ("images".to_string(), Literal::from_slice(&pixels, [96, 3, 8, 8]).unwrap()),
        ("labels".to_string(), Literal::from_slice(&labels, [96]).unwrap()),
    ]);
    weights::write_npz(&folder.join("images.npz"), &arrays).unwrap();
    let gpt2 = r#"
        [data]
        kind = "tokens"
        files = ["tokens.bin"]
        sequence_length = 16
        validation_fraction = 0.0
        [optimizer]
        name = "adamw"
        learning_rate = 3e-3
        weight_decay = 0.01
    "#;
    let resnet = r#"
        [data]
        kind = "arrays"
        files = ["images.npz"]
        validation_fraction = 0.0
        [optimizer]
        name = "sgd"
        learning_rate = 0.01
        momentum = 0.9
        weight_decay = 1e-4
    "#;
    for (name, rest) in [("gpt2", gpt2), ("resnet", resnet)] {
        let text = format!(
            "[model]\nprogram = \"{name}.pt2\"\n{rest}\n[train]\nsteps = {STEPS}\nbatch_size = {BATCH}\nlog_every = 1\nseed = 3\n"
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
}

/// The batches that a training will see, one after the other.
fn write_batches(folder: &Path, name: &str, names: [&str; 2], dataset: &dyn Dataset) {
    let mut all = [Vec::new(), Vec::new()];
    for step in 0..STEPS as u64 {
        for (bytes, array) in all.iter_mut().zip(dataset.batch(step).unwrap()) {
            bytes.extend_from_slice(array.bytes());
        }
    }
    let arrays = names.iter().zip(all).zip(dataset.specs()).map(|((name, bytes), spec)| {
        let mut dims = spec.dims.clone();
        dims[0] *= STEPS;
        (name.to_string(), Literal::new(spec.dtype, dims, bytes).unwrap())
    });
    weights::write_npz(&folder.join(format!("{name}.batches.npz")), &arrays.collect()).unwrap();
}

fn peer(test: &str, doing: &str, folder: &Path) -> Option<String> {
    let python = testkit::require(test, Needed::TorchPython)?;
    let script = testkit::repository().join("crates/testkit/python/train_torch.py");
    let output = Command::new(python).arg(script).arg(doing).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Losses of all steps.
fn losses(folder: &Path, name: &str, changes: &[&str], mesh: Option<&str>, run: Option<&Path>) -> Vec<f64> {
    let choice = MeshChoice { axes: mesh.map(str::to_string), ..MeshChoice::default() };
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    let training = Training::read(&folder.join(format!("{name}.toml")), &changes, &choice).unwrap();
    let training = training.in_folder(run.map(|run| run.to_string_lossy().into_owned()));
    let devices = if mesh.is_some() { 8 } else { 1 };
    let config = Config::new(Mode::Development).device(Target::Cpu).cpu_devices(devices);
    let backend = Backend::auto(&config).unwrap();
    let mut losses = Vec::new();
    training
        .run(&backend, &AtomicBool::new(false), &mut |event| {
            if let TrainEvent::Step(measured) = event {
                losses.push(measured.loss().unwrap());
            }
        })
        .unwrap();
    losses
}

/// Ops of the training step.
fn ops(folder: &Path, name: &str, changes: &[&str]) -> usize {
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    let file = folder.join(format!("{name}.toml"));
    let training = Training::read(&file, &changes, &MeshChoice::default()).unwrap();
    let (program, _) = training.export(&trace::Site::default()).unwrap();
    program.module().funcs.iter().map(|func| func.ops.len()).sum()
}

/// The largest difference of two curves, as a part of the loss.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |most, (a, b)| f64::max(most, (a - b).abs() / b.abs()))
}

fn numbers(literal: &Literal) -> Vec<f64> {
    match literal.dtype() {
        DType::I64 => literal.to_vec::<i64>().unwrap().into_iter().map(|x| x as f64).collect(),
        _ => literal.cast(DType::F64).unwrap().to_vec::<f64>().unwrap(),
    }
}

/// Losses of 50 steps of GPT-2 and a residual network are PyTorch's, on one device and on a mesh of eight, with layers as loops and
/// unrolled, recomputed and resumed; the weights go back into PyTorch.
#[test]
fn trainings_lose_what_pytorch_loses() {
    let test = "trainings_lose_what_pytorch_loses";
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    prepare(folder);
    let batching = Batching::new(BATCH, 3);
    let windows =
        WindowOptions { sequence_length: SEQUENCE, vocab_size: Some(VOCABULARY), split: Split::All, batching };
    let tokens = TokenDataset::open(&[folder.join("tokens.bin")], TokenWidth::U16, windows).unwrap();
    write_batches(folder, "gpt2", ["tokens", "targets"], &tokens);
    let images = ArrayFiles::open(&[folder.join("images.npz")])
        .unwrap()
        .dataset(Split::All, batching, Shuffle::EachEpoch)
        .unwrap();
    write_batches(folder, "resnet", ["images", "labels"], &images);
    let gpt2 = json!({
        "model": {"kind": "gpt2", "vocab_size": VOCABULARY, "n_positions": SEQUENCE, "n_embd": 32, "n_layer": 4, "n_head": 2,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
        "optimizer": "adamw", "learning_rate": 3e-3, "weight_decay": 0.01, "steps": STEPS, "dialect": "raw",
        "arrays": ["tokens", "targets"],
    });
    let resnet = json!({
        "model": {"kind": "resnet", "widths": [8, 16], "depths": [3, 3], "classes": 10},
        "optimizer": "sgd", "learning_rate": 0.01, "weight_decay": 1e-4, "momentum": 0.9, "steps": STEPS, "dialect": "raw",
        "arrays": ["images", "labels"],
    });
    for (name, task) in [("gpt2", &gpt2), ("resnet", &resnet)] {
        std::fs::write(folder.join(format!("{name}.json")), task.to_string()).unwrap();
    }
    if peer(test, "export", folder).is_none() {
        return;
    }
    for (name, tolerance) in [("gpt2", 1e-4), ("resnet", 1e-3)] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.losses.json"))).unwrap();
        let wanted: Vec<f64> = serde_json::from_str(&text).unwrap();
        assert_eq!(wanted.len(), STEPS);
        let run = folder.join(name);
        // Half of the steps, then the rest from the checkpoint.
        let first = losses(folder, name, &["train.steps=25"], None, Some(&run));
        let second = losses(folder, name, &[], None, Some(&run));
        let looped = [first, second].concat();
        let close = |what: &str, found: &[f64]| {
            let far = distance(found, &wanted);
            assert!(far < tolerance, "{name} {what}: {far:.1e}\n{found:?}\n{wanted:?}");
        };
        close("as loops", &looped);
        // Loops of two or three blocks are no shorter than the blocks.
        let (one, all) = (ops(folder, name, &[]), ops(folder, name, &["model.scan_layers=false"]));
        assert!(name != "gpt2" || one * 3 < all * 2, "{name}: {one} ops as loops, {all} unrolled");
        close("unrolled", &losses(folder, name, &["model.scan_layers=false"], None, None));
        close("recomputed", &losses(folder, name, &["run.remat=\"full\""], None, None));
        close("on a mesh", &losses(folder, name, &[], Some("data=4,model=2"), None));

        let program = folder.join(format!("{name}.pt2"));
        let trained = state_dict(&program, Some((&run.to_string_lossy(), None, Protection::default()))).unwrap();
        assert_eq!(trained.step, Some(STEPS as u64));
        let expected: BTreeMap<String, Literal> =
            weights::read_npz(&folder.join(format!("{name}.trained.npz"))).unwrap().into_iter().collect();
        assert!(trained.tensors.keys().eq(expected.keys()), "{:?}", trained.tensors.keys());
        // The gradient of keys' biases is 0 but for rounding, which Adam scales up to whole steps.
        for (path, value) in trained.tensors.iter().filter(|(path, _)| !path.ends_with("attn.c_attn.bias")) {
            let (a, b) = (numbers(value), numbers(&expected[path]));
            let largest = b.iter().fold(1e-3, |most: f64, x| most.max(x.abs()));
            let far = a.iter().zip(&b).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs() / largest));
            assert!(value.dims() == expected[path].dims() && far < 2e-2, "{name} {path}: {far:.1e}");
        }
        // PyTorch itself loads one of them; the other has the same names and shapes too.
        if name == "resnet" {
            let tensors = trained.tensors.iter().map(|(path, value)| (path.as_str(), value));
            weights::write(&folder.join("resnet.safetensors"), tensors, &BTreeMap::new()).unwrap();
        }
    }
    let said: serde_json::Value = serde_json::from_str(&peer(test, "check", folder).unwrap()).unwrap();
    assert!(said["name"] == "resnet" && said["loss"].as_f64().is_some_and(f64::is_finite), "{said}");
}

/// A training file for an archive of PyTorch's in a folder.
fn written(folder: &Path, archive: &Path, model: &str, data: &str, batch: usize) -> std::path::PathBuf {
    let file = folder.join("train.toml");
    let text = format!(
        "[model]\nprogram = {archive:?}\n{model}\n[data]\n{data}\n[optimizer]\nname = \"adamw\"\nlearning_rate = 1e-3\n\
         [train]\nsteps = 3\nbatch_size = {batch}\nlog_every = 1\neval_every = 3\neval_batches = 1\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// What is measured at the end of a training, or why there is none.
fn outcome(file: &Path, changes: &[&str], mesh: Option<&str>) -> Result<BTreeMap<String, f64>, String> {
    let choice = MeshChoice { axes: mesh.map(str::to_string), ..MeshChoice::default() };
    let changes: Vec<String> = changes.iter().map(|change| change.to_string()).collect();
    let told = |error: train::Error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
        format!("{error}; {cause}; {}", error.remedy().unwrap_or_default())
    };
    let training = Training::read(file, &changes, &choice).map_err(told)?;
    let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu)).unwrap();
    let mut evaluated = BTreeMap::new();
    let mut watch = |event: &TrainEvent| {
        if let TrainEvent::Evaluated(measured) = event {
            evaluated = measured.values.clone();
        }
    };
    training.run(&backend, &AtomicBool::new(false), &mut watch).map_err(told)?;
    Ok(evaluated)
}

#[test]
fn settings_of_programs_are_checked_before_anything_runs() {
    let test = "settings_of_programs_are_checked_before_anything_runs";
    let Some(archives) = testkit::require(test, Needed::TorchExport) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let tokens = "kind = \"synthetic\"\nsequence_length = 16";
    let gpt = written(scratch.path(), &archives.join("gpt.pt2"), "", tokens, 2);
    let refused = |changes: &[&str], mesh: Option<&str>, parts: &[&str]| {
        let error = outcome(&gpt, changes, mesh).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(&["model.losses=\"mse\""], None, &["losses", "docs/reference/train.md"]);
    refused(&["model.output=3"], None, &["model.output is 3", "the program has 1 results"]);
    refused(&["model.output=\"loss\""], None, &["model.output is \"loss\""]);
    refused(&["model.inputs={ ids = \"pixels\" }"], None, &["no array `pixels`", "tokens, targets"]);
    refused(&["model.inputs={ tokens = \"tokens\" }"], None, &["no such argument", "it takes ids"]);
    refused(&["model.target=\"labels\""], None, &["no array `labels`"]);
    refused(&["run.precision=\"mixed\""], None, &["takes remat alone"]);
    refused(&["train.batch_size=4"], None, &["`ids` has 4 elements, and was exported with 2"]);
    refused(&["data.sequence_length=8"], None, &["axis 1", "exported with 16"]);
    refused(&["model.loss=\"output\"", "model.vocab_size=61"], None, &["a loss is one float"]);
    refused(&["model.loss=\"mse\"", "model.vocab_size=61"], None, &["shapes differ"]);
    refused(&[], Some("stage=2,data=2"), &["no pipeline stages"]);
    refused(&["data={ kind = \"shapes\", size = 16 }"], None, &["no batch of images"]);
    refused(&["model.program=\"nothing.pt2\""], None, &["nothing.pt2"]);
    // Evaluation mode is no hindrance, and the loss is measured on other data.
    let evaluated = outcome(&gpt, &[], None).unwrap();
    assert!(evaluated["loss"] > 1.0 && evaluated["loss"] < 30.0, "{evaluated:?}");
    // Our images become those of PyTorch, and running statistics are written in training alone.
    let shapes = "kind = \"shapes\"\nsize = 16";
    for name in ["convnet_train.pt2", "convnet_train.functional.pt2", "convnet_train.core.pt2"] {
        let file = written(scratch.path(), &archives.join(name), "", shapes, 4);
        let refused = outcome(&file, &[], None).unwrap_err();
        assert!(refused.contains("10 classes"), "{name}: {refused}");
        let images: Vec<f32> = (0..8 * 3 * 16 * 16).map(|n| (n * 7 % 13) as f32 / 13.0).collect();
        let arrays = BTreeMap::from([
            ("pixels".to_string(), Literal::from_slice(&images, [8, 3, 16, 16]).unwrap()),
            ("class".to_string(), Literal::from_slice(&[1i64, 2, 3, 4, 5, 6, 7, 8], [8]).unwrap()),
        ]);
        weights::write_npz(&scratch.path().join("pixels.npz"), &arrays).unwrap();
        let data = "kind = \"arrays\"\nfiles = [\"pixels.npz\"]\nvalidation_fraction = 0.5";
        let file = written(scratch.path(), &archives.join(name), "target = \"class\"", data, 4);
        let grey = outcome(&file, &["model.inputs={ images = 0.5 }"], None).map(|measured| measured["loss"]);
        assert!(grey.is_ok_and(f64::is_finite), "{name}");
        // The first argument gets the first array that is no target.
        let evaluated = outcome(&file, &["model.inputs={ images = \"pixels\" }"], None).unwrap();
        assert_eq!(evaluated, outcome(&file, &[], None).unwrap(), "{name}");
        assert!(evaluated["loss"].is_finite() && (0.0..=1.0).contains(&evaluated["accuracy"]), "{name}: {evaluated:?}");
    }
}
