//! Models of transformers, and engines of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use infer::{
    Engine, FinishReason, InferenceOptions, OpenOptions, OpenedModel, RequestId, TokenEvent, TokenProbability,
};
use nn::models::RunOptions;
use runtime::Backend;
use runtime::config::{Config, Mode, Target};
use testkit::{Needed, repository, require};

/// Small models with transformers' answers, one folder each; `None` where there is no PyTorch.
pub(crate) fn peer(test: &str, folder: &Path) -> Option<Vec<PathBuf>> {
    let python = require(test, Needed::TorchPython)?;
    let script = repository().join("crates/testkit/python/nn_peer.py");
    let output = Command::new(python).arg(script).arg("answers").arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    Some(folders)
}

pub(crate) fn cpu() -> Backend {
    Backend::auto(&Config::new(Mode::Inference).device(Target::Cpu)).unwrap()
}

pub(crate) fn engine(backend: &Backend, folder: &Path, rows: usize, max_length: usize) -> Engine {
    let options = OpenOptions { tokenizer: Some("bytes"), ..OpenOptions::default() };
    let source = OpenedModel::open(folder, options).unwrap();
    let options = InferenceOptions { rows, max_length, prefill_chunk: 16, run: RunOptions::default() };
    Engine::load(backend, &source, &options).unwrap()
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
