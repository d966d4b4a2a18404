//! The trainer on the CPU device: a small regression that is stopped, resumed, damaged and driven to infinity.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use compile::optimize::ComputePrecision;
use nn::{ShardingRules, Strategy};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, TreeArrays};
use tensor::{DType, Literal, Spec};
use trace::{Tensor, Tree, value_and_grad};
use train::data::{DataError, Dataset};
use train::trainer::{Ended, Measures, Task, TrainEvent, TrainOptions, Trained, Trainer};
use train::{Error, ParameterShapes, StateSharding};

use crate::processes::{free_address, together};

pub(crate) fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32)).unwrap()
}

/// Rows of numbers that depend on seed and step alone, with targets `x · (1, 2, 3)`.
pub(crate) struct Lines {
    pub(crate) seed: u64,
    /// The step whose batch cannot be read.
    pub(crate) broken_at: Option<u64>,
}

impl Dataset for Lines {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec::new(DType::F32, [4, 3]), Spec::new(DType::F32, [4])]
    }

    fn batches_per_epoch(&self) -> Option<u64> {
        None
    }

    fn batch(&self, step: u64) -> Result<Vec<Literal>, DataError> {
        if self.broken_at == Some(step) {
            return Err(DataError::Panicked { doing: "reading the broken batch" });
        }
        let mut state = self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(step.wrapping_mul(0x85eb_ca6b)) | 1;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32) / ((1u64 << 24) as f32) - 0.5
        };
        let x: Vec<f32> = (0..12).map(|_| number()).collect();
        let y: Vec<f32> = x.chunks(3).map(|row| row[0] + 2.0 * row[1] + 3.0 * row[2]).collect();
        let literal = |dims: &[usize], values: &[f32]| {
            Literal::new(DType::F32, dims, values.iter().flat_map(|value| value.to_le_bytes()).collect()).unwrap()
        };
        Ok(vec![literal(&[4, 3], &x), literal(&[4], &y)])
    }

    fn describe(&self) -> String {
        format!("lines of seed {}", self.seed)
    }
}

/// Weights and how many steps they have seen.
#[derive(Clone, Debug, Tree)]
pub(crate) struct State {
    weights: Tensor,
    momentum: Tensor,
    step: Tensor,
}

pub(crate) struct Regression {
    pub(crate) rate: f64,
}

impl Regression {
    fn loss(weights: &Tensor, batch: &[Tensor]) -> Tensor {
        (&batch[0].einsum("bi,i->b", weights) - &batch[1]).square().mean_all()
    }
}

impl Task for Regression {
    type State = State;

    fn init(&self) -> State {
        let zeros = Tensor::zeros(DType::F32, &[3]);
        State { weights: zeros.clone(), momentum: zeros, step: Tensor::zeros(DType::I32, &[]) }
    }

    fn step(&self, state: &State, batch: &[Tensor]) -> (State, Measures) {
        let (loss, gradient) = value_and_grad(|weights| Regression::loss(weights, batch), &state.weights);
        let momentum = &(&state.momentum * 0.9) + &gradient;
        let weights = &state.weights - &(&momentum * self.rate);
        let next = State { weights, momentum, step: &state.step + 1.0 };
        (next, BTreeMap::from([("loss".to_string(), loss)]))
    }

    fn evaluate(&self, state: &State, batch: &[Tensor]) -> Measures {
        BTreeMap::from([("loss".to_string(), Regression::loss(&state.weights, batch))])
    }

    fn flops_per_step(&self) -> Option<f64> {
        Some(FLOPS_PER_STEP)
    }

    fn tokens_per_step(&self) -> Option<u64> {
        Some(4)
    }
}

/// Two for each of three weights and four rows, forward, and twice that backward.
const FLOPS_PER_STEP: f64 = 72.0;

pub(crate) fn options(folder: Option<&Path>, steps: u64) -> TrainOptions {
    TrainOptions {
        checkpoints: folder.map(|folder| folder.join("checkpoints").display().to_string()),
        metrics: folder.map(|folder| folder.join("metrics")),
        save_every: Some(10),
        log_every: 5,
        eval_every: Some(20),
        eval_batches: 2,
        ..TrainOptions::new(steps)
    }
}

fn train(
    options: TrainOptions,
    rate: f64,
    seed: u64,
    watch: &mut dyn FnMut(&TrainEvent, &AtomicBool),
) -> Result<Trained<State>, Error> {
    let stop = AtomicBool::new(false);
    let data: Arc<dyn Dataset> = Arc::new(Lines { seed, broken_at: None });
    let trainer = Trainer::new(&backend(), Regression { rate }, options);
    trainer.train(data.clone(), Some(data), &stop, &mut |event| watch(event, &stop))
}

fn weights(training: &Trained<State>) -> Vec<(String, Vec<u8>)> {
    let state = training.state.as_ref().unwrap().to_literals().unwrap();
    state.into_iter().map(|(path, literal)| (path, literal.bytes().to_vec())).collect()
}

