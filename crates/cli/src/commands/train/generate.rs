//! `tpu generate`: text from a trained model, token by token, on the device.

use std::path::Path;
use std::sync::Arc;

use nn::hf;
use nn::layers::KeyValues;
use nn::models::{Gpt2, LanguageModel, Llama};
use runtime::{Backend, DeviceArray, Jit, OnDevice, trainer::Resume};
use serde::Serialize;
use tensor::{DType, Literal, Spec};
use trace::{Donate, Key, Tensor, Tree};
use weights::{Check, Saved, Series};

use super::config::DataConfig;
use super::data::tokenizer;
use super::model::ModelConfig;
use crate::args::GenerateArgs;
use crate::commands;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    checkpoint: String,
    step: u64,
    prompt: String,
    text: String,
    tokens: Vec<u32>,
    seconds_per_token: f64,
}

pub(crate) fn run(args: &GenerateArgs, output: &Output) -> Result<Answer, Failure> {
    let device = commands::config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&device.device) {
        return isolate_again();
    }
    if args.temperature < 0.0 || !args.temperature.is_finite() {
        return Err(Failure::new(format!("a temperature of {}", args.temperature))
            .hint("0 takes the likeliest token; 1 draws as the model says"));
    }
    let folder = args.folder.trim_end_matches('/');
    let series = Series::open(&format!("{folder}/checkpoints")).map_err(runtime::Error::from)?;
    let saved = match args.step {
        Some(step) => series.load(step),
        None => series.latest_good(Check::Sizes).map(|found| found.saved),
    }
    .map_err(runtime::Error::from)?;
    let kept: Resume = serde_json::from_value(saved.metadata().clone()).map_err(|error| {
        Failure::new(format!("{}: {error}", saved.address())).hint("give the folder of a `tpu train` run")
    })?;
    let field = |name: &str| kept.description.get(name).cloned().unwrap_or_default();
    let model = ModelConfig::read(&field("model"), Path::new(""))?;
    let data: DataConfig = serde_json::from_value(field("data")).map_err(Failure::new)?;
    let options: nn::models::RunOptions = serde_json::from_value(field("run")).map_err(Failure::new)?;
    let name = match (&args.tokenizer, &data) {
        (Some(name), _) => name.clone(),
        (None, DataConfig::Text { tokenizer, .. }) => tokenizer.clone().unwrap_or_else(|| "bytes".into()),
        (None, _) => {
            return Err(Failure::new("the model was trained on tokens, not on text")
                .hint("give --tokenizer FILE, or --tokenizer bytes"));
        }
    };
    let tokenizer = tokenizer(&name, Path::new("")).map_err(runtime::Error::from)?;
    let prompt = tokenizer.encode(&args.prompt).map_err(runtime::Error::from)?;
    if prompt.is_empty() {
        return Err(Failure::new("the prompt has no tokens").hint("give --prompt TEXT"));
    }
    let backend = Backend::auto(&device)?;
    let sampled = match &model {
        ModelConfig::Language(hf::ModelConfig::Gpt2(config)) => {
            let room = config.n_positions;
            sample(&backend, &saved, args, &prompt, room, |key| Gpt2::init(key, config, &options))?
        }
        ModelConfig::Language(hf::ModelConfig::Llama(config)) => {
            let room = config.max_position_embeddings;
            sample(&backend, &saved, args, &prompt, room, |key| Llama::init(key, config, &options))?
        }
        _ => return Err(Failure::new("the model reads images").hint("text comes from models of token sequences")),
    };
    let text = tokenizer.decode(&sampled.tokens).map_err(runtime::Error::from)?;
    let record = Record {
        version: 1,
        checkpoint: saved.address(),
        step: saved.step(),
        prompt: args.prompt.clone(),
        text,
        tokens: sampled.tokens,
        seconds_per_token: sampled.seconds_per_token,
    };
    output.record(&record, || format!("{}{}\n", record.prompt, record.text))?;
    Ok(Answer::Yes)
}

struct Sampled {
    tokens: Vec<u32>,
    seconds_per_token: f64,
}

