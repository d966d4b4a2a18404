//! Programs of a model: prefill of one row, decode of many, and a copy of a row, each compiled for a few sizes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nn::layers::{CacheStart, KvCache};
use nn::models::LanguageModel;
use runtime::{Backend, Jit, ReadTensor};
use tensor::{DType, Element, Literal, Spec};
use trace::{Donate, Tensor, Tree};

use crate::choose::{Choice, ChoiceRows, Chosen, PenaltyRows, choose};
use crate::error::Error;
use crate::request::{SamplingOptions, TokenProbability};

/// Positions of a KV cache are multiples of this.
const POSITIONS: usize = 128;
/// Smallest number of tokens that a prefill computes.
const LEAST_PREFILL: usize = 16;
/// Fewest positions that attention reads.
const LEAST_CONTEXT: usize = 256;
/// A token of no vocabulary.
const NO_TOKEN: i32 = -1;

/// Sizes of an engine's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepSizes {
    /// Rows of the KV cache.
    pub(crate) rows: usize,
    /// Tokens of the longest sequence.
    pub(crate) max_length: usize,
    /// Most tokens of one prefill.
    pub(crate) chunk: usize,
}

impl StepSizes {
    /// Positions of a row: a prefill is filled up beyond its last token, and the last position takes what nobody reads.
    pub(crate) fn positions(&self) -> usize {
        (self.max_length + self.chunk + 1).next_multiple_of(POSITIONS)
    }

    /// The sizes of prefills: powers of two.
    pub(crate) fn prefill(&self, tokens: usize) -> usize {
        tokens.next_power_of_two().max(LEAST_PREFILL).min(self.chunk)
    }

    /// Positions that attention reads, where the longest sequence has so many.
    pub(crate) fn context(&self, positions: usize) -> usize {
        positions.next_power_of_two().max(LEAST_CONTEXT).min(self.positions())
    }

    /// Rows that a decode step computes, where the last that is needed has this number.
    pub(crate) fn decode_rows(&self, last: usize) -> usize {
        (last + 1).next_power_of_two().min(self.rows)
    }
}

/// How the tokens of some rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChoiceShape {
    choice: Choice,
    /// Tokens that penalties look at; 0 without.
    history: usize,
    likeliest: usize,
}

/// A row that runs: how its tokens are chosen, and those so far where they matter.
pub(crate) struct RowChoice<'a> {
    pub(crate) sampling: &'a SamplingOptions,
    /// Tokens of the prompt.
    pub(crate) prompt: &'a [u32],
    /// Tokens generated.
    pub(crate) generated: &'a [u32],
}

/// Tokens to read into a row.
pub(crate) struct Prefill<'a> {
    pub(crate) row: usize,
    /// Positions filled of the row.
    pub(crate) filled: usize,
    /// At most as many as a chunk has.
    pub(crate) tokens: &'a [u32],
    pub(crate) choice: RowChoice<'a>,
}

/// The next token of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picked {
    pub(crate) token: TokenProbability,
    pub(crate) likeliest: Vec<TokenProbability>,
}

/// A model's programs on a device, whatever the model.
pub(crate) trait Steps {
    /// Reads tokens into a row; gives the token after them.
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Picked, Error>;