#[test]
fn a_model_learns_and_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut losses = Vec::new();
    let mut evaluations = 0;
    let trained = train(options(Some(folder.path()), 200), 0.05, 1, &mut |event, _| match event {
        TrainEvent::Step(measured) => losses.push(measured.loss().unwrap()),
        TrainEvent::Evaluated(_) => evaluations += 1,
        _ => {}
    })
    .unwrap();
    assert_eq!((trained.ended, trained.step, trained.compilations), (Ended::Finished, 200, 1));
    assert!(losses[losses.len() - 1] < 1e-3 * losses[0], "{losses:?}");
    assert_eq!(evaluations, 10);
    let lines = std::fs::read_to_string(folder.path().join("metrics/metrics.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["step"], 200);
    assert!(lines.contains("tokens_per_second") && lines.contains("evaluation_loss"), "{lines}");
}

#[test]
fn a_resumed_training_equals_an_uninterrupted_one_to_the_bit() {
    let whole = train(options(None, 60), 0.05, 2, &mut |_, _| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Stopped between checkpoints: the state of the moment is saved.
    let stopped = train(options(Some(folder.path()), 60), 0.05, 2, &mut |event, stop| {
        if matches!(event, TrainEvent::Step(measured) if measured.step == 25) {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!((stopped.ended, stopped.step), (Ended::Stopped, 25));
    let mut resumed_at = None;
    let resumed = train(options(Some(folder.path()), 60), 0.05, 2, &mut |event, _| {
        if let TrainEvent::Resumed(step) = event {
            resumed_at = Some(*step);
        }
    })
    .unwrap();
    assert_eq!((resumed_at, resumed.ended, resumed.first_step), (Some(25), Ended::Finished, 25));
    assert_eq!(weights(&resumed), weights(&whole));
    // All steps are done: nothing is done again.
    let again = train(options(Some(folder.path()), 60), 0.05, 2, &mut |_, _| {}).unwrap();
    assert_eq!((again.first_step, again.step, again.compilations), (60, 60, 0));
    assert_eq!(weights(&again), weights(&whole));
}

#[test]
fn a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let diverged = train(options(Some(folder.path()), 4000), 60.0, 3, &mut |_, _| {}).unwrap();
    let Ended::Diverged { step } = diverged.ended else { panic!("{:?}", diverged.ended) };
    let manager = weights::CheckpointManager::open(&folder.path().join("checkpoints").display().to_string()).unwrap();
    let kept = manager.latest().unwrap();
    assert!(kept.is_none_or(|kept| kept < step), "{kept:?} of {step}");
    if let Some(kept) = kept {
        let saved = manager.load(kept).unwrap().read("weights").unwrap();
        let is_finite = saved.bytes().chunks(4).all(|b| f32::from_le_bytes(b.try_into().unwrap()).is_finite());
        assert!(is_finite);
    }
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_another_training_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    train(options(Some(folder.path()), 40), 0.05, 4, &mut |_, _| {}).unwrap();
    let newest = folder.path().join("checkpoints/step-00000040");
    let mut files = std::fs::read_dir(&newest).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|end| end == "safetensors")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let mut seen = Vec::new();
    let resumed = train(options(Some(folder.path()), 50), 0.05, 4, &mut |event, _| match event {
        TrainEvent::Damaged(step, message) => seen.push(format!("damaged {step}: {message}")),
        TrainEvent::Resumed(step) => seen.push(format!("resumed {step}")),
        _ => {}
    })
    .unwrap();
    assert_eq!(resumed.step, 50);
    assert!(seen[0].starts_with("damaged 40") && seen[1] == "resumed 30", "{seen:?}");

    let other = train(options(Some(folder.path()), 60), 0.05, 5, &mut |_, _| {}).unwrap_err();
    assert!(other.to_string().contains("the data was lines of seed 4, is lines of seed 5"), "{other}");
}

#[test]
fn data_that_fails_and_checkpoints_that_cannot_be_written() {
    let stop = AtomicBool::new(false);
    let data = Arc::new(Lines { seed: 6, broken_at: Some(12) });
    let trainer = Trainer::new(&backend(), Regression { rate: 0.05 }, options(None, 30));
    let error = trainer.train(data, None, &stop, &mut |_| {}).unwrap_err();
    assert!(compile::with_causes(&error).contains("reading the broken batch"), "{}", compile::with_causes(&error));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("checkpoints"), "a file where the folder goes").unwrap();
    let error = train(options(Some(folder.path()), 30), 0.05, 7, &mut |_, _| {}).unwrap_err();
    assert!(error.remedy().is_some_and(|remedy| !remedy.is_empty()));
}

#[test]
fn a_stop_before_the_first_step_ends_at_once() {
    let stop = AtomicBool::new(true);
    let data = Arc::new(Lines { seed: 8, broken_at: None });
    let trainer = Trainer::new(&backend(), Regression { rate: 0.05 }, options(None, 30));
    let ended = trainer.train(data, None, &stop, &mut |_| {}).unwrap();
    assert_eq!((ended.ended, ended.step), (Ended::Stopped, 0));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Turns bytes over wherever they are in the files of a folder; how often they were found.
fn damage(folder: &Path, bytes: &[u8]) -> usize {
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found += damage(&entry.path(), bytes);
            continue;
        }
        let mut contents = std::fs::read(entry.path()).unwrap();
        let places: Vec<usize> = (0..contents.len()).filter(|&at| contents[at..].starts_with(bytes)).collect();
        for &at in &places {
            contents[at..at + bytes.len()].iter_mut().for_each(|byte| *byte = !*byte);
        }
        found += places.len();
        std::fs::write(entry.path(), contents).unwrap();
    }
    found
}

/// Three devices with a weight each.
fn a_weight_each(backend: &Backend) -> StateSharding {
    let mut rules = ShardingRules::new(&"model=3".parse().unwrap(), Strategy::Megatron).unwrap();
    let mut shapes = ParameterShapes::new();
    for name in ["weights", "momentum"] {
        rules = rules.with_rule(name, vec![vec!["model".into()]]);
        shapes.insert(name.into(), vec![3]);
    }
    StateSharding::new(backend, &rules, shapes, &[]).unwrap()
}

/// Trains in three processes whose devices have a weight each; the weights they end with.
fn train_in_three(folders: [&Path; 3], steps: u64) -> Vec<Vec<f32>> {
    together(3, &free_address(), |id, session| {
        let config = Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32);
        let backend = Backend::in_session(&session, &config).unwrap();
        let sharding = a_weight_each(&backend);
        let options = TrainOptions { metrics: None, eval_every: None, ..options(Some(folders[id]), steps) };
        let trainer = Trainer::new(&backend, Regression { rate: 0.1 }, options).on(Some(sharding));
        let data = Arc::new(Lines { seed: 3, broken_at: None });
        let training = trainer.train(data, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(training.step, steps);
        let weights = backend.gather(&training.state.unwrap().arrays().unwrap()[0].1).unwrap();
        session.finish().unwrap();
        floats(&weights)
    })
}

/// A batch is the work of all devices, so that MFU is over the peak of all of them.
#[test]
fn mfu_counts_every_device_of_the_mesh() {
    const PEAK_FLOPS: f64 = 1e9;
    for devices in [1, 3] {
        let config =
            Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32).cpu_devices(devices);
        let backend = Backend::auto(&config).unwrap();
        let sharding = (devices > 1).then(|| a_weight_each(&backend));
        let options = TrainOptions { peak_flops: Some(PEAK_FLOPS), ..TrainOptions::new(4) };
        let trainer = Trainer::new(&backend, Regression { rate: 0.1 }, options).on(sharding);
        let data = Arc::new(Lines { seed: 3, broken_at: None });
        let training = trainer.train(data, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
        let last = training.last.unwrap();
        let expected = FLOPS_PER_STEP / last.step_seconds / (PEAK_FLOPS * devices as f64);
        let mfu = last.mfu.unwrap();
        assert!((mfu / expected - 1.0).abs() < 1e-9, "{devices} devices: {mfu} instead of {expected}");
        // What the whole mesh does in a second is not divided.
        assert!((last.tokens_per_second.unwrap() * last.step_seconds - 4.0).abs() < 1e-9);
    }
}

fn floats(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Each process has the checkpoint in a folder of its own, in which the parts of the others are damaged: it does not notice.
#[test]
fn processes_read_only_the_parts_they_need() {
    let (first, second, third) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    train_in_three([first.path(); 3], 10);
    let saved = weights::CheckpointManager::open(&first.path().join("checkpoints").display().to_string())
        .unwrap()
        .load(10)
        .unwrap();
    for (id, folder) in [(1, &second), (2, &third)] {
        copy_folder(first.path(), folder.path());
        for name in ["weights", "momentum"] {
            for other in (0..3).filter(|&other| other != id) {
                let region = weights::TensorRegion { start: vec![other], size: vec![1] };
                let part = saved.read_region(name, &region).unwrap();
                assert_eq!(damage(folder.path(), part.bytes()), 1, "{name} {other}");
            }
        }
    }
    let options = TrainOptions { metrics: None, ..options(None, 10) };
    let trainer = Trainer::new(&backend(), Regression { rate: 0.1 }, options);
    let data = Arc::new(Lines { seed: 3, broken_at: None });
    let plain = trainer.train(data, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let plain = floats(&plain.state.unwrap().to_literals().unwrap()[0].1);
    // Restored and not trained: what they would save in folders of their own is no checkpoint.
    for weights in train_in_three([first.path(), second.path(), third.path()], 10) {
        assert!(weights.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-5), "{weights:?}, not {plain:?}");
    }
}
