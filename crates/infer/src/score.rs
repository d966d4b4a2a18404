//! Log likelihoods of texts after their contexts.

use nn::hf::ModelConfig;
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama, RunOptions};
use runtime::{Backend, Jit, ReadTensor};
use serde::Serialize;
use tensor::{DType, Literal};
use trace::{Donate, Key, Tensor};

use crate::error::Error;
use crate::load::placed;
use crate::source::OpenedModel;

/// Fewest tokens that a program computes.
const LEAST_LENGTH: usize = 16;

/// A context and what follows it, as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPair {
    /// Tokens before; at least one.
    pub context: Vec<u32>,
    /// Tokens whose probability is asked for.
    pub continuation: Vec<u32>,
}

/// How likely a text is after its context.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenScore {
    /// The logarithm of its probability.
    pub log_likelihood: f64,
    /// Whether every token of it is the likeliest.
    pub is_greedy: bool,
}

/// How texts are scored.
#[derive(Clone, Debug)]
pub struct ScoreOptions {
    /// Texts at once.
    pub batch: usize,
    /// How the model is run.
    pub run: RunOptions,
}

/// Scores continuations after their contexts, in their order. Contexts that are too long lose their begin. `progress` is told texts
/// done and all of them.
pub fn score(
    backend: &Backend,
    source: &OpenedModel,
    pairs: &[TokenPair],
    options: &ScoreOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<TokenScore>, Error> {
    let run = source.run_options(&options.run);
    let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
    match source.config() {
        ModelConfig::Gpt2(config) => {
            let model = trace::shapes_of(&(), |()| Gpt2::init(&key(), config, &run))?;
            scored(backend, source, &model, pairs, options, progress)
        }
        ModelConfig::Llama(config) => {
            let model = trace::shapes_of(&(), |()| Llama::init(&key(), config, &run))?;
            scored(backend, source, &model, pairs, options, progress)
        }
        ModelConfig::Gemma4(config) => {
            let model = trace::shapes_of(&(), |()| Gemma4::init(&key(), config, &run))?;
            scored(backend, source, &model, pairs, options, progress)
        }
    }
}

/// Tokens of a text with its context, and how many of them are scored.
struct Sequence {
    tokens: Vec<i32>,
    scored: usize,
}

fn scored<M: LanguageModel + 'static>(
    backend: &Backend,
    source: &OpenedModel,
    model: &M,
    pairs: &[TokenPair],
    options: &ScoreOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<TokenScore>, Error> {
    let sequences: Vec<Sequence> = pairs.iter().map(|pair| sequence(source, pair)).collect::<Result<_, Error>>()?;
    let model = placed(backend, source, model)?;
    let mut program = Jit::new(backend, "score", Donate::Nothing, |input: &(M, Tensor, Tensor)| {
        let (model, tokens, is_scored) = input;
        let last = tokens.dim(1) - 1;
        let (before, targets) = (tokens.slice(1, 0..last), tokens.slice(1, 1..last + 1));
        let logits = model.logits(&before);
        let log_probabilities = logits.log_softmax(-1).take_along(-1, &targets.expand(-1)).squeeze(-1);
        let misses = logits.argmax(-1).cast(DType::I32).differs(&targets).cast(DType::F32);
        ((&log_probabilities * is_scored).sum(&[1]), (&misses * is_scored).sum(&[1]))
    });
    // Those of similar lengths together.
    let mut order: Vec<usize> = (0..sequences.len()).collect();
    order.sort_by_key(|&n| std::cmp::Reverse(sequences[n].tokens.len()));
    let mut scores = vec![TokenScore { log_likelihood: f64::NAN, is_greedy: false }; sequences.len()];
    let batch = options.batch.clamp(1, sequences.len().max(1));
    let mut done = 0;
    for group in order.chunks(batch) {
        let longest = group.iter().map(|&n| sequences[n].tokens.len()).max().unwrap_or(0);
        let width = (longest - 1).next_power_of_two().max(LEAST_LENGTH).min(source.max_positions());
        let (mut tokens, mut is_scored) = (vec![0i32; batch * (width + 1)], vec![0f32; batch * width]);
        for (row, &n) in group.iter().enumerate() {
            let Sequence { tokens: of_row, scored } = &sequences[n];
            let (from, end) = (row * (width + 1), of_row.len() - 1);
            tokens[from..from + of_row.len()].copy_from_slice(of_row);
            is_scored[row * width + end - scored..row * width + end].fill(1.0);
        }
        let tokens = Literal::from_slice(&tokens, [batch, width + 1]).map_err(runtime::Error::from)?;
        let is_scored = Literal::from_slice(&is_scored, [batch, width]).map_err(runtime::Error::from)?;
        let (sums, misses) = program.call((model.clone(), Tensor::from(tokens), Tensor::from(is_scored)))?;
        let (sums, misses) = (sums.to_vec::<f32>()?, misses.to_vec::<f32>()?);
        for (&n, (sum, misses)) in group.iter().zip(sums.iter().zip(&misses)) {
            scores[n] = TokenScore { log_likelihood: f64::from(*sum), is_greedy: *misses == 0.0 };
        }
        done += group.len();
        progress(done, sequences.len());
    }
    match scores.iter().position(|score| !score.log_likelihood.is_finite()) {
        Some(at) => Err(Error::setting(
            format!("the log likelihood of text {} is {}", at + 1, scores[at].log_likelihood),
            "activations overflow: try --precision f32, or get the folder again",
        )),
        None => Ok(scores),
    }
}

/// A context with its continuation, as long as the model allows: the begin of the context is left out.
fn sequence(source: &OpenedModel, pair: &TokenPair) -> Result<Sequence, Error> {
    let (most, vocabulary) = (source.max_positions(), source.vocab_size());
    let scored = pair.continuation.len();
    if scored == 0 || pair.context.is_empty() || scored > most {
        return Err(Error::setting(
            format!("a text of {scored} tokens after {} cannot be scored", pair.context.len()),
            format!("give a context, and texts of 1 to {most} tokens"),
        ));
    }
    // The last token is only predicted: it needs no position.
    let all = pair.context.iter().chain(&pair.continuation);
    let skipped = (pair.context.len() + scored).saturating_sub(most + 1);
    let tokens: Vec<u32> = all.skip(skipped).copied().collect();
    match tokens.iter().find(|&&token| token as usize >= vocabulary) {
        Some(token) => Err(Error::setting(
            format!("a text has token {token}, and the model knows {vocabulary}"),
            "give the model's own tokenizer",
        )),
        None => Ok(Sequence { tokens: tokens.iter().map(|&token| token as i32).collect(), scored }),
    }
}
