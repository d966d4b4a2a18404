//! The same tiny GPT trained here and by a reference implementation in JAX: equal parameters and batches give the same curve.

use std::collections::BTreeMap;
use std::process::Command;

use compile::optimize::Level;
use nn::models::{Gpt2, Gpt2Config, LanguageModel, RunOptions, TokenBatch};
use nn::optim::{Adam, Schedule};
use nn::{CrossEntropy, StepOptions, TrainState, train_step};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Jit, ReadTensor, TreeArrays};
use tensor::{DType, Literal};
use testkit::{Needed, repository, require};
use trace::{Donate, Key, Tensor};
use train::data::{Batching, Dataset, MarkovOptions, MarkovTokens};

const STEPS: usize = 200;
const BATCH: usize = 4;
const SEQUENCE: usize = 32;
const RATE: f64 = 3e-3;
const CLIP: f64 = 1.0;

type State = TrainState<Gpt2, nn::optim::Moments<Gpt2>>;

fn config() -> Gpt2Config {
    Gpt2Config {
        vocab_size: 64,
        n_positions: SEQUENCE,
        n_embd: 32,
        n_layer: 2,
        n_head: 4,
        embd_pdrop: 0.0,
        resid_pdrop: 0.0,
        attn_pdrop: 0.0,
        ..Gpt2Config::default()
    }
}

/// Batches of all steps behind each other.
fn stacked(literals: &[Literal]) -> Literal {
    let bytes = literals.iter().flat_map(|literal| literal.bytes().to_vec()).collect();
    Literal::new(DType::I32, [literals.len(), BATCH, SEQUENCE], bytes).unwrap()
}

#[test]
fn the_jax_reference_follows_the_same_curve() {
    let Some(python) = require("the_jax_reference_follows_the_same_curve", Needed::Python) else { return };
    // As written: nothing is rounded to bf16 on the way.
    let mut settings = Config::new(Mode::Training).device(Target::Cpu);
    settings.optimization = Level::None;
    let backend = Backend::auto(&settings).unwrap();
    let optimizer = Adam::new(Schedule::constant(RATE));
    let options = StepOptions { max_grad_norm: Some(CLIP), ..StepOptions::default() };

    let at_first = optimizer.clone();
    let mut init = Jit::new(&backend, "init", Donate::Nothing, move |(): &()| {
        let keys = Key::from_seed(7u64).split(2);
        let model = Gpt2::init(&keys[0], &config(), &RunOptions::default());
        State::init(model, &at_first, &options, &keys[1])
    });
    let mut state = init.call(()).unwrap();
    let parameters: BTreeMap<String, Literal> = state
        .to_literals()
        .unwrap()
        .into_iter()
        .filter_map(|(path, literal)| Some((path.strip_prefix("params.")?.to_string(), literal)))
        .collect();

    let chain =
        MarkovOptions { vocab_size: 64, sequence_length: SEQUENCE, chain_seed: 3, batching: Batching::new(BATCH, 5) };
    let data = MarkovTokens::new(chain).unwrap();
    let batches: Vec<Vec<Literal>> = (0..STEPS as u64).map(|step| data.batch(step).unwrap()).collect();

    let mut step = Jit::new(&backend, "step", Donate::First, move |(state, batch): &(State, TokenBatch)| {
        let (next, metrics) = train_step(state, batch, &optimizer, &options, |model: &Gpt2, batch, _| {
            model.loss(batch, &CrossEntropy::default(), None)
        });
        (next, metrics.loss)
    });
    let mut losses = Vec::new();
    for batch in &batches {
        let batch = TokenBatch { tokens: Tensor::from(&batch[0]), targets: Tensor::from(&batch[1]) };
        let loss;
        (state, loss) = step.call((state, batch)).unwrap();
        losses.push(loss.item::<f32>().unwrap());
    }
    assert_eq!(step.num_compiled(), 1);

    let folder = tempfile::tempdir().unwrap();
    weights::write_npz(&folder.path().join("parameters.npz"), &parameters).unwrap();
    let column = |n: usize| stacked(&batches.iter().map(|batch| batch[n].clone()).collect::<Vec<_>>());
    let columns = BTreeMap::from([("tokens".to_string(), column(0)), ("targets".to_string(), column(1))]);
    weights::write_npz(&folder.path().join("batches.npz"), &columns).unwrap();
    let text = format!("{{\"heads\": 4, \"rate\": {RATE}, \"clip\": {CLIP}}}");
    std::fs::write(folder.path().join("settings.json"), text).unwrap();
    let script = repository().join("crates/testkit/python/gpt_reference.py");
    let output =
        Command::new(python).arg(script).arg("losses").arg(folder.path()).env("JAX_PLATFORMS", "cpu").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("losses.json")).unwrap();
    let reference: Vec<f64> = serde_json::from_str(&text).unwrap();
    assert_eq!(reference.len(), STEPS);
    let mut worst = 0.0f64;
    for (n, (ours, theirs)) in losses.iter().zip(&reference).enumerate() {
        let off = (f64::from(*ours) - theirs).abs() / theirs;
        assert!(off < 1e-4, "step {n}: {ours} here, {theirs} there");
        worst = worst.max(off);
    }
    assert!(reference[STEPS - 1] < 0.8 * reference[0], "it learned: {} to {}", reference[0], reference[STEPS - 1]);
    eprintln!("largest relative distance of {STEPS} losses: {worst:.1e}");
}