/// What goes from token to token.
#[derive(Clone, Tree)]
struct Step {
    cache: KeyValues,
    token: Tensor,
    position: Tensor,
    key: Key,
}

fn sample<M: LanguageModel + 'static>(
    backend: &Backend,
    saved: &Saved,
    args: &GenerateArgs,
    prompt: &[u32],
    room: usize,
    init: impl Fn(&Key) -> M,
) -> Result<Sampled, Failure> {
    let more = args.tokens;
    if prompt.len() + more > room {
        let message =
            format!("{} tokens of prompt and {more} more are over the model's {room} positions", prompt.len());
        return Err(Failure::new(message).hint("shorten the prompt, or lower --tokens"));
    }
    let room = prompt.len() + more;
    let model: M = trace::shapes_of(&(), |()| init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0))))
        .map_err(runtime::Error::from)?;
    // The average of parameters where the training kept one.
    let names: Vec<&str> = saved.tensors().map(|tensor| tensor.name).collect();
    let prefix = if names.iter().any(|name| name.starts_with("average.")) { "average" } else { "params" };
    let parameters: OnDevice<M> = backend
        .place(&model, &mut |path, spec| Ok(Arc::new(saved.read_as(&format!("{prefix}.{path}"), spec.dtype)?)))?;
    let (temperature, top_k) = (args.temperature, args.top_k);
    let tokens = Tensor::of(Spec::new(DType::I32, [1, prompt.len()]));
    let seed = Tensor::of(Spec::new(DType::U32, []));
    let mut prefill =
        Jit::new(backend, "prefill", Donate::Nothing, move |(model, tokens, seed): &(M, Tensor, Tensor)| {
            let (logits, cache) = model.prefill(tokens, &model.cache(1, room));
            let key = Key::from_seed(seed);
            let position = Tensor::scalar(DType::I32, tokens.dim(1) as f64);
            let token = chosen(&logits, &key.fold_in(&position), temperature, top_k);
            Step { cache, token, position, key }
        });
    let literal = |dims: &[usize], values: &[u32]| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Literal::new(DType::I32, dims, bytes)
    };
    let too_large = || Failure::new("the prompt is too long");
    let prompt_array = backend.send(&Arc::new(literal(&[1, prompt.len()], prompt).ok_or_else(too_large)?))?;
    let seed_literal = Literal::new(DType::U32, [], args.seed.to_le_bytes().to_vec()).ok_or_else(too_large)?;
    let seed_array = backend.send(&Arc::new(seed_literal))?;
    let arrays: Vec<DeviceArray> = parameters.arrays().iter().cloned().chain([prompt_array, seed_array]).collect();
    let mut step = prefill.call(&(model.clone(), tokens, seed), &arrays)?;
    let donated = step.structure().specs().len();
    let mut decode = Jit::new(backend, "decode", Donate::Leading(donated), move |(step, model): &(Step, M)| {
        let (logits, cache) = model.decode_step(&step.token, &step.position, &step.cache);
        let position = &step.position + 1.0;
        let token = chosen(&logits, &step.key.fold_in(&position), temperature, top_k);
        Step { cache, token, position, key: step.key.clone() }
    });
    let mut sampled = Vec::with_capacity(more);
    let mut started = std::time::Instant::now();
    for n in 0..more {
        let token = step.named().find(|(path, _)| path == "token").map(|(_, array)| array.to_host()).transpose()?;
        let bytes = token.and_then(|token| token.bytes().get(..4).and_then(|bytes| bytes.try_into().ok()));
        sampled.push(u32::from_le_bytes(bytes.unwrap_or_default()));
        if n + 1 == more {
            break;
        }
        let inputs = (step.structure().clone(), model.clone());
        let arrays: Vec<DeviceArray> = step.arrays().iter().chain(parameters.arrays()).cloned().collect();
        if n == 0 {
            decode.prepare(&inputs, &std::sync::atomic::AtomicBool::new(false))?;
            started = std::time::Instant::now();
        }
        drop(step);
        step = decode.call(&inputs, &arrays)?;
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
