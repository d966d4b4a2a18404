//! The engine: requests enter and leave between steps, prompts are read in chunks beside the decoding of others.

use std::collections::VecDeque;
use std::sync::Arc;

use data::Tokenizer;
use nn::hf::{self, ModelConfig};
use nn::models::{Gpt2, LanguageModel, Llama, RunOptions};
use runtime::Backend;
use tensor::DType;
use trace::{Key, Tensor};

use crate::error::Error;
use crate::request::{FinishReason, Request, RequestId, TokenEvent};
use crate::slots::Slots;
use crate::source::OpenedModel;
use crate::steps::{ModelSteps, Picked, Prefill, RowChoice, StepSizes, Steps, cache_bytes};
use crate::text::AnswerText;

/// Sizes of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceOptions {
    /// Sequences that are decoded at once: rows of the KV cache.
    pub rows: usize,
    /// Tokens of the longest sequence, prompt and answer; at most as many as the model has positions.
    pub max_length: usize,
    /// Tokens of a prompt that are read before others are decoded again.
    pub prefill_chunk: usize,
    /// How the model is run.
    pub run: RunOptions,
}

/// A model that answers requests.
///
/// Draws depend on the request's seed and on positions only: a request gets the tokens that it would get alone.
pub struct Engine {
    steps: Box<dyn Steps>,
    tokenizer: Option<Tokenizer>,
    end_tokens: Vec<u32>,
    sizes: StepSizes,
    vocabulary: usize,
    cache_bytes: u64,
    slots: Slots,
    waiting: VecDeque<Running>,
    /// The request of each row.
    running: Vec<Option<Running>>,
    next: u64,
    ended: Vec<TokenEvent>,
}

/// A request on its way.
struct Running {
    id: RequestId,
    request: Request,
    generated: Vec<u32>,
    text: AnswerText,
}

impl Running {
    fn choice(&self) -> RowChoice<'_> {
        RowChoice { sampling: &self.request.sampling, prompt: &self.request.prompt, generated: &self.generated }
    }
}

impl Engine {
    /// Loads a model onto the device of a backend.
    pub fn load(backend: &Backend, source: &OpenedModel, options: &InferenceOptions) -> Result<Engine, Error> {
        let most = source.max_positions();
        if options.rows == 0 || options.max_length < 2 || options.prefill_chunk == 0 {
            return Err(Error::setting(
                "an engine needs at least one row, two tokens in a sequence and one in a chunk",
                "raise the option that is zero",
            ));
        }
        if options.max_length > most {
            return Err(Error::setting(
                format!("sequences of {} tokens are longer than the model's {most} positions", options.max_length),
                format!("give a length of at most {most}"),
            ));
        }
        let chunk = options.prefill_chunk.next_power_of_two().max(16);
        let sizes = StepSizes { rows: options.rows, max_length: options.max_length, chunk };
        let run = source.run_options(&options.run);
        let key = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
        let (steps, cache_bytes) = match source.config() {
            ModelConfig::Gpt2(config) => {
                let model = trace::shapes_of(&(), |()| Gpt2::init(&key(), config, &run))?;
                loaded(backend, source, &model, config.vocab_size, sizes)?
            }
            ModelConfig::Llama(config) => {
                let model = trace::shapes_of(&(), |()| Llama::init(&key(), config, &run))?;
                loaded(backend, source, &model, config.vocab_size, sizes)?
            }
        };
        Ok(Engine {
            steps,
            tokenizer: source.tokenizer().cloned(),
            end_tokens: source.end_tokens().to_vec(),
            sizes,
            vocabulary: source.vocab_size(),
            cache_bytes,
            slots: Slots::new(sizes.rows),
            waiting: VecDeque::new(),
            running: (0..sizes.rows).map(|_| None).collect(),
            next: 0,
            ended: Vec::new(),
        })
    }

    /// Compiles what requests need, so that none waits for the compiler. `progress` is told programs done and all of them.
    pub fn warm_up(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        self.steps.warm_up(progress)
    }

    /// Programs compiled so far.
    pub fn num_compiled(&self) -> usize {
        self.steps.num_compiled()
    }

