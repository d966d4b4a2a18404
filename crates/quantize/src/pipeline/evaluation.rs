//! How well a model predicts a text: perplexity, and how often its first choice is right.

use std::sync::Arc;
use std::time::Instant;

use nn::hf::{self, ModelConfig, TensorSource};
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama, RunOptions};
use nn::quant::MapWeights;
use runtime::{Backend, Jit, ReadTensor};
use serde::Serialize;
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor};

use crate::error::Error;
use crate::pipeline::ModelFolder;

/// How a model is evaluated.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Tokens of a window; windows do not overlap.
    pub sequence: usize,
    /// Windows at once.
    pub batch: usize,
    /// At most so many windows, from the first on.
    pub windows: Option<usize>,
    /// How the model is run.
    pub run: RunOptions,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Tokens predicted.
    pub tokens: u64,
    /// Mean negative log likelihood of a token, in nats.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// Share of tokens that were the model's first choice.
    pub accuracy: f64,
    /// Bytes of the parameters on the device.
    pub parameter_bytes: u64,
    /// Seconds, compilation not counted.
    pub seconds: f64,
    /// What became of quantized weights on their way to the device, in lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<String>,
}

/// Evaluates the model of a folder on tokens. `progress` is told windows done and all of them.
pub fn evaluate_folder(
    backend: &Backend,
    folder: &ModelFolder,
    tokens: &[u32],
    options: &EvaluateOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Evaluation, Error> {
    let seed = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
    match &folder.config {
        ModelConfig::Gpt2(config) => {
            let model = trace::shapes_of(&(), |()| Gpt2::init(&seed(), config, &options.run))?;
            evaluate(backend, folder, &model, tokens, options, progress)
        }
        ModelConfig::Llama(config) => {
            let model = trace::shapes_of(&(), |()| Llama::init(&seed(), config, &options.run))?;
            evaluate(backend, folder, &model, tokens, options, progress)
        }
        ModelConfig::Gemma4(config) => {
            let model = trace::shapes_of(&(), |()| Gemma4::init(&seed(), config, &options.run))?;
            evaluate(backend, folder, &model, tokens, options, progress)
        }
    }
}

fn evaluate<M: LanguageModel + MapWeights + 'static>(
    backend: &Backend,
    folder: &ModelFolder,
    model: &M,
    tokens: &[u32],
    options: &EvaluateOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Evaluation, Error> {
    let windows = windows_of(tokens, options)?;
    let loaded = hf::load_packed(&folder.files, folder.family(), model, folder.activations())?;
    let load = hf::load_report(&loaded.weights);
    let parameter_bytes = loaded.params.iter().map(packed_bytes).sum();
    let mut params = loaded.params.into_iter();
    let placed: M = backend.place(&loaded.model, &mut |path, _| {
        params.next().map(Arc::new).ok_or_else(|| runtime::Error::from(runtime::ValidationError::Other(path.into())))
    })?;
    let mut score = Jit::new(backend, "evaluate", Donate::Nothing, |(model, window): &(M, Tensor)| {
        let last = window.dim(1) - 1;
        let (tokens, targets) = (window.slice(1, 0..last), window.slice(1, 1..last + 1));
        let logits = model.logits(&tokens);
        let rows = logits.cast(DType::F32);
        let likeliest = rows.argmax(-1).cast(DType::I32);
        let (loss, _) = nn::CrossEntropy::default().sum(&rows, &targets);
        let hits = likeliest.equals(&targets).cast(DType::F32);
        (loss, hits.sum_all())
    });
    let (mut loss, mut hits, mut seconds, mut done) = (0.0, 0.0, 0.0, 0);
    for batch in windows.chunks(options.batch.max(1)) {
        let width = options.sequence + 1;
        let flat: Vec<i32> = batch.iter().flat_map(|window| window.iter().map(|token| *token as i32)).collect();
        let literal = Literal::from_slice(&flat, [batch.len(), width]).map_err(runtime::Error::from)?;
        let before = score.num_compiled();
        let begun = Instant::now();
        let (sum, right) = score.call((placed.clone(), Tensor::from(literal)))?;
        loss += f64::from(sum.item::<f32>()?);
        hits += f64::from(right.item::<f32>()?);
        if score.num_compiled() == before {
            seconds += begun.elapsed().as_secs_f64();
        }
        done += batch.len();
        progress(done, windows.len());
    }
    let count = (windows.len() * options.sequence) as f64;
    let mean = loss / count;
    if !mean.is_finite() {
        if let Some(name) = not_finite(folder)? {
            return Err(Error::layer(&name, "it has NaN or infinite values", "the folder is damaged: get it again"));
        }
        return Err(Error::setting(
            format!("the loss of {} is {mean}", folder.path.display()),
            "activations overflow: try --precision f32",
        ));
    }
    Ok(Evaluation {
        tokens: count as u64,
        loss: mean,
        perplexity: mean.exp(),
        accuracy: hits / count,
        parameter_bytes,
        seconds,
        load,
    })
}

/// The first tensor that has NaN or infinite values.
fn not_finite(folder: &ModelFolder) -> Result<Option<String>, Error> {
    for name in TensorSource::names(&folder.files) {
        let literal = TensorSource::read(&folder.files, &name, DType::F32)?;
        if literal.cast(DType::F32)?.to_vec::<f32>()?.iter().any(|value| !value.is_finite()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Windows of one more token than they predict.
fn windows_of<'a>(tokens: &'a [u32], options: &EvaluateOptions) -> Result<Vec<&'a [u32]>, Error> {
    if options.sequence == 0 {
        return Err(Error::setting("the sequence has no tokens", "give --sequence of at least 1"));
    }
    let starts = (0..tokens.len()).step_by(options.sequence);
    let windows = starts.map_while(|start| tokens.get(start..start + options.sequence + 1));
    let windows: Vec<&[u32]> = windows.take(options.windows.unwrap_or(usize::MAX)).collect();
    match windows.is_empty() {
        true => Err(Error::setting(
            format!("the text has {} tokens, fewer than one window of {}", tokens.len(), options.sequence + 1),
            "give a longer text, or a shorter --sequence",
        )),
        false => Ok(windows),
    }
}

/// Bytes of a parameter where elements take no more than their bits.
fn packed_bytes(literal: &Literal) -> u64 {
    (literal.num_elements() as u64 * u64::from(literal.dtype().bits())).div_ceil(8)
}
