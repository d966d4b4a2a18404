//! The engine: requests enter and leave between steps, prompts are read in chunks beside the decoding of others.
//!
//! A step is started before the tokens of the one before are read: the last token of each row stays on the device as the next
//! step's input, and what the host does with tokens (text, stop texts, the next requests) is done beside the device's work.

use std::collections::VecDeque;
use std::sync::Arc;

use data::Tokenizer;
use nn::models::RunOptions;
use runtime::{Backend, Platform};

use crate::constraint::{Constraints, Guide, Guided};
use crate::error::Error;
use crate::images::{GivenPrompt, ImageEncoder, PromptImage};
use crate::launched::{Launched, Picked};
use crate::load::load;
use crate::options::InferenceOptions;
use crate::request::{FinishReason, Request, RequestId, TokenEvent};
use crate::sizes::StepSizes;
use crate::slots::Slots;
use crate::source::OpenedModel;
use crate::steps::{Prefill, RowChoice, Steps};
use crate::text::AnswerText;

/// Most steps that are started ahead.
const MAX_LOOKAHEAD: usize = 4;

/// A model that answers requests.
///
/// Draws depend on the request's seed and on positions only: a request gets the tokens that it would get alone.
pub struct Engine {
    steps: Box<dyn Steps>,
    tokenizer: Option<Tokenizer>,
    end_tokens: Vec<u32>,
    constraints: Arc<Constraints>,
    sizes: StepSizes,
    vocabulary: usize,
    cache_bytes: u64,
    slots: Slots,
    waiting: VecDeque<Running>,
    /// The request of each row.
    running: Vec<Option<Running>>,
    /// Steps whose tokens are not read yet, in the order in which they were started.
    launched: VecDeque<LaunchedStep>,
    lookahead: usize,
    next: u64,
    ended: Vec<TokenEvent>,
    drafts: DraftCounts,
    /// What reads images, if the model does.
    images: Option<ImageEncoder>,
}

/// A step whose tokens are not read yet.
struct LaunchedStep {
    tokens: Launched,
    /// The rows that it chooses for: the row of the KV cache, whose it was then, and its place in the step.
    rows: Vec<(usize, RequestId, usize)>,
}

/// Steps with drafts so far.
#[derive(Clone, Copy, Debug, Default)]
struct DraftCounts {
    steps: u64,
    tokens: u64,
}

/// A request on its way.
struct Running {
    id: RequestId,
    request: Request,
    /// Its images, until they are read.
    images: Vec<PromptImage>,
    /// What stands for their tokens.
    given: Option<GivenPrompt>,
    /// The prompt as it is compared with others.
    keys: Vec<u32>,
    generated: Vec<u32>,
    /// Tokens that are being chosen and were not read yet.
    unread: usize,
    text: AnswerText,
    /// What may come next, where the answer has a form.
    guide: Option<Guide>,
}

impl Running {
    fn choice(&self) -> RowChoice<'_> {
        RowChoice {
            sampling: &self.request.sampling,
            prompt: &self.request.prompt,
            generated: &self.generated,
            allowed: self.guide.as_ref().map(Guide::allowed),
        }
    }

    /// Tokens generated, those that were not read yet among them.
    fn num_started(&self) -> usize {
        self.generated.len() + self.unread
    }

    /// Tokens that it may have in all.
    fn most_tokens(&self, max_length: usize) -> usize {
        self.request.sampling.max_tokens.min(max_length.saturating_sub(self.request.prompt.len()))
    }
}

