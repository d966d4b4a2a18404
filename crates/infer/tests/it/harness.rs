//! Models of transformers, and engines of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use infer::{
    Engine, FinishReason, InferenceOptions, OpenOptions, OpenedModel, RequestId, TokenEvent, TokenProbability,
};
use nn::hf::{self, Family, ModelConfig};
use nn::models::{Gpt2, Llama, RunOptions};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, TreeArrays};
use testkit::{Needed, repository, require};
use trace::{Key, Tensor, Tree};

/// Small models with transformers' answers, one folder each; `None` where there is no PyTorch.
pub(crate) fn peer(test: &str, task: &str, folder: &Path) -> Option<Vec<PathBuf>> {
    peer_of(test, Needed::TorchPython, task, folder)
}

/// The same of a Python.
pub(crate) fn peer_of(test: &str, python: Needed, task: &str, folder: &Path) -> Option<Vec<PathBuf>> {
    let python = require(test, python)?;
    let script = repository().join("crates/testkit/python/nn_peer.py");
    let output = Command::new(python).arg(script).arg(task).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    Some(folders)
}

pub(crate) fn cpu() -> Backend {
    Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap()
}

/// A CPU that pretends to be so many devices.
pub(crate) fn cpus(devices: usize) -> Backend {
    Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu).cpu_devices(devices)).unwrap()
}

pub(crate) fn opened(folder: &Path) -> OpenedModel {
    OpenedModel::open(folder, OpenOptions { tokenizer: Some("bytes"), ..OpenOptions::default() }).unwrap()
}

/// Sizes for tests: short sequences have several pages too.
pub(crate) fn sized(rows: usize, max_length: usize) -> InferenceOptions {
    InferenceOptions { rows, max_length, prefill_chunk: 16, page_size: Some(8), ..InferenceOptions::default() }
}

/// The same with so few pages that requests give up theirs for others.
pub(crate) fn crowded(rows: usize, max_length: usize) -> InferenceOptions {
    InferenceOptions { pages: Some((max_length + 16).div_ceil(8)), ..sized(rows, max_length) }
}

pub(crate) fn engine(backend: &Backend, folder: &Path, options: &InferenceOptions) -> Engine {
    Engine::load(backend, &opened(folder), options).unwrap()
}

/// Writes a folder with a small model: random weights, of which a share is random anew.
pub(crate) fn write_llama(into: &Path, config: &str, noise: f32) {
    std::fs::write(into.join("config.json"), config).unwrap();
    let config = ModelConfig::parse(config).unwrap();
    let family = config.family();
    let options = RunOptions::default();
    match config {
        ModelConfig::Llama(config) => write(into, family, noise, move |key| Llama::init(key, &config, &options)),
        ModelConfig::Gpt2(config) => write(into, family, noise, move |key| Gpt2::init(key, &config, &options)),
        ModelConfig::Gemma4(_) => panic!("a Llama or GPT-2"),
    }
}

fn write<M: Tree + 'static>(into: &Path, family: Family, noise: f32, draw: impl Fn(&Key) -> M + 'static) {
    let mut init = cpu().jit(move |(key, other): &(Key, Key)| {
        let (model, mut other) = (draw(key), draw(other).leaves().into_iter());
        model.map_leaves(|leaf| other.next().map_or(leaf.clone(), |other| leaf + &(&other * f64::from(noise))))
    });
    let key = |seed: u32| Key::from_data(&Tensor::from([seed, 9]));
    let model = init.call((key(7), key(8))).unwrap();
    let params: Vec<_> = model.to_literals().unwrap().into_iter().map(|(_, literal)| literal).collect();
    hf::save(into, family, &model, &params, u64::MAX).unwrap();
}

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answered {
    pub(crate) tokens: Vec<TokenProbability>,
    pub(crate) text: String,
    pub(crate) finish: Option<FinishReason>,
}

impl Answered {
    pub(crate) fn take(&mut self, event: TokenEvent) {
        assert_eq!(self.finish, None, "an answer that ended goes on");
        self.tokens.extend(event.token);
        self.text.push_str(&event.text);
        self.finish = event.finish;
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.token).collect()
    }
}

/// Runs an engine to its end; answers in the order of requests.
pub(crate) fn run(engine: &mut Engine, ids: &[RequestId]) -> Vec<Answered> {
    let mut answers = vec![Answered::default(); ids.len()];
    engine
        .run(&mut |event| {
            let at = ids.iter().position(|id| *id == event.id).unwrap();
            answers[at].take(event);
        })
        .unwrap();
    answers
}