    /// Bytes of the KV cache on the device.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Tokens of the longest sequence.
    pub fn max_length(&self) -> usize {
        self.sizes.max_length
    }

    /// Requests that wait for a row.
    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Requests that have a row.
    pub fn num_running(&self) -> usize {
        self.running.iter().flatten().count()
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.num_running() == 0 && self.ended.is_empty()
    }

    /// Takes a request; it begins when a row is free.
    pub fn add(&mut self, request: Request) -> Result<RequestId, Error> {
        request.sampling.check()?;
        let (length, most) = (request.prompt.len(), self.sizes.max_length);
        if length == 0 {
            return Err(Error::setting("the prompt has no tokens", "give a prompt"));
        }
        if length >= most {
            return Err(Error::setting(
                format!("the prompt has {length} tokens, and a sequence at most {most}"),
                "shorten the prompt, or allow longer sequences (--max-length)",
            ));
        }
        if let Some(token) = request.prompt.iter().find(|&&token| token as usize >= self.vocabulary) {
            return Err(Error::setting(
                format!("the prompt has token {token}, and the model knows {}", self.vocabulary),
                "give the model's own tokenizer",
            ));
        }
        if !request.sampling.stop.is_empty() && self.tokenizer.is_none() {
            return Err(Error::setting("stop texts need a tokenizer", "give --tokenizer FILE, or --tokenizer bytes"));
        }
        let id = RequestId(self.next);
        self.next += 1;
        if request.sampling.max_tokens == 0 {
            self.ended.push(ended(id, FinishReason::Length));
            return Ok(id);
        }
        let text = AnswerText::new(request.sampling.stop.clone());
        self.waiting.push_back(Running { id, request, generated: Vec::new(), text });
        Ok(id)
    }

