//! Text from a trained model, token by token, on the device.

use std::path::Path;
use std::sync::Arc;

use nn::hf;
use nn::layers::KvCache;
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions};
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor, Tree};
use weights::{CheckpointManager, IntegrityCheck, Protection, Saved};

use crate::config::DataConfig;
use crate::data::Tokenizer;
use crate::datasets::tokenizer;
use crate::error::Error;
use crate::model::TrainModelConfig;
use crate::trainer::Resume;

/// How tokens are chosen.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// Tokens after the prompt.
    pub tokens: usize,
    /// 0 is greedy decoding; 1 samples from the model's probabilities.
    pub temperature: f64,
    /// Draws among so many of the likeliest.
    pub top_k: Option<usize>,
    /// Where random numbers begin.
    pub seed: u32,
}

/// A model of a checkpoint, ready to generate.
pub struct Generator {
    saved: Saved,
    model: hf::ModelConfig,
    options: RunOptions,
    tokenizer: Tokenizer,
}

impl Generator {
    /// Opens a checkpoint of a training's folder: that of a step, or the newest good one. Without a tokenizer that of the training.
    ///
    /// Checkpoints that are encrypted, or must be signed, need the keys of the training.
    pub fn open(
        folder: &str,
        step: Option<u64>,
        tokenizer_name: Option<&str>,
        protection: Protection,
    ) -> Result<Generator, Error> {
        let location = format!("{}/checkpoints", folder.trim_end_matches('/'));
        let manager = CheckpointManager::open(&location)?.protected(protection);
        let saved = match step {
            Some(step) => manager.load(step)?,
            None => manager.latest_good(IntegrityCheck::Sizes)?.saved,
        };
        let wrong = |error: serde_json::Error| {
            Error::new(format!("{}: {error}", saved.address())).hint("give the folder of a `tpu train` run")
        };
        let kept: Resume = serde_json::from_value(saved.metadata().clone()).map_err(wrong)?;
        let field = |name: &str| kept.description.get(name).cloned().unwrap_or_default();
        let TrainModelConfig::Language(model) = TrainModelConfig::read(&field("model"), Path::new(""))? else {
            return Err(Error::new("the model takes images").hint("text needs a language model"));
        };
        let data: DataConfig = serde_json::from_value(field("data")).map_err(wrong)?;
        if kept.description.get("lora").is_some() {
            return Err(Error::new(format!("{} has adapters only", saved.address()))
                .hint("set lora.merged in the training file: the finished training writes the model with them"));
        }
        let options: RunOptions = serde_json::from_value(field("run")).map_err(wrong)?;
        let name = match (tokenizer_name, &data) {
            (Some(name), _) => name.to_string(),
            (None, DataConfig::Text { tokenizer, .. }) => tokenizer.clone().unwrap_or_else(|| "bytes".into()),
            (None, _) => {
                return Err(Error::new("the model was trained on tokens, not on text")
                    .hint("give --tokenizer FILE, or --tokenizer bytes"));
            }
        };
        let tokenizer = tokenizer(&name, Path::new(""))?;
        Ok(Generator { saved, model, options, tokenizer })
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Saved {
        &self.saved
    }

    /// Text after a prompt, and its tokens.
    pub fn generate(&self, backend: &Backend, prompt: &str, sampling: &Sampling) -> Result<(String, Sampled), Error> {
        if sampling.temperature < 0.0 || !sampling.temperature.is_finite() {
            return Err(Error::new(format!("the temperature is {}", sampling.temperature))
                .hint("0 is greedy decoding; 1 samples from the model's probabilities"));
        }
        let prompt = self.tokenizer.encode(prompt)?;
        if prompt.is_empty() {
            return Err(Error::new("the prompt has no tokens").hint("give --prompt TEXT"));
        }
        let sampled = match &self.model {
            hf::ModelConfig::Gpt2(config) => {
                let init = |key: &Key| Gpt2::init(key, config, &self.options);
                sample(backend, &self.saved, sampling, &prompt, config.n_positions, init)?
            }
            hf::ModelConfig::Llama(config) => {
                let init = |key: &Key| Llama::init(key, config, &self.options);
                sample(backend, &self.saved, sampling, &prompt, config.max_position_embeddings, init)?
            }
        };
        Ok((self.tokenizer.decode(&sampled.tokens)?, sampled))
    }
}

/// Tokens that a model chose.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The tokens, without the prompt.
    pub tokens: Vec<u32>,
    /// Seconds of one more token, the first not counted.
    pub seconds_per_token: f64,
}

