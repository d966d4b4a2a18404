//! The engine: requests enter and leave between steps, prompts are read in chunks beside the decoding of others.
//!
//! A step is started before the tokens of the one before are read: the last token of each row stays on the device as the next
//! step's input, and what the host does with tokens (text, stop texts, the next requests) is done beside the device's work.
//!
//! Where the pages of the KV cache run out, the youngest request gives up its own. It begins again when there is room: its text so far is
//! read as a prompt, most of it from pages that are still there, and its next token is the one that it would have got.

use std::collections::VecDeque;
use std::sync::Arc;

use data::Tokenizer;
use nn::hf::ModelConfig;
use nn::models::RunOptions;
use runtime::{Backend, Platform};
use train::TPU_PAGE_SIZE;

use crate::constraint::{Constraints, Guide, Guided};
use crate::error::Error;
use crate::images::{GivenPrompt, ImageEncoder, PromptImage};
use crate::launched::{Launched, Picked};
use crate::load::{LoadedSteps, load};
use crate::options::{InferenceOptions, KvLayout};
use crate::pages::PageCounts;
use crate::pipeline;
use crate::request::{FinishReason, Request, RequestId, TokenEvent};
use crate::rooms::Rooms;
use crate::sizes::{CacheLayout, ContextSizes, StepSizes};
use crate::source::OpenedModel;
use crate::steps::{Decode, DecodeRow, Prefill, RowChoice, Steps};
use crate::text::AnswerText;

/// Most steps that are started ahead.
const MAX_LOOKAHEAD: usize = 4;
/// Positions of a page, but for TPUs.
const PAGE_SIZE: usize = 64;
/// Sequences that a GPU decodes in the time of a few: a tile of its matmuls.
const CUDA_BATCH: usize = 16;
/// Positions of the largest page.
const MAX_PAGE_SIZE: usize = 4096;
/// Most pages: their numbers are `i32`.
const MAX_PAGES: usize = 1 << 24;

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
    rooms: Rooms,
    waiting: VecDeque<Running>,
    /// The request of each row.
    running: Vec<Option<Running>>,
    /// Steps whose tokens are not read yet, in the order in which they were started.
    launched: VecDeque<LaunchedStep>,
    lookahead: usize,
    /// Whether the model has pipeline stages: each row has one step on its way at most, and steps are of some rows in turn.
    has_stages: bool,
    next: u64,
    ended: Vec<TokenEvent>,
    drafts: DraftCounts,
    decoded: DecodeCounts,
    /// What reads images, if the model does.
    images: Option<ImageEncoder>,
}

/// A step whose tokens are not read yet.
struct LaunchedStep {
    tokens: Launched,
    /// The rows that it chooses for: the row of the KV cache, whose it was then, and its place in the step.
    rows: Vec<(usize, RequestId, usize)>,
}

