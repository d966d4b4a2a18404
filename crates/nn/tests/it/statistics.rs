//! Running statistics of batches, carried by the training step: those of PyTorch after the same steps.

use nn::layers::BatchStatistics;
use nn::models::{NormKind, Phase, ResNet, ResNetConfig, Stem};
use nn::optim::{Schedule, Sgd};
use nn::{CrossEntropy, StepOptions, TrainState, train_step_with};
use tensor::Literal;
use trace::{Donate, Key, Tensor, Tree};
use weights::SafeTensors;

use crate::harness::{apply, floats, off_by, peer, run, shape_of};

fn config() -> ResNetConfig {
    let config = ResNetConfig::resnet18(3, NormKind::Batch);
    ResNetConfig { stages: vec![1], width: 4, num_channels: 2, stem: Stem::Small, ..config }
}

fn started(options: &StepOptions) -> TrainState<ResNet, nn::optim::SgdState<ResNet>, Vec<BatchStatistics>> {
    let key = Key::from_seed(3);
    let (model, statistics) = ResNet::init(&key, &config());
    TrainState::init_with(model, statistics, &Sgd::new(Schedule::constant(0.1)), options, &key)
}

#[test]
fn running_statistics_are_those_of_torch() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folder) = peer("running_statistics_are_those_of_torch", "statistics", folder.path()) else { return };
    let theirs = SafeTensors::open(&folder.join("statistics.safetensors")).unwrap();
    let read = |name: &str| theirs.read(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    for parts in [1, 2] {
        let options = StepOptions { gradient_accumulation_steps: parts, ..StepOptions::default() };
        let optimizer = Sgd::new(Schedule::constant(0.1));
        let (init, structure) = trace::trace("init", &(), Donate::Nothing, |()| started(&options)).unwrap();
        let mut state = run(&init, &[]);
        let paths = structure.paths();
        for (path, at) in paths.iter().zip(&mut state).filter(|(path, _)| path.starts_with("params.")) {
            let given = read(path);
            assert_eq!(given.dims(), at.dims(), "{path}");
            *at = given;
        }
        let batch = |n: usize| vec![read(&format!("images.{n}")), read(&format!("labels.{n}"))];
        let shapes: Vec<Tensor> = batch(0).iter().map(shape_of).collect();
        let (step, _) = trace::trace("step", &(structure.shapes(), shapes), Donate::Nothing, |(state, batch)| {
            train_step_with(state, batch, &optimizer, &options, |model: &ResNet, seen, batch: &Vec<Tensor>, _| {
                let (logits, seen) = model.apply(&batch[0], seen, Phase::Training);
                (CrossEntropy::default().mean(&logits, &batch[1]), seen)
            })
        })
        .unwrap();
        for n in 0..5 {
            let inputs: Vec<Literal> = state.iter().cloned().chain(batch(n)).collect();
            state = run(&step, &inputs)[..paths.len()].to_vec();
        }
        let mut compared = 0;
        for (path, tensor) in paths.iter().zip(&state).filter(|(path, _)| path.starts_with("carried.")) {
            let off = off_by(&floats(tensor), &floats(&read(&format!("parts{parts}.{path}"))));
            assert!(off < 1e-5, "{path} in {parts} parts: off by {off}");
            compared += 1;
        }
        assert_eq!(compared, 6);
        // Evaluation uses them.
        let inputs: Vec<Literal> = state.iter().cloned().chain([batch(4).remove(0)]).collect();
        let logits = apply(&(structure.shapes(), shape_of(&inputs[paths.len()])), &inputs, |(state, images)| {
            state.params.apply(images, &state.carried, Phase::Inference).0
        });
        let off = off_by(&floats(&logits[0]), &floats(&read(&format!("parts{parts}.logits"))));
        assert!(off < 1e-4, "logits in {parts} parts: off by {off}");
    }
}