/// What goes from token to token.
#[derive(Clone, Tree)]
struct Step {
    cache: KvCache,
    token: Tensor,
    position: Tensor,
    key: Key,
}

fn sample<M: LanguageModel + 'static>(
    backend: &Backend,
    saved: &Saved,
    sampling: &Sampling,
    prompt: &[u32],
    room: usize,
    init: impl Fn(&Key) -> M,
) -> Result<Sampled, Error> {
    let more = sampling.tokens;
    if prompt.len() + more > room {
        let message =
            format!("{} tokens of prompt and {more} more are over the model's {room} positions", prompt.len());
        return Err(Error::new(message).hint("shorten the prompt, or lower --tokens"));
    }
    let room = prompt.len() + more;
    let model: M = trace::shapes_of(&(), |()| init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0))))?;
    // The EMA of the parameters where the training kept one.
    let names: Vec<&str> = saved.tensors().map(|tensor| tensor.name).collect();
    let prefix = if names.iter().any(|name| name.starts_with("ema.")) { "ema" } else { "params" };
    let parameters: M = backend
        .place(&model, &mut |path, spec| Ok(Arc::new(saved.read_as(&format!("{prefix}.{path}"), spec.dtype)?)))?;
    let (temperature, top_k) = (sampling.temperature, sampling.top_k);
    let mut prefill =
        Jit::new(backend, "prefill", Donate::Nothing, move |(model, tokens, seed): &(M, Tensor, Tensor)| {
            let (logits, cache) = model.prefill(tokens, &model.cache(1, room));
            let key = Key::from_seed(seed);
            let position = Tensor::scalar(DType::I32, tokens.dim(1) as f64);
            let token = chosen(&logits, &key.fold_in(&position), temperature, top_k);
            Step { cache, token, position, key }
        });
    let prompt: Vec<i32> = prompt.iter().map(|&token| token as i32).collect();
    let tokens = Literal::from_slice(&prompt, [1, prompt.len()]).map_err(runtime::Error::from)?;
    let mut step = prefill.call((parameters.clone(), Tensor::from(tokens), Tensor::from(sampling.seed)))?;
    let mut decode = Jit::new(backend, "decode", Donate::First, move |(step, model): &(Step, M)| {
        let (logits, cache) = model.decode_step(&step.token, &step.position, &step.cache);
        let position = &step.position + 1.0;
        let token = chosen(&logits, &step.key.fold_in(&position), temperature, top_k);
        Step { cache, token, position, key: step.key.clone() }
    });
    let mut sampled = Vec::with_capacity(more);
    let mut started = std::time::Instant::now();
    for n in 0..more {
        sampled.push(step.token.item::<i32>()? as u32);
        if n + 1 == more {
            break;
        }
        if n == 0 {
            decode.prepare(&(step.clone(), model.clone()), &std::sync::atomic::AtomicBool::new(false))?;
            started = std::time::Instant::now();
        }
        step = decode.call((step, parameters.clone()))?;
    }
    let seconds_per_token = started.elapsed().as_secs_f64() / sampled.len().max(1) as f64;
    Ok(Sampled { tokens: sampled, seconds_per_token })
}

/// The next token `[batch]` from logits `[batch, vocabulary]`.
fn chosen(logits: &Tensor, key: &Key, temperature: f64, top_k: Option<usize>) -> Tensor {
    if temperature == 0.0 {
        return logits.argmax(-1);
    }
    let scaled = logits / temperature;
    let kept = match top_k.filter(|&k| k > 0 && k < logits.dim(-1)) {
        Some(k) => {
            let (best, _) = scaled.top_k(k);
            let least = best.slice(-1, k - 1..k);
            scaled.greater_equal(&least).select(&scaled, &scaled.full_like(f64::NEG_INFINITY))
        }
        None => scaled,
    };
    key.categorical(&kept, -1)
}