/// What decode steps computed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Steps.
    pub steps: u64,
    /// Rows with a request, of all steps.
    pub rows: u64,
    /// Places that were computed for them: programs are for powers of two.
    pub places: u64,
    /// The most steps that were on their way at once.
    pub most_in_flight: u64,
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
    /// Its images, which are encoded when their tokens are read.
    images: Vec<PromptImage>,
    /// What stands for their tokens while these are read.
    given: Option<GivenPrompt>,
    /// What is read before it is decoded, as it is compared with others.
    keys: Vec<u32>,
    generated: Vec<u32>,
    /// Tokens that are being chosen and were not read yet.
    unread: usize,
    text: AnswerText,
    /// What may come next, where the answer has a form.
    guide: Option<Guide>,
    /// The prompt and the tokens that it had when it gave up its pages: they are read again.
    again: Option<Vec<u32>>,
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

    /// Tokens that are read before it is decoded.
    fn to_read(&self) -> &[u32] {
        self.again.as_deref().unwrap_or(&self.request.prompt)
    }

    /// Tokens of the prompt and generated.
    fn num_known(&self) -> usize {
        self.request.prompt.len() + self.generated.len()
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
        let sizes = StepSizes {
            rows: options.rows,
            max_length: options.max_length,
            chunk,
            layout: CacheLayout::Rows,
            contexts: ContextSizes::Doubled,
            least_batch: if *backend.platform() == Platform::Cuda { CUDA_BATCH } else { 1 },
        };
        let sizes = with_cache_layout(backend.platform(), source.config(), options, sizes)?;
        // Before the model, whose memory is checked: this is a part of what is used then.
        let images = match (source, source.images()) {
            (OpenedModel::Folder { folder, .. }, Some(reader)) => {
                Some(ImageEncoder::load(backend, &folder.files, reader, &source.run_options(&options.run))?)
            }
            _ => None,
        };
        let host_pages = options.host_pages;
        if host_pages > 0 && (sizes.layout == CacheLayout::Rows || options.draft.is_some()) {
            return Err(Error::setting(
                "pages in the host's memory need a KV cache in pages and no draft model",
                "leave out --kv-host-pages, or --kv-layout rows and --draft",
            ));
        }
        if host_pages > MAX_PAGES {
            return Err(Error::setting(
                format!("{host_pages} pages in the host's memory"),
                format!("give --kv-host-pages up to {MAX_PAGES}"),
            ));
        }
        let loaded = match options.num_stages() {
            1 => load(backend, source, options, sizes)?,
            _ => pipeline::load(backend, source, options, sizes)?,
        };
        let LoadedSteps { mut steps, sizes, cache_bytes } = loaded;
        steps.keep_on_host(host_pages);
        let stages = steps.num_stages();
        let lookahead = match (steps.num_drafts(), backend.platform()) {
            (1.., _) => 0,
            // A step for each stage at least.
            (0, _) if stages > 1 => options.lookahead.unwrap_or(0).clamp(stages - 1, 2 * stages),
            (0, platform) => options.lookahead.unwrap_or(usize::from(*platform != Platform::Cpu)).min(MAX_LOOKAHEAD),
        };
        Ok(Engine {
            steps,
            tokenizer: source.tokenizer().cloned(),
            end_tokens: source.end_tokens().to_vec(),
            constraints: source.constraints().clone(),
            sizes,
            vocabulary: source.vocab_size(),
            cache_bytes,
            rooms: Rooms::new(&sizes, options.host_pages),
            waiting: VecDeque::new(),
            running: (0..sizes.rows).map(|_| None).collect(),
            launched: VecDeque::new(),
            lookahead,
            has_stages: stages > 1,
            next: 0,
            ended: Vec::new(),
            drafts: DraftCounts::default(),
            decoded: DecodeCounts::default(),
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

    /// What decode steps computed so far.
    pub fn decode_counts(&self) -> DecodeCounts {
        self.decoded
    }

    /// Bytes of the KV cache on each device.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// What became of the pages of the KV cache; all 0 where it has rows.
    pub fn page_counts(&self) -> PageCounts {
        self.rooms.counts()
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
        let running =
            Running { id, request, images, given: None, keys, generated, unread: 0, text, guide, again: None };
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
            self.rooms.release(row);
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
        let reading = reading.min();
        if let Some((_, row)) = reading {
            self.read_chunk(row)?;
        }
        // Texts that end with the tokens on their way need no step more; some choices depend on all tokens before.
        let needs_text = |running: &Running| running.unread > 0 && running.request.sampling.depends_on_text();
        if self.lookahead == 0 || !self.has_stages && self.running.iter().flatten().any(needs_text) {
            self.settle(0, &mut events)?;
        }
        self.reserve(&mut events)?;
        let has_started = self.decode()?;
        let left = match (has_started, self.has_stages) {
            (true, _) => self.lookahead,
            // Other prompts fill the stages.
            (false, true) if reading.is_some() => self.lookahead,
            // The rows of the first step to end are decoded next.
            (false, true) => self.lookahead.min(self.launched.len().saturating_sub(1)),
            (false, false) => 0,
        };
        self.settle(left, &mut events)?;
        Ok(events)
    }

    fn is_reading(&self, row: usize, running: &Running) -> bool {
        self.rooms.filled(row) < running.to_read().len()
    }

    /// The rows of the next decode step. With pipeline stages those that have no step on their way, a share of all for each stage.
    fn active(&self) -> Vec<usize> {
        let mut all = self.all_active();
        if self.has_stages {
            let share = all.len().div_ceil(self.lookahead + 1);
            all.retain(|row| self.running.get(*row).and_then(Option::as_ref).is_some_and(|of| of.unread == 0));
            all.truncate(share);
        }
        all
    }

    /// Rows that have their prompt and are to have more tokens, those of the oldest requests first.
    fn all_active(&self) -> Vec<usize> {
        let is_active = |(row, running): &(usize, &Running)| {
            let started = running.num_started();
            !self.is_reading(*row, running) && started > 0 && started < running.most_tokens(self.sizes.max_length)
        };
        let running = self.running.iter().enumerate().filter_map(|(row, running)| Some((row, running.as_ref()?)));
        let mut active: Vec<(RequestId, usize)> = running.filter(is_active).map(|(row, of)| (of.id, row)).collect();
        active.sort_unstable();
        active.into_iter().map(|(_, row)| row).collect()
    }

    /// Positions that are filled when the steps that were started are done: all tokens but the last are in the cache then.
    fn filled_then(running: &Running) -> usize {
        running.request.prompt.len() + running.num_started() - 1
    }

    /// Gives every row that is decoded the pages that the next step writes into. Where there is none left, the steps that were started
    /// are waited for, as requests may end with them; then the youngest request gives up its pages.
    fn reserve(&mut self, events: &mut Vec<TokenEvent>) -> Result<(), Error> {
        let more = 1 + self.steps.num_drafts();
        loop {
            let mut is_short = false;
            for row in self.active() {
                let Some(running) = self.running.get(row).and_then(Option::as_ref) else { continue };
                let positions = Self::filled_then(running) + more;
                is_short |= self.rooms.reserve(row, positions).is_err();
                if is_short {
                    break;
                }
            }
            if !is_short {
                return self.move_pages();
            }
            if !self.launched.is_empty() {
                self.settle(0, events)?;
                continue;
            }
            let youngest =
                self.running.iter().enumerate().filter_map(|(row, running)| Some((running.as_ref()?.id, row)));
            match youngest.max() {
                Some((_, row)) if self.num_running() > 1 => self.preempt(row),
                _ => return Err(Error::setting("the KV cache has too few pages for one sequence", "report this")),
            }
        }
    }

    /// Moves pages to the host's memory, and from it, before anything is written into them.
    fn move_pages(&mut self) -> Result<(), Error> {
        self.rooms.moves().into_iter().try_for_each(|moved| self.steps.move_page(moved))
    }

    /// A request gives up its row and its pages, and waits before all others.
    fn preempt(&mut self, row: usize) {
        let Some(mut running) = self.running.get_mut(row).and_then(Option::take) else { return };
        self.rooms.preempt(row);
        let known = running.request.prompt.iter().chain(&running.generated).copied().collect();
        running.again = Some(known);
        running.keys.truncate(running.request.prompt.len());
        running.keys.extend_from_slice(&running.generated);
        (running.given, running.unread) = (None, 0);
        self.waiting.push_front(running);
    }

    /// Starts a step of all rows that have their prompt and are to have more tokens; says whether there were any.
    fn decode(&mut self) -> Result<bool, Error> {
        let active = self.active();
        if active.is_empty() {
            return Ok(false);
        }
        let of = |row: &usize| self.running.get(*row).and_then(Option::as_ref);
        let longest = active.iter().filter_map(of).map(Self::filled_then).max().unwrap_or(0);
        let decoded = |row: usize| {
            let running = of(&row)?;
            let token = running.generated.last().copied().filter(|_| self.has_stages);
            Some(DecodeRow { row, choice: running.choice(), table: self.rooms.table(row), token })
        };
        // Pages are read wherever a row is, so that those that are decoded come one after the other.
        let places: Vec<Option<usize>> = match self.sizes.layout {
            CacheLayout::Pages { .. } => active.iter().copied().map(Some).collect(),
            CacheLayout::Rows => {
                (0..self.running.len()).map(|row| Some(row).filter(|row| active.contains(row))).collect()
            }
        };
        let id_at = |(place, row): (usize, &Option<usize>)| Some(((*row)?, of(&(*row)?)?.id, place));
        let rows = places.iter().enumerate().filter_map(id_at).collect();
        let decoded: Vec<Option<DecodeRow<'_>>> = places.iter().map(|row| row.and_then(decoded)).collect();
        let tokens = self.steps.decode(&Decode { rows: &decoded, longest, hidden: None })?;
        self.decoded.steps += 1;
        self.decoded.rows += active.len() as u64;
        self.decoded.places += tokens.num_rows() as u64;
        self.launched.push_back(LaunchedStep { tokens, rows });
        self.decoded.most_in_flight = self.decoded.most_in_flight.max(self.launched.len() as u64);
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
                    // The token before is in the cache now, if it was not read as a prompt.
                    if let Some(before) = running.generated.last()
                        && self.rooms.filled(row) < running.num_known()
                    {
                        self.rooms.written(row, std::slice::from_ref(before));
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
            let taken = self.rooms.take(&next.keys);
            self.move_pages()?;
            let Some(taken) = taken else { return Ok(()) };
            if let Some(copy) = taken.copy {
                self.steps.copy(copy)?;
            }
            self.running[taken.row] = self.waiting.pop_front();
        }
        Ok(())
    }

    /// Reads the next chunk of a row's prompt; the last one chooses the next token.
    fn read_chunk(&mut self, row: usize) -> Result<(), Error> {
        let Some(running) = self.running.get_mut(row).and_then(Option::as_mut) else { return Ok(()) };
        let text = running.again.as_deref().unwrap_or(&running.request.prompt);
        self.rooms.find_more(row, &running.keys);
        let filled = self.rooms.filled(row);
        let end = (filled + self.sizes.chunk).min(text.len());
        let (tokens, is_last) = (&text[filled..end], end == text.len());
        let prompt = &running.request.prompt;
        if let Some(encoder) = self.images.as_mut().filter(|_| !running.images.is_empty())
            && running.given.is_none()
            && encoder.has_images(&prompt[filled.min(prompt.len())..])
        {
            running.given = Some(encoder.encode(&running.images)?);
        }
        let given = running.given.as_ref().and_then(|given| given.chunk(prompt, filled..end));
        let (table, choice) = (self.rooms.table(row), running.choice());
        let launched = self.steps.prefill(&Prefill { row, filled, tokens, given, table, choice, hidden: None })?;
        self.rooms.written(row, &running.keys[filled..end]);
        if is_last {
            running.given = None;
            self.launched.push_back(LaunchedStep { tokens: launched, rows: vec![(row, running.id, 0)] });
            running.unread += 1;
        } else if self.lookahead == 0 {
            // Steps that wait hold the KV cache before them, of which there is to be one only.
            launched.read()?;
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
            self.rooms.release(row);
        }
        Ok(event)
    }
}

/// Sizes with the layout of the KV cache on a device.
fn with_cache_layout(
    platform: &Platform,
    model: &ModelConfig,
    options: &InferenceOptions,
    sizes: StepSizes,
) -> Result<StepSizes, Error> {
    let dtype = options.run.kv_cache_dtype();
    // Kernels of GPUs and CPUs take heads of floats as they are; codes, other types and latent vectors are gathered there.
    let has_latent_vectors = matches!(model, ModelConfig::Llama(config) if config.mla.is_some());
    let gathers = dtype != options.run.precision.compute() || has_latent_vectors;
    let usual = match platform {
        Platform::Cuda if gathers => KvLayout::Rows,
        Platform::Tpu | Platform::Cuda | Platform::Cpu | Platform::Other(_) => KvLayout::Pages,
    };
    if options.kv_layout.unwrap_or(usual) == KvLayout::Rows {
        return Ok(sizes);
    }
    let usual = if *platform == Platform::Tpu { TPU_PAGE_SIZE } else { PAGE_SIZE };
    let page_size = options.page_size.unwrap_or(usual);
    if !page_size.is_power_of_two() || page_size > MAX_PAGE_SIZE {
        return Err(Error::setting(
            format!("pages of {page_size} positions"),
            format!("give --page-size a power of two of at most {MAX_PAGE_SIZE}"),
        ));
    }
    let sizes = StepSizes { layout: CacheLayout::Pages { pages: 0, page_size }, ..sizes };
    let least = sizes.pages_of_longest().unwrap_or(1);
    let pages = options.pages.unwrap_or_else(|| least.saturating_mul(sizes.rows).min(MAX_PAGES.max(least)));
    if pages < least || pages > MAX_PAGES {
        return Err(Error::setting(
            format!("a KV cache of {pages} pages, where one sequence may need {least}"),
            format!("give --kv-pages from {least} to {MAX_PAGES}, larger pages, or a shorter --max-length"),
        ));
    }
    let is_read_in_place = matches!(platform, Platform::Cpu | Platform::Cuda) && !gathers;
    let contexts = if is_read_in_place { ContextSizes::Longest } else { ContextSizes::Doubled };
    Ok(StepSizes { contexts, ..sizes.with_pages(pages) })
}

fn ended(id: RequestId, finish: FinishReason) -> TokenEvent {
    TokenEvent { id, token: None, likeliest: Vec::new(), text: String::new(), finish: Some(finish) }
}