    /// One more token of the rows that have a choice; `longest` is the most positions that one of them has filled.
    fn decode(&mut self, rows: &[Option<RowChoice<'_>>], longest: usize) -> Result<Vec<Picked>, Error>;

    /// Copies what is in a row, up to so many positions, into another.
    fn copy_row(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error>;

    /// Programs compiled so far.
    fn num_compiled(&self) -> usize;

    /// Compiles what requests of any length need, for these choices. `progress` is told programs done and all of them.
    fn warm_up(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error>;
}

/// What goes from step to step on the device.
#[derive(Clone, Tree)]
struct Rows {
    cache: KvCache,
    /// The last token of each row, `i32 [rows]`: it is not in the cache yet.
    token: Tensor,
    /// Positions filled of each row, `i32 [rows]`.
    filled: Tensor,
}

/// One prefill.
#[derive(Clone, Tree)]
struct PrefillInput {
    /// `i32 [1, tokens]`.
    tokens: Tensor,
    /// `i32` scalars: the row, positions filled, and the place of the last token among these.
    row: Tensor,
    filled: Tensor,
    last: Tensor,
    choice: ChoiceRows,
}

/// One decode step.
#[derive(Clone, Tree)]
struct DecodeInput {
    /// `i1 [rows]`: those that others read nothing of are left as they are.
    is_active: Tensor,
    choice: ChoiceRows,
}

type PrefillJit<M> = Jit<(Rows, M, PrefillInput), (Rows, Chosen)>;
type DecodeJit<M> = Jit<(Rows, M, DecodeInput), (Rows, Chosen)>;

/// The programs of one model.
pub(crate) struct ModelSteps<M: LanguageModel + 'static> {
    backend: Backend,
    sizes: StepSizes,
    vocabulary: usize,
    model: M,
    /// Absent while a program has it.
    rows: Option<Rows>,
    prefill: HashMap<(usize, ChoiceShape), PrefillJit<M>>,
    decode: HashMap<(usize, usize, ChoiceShape), DecodeJit<M>>,
    copy: HashMap<usize, Jit<(Rows, Tensor, Tensor), Rows>>,
    /// What the last decode step was given, so that it is sent again only when it changes.
    sent: Option<(Vec<Option<SamplingOptions>>, DecodeInput)>,
}

impl<M: LanguageModel + 'static> ModelSteps<M> {
    /// A model whose parameters are on the device.
    pub(crate) fn new(backend: &Backend, model: M, vocabulary: usize, sizes: StepSizes) -> Result<Self, Error> {
        let mut empty = backend.jit(move |model: &M| {
            let zeros = Tensor::zeros(DType::I32, &[sizes.rows]);
            Rows { cache: model.cache(sizes.rows, sizes.positions()), token: zeros.clone(), filled: zeros }
        });
        let rows = Some(empty.call(&model)?);
        Ok(ModelSteps {
            backend: backend.clone(),
            sizes,
            vocabulary,
            model,
            rows,
            prefill: HashMap::new(),
            decode: HashMap::new(),
            copy: HashMap::new(),
            sent: None,
        })
    }

    fn rows(&mut self) -> Result<Rows, Error> {
        self.rows.take().ok_or_else(|| {
            Error::setting("the engine lost its KV cache: an earlier step failed", "start the engine again")
        })
    }

    /// A tensor on the device.
    fn send<T: Element>(&self, values: &[T], dims: &[usize]) -> Result<Tensor, Error> {
        let literal = Literal::from_slice(values, dims.to_vec()).map_err(runtime::Error::from)?;
        Ok(Tensor::from(self.backend.send(&Arc::new(literal))?))
    }

    /// How these rows choose.
    fn choice_rows(&self, rows: &[Option<RowChoice<'_>>], shape: ChoiceShape) -> Result<ChoiceRows, Error> {
        let count = [rows.len()];
        let f32s = |of: &dyn Fn(&SamplingOptions) -> f64, none: f64| {
            let all = rows.iter().map(|row| row.as_ref().map_or(none, |row| of(row.sampling)) as f32);
            self.send(&all.collect::<Vec<_>>(), &count)
        };
        let vocabulary = self.vocabulary;
        let top_k = rows.iter().map(|row| {
            let k = row.as_ref().and_then(|row| row.sampling.top_k).filter(|&k| k > 0);
            k.unwrap_or(vocabulary).min(vocabulary) as i32
        });
        let seeds = rows.iter().map(|row| row.as_ref().map_or(0, |row| row.sampling.seed));
        let penalties = (shape.history > 0).then(|| {
            let mut tokens = vec![NO_TOKEN; rows.len() * shape.history];
            for (row, place) in rows.iter().zip(tokens.chunks_mut(shape.history)) {
                let all = row.iter().flat_map(|row| row.prompt.iter().chain(row.generated));
                all.zip(place).for_each(|(&token, place)| *place = token as i32);
            }
            let prompts = rows.iter().map(|row| row.as_ref().map_or(0, |row| row.prompt.len() as i32));
            Ok::<_, Error>(PenaltyRows {
                repetition: f32s(&|sampling| sampling.repetition_penalty, 1.0)?,
                presence: f32s(&|sampling| sampling.presence_penalty, 0.0)?,
                frequency: f32s(&|sampling| sampling.frequency_penalty, 0.0)?,
                tokens: self.send(&tokens, &[rows.len(), shape.history])?,
                prompt: self.send(&prompts.collect::<Vec<_>>(), &count)?,
            })
        });
        Ok(ChoiceRows {
            temperature: f32s(&|sampling| sampling.temperature, 0.0)?,
            top_k: self.send(&top_k.collect::<Vec<_>>(), &count)?,
            top_p: f32s(&|sampling| sampling.top_p, 1.0)?,
            min_p: f32s(&|sampling| sampling.min_p, 0.0)?,
            seed: self.send(&seeds.collect::<Vec<_>>(), &count)?,
            penalties: penalties.transpose()?,
        })
    }

    /// What a program has to do for these rows.
    fn shape_of(&self, rows: &[Option<RowChoice<'_>>]) -> ChoiceShape {
        let rows = || rows.iter().flatten();
        let choice = rows().map(|row| match row.sampling {
            sampling if sampling.temperature == 0.0 => Choice::Greedy,
            sampling if sampling.has_filters() => Choice::Filtered,
            _ => Choice::Drawn,
        });
        let with_penalties = rows().filter(|row| row.sampling.has_penalties());
        let history = with_penalties.map(|row| row.prompt.len() + row.generated.len()).max();
        let likeliest = rows().map(|row| row.sampling.log_probabilities).max().unwrap_or(0);
        ChoiceShape {
            choice: choice.max().unwrap_or(Choice::Greedy),
            history: history.map_or(0, |tokens| self.sizes.context(tokens)),
            likeliest: likeliest.next_power_of_two() * usize::from(likeliest > 0),
        }
    }

    fn picked(&self, chosen: &Chosen, shape: ChoiceShape) -> Result<Vec<Picked>, Error> {
        let tokens = chosen.token.to_vec::<i32>()?;
        let numbers = chosen.log_probability.to_vec::<f32>()?;
        let (others, their) = match &chosen.likeliest {
            Some((tokens, numbers)) => (tokens.to_vec::<i32>()?, numbers.to_vec::<f32>()?),
            None => (Vec::new(), Vec::new()),
        };
        let probability =
            |(&token, &log_probability): (&i32, &f32)| TokenProbability { token: token as u32, log_probability };
        let width = shape.likeliest.min(self.vocabulary);
        Ok(tokens
            .iter()
            .zip(&numbers)
            .map(probability)
            .enumerate()
            .map(|(row, token)| {
                let of_row = row * width..(row + 1) * width;
                let likeliest = others.get(of_row.clone()).unwrap_or(&[]).iter().zip(their.get(of_row).unwrap_or(&[]));
                Picked { token, likeliest: likeliest.map(probability).collect() }
            })
            .collect())
    }

    fn prefill_program(&mut self, context: usize, shape: ChoiceShape) -> &mut PrefillJit<M> {
        let backend = &self.backend;
        self.prefill.entry((context, shape)).or_insert_with(|| {
            Jit::new(backend, "prefill", Donate::First, move |(rows, model, input): &(Rows, M, PrefillInput)| {
                let PrefillInput { tokens, row, filled, last, choice } = input;
                let start = CacheStart::Row { row: row.clone(), filled: filled.clone(), context };
                let (hidden, cache) = model.extend(tokens, &start, &rows.cache);
                let logits = model.lm_head(&hidden.dynamic_slice_in(1, last, 1).squeeze(1));
                let now_filled = (filled + last + Tensor::scalar(DType::I32, 1.0)).expand(0);
                let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                let at = std::slice::from_ref(row);
                let token = rows.token.dynamic_update(&chosen.token, at);
                (Rows { cache, token, filled: rows.filled.dynamic_update(&now_filled, at) }, chosen)
            })
        })
    }

    fn decode_program(&mut self, count: usize, context: usize, shape: ChoiceShape) -> &mut DecodeJit<M> {
        let (backend, scratch) = (&self.backend, self.sizes.positions() - 1);
        self.decode.entry((count, context, shape)).or_insert_with(|| {
            Jit::new(backend, "decode", Donate::First, move |(rows, model, input): &(Rows, M, DecodeInput)| {
                let DecodeInput { is_active, choice } = input;
                let (token, filled) = (rows.token.slice(0, 0..count), rows.filled.slice(0, 0..count));
                let place = is_active.select(&filled, &filled.full_like(scratch as f64));
                let start = CacheStart::Rows { filled: place, context };
                let (hidden, cache) = model.extend(&token.expand(1), &start, &rows.cache);
                let now_filled = &filled + &is_active.cast(DType::I32);
                let logits = model.lm_head(&hidden.squeeze(1));
                let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                let next = is_active.select(&chosen.token, &token);
                let first = [Tensor::zeros(DType::I32, &[])];
                let (token, filled) =
                    (rows.token.dynamic_update(&next, &first), rows.filled.dynamic_update(&now_filled, &first));
                (Rows { cache, token, filled }, chosen)
            })
        })
    }

    fn prefill_input(&self, prefill: &Prefill<'_>, shape: ChoiceShape) -> Result<PrefillInput, Error> {
        let length = self.sizes.prefill(prefill.tokens.len());
        let mut tokens: Vec<i32> = prefill.tokens.iter().map(|&token| token as i32).collect();
        tokens.resize(length, 0);
        let scalar = |value: usize| self.send(&[value as i32], &[]);
        let RowChoice { sampling, prompt, generated } = prefill.choice;
        Ok(PrefillInput {
            tokens: self.send(&tokens, &[1, length])?,
            row: scalar(prefill.row)?,
            filled: scalar(prefill.filled)?,
            last: scalar(prefill.tokens.len().saturating_sub(1))?,
            choice: self.choice_rows(&[Some(RowChoice { sampling, prompt, generated })], shape)?,
        })
    }

    fn decode_input(&self, rows: &[Option<RowChoice<'_>>], shape: ChoiceShape) -> Result<DecodeInput, Error> {
        let is_active: Vec<bool> = rows.iter().map(Option::is_some).collect();
        Ok(DecodeInput { is_active: self.send(&is_active, &[rows.len()])?, choice: self.choice_rows(rows, shape)? })
    }
}

impl<M: LanguageModel + 'static> Steps for ModelSteps<M> {
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Picked, Error> {
        let RowChoice { sampling, prompt, generated } = prefill.choice;
        let shape = self.shape_of(&[Some(RowChoice { sampling, prompt, generated })]);
        let input = self.prefill_input(prefill, shape)?;
        let context = self.sizes.context(prefill.filled + prefill.tokens.len());
        let (rows, model) = (self.rows()?, self.model.clone());
        let (rows, chosen) = self.prefill_program(context, shape).call((rows, model, input))?;
        self.rows = Some(rows);
        let picked = self.picked(&chosen, shape)?;
        picked.into_iter().next().ok_or_else(|| Error::setting("a prefill gave no token", "report this"))
    }

    fn decode(&mut self, rows: &[Option<RowChoice<'_>>], longest: usize) -> Result<Vec<Picked>, Error> {
        let count = self.sizes.decode_rows(rows.iter().rposition(Option::is_some).unwrap_or(0));
        let mut rows: Vec<Option<RowChoice<'_>>> =
            rows.iter().take(count).map(|row| row.as_ref().map(|row| RowChoice { ..*row })).collect();
        rows.resize_with(count, || None);
        let shape = self.shape_of(&rows);
        let asked: Vec<Option<SamplingOptions>> =
            rows.iter().map(|row| row.as_ref().map(|row| row.sampling.clone())).collect();
        let input = match self.sent.take() {
            Some((before, input)) if shape.history == 0 && before == asked => input,
            _ => self.decode_input(&rows, shape)?,
        };
        let context = self.sizes.context(longest + 1);
        let (state, model) = (self.rows()?, self.model.clone());
        let (state, chosen) = self.decode_program(count, context, shape).call((state, model, input.clone()))?;
        self.rows = Some(state);
        self.sent = Some((asked, input));
        self.picked(&chosen, shape)
    }

    fn copy_row(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        let context = self.sizes.context(positions);
        let (from, to) = (self.send(&[from as i32], &[])?, self.send(&[to as i32], &[])?);
        let rows = self.rows()?;
        let backend = &self.backend;
        let program = self.copy.entry(context).or_insert_with(|| {
            Jit::new(backend, "copy_row", Donate::First, move |(rows, from, to): &(Rows, Tensor, Tensor)| {
                let cache = rows.cache.map_leaves(|room| {
                    let part = room.slice(3, 0..context).dynamic_slice_in(1, from, 1);
                    room.dynamic_update_in(1, to, &part)
                });
                Rows { cache, ..rows.clone() }
            })
        });
        self.rows = Some(program.call((rows, from, to))?);
        Ok(())
    }

    fn num_compiled(&self) -> usize {
        self.prefill.values().map(Jit::num_compiled).sum::<usize>()
            + self.decode.values().map(Jit::num_compiled).sum::<usize>()
            + self.copy.values().map(Jit::num_compiled).sum::<usize>()
    }

    fn warm_up(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        let go_on = AtomicBool::new(false);
        let doubled = |first: usize, last: usize| {
            let all =
                std::iter::successors(Some(first.min(last)), move |&size| (size < last).then(|| (size * 2).min(last)));
            all.collect::<Vec<usize>>()
        };
        let contexts = doubled(LEAST_CONTEXT, self.sizes.context(self.sizes.max_length));
        let lengths = doubled(LEAST_PREFILL, self.sizes.chunk);
        let batches = doubled(1, self.sizes.rows);
        let shapes = [Choice::Greedy, Choice::Drawn, Choice::Filtered].map(|choice| ChoiceShape {
            choice,
            history: 0,
            likeliest: 0,
        });
        let all = shapes.len() * contexts.len() * (lengths.len() + batches.len());
        let mut done = 0;
        let sampling = SamplingOptions::default();
        let row = || RowChoice { sampling: &sampling, prompt: &[], generated: &[] };
        let rows = self.rows()?;
        for shape in shapes {
            for &context in &contexts {
                for &length in lengths.iter().filter(|&&length| length <= context) {
                    let tokens = vec![0; length];
                    let prefill = Prefill { row: 0, filled: 0, tokens: &tokens, choice: row() };
                    let input = (rows.clone(), self.model.clone(), self.prefill_input(&prefill, shape)?);
                    self.prefill_program(context, shape).prepare(&input, &go_on)?;
                    done += 1;
                    progress(done, all);
                }
                for &count in &batches {
                    let of: Vec<_> = (0..count).map(|_| Some(row())).collect();
                    let input = (rows.clone(), self.model.clone(), self.decode_input(&of, shape)?);
                    self.decode_program(count, context, shape).prepare(&input, &go_on)?;
                    done += 1;
                    progress(done, all);
                }
            }
        }
        self.rows = Some(rows);
        progress(all, all);
        Ok(())
    }
}

/// Bytes of a KV cache of these sizes, by its leaves' types and shapes.
pub(crate) fn cache_bytes(cache: &KvCache) -> u64 {
    cache.specs().iter().map(bytes_of).sum()
}

fn bytes_of(spec: &Spec) -> u64 {
    let elements: u64 = spec.dims.iter().map(|&dim| dim as u64).product();
    (elements * u64::from(spec.dtype.bits())).div_ceil(8)
}