impl Engine {
    /// Loads a model onto the devices of a backend. What does not fit is refused before any of it is loaded.
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
        let run = RunOptions { longest_sequence: Some(options.max_length), ..options.run.clone() };
        let options = &InferenceOptions { run, ..options.clone() };
        let sizes = StepSizes { rows: options.rows, max_length: options.max_length, chunk };
        // Before the model, whose memory is checked: this is a part of what is used then.
        let images = match (source, source.images()) {
            (OpenedModel::Folder { folder, .. }, Some(reader)) => {
                Some(ImageEncoder::load(backend, &folder.files, reader, &source.run_options(&options.run))?)
            }
            _ => None,
        };
        let (steps, cache_bytes) = load(backend, source, options, sizes)?;
        let lookahead = match (steps.has_drafts(), backend.platform()) {
            (true, _) => 0,
            (false, platform) => options.lookahead.unwrap_or(usize::from(*platform != Platform::Cpu)),
        };
        Ok(Engine {
            steps,
            tokenizer: source.tokenizer().cloned(),
            end_tokens: source.end_tokens().to_vec(),
            constraints: source.constraints().clone(),
            sizes,
            vocabulary: source.vocab_size(),
            cache_bytes,
            slots: Slots::new(sizes.rows),
            waiting: VecDeque::new(),
            running: (0..sizes.rows).map(|_| None).collect(),
            launched: VecDeque::new(),
            lookahead: lookahead.min(MAX_LOOKAHEAD),
            next: 0,
            ended: Vec::new(),
            drafts: DraftCounts::default(),
            images,
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

    /// Tokens that a row gets in a step with drafts, on average; `None` where there was none.
    pub fn tokens_per_draft(&self) -> Option<f64> {
        let DraftCounts { steps, tokens } = self.drafts;
        (steps > 0).then(|| tokens as f64 / steps as f64)
    }

    /// Bytes of the KV cache on each device.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Tokens of the longest sequence.
    pub fn max_length(&self) -> usize {
        self.sizes.max_length
    }

    /// Tokens of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary
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
        self.waiting.is_empty() && self.num_running() == 0 && self.ended.is_empty() && self.launched.is_empty()
    }

    /// Takes a request; it begins when a row is free.
    pub fn add(&mut self, request: Request) -> Result<RequestId, Error> {
        self.add_with_images(request, Vec::new())
    }

    /// Takes a request with images, whose tokens the prompt has ([`OpenedModel::with_image_tokens`]); it begins when a row is free.
    pub fn add_with_images(&mut self, request: Request, images: Vec<PromptImage>) -> Result<RequestId, Error> {
        let keys = match &self.images {
            _ if images.is_empty() => request.prompt.clone(),
            Some(encoder) => {
                encoder.check(&request.prompt, &images)?;
                encoder.keys(&request.prompt, &images)
            }
            None => {
                return Err(Error::setting("the model reads no images", "leave them out, or give a model that does"));
            }
        };
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
        if let Some(token) = request.sampling.logit_bias.keys().find(|&&token| token as usize >= self.vocabulary) {
            return Err(Error::setting(
                format!("logit_bias has token {token}, and the model knows {}", self.vocabulary),
                "leave it out",
            ));
        }
        let guide = self.constraints.guide(&request.sampling.format)?;
        let id = RequestId(self.next);
        self.next += 1;
        if request.sampling.max_tokens == 0 {
            self.ended.push(ended(id, FinishReason::Length));
            return Ok(id);
        }
        let text = AnswerText::new(request.sampling.stop.clone());
        let generated = Vec::new();
        let running = Running { id, request, images, given: None, keys, generated, unread: 0, text, guide };
        self.waiting.push_back(running);
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

    /// One step: requests get rows, one chunk of a prompt is read, every other row decodes a token. The tokens are those of the
    /// steps before where there is lookahead.
    pub fn step(&mut self) -> Result<Vec<TokenEvent>, Error> {
        let mut events = std::mem::take(&mut self.ended);
        self.admit()?;
        // Rows whose prompts are read: the next token needs all of it.
        let reading = self.running.iter().enumerate().filter_map(|(row, running)| {
            let running = running.as_ref().filter(|running| self.is_reading(row, running))?;
            Some((running.id, row))
        });
        if let Some((_, row)) = reading.min() {
            self.read_chunk(row)?;
        }
        // Texts that end with the tokens on their way need no step more; some choices depend on all tokens before.
        let needs_text = |running: &Running| running.unread > 0 && running.request.sampling.depends_on_text();
        if self.lookahead == 0 || self.running.iter().flatten().any(needs_text) {
            self.settle(0, &mut events)?;
        }
        let has_started = self.decode()?;
        self.settle(if has_started { self.lookahead } else { 0 }, &mut events)?;
        Ok(events)
    }

    fn is_reading(&self, row: usize, running: &Running) -> bool {
        self.slots.filled(row) < running.request.prompt.len()
    }

    /// Starts a step of all rows that have their prompt and are to have more tokens; says whether there were any.
    fn decode(&mut self) -> Result<bool, Error> {
        let is_active = |(row, running): &(usize, &Option<Running>)| {
            running.as_ref().is_some_and(|running| {
                let started = running.num_started();
                !self.is_reading(*row, running) && started > 0 && started < running.most_tokens(self.sizes.max_length)
            })
        };
        let active: Vec<usize> = self.running.iter().enumerate().filter(is_active).map(|(row, _)| row).collect();
        if active.is_empty() {
            return Ok(false);
        }
        let of = |row: &usize| self.running.get(*row).and_then(Option::as_ref);
        // All tokens but the last are in the cache, or are written by steps that were started.
        let filled = |running: &Running| running.request.prompt.len() + running.num_started() - 1;
        let longest = active.iter().filter_map(of).map(filled).max().unwrap_or(0);
        let rows = active.iter().filter_map(|row| of(row).map(|running| (*row, running.id, *row))).collect();
        let choices: Vec<Option<RowChoice<'_>>> = self
            .running
            .iter()
            .enumerate()
            .map(|(row, running)| running.as_ref().filter(|_| active.contains(&row)).map(Running::choice))
            .collect();
        let tokens = self.steps.decode(&choices, longest)?;
        self.launched.push_back(LaunchedStep { tokens, rows });
        for row in active {
            if let Some(running) = self.running.get_mut(row).and_then(Option::as_mut) {
                running.unread += 1;
            }
        }
        Ok(true)
    }

    /// Reads the tokens of steps that were started, in their order, until so many are left.
    fn settle(&mut self, left: usize, events: &mut Vec<TokenEvent>) -> Result<(), Error> {
        while self.launched.len() > left {
            let Some(LaunchedStep { tokens, rows }) = self.launched.pop_front() else { return Ok(()) };
            let has_drafts = tokens.has_drafts();
            let mut tokens = tokens.read()?;
            for (row, id, place) in rows {
                let picked = tokens.get_mut(place).map(std::mem::take).unwrap_or_default();
                if has_drafts {
                    self.drafts.steps += 1;
                    self.drafts.tokens += picked.len() as u64;
                }
                for (n, picked) in picked.into_iter().enumerate() {
                    // Whose row it is now: a request that ended gets nothing of the steps that were started before.
                    let Some(running) = self.running.get_mut(row).and_then(Option::as_mut) else { break };
                    if running.id != id {
                        break;
                    }
                    if n == 0 {
                        running.unread = running.unread.saturating_sub(1);
                    }
                    // The token before is in the cache now.
                    if let Some(before) = running.generated.last() {
                        self.slots.written(row, std::slice::from_ref(before));
                    }
                    events.push(self.take(row, picked)?);
                }
            }
        }
        Ok(())
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
            let Some(taken) = self.slots.take(&next.keys) else { return Ok(()) };
            if let Some(from) = taken.copy_from {
                self.steps.copy_row(from, taken.slot, taken.reused)?;
            }
            self.running[taken.slot] = self.waiting.pop_front();
        }
        Ok(())
    }

    /// Reads the next chunk of a row's prompt; the last one chooses the first token.
    fn read_chunk(&mut self, row: usize) -> Result<(), Error> {
        let Some(running) = self.running.get_mut(row).and_then(Option::as_mut) else { return Ok(()) };
        if let Some(encoder) = self.images.as_mut().filter(|_| !running.images.is_empty()) {
            running.given = Some(encoder.encode(&std::mem::take(&mut running.images))?);
        }
        let prompt = &running.request.prompt;
        let filled = self.slots.filled(row);
        let end = (filled + self.sizes.chunk).min(prompt.len());
        let (tokens, is_last) = (&prompt[filled..end], end == prompt.len());
        let given = running.given.as_ref().and_then(|given| given.chunk(&prompt[..filled], tokens));
        let launched = self.steps.prefill(&Prefill { row, filled, tokens, given, choice: running.choice() })?;
        self.slots.written(row, &running.keys[filled..end]);
        if is_last {
            running.given = None;
            self.launched.push_back(LaunchedStep { tokens: launched, rows: vec![(row, running.id, 0)] });
            running.unread += 1;
        }
        Ok(())
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
        let is_full = running.generated.len() >= running.most_tokens(self.sizes.max_length);
        let mut text = String::new();
        let mut finish = is_full.then_some(FinishReason::Length);
        let guided = running.guide.as_mut().map_or(Guided::GoesOn, |guide| guide.take(token.token));
        if is_end {
            finish = Some(FinishReason::Stop);
        } else if let Some(tokenizer) = &self.tokenizer {
            let piece = running.text.push(tokenizer, token.token)?;
            text = piece.text;
            if piece.is_stopped {
                finish = Some(FinishReason::Stop);
            }
        }
        match guided {
            Guided::GoesOn => {}
            Guided::Complete => finish = Some(FinishReason::Stop),
            Guided::Lost => finish = finish.or(Some(FinishReason::Format)),
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