    /// Ends a request; nothing happens if it ended already.
    pub fn cancel(&mut self, id: RequestId) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
            self.waiting.remove(at);
            self.ended.push(ended(id, FinishReason::Cancelled));
        }
        let row = self.running.iter().position(|running| running.as_ref().is_some_and(|running| running.id == id));
        if let Some(row) = row {
            self.running[row] = None;
            self.slots.release(row);
            self.ended.push(ended(id, FinishReason::Cancelled));
        }
    }

    /// One step: requests get rows, one chunk of a prompt is read, every other row decodes a token.
    pub fn step(&mut self) -> Result<Vec<TokenEvent>, Error> {
        let mut events = std::mem::take(&mut self.ended);
        self.admit()?;
        // Rows whose prompts are read: the next token needs all of it.
        let is_reading =
            |row: usize, running: &Running, slots: &Slots| slots.filled(row) < running.request.prompt.len();
        let reading = self.running.iter().enumerate().filter_map(|(row, running)| {
            let running = running.as_ref().filter(|running| is_reading(row, running, &self.slots))?;
            Some((running.id, row))
        });
        if let Some((_, row)) = reading.min() {
            events.extend(self.read_chunk(row)?);
        }
        let decoding = |row: usize, running: &Option<Running>, slots: &Slots| {
            running.as_ref().is_some_and(|running| !is_reading(row, running, slots) && !running.generated.is_empty())
        };
        let rows = self.running.iter().enumerate();
        let active: Vec<usize> = rows.filter(|(row, r)| decoding(*row, r, &self.slots)).map(|(row, _)| row).collect();
        if active.is_empty() {
            return Ok(events);
        }
        let longest = active.iter().map(|&row| self.slots.filled(row)).max().unwrap_or(0);
        let choices: Vec<Option<RowChoice<'_>>> = self
            .running
            .iter()
            .enumerate()
            .map(|(row, running)| running.as_ref().filter(|_| active.contains(&row)).map(Running::choice))
            .collect();
        let picked = self.steps.decode(&choices, longest)?;
        for row in active {
            let Some(running) = self.running.get(row).and_then(Option::as_ref) else { continue };
            // The token before is in the cache now.
            self.slots.written(row, running.generated.last().map_or(&[], std::slice::from_ref));
            if let Some(picked) = picked.get(row) {
                events.push(self.take(row, picked.clone())?);
            }
        }
        Ok(events)
    }

    /// Runs until there is nothing to do.
    pub fn run(&mut self, on: &mut dyn FnMut(TokenEvent)) -> Result<(), Error> {
        while !self.is_idle() {
            self.step()?.into_iter().for_each(&mut *on);
        }
        Ok(())
    }

    /// Gives free rows to requests that wait, in their order.
    fn admit(&mut self) -> Result<(), Error> {
        while let Some(next) = self.waiting.front() {
            let Some(taken) = self.slots.take(&next.request.prompt) else { return Ok(()) };
            if let Some(from) = taken.copy_from {
                self.steps.copy_row(from, taken.slot, taken.reused)?;
            }
            self.running[taken.slot] = self.waiting.pop_front();
        }
        Ok(())
    }

    /// Reads the next chunk of a row's prompt; the last one gives the first token.
    fn read_chunk(&mut self, row: usize) -> Result<Option<TokenEvent>, Error> {
        let Some(running) = self.running.get(row).and_then(Option::as_ref) else { return Ok(None) };
        let prompt = &running.request.prompt;
        let filled = self.slots.filled(row);
        let end = (filled + self.sizes.chunk).min(prompt.len());
        let tokens = &prompt[filled..end];
        let picked = self.steps.prefill(&Prefill { row, filled, tokens, choice: running.choice() })?;
        self.slots.written(row, tokens);
        if end < prompt.len() { Ok(None) } else { self.take(row, picked).map(Some) }
    }

    /// One more token of a row.
    fn take(&mut self, row: usize, picked: Picked) -> Result<TokenEvent, Error> {
        let Some(running) = self.running.get_mut(row).and_then(Option::as_mut) else {
            return Err(Error::setting(format!("row {row} has no request"), "report this"));
        };
        let Picked { token, mut likeliest } = picked;
        running.generated.push(token.token);
        let sampling = &running.request.sampling;
        likeliest.truncate(sampling.log_probabilities);
        let is_end = !sampling.ignore_eos && self.end_tokens.contains(&token.token);
        let length = running.request.prompt.len() + running.generated.len();
        let is_full = running.generated.len() >= sampling.max_tokens || length >= self.sizes.max_length;
        let mut text = String::new();
        let mut finish = is_full.then_some(FinishReason::Length);
        if is_end {
            finish = Some(FinishReason::Stop);
        } else if let Some(tokenizer) = &self.tokenizer {
            let piece = running.text.push(tokenizer, token.token)?;
            text = piece.text;
            if piece.is_stopped {
                finish = Some(FinishReason::Stop);
            }
        }
        if let (Some(_), Some(tokenizer)) = (finish, &self.tokenizer) {
            text.push_str(&running.text.finish(tokenizer)?);
        }
        let event = TokenEvent { id: running.id, token: Some(token), likeliest, text, finish };
        if finish.is_some() {
            self.running[row] = None;
            self.slots.release(row);
        }
        Ok(event)
    }
}

fn ended(id: RequestId, finish: FinishReason) -> TokenEvent {
    TokenEvent { id, token: None, likeliest: Vec::new(), text: String::new(), finish: Some(finish) }
}

/// A model's programs, with its parameters on the device, and the bytes of its KV cache.
fn loaded<M: LanguageModel + 'static>(
    backend: &Backend,
    source: &OpenedModel,
    model: &M,
    vocabulary: usize,
    sizes: StepSizes,
) -> Result<(Box<dyn Steps>, u64), Error> {
    let cache = trace::shapes_of(model, |model: &M| model.cache(sizes.rows, sizes.positions()))?;
    let model = match source {
        OpenedModel::Folder { folder, .. } => {
            let loaded = hf::load_packed(&folder.files, folder.family(), model, folder.activations())?;
            let mut params = loaded.params.into_iter();
            backend.place(&loaded.model, &mut |path, _| {
                params.next().map(Arc::new).ok_or_else(|| runtime::ValidationError::Other(path.into()).into())
            })?
        }
        OpenedModel::Run { run, .. } => {
            backend.place(model, &mut |path, spec| Ok(Arc::new(run.read(path, spec.dtype)?)))?
        }
    };
    Ok((Box::new(ModelSteps::new(backend, model, vocabulary, sizes)?), cache_bytes(&cache)))
}
