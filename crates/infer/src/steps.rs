//! Programs of a model: prefill of one row, decode of many, verification of drafts, and a copy of a row or page, each compiled for a
//! few sizes.

mod warm_up;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hlo::dims::ScatterDims;
use nn::layers::KvCache;
use nn::models::{GivenStates, LanguageModel};
use runtime::{Backend, Jit, JitSharding, LoadedProgram, ReadTensor};
use tensor::{DType, Element, Literal};
use trace::{Donate, PartitionSpec, Tensor, Tree, Update};

use crate::choose::{BiasRows, Choice, ChoiceRows, Chosen, PenaltyRows, choose};
use crate::draft::{DraftPrompt, DraftRows, Drafter, at_places};
use crate::error::Error;
use crate::host_pages::PageMove;
use crate::images::GivenChunk;
use crate::launched::Launched;
use crate::request::SamplingOptions;
use crate::rooms::CacheCopy;
use crate::sharding::EngineSharding;
use crate::sizes::{CacheLayout, ChoiceShape, StepSizes};

/// A token of no vocabulary.
const NO_TOKEN: i32 = -1;

/// A row that runs: how its tokens are chosen, and those so far where they matter.
#[derive(Clone, Copy)]
pub(crate) struct RowChoice<'a> {
    pub(crate) sampling: &'a SamplingOptions,
    /// Tokens of the prompt.
    pub(crate) prompt: &'a [u32],
    /// Tokens generated.
    pub(crate) generated: &'a [u32],
    /// A bit for each token: whether it may come next; all if absent.
    pub(crate) allowed: Option<&'a [u32]>,
}

/// Tokens to read into a row.
pub(crate) struct Prefill<'a> {
    pub(crate) row: usize,
    /// Positions filled of the row.
    pub(crate) filled: usize,
    /// At most as many as a chunk has.
    pub(crate) tokens: &'a [u32],
    /// What stands for some of them.
    pub(crate) given: Option<GivenChunk>,
    /// The pages of the row, where there are pages.
    pub(crate) table: &'a [u32],
    pub(crate) choice: RowChoice<'a>,
}

/// A row that is decoded.
#[derive(Clone, Copy)]
pub(crate) struct DecodeRow<'a> {
    pub(crate) row: usize,
    pub(crate) choice: RowChoice<'a>,
    /// Its pages, where there are pages.
    pub(crate) table: &'a [u32],
}

/// A model's programs on a device, whatever the model. Programs are started; what they choose is read later.
pub(crate) trait Steps {
    /// Reads tokens into a row; chooses the token after them.
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Launched, Error>;

    /// One more token of the rows that are there, or several where there are drafts; `longest` is the most positions that one
    /// of them has filled. In pages rows have any place, else that of their number.
    fn decode(&mut self, rows: &[Option<DecodeRow<'_>>], longest: usize) -> Result<Launched, Error>;

    /// Copies what is in a row or page into another.
    fn copy(&mut self, copy: CacheCopy) -> Result<(), Error>;

    /// So many pages may be kept in the host's memory.
    fn keep_on_host(&mut self, places: usize);

    /// Moves a page to the host's memory or from it.
    fn move_page(&mut self, moved: PageMove) -> Result<(), Error>;

    /// Tokens that a step may write of a row beyond the one that it surely gives.
    fn num_drafts(&self) -> usize;

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
    given: Option<GivenStates>,
    /// `i32` scalars: the row, positions filled, and the place of the last token among these.
    row: Tensor,
    filled: Tensor,
    last: Tensor,
    choice: ChoiceRows,
    /// The row's pages, `i32 [1, pages]`, where there are pages.
    table: Option<Tensor>,
}

/// One decode step.
#[derive(Clone, Tree)]
struct DecodeInput {
    /// The row at each place, `i32 [places]`, where there are pages: places without a row have one beyond the last. Else a row's place
    /// is its number.
    rows: Option<Tensor>,
    /// `i1 [places]`: rows that others read nothing of are left as they are.
    is_active: Tensor,
    choice: ChoiceRows,
    /// The rows' pages, `i32 [places, pages]`, where there are pages.
    table: Option<Tensor>,
}

/// One step that verifies drafts.
#[derive(Clone, Tree)]
struct VerifyInput {
    rows: DecodeInput,
    /// `i32 [rows, tokens]`.
    drafts: Tensor,
}

/// What a step with drafts chooses.
#[derive(Clone, Tree)]
struct Verified {
    /// Of each row and place, one after the other.
    chosen: Chosen,
    /// `i32 [rows]`: so many of the tokens of a row hold.
    count: Tensor,
}

type PrefillJit<M> = Jit<(Rows, M, PrefillInput), (Rows, Chosen)>;
type DecodeJit<M> = Jit<(Rows, M, DecodeInput), (Rows, Chosen)>;
type CopyJit = Jit<(Rows, Tensor, Tensor), Rows>;
type ReadPageJit = Jit<(Rows, Tensor), KvCache>;
type WritePageJit = Jit<(Rows, Tensor, KvCache), Rows>;
type VerifyJit<M> = Jit<(Rows, M, VerifyInput), (Rows, Verified)>;
/// The rows of a step, and how their tokens are chosen.
type RowSamplings = Vec<Option<(usize, SamplingOptions)>>;

/// Sizes of a prefill program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PrefillShape {
    context: usize,
    choice: ChoiceShape,
    /// Whether something stands for some of the tokens.
    has_given: bool,
}

/// Sizes of a decode program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DecodeShape {
    /// Places for rows.
    rows: usize,
    context: usize,
    choice: ChoiceShape,
    /// Tokens drafted for each row.
    drafts: usize,
}

/// The programs of one model.
pub(crate) struct ModelSteps<M: LanguageModel + 'static> {
    backend: Backend,
    on: Option<EngineSharding>,
    sizes: StepSizes,
    vocabulary: usize,
    model: M,
    /// Absent while a program has it.
    rows: Option<Rows>,
    drafter: Option<Box<dyn Drafter>>,
    /// The width of what may stand for tokens, where something may.
    given_width: Option<usize>,
    prefill: HashMap<PrefillShape, PrefillJit<M>>,
    decode: HashMap<DecodeShape, DecodeJit<M>>,
    verify: HashMap<DecodeShape, VerifyJit<M>>,
    copy: HashMap<usize, CopyJit>,
    read_page: Option<ReadPageJit>,
    write_page: Option<WritePageJit>,
    /// Pages in the host's memory, by their places.
    on_host: Vec<Option<Vec<Literal>>>,
    /// What the last decode step was given, so that it is sent again only when it changes.
    sent: Option<(RowSamplings, DecodeInput)>,
    /// The tables of pages that the last decode step was given.
    sent_table: Option<(Vec<i32>, Tensor)>,
}

/// Rows with nothing in them.
fn empty_rows<M: LanguageModel>(model: &M, sizes: StepSizes) -> Rows {
    let zeros = Tensor::zeros(DType::I32, &[sizes.rows]);
    let (batch, positions) = sizes.cache();
    Rows { cache: model.cache(batch, positions), token: zeros.clone(), filled: zeros }
}

impl<M: LanguageModel + 'static> ModelSteps<M> {
    /// A model known by types and shapes: its programs can be compiled, but not run.
    pub(crate) fn of_shapes(
        backend: &Backend,
        on: Option<EngineSharding>,
        model: M,
        vocabulary: usize,
        sizes: StepSizes,
    ) -> Result<Self, Error> {
        let rows = trace::shapes_of(&model, |model: &M| empty_rows(model, sizes))?;
        Ok(ModelSteps {
            backend: backend.clone(),
            on,
            sizes,
            vocabulary,
            model,
            rows: Some(rows),
            drafter: None,
            given_width: None,
            prefill: HashMap::new(),
            decode: HashMap::new(),
            verify: HashMap::new(),
            copy: HashMap::new(),
            read_page: None,
            write_page: None,
            on_host: Vec::new(),
            sent: None,
            sent_table: None,
        })
    }

    /// The same model with its parameters on the devices, an empty KV cache, and drafts of another model if there is one.
    pub(crate) fn start(&mut self, model: M, drafter: Option<Box<dyn Drafter>>) -> Result<(), Error> {
        let (shapes, sizes) = (self.model.clone(), self.sizes);
        let mut empty =
            Jit::new(&self.backend, "empty_cache", Donate::Nothing, move |(): &()| empty_rows(&shapes, sizes))
                .on(self.jit_sharding());
        self.rows = Some(empty.call(())?);
        (self.model, self.drafter) = (model, drafter);
        Ok(())
    }

    /// Something of this width may stand for tokens.
    pub(crate) fn takes_given(&mut self, width: Option<usize>) {
        self.given_width = width;
    }

    /// Bytes that the largest programs need on a device between arguments and results.
    pub(crate) fn temporary_bytes(&mut self) -> Result<u64, Error> {
        let go_on = AtomicBool::new(false);
        let sampling = SamplingOptions::default();
        let row = || RowChoice { sampling: &sampling, prompt: &[], generated: &[], allowed: None };
        let choice = ChoiceShape { choice: Choice::Filtered, history: 0, likeliest: 0, biases: 0, is_masked: false };
        let (context, rows) = (self.sizes.context(self.sizes.max_length), self.rows()?);
        let tokens = vec![0; self.sizes.chunk];
        let prefill = Prefill { row: 0, filled: 0, tokens: &tokens, given: None, table: &[], choice: row() };
        let input = (rows.clone(), self.model.clone(), self.prefill_input(&prefill, choice, context)?);
        let of_prefill = temporary(
            self.prefill_program(PrefillShape { context, choice, has_given: false }).prepare(&input, &go_on)?,
        );
        let input = self.empty_decode_input(self.sizes.rows, context, choice)?;
        let input = (rows.clone(), self.model.clone(), input);
        let shape = DecodeShape { rows: self.sizes.rows, context, choice, drafts: 0 };
        let of_decode = temporary(self.decode_program(shape).prepare(&input, &go_on)?);
        self.rows = Some(rows);
        Ok(of_prefill.max(of_decode))
    }

    fn jit_sharding(&self) -> Option<JitSharding> {
        self.on.as_ref().map(EngineSharding::programs)
    }

    fn rows(&mut self) -> Result<Rows, Error> {
        self.rows.take().ok_or_else(|| {
            Error::setting("the engine lost its KV cache: an earlier step failed", "start the engine again")
        })
    }

    /// A tensor on the device.
    fn send<T: Element>(&self, values: &[T], dims: &[usize]) -> Result<Tensor, Error> {
        self.send_literal(Literal::from_slice(values, dims.to_vec()).map_err(runtime::Error::from)?)
    }

    fn send_literal(&self, literal: Literal) -> Result<Tensor, Error> {
        let literal = Arc::new(literal);
        Ok(Tensor::from(match &self.on {
            None => self.backend.send(&literal)?,
            Some(on) => self.backend.send_on(on.mesh(), &PartitionSpec::replicated(literal.dims().len()), &literal)?,
        }))
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
        let biases = (shape.biases > 0).then(|| {
            let mut tokens = vec![NO_TOKEN; rows.len() * shape.biases];
            let mut values = vec![0.0f32; tokens.len()];
            for (n, row) in rows.iter().enumerate() {
                let of_row = row.iter().flat_map(|row| &row.sampling.logit_bias).zip(n * shape.biases..);
                of_row.for_each(|((&token, &value), at)| (tokens[at], values[at]) = (token as i32, value));
            }
            let dims = [rows.len(), shape.biases];
            Ok::<_, Error>(BiasRows { tokens: self.send(&tokens, &dims)?, values: self.send(&values, &dims)? })
        });
        let allowed = shape.is_masked.then(|| {
            let words = vocabulary.div_ceil(u32::BITS as usize);
            let mut bits = vec![u32::MAX; rows.len() * words];
            for (row, place) in rows.iter().zip(bits.chunks_mut(words)) {
                if let Some(allowed) = row.as_ref().and_then(|row| row.allowed) {
                    place.iter_mut().zip(allowed).for_each(|(place, bits)| *place = *bits);
                }
            }
            self.send(&bits, &[rows.len(), words])
        });
        Ok(ChoiceRows {
            biases: biases.transpose()?,
            allowed: allowed.transpose()?,
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
        let biases = rows().map(|row| row.sampling.logit_bias.len()).max().unwrap_or(0);
        ChoiceShape {
            choice: choice.max().unwrap_or(Choice::Greedy),
            history: history.map_or(0, |tokens| self.sizes.history(tokens)),
            likeliest: likeliest.next_power_of_two() * usize::from(likeliest > 0),
            biases: biases.next_power_of_two() * usize::from(biases > 0),
            is_masked: rows().any(|row| row.allowed.is_some()),
        }
    }

    fn prefill_program(&mut self, shape: PrefillShape) -> &mut PrefillJit<M> {
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.prefill.entry(shape).or_insert_with(|| {
            let PrefillShape { context, choice: shape, .. } = shape;
            let program =
                Jit::new(backend, "prefill", Donate::First, move |(rows, model, input): &(Rows, M, PrefillInput)| {
                    let PrefillInput { tokens, given, row, filled, last, choice, table } = input;
                    let count = last + &Tensor::scalar(DType::I32, 1.0);
                    let start = sizes.row_start(row, filled, &count, table.as_ref(), context);
                    let (hidden, cache) = model.extend_with(tokens, given.as_ref(), &start, &rows.cache);
                    let logits = model.lm_head(&hidden.dynamic_slice_in(1, last, 1).squeeze(1));
                    let now_filled = (filled + last + Tensor::scalar(DType::I32, 1.0)).expand(0);
                    let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                    let at = std::slice::from_ref(row);
                    let token = rows.token.dynamic_update(&chosen.token, at);
                    (Rows { cache, token, filled: rows.filled.dynamic_update(&now_filled, at) }, chosen)
                });
            program.on(on)
        })
    }

    fn decode_program(&mut self, shape: DecodeShape) -> &mut DecodeJit<M> {
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.decode.entry(shape).or_insert_with(|| {
            let DecodeShape { rows: count, context, choice: shape, .. } = shape;
            let program =
                Jit::new(backend, "decode", Donate::First, move |(rows, model, input): &(Rows, M, DecodeInput)| {
                    let DecodeInput { rows: places, is_active, choice, table } = input;
                    let (token, filled) = rows.at(places.as_ref(), count);
                    let start = sizes.rows_start((&filled, is_active), (0, 1), table.as_ref(), context);
                    let (hidden, cache) = model.extend(&token.expand(1), &start, &rows.cache);
                    let now_filled = &filled + &is_active.cast(DType::I32);
                    let logits = model.lm_head(&hidden.squeeze(1));
                    let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                    let next = is_active.select(&chosen.token, &token);
                    (rows.after(cache, &next, &now_filled, places.as_ref()), chosen)
                });
            program.on(on)
        })
    }

    /// The model reads the last token and the drafts at once, and chooses at every place as it would without them. Drafts hold up to
    /// the first that is not what it chooses.
    fn verify_program(&mut self, shape: DecodeShape) -> &mut VerifyJit<M> {
        let width = shape.drafts + 1;
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.verify.entry(shape).or_insert_with(|| {
            let DecodeShape { rows: count, context, choice: shape, drafts: drafted } = shape;
            let program =
                Jit::new(backend, "verify", Donate::First, move |(rows, model, input): &(Rows, M, VerifyInput)| {
                    let VerifyInput { rows: DecodeInput { rows: places, is_active, choice, table }, drafts } = input;
                    let (token, filled) = rows.at(places.as_ref(), count);
                    let start = sizes.rows_start((&filled, is_active), (0, width), table.as_ref(), context);
                    let tokens = Tensor::concat(&[token.expand(1), drafts.clone()], 1);
                    let (hidden, cache) = model.extend(&tokens, &start, &rows.cache);
                    let hidden = hidden.reshape(&[count * width, hidden.dim(2)]);
                    let position = filled.expand(1) + Tensor::iota(DType::I32, &[count, width], 1);
                    let position = (position + Tensor::scalar(DType::I32, 1.0)).reshape(&[count * width]);
                    let choice = choice.map_leaves(|leaf| repeated(leaf, width));
                    let chosen = choose(&model.lm_head(&hidden), &choice, &position, shape.choice, shape.likeliest);
                    let own = chosen.token.reshape(&[count, width]);
                    let mut holds = Tensor::full(DType::I32, &[count], 1.0);
                    let mut held = Tensor::zeros(DType::I32, &[count]);
                    for n in 0..drafted {
                        holds = holds * own.at(1, n).equals(&drafts.at(1, n)).cast(DType::I32);
                        held = held + holds.clone();
                    }
                    let next = own.take_along(-1, &held.expand(-1)).squeeze(-1);
                    let next = is_active.select(&next, &token);
                    let count = held + Tensor::scalar(DType::I32, 1.0);
                    let now_filled = &filled + &(&count * &is_active.cast(DType::I32));
                    (rows.after(cache, &next, &now_filled, places.as_ref()), Verified { chosen, count })
                });
            program.on(on)
        })
    }

    fn copy_program(&mut self, positions: usize) -> &mut CopyJit {
        let (backend, on) = (&self.backend, self.on.as_ref().map(EngineSharding::programs));
        self.copy.entry(positions).or_insert_with(|| {
            let copy =
                Jit::new(backend, "copy_row", Donate::First, move |(rows, from, to): &(Rows, Tensor, Tensor)| Rows {
                    cache: rows.cache.with_copied_row(from, to, positions),
                    ..rows.clone()
                });
            copy.on(on)
        })
    }

    fn read_page_program(&mut self) -> &mut ReadPageJit {
        let (backend, on) = (&self.backend, self.on.as_ref().map(EngineSharding::programs));
        self.read_page.get_or_insert_with(|| {
            let read = |(rows, page): &(Rows, Tensor)| rows.cache.row(page);
            Jit::new(backend, "read_page", Donate::Nothing, read).on(on)
        })
    }

    fn write_page_program(&mut self) -> &mut WritePageJit {
        let (backend, on) = (&self.backend, self.on.as_ref().map(EngineSharding::programs));
        self.write_page.get_or_insert_with(|| {
            let write = |(rows, page, content): &(Rows, Tensor, KvCache)| Rows {
                cache: rows.cache.with_row(page, content),
                ..rows.clone()
            };
            Jit::new(backend, "write_page", Donate::First, write).on(on)
        })
    }

    /// What is in a page of the cache.
    fn page_to_host(&mut self, rows: Rows, page: Tensor) -> Result<Vec<Literal>, Error> {
        let content = self.read_page_program().call((rows, page))?;
        content.leaves().iter().map(|leaf| Ok(leaf.to_host()?)).collect()
    }

    /// A page of the cache, as programs take it, from these values.
    fn page_of(&self, cache: &KvCache, values: &[Literal]) -> Result<KvCache, Error> {
        let mut values = values.iter();
        let mut failed = None;
        let page = cache.map_leaves(|room| {
            let sent = values.next().ok_or_else(lost_page).and_then(|literal| self.send_literal(literal.clone()));
            sent.unwrap_or_else(|error| {
                failed = Some(error);
                room.clone()
            })
        });
        failed.map_or(Ok(page), Err)
    }

    /// Numbers of pages for a program that reads so many positions: those of each row, one after the other. Places without a page have
    /// any. `None` where there are no pages.
    fn table_numbers(&self, tables: &[&[u32]], context: usize) -> Option<(Vec<i32>, usize)> {
        let width = self.sizes.table(context)?;
        let mut numbers = vec![0; tables.len() * width];
        for (table, places) in tables.iter().zip(numbers.chunks_mut(width)) {
            table.iter().zip(places).for_each(|(&page, place)| *place = page as i32);
        }
        Some((numbers, width))
    }

    /// The pages of some rows on the device, `i32 [rows, pages]`.
    fn table(&self, tables: &[&[u32]], context: usize) -> Result<Option<Tensor>, Error> {
        let Some((numbers, width)) = self.table_numbers(tables, context) else { return Ok(None) };
        Ok(Some(self.send(&numbers, &[tables.len(), width])?))
    }

    /// [`Self::table`] of a decode step, which is sent only when it changes.
    fn decode_table(&mut self, tables: &[&[u32]], context: usize) -> Result<Option<Tensor>, Error> {
        let Some((numbers, width)) = self.table_numbers(tables, context) else { return Ok(None) };
        let dims = [tables.len(), width];
        let table = match self.sent_table.take() {
            Some((before, table)) if before == numbers && table.dims() == dims => table,
            _ => self.send(&numbers, &dims)?,
        };
        self.sent_table = Some((numbers, table.clone()));
        Ok(Some(table))
    }

    fn prefill_input(&self, prefill: &Prefill<'_>, shape: ChoiceShape, context: usize) -> Result<PrefillInput, Error> {
        let length = self.sizes.prefill(prefill.tokens.len());
        let mut tokens: Vec<i32> = prefill.tokens.iter().map(|&token| token as i32).collect();
        tokens.resize(length, 0);
        let scalar = |value: usize| self.send(&[value as i32], &[]);
        let given = prefill.given.as_ref().map(|given| {
            let (mut states, mut is_given) = (given.states.clone(), given.is_given.clone());
            states.resize(length * given.width, 0.0);
            is_given.resize(length, false);
            let states = self.send(&states, &[1, length, given.width])?;
            Ok::<_, Error>(GivenStates { states, is_given: self.send(&is_given, &[1, length])? })
        });
        Ok(PrefillInput {
            tokens: self.send(&tokens, &[1, length])?,
            given: given.transpose()?,
            row: scalar(prefill.row)?,
            filled: scalar(prefill.filled)?,
            last: scalar(prefill.tokens.len().saturating_sub(1))?,
            choice: self.choice_rows(&[Some(prefill.choice)], shape)?,
            table: self.table(&[prefill.table], context)?,
        })
    }

    /// Rows at their places.
    fn decode_input(&self, rows: &[Option<DecodeRow<'_>>], shape: ChoiceShape) -> Result<DecodeInput, Error> {
        let count = [rows.len()];
        let is_active: Vec<bool> = rows.iter().map(Option::is_some).collect();
        let numbers = rows.iter().map(|row| row.map_or(self.sizes.rows, |row| row.row) as i32);
        let numbers = match self.sizes.layout {
            CacheLayout::Rows => None,
            CacheLayout::Pages { .. } => Some(self.send(&numbers.collect::<Vec<_>>(), &count)?),
        };
        let choices: Vec<_> = rows.iter().map(|row| row.map(|row| row.choice)).collect();
        let is_active = self.send(&is_active, &count)?;
        Ok(DecodeInput { rows: numbers, is_active, choice: self.choice_rows(&choices, shape)?, table: None })
    }

    /// So many places without a row.
    fn empty_decode_input(&self, count: usize, context: usize, shape: ChoiceShape) -> Result<DecodeInput, Error> {
        let table = self.table(&vec![&[][..]; count], context)?;
        Ok(DecodeInput { table, ..self.decode_input(&vec![None; count], shape)? })
    }
}

impl PrefillInput {
    /// The same for a model that drafts.
    fn for_draft(&self) -> DraftPrompt {
        let PrefillInput { tokens, row, filled, last, table, .. } = self.clone();
        DraftPrompt { tokens, row, filled, last, table }
    }
}

impl Rows {
    /// The last token of the rows at so many places, and positions filled of them.
    #[track_caller]
    fn at(&self, places: Option<&Tensor>, count: usize) -> (Tensor, Tensor) {
        (at_places(&self.token, places, count), at_places(&self.filled, places, count))
    }

    /// The rows after a step of those at some places.
    #[track_caller]
    fn after(&self, cache: KvCache, token: &Tensor, filled: &Tensor, places: Option<&Tensor>) -> Rows {
        let with = |all: &Tensor, new: &Tensor| match places {
            None => all.dynamic_update(new, &[Tensor::zeros(DType::I32, &[])]),
            Some(places) => {
                // A row beyond the last is not written.
                let dims = ScatterDims {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDims::default()
                };
                all.scatter(&places.expand(1), new, dims, Update::Set)
            }
        };
        Rows { cache, token: with(&self.token, token), filled: with(&self.filled, filled) }
    }
}

fn lost_page() -> Error {
    Error::setting("a page of the KV cache is not in the host's memory", "report this")
}

/// `[rows, ...]` as `[rows * times, ...]`, each row so many times.
#[track_caller]
fn repeated(leaf: &Tensor, times: usize) -> Tensor {
    let (mut apart, mut joined) = (leaf.dims().to_vec(), leaf.dims().to_vec());
    apart.insert(1, times);
    joined[0] *= times;
    leaf.expand(1).broadcast_to(&apart).reshape(&joined)
}

/// Bytes that a program needs on a device between arguments and results; 0 where the plugin does not say.
fn temporary(program: Option<&LoadedProgram>) -> u64 {
    let Some(program) = program else { return 0 };
    let executable = program.executable().loaded().executable().ok();
    let stats = executable.and_then(|executable| executable.memory_stats().ok());
    stats.map_or(0, |stats| u64::try_from(stats.temp_bytes).unwrap_or(0))
}

impl<M: LanguageModel + 'static> Steps for ModelSteps<M> {
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Launched, Error> {
        let shape = self.shape_of(&[Some(prefill.choice)]);
        let has_given = prefill.given.is_some();
        let context = self.sizes.context(prefill.filled + prefill.tokens.len());
        let input = self.prefill_input(prefill, shape, context)?;
        if let Some(drafter) = &mut self.drafter {
            drafter.prefill(input.for_draft(), context)?;
        }
        let (rows, model) = (self.rows()?, self.model.clone());
        let (rows, chosen) =
            self.prefill_program(PrefillShape { context, choice: shape, has_given }).call((rows, model, input))?;
        self.rows = Some(rows);
        Ok(Launched::one_each(chosen, shape.likeliest.min(self.vocabulary)))
    }

    fn decode(&mut self, rows: &[Option<DecodeRow<'_>>], longest: usize) -> Result<Launched, Error> {
        let count = self.sizes.decode_rows(rows.iter().rposition(Option::is_some).unwrap_or(0));
        let mut places: Vec<Option<DecodeRow<'_>>> = rows.iter().take(count).copied().collect();
        places.resize(count, None);
        let tables: Vec<&[u32]> = places.iter().map(|row| row.map_or(&[][..], |row| row.table)).collect();
        let rows: Vec<Option<RowChoice<'_>>> = places.iter().map(|row| row.map(|row| row.choice)).collect();
        let choice = self.shape_of(&rows);
        let asked: Vec<Option<(usize, SamplingOptions)>> =
            places.iter().map(|row| row.as_ref().map(|row| (row.row, row.choice.sampling.clone()))).collect();
        let input = match self.sent.take() {
            Some((before, input)) if choice.history == 0 && !choice.is_masked && before == asked => input,
            _ => self.decode_input(&places, choice)?,
        };
        // What a choice depends on must be known before the step: drafts are not.
        let depends_on_text = rows.iter().flatten().any(|row| row.sampling.depends_on_text());
        let drafts = self.drafter.as_ref().filter(|_| !depends_on_text).map_or(0, |drafter| drafter.tokens());
        let shape = DecodeShape { rows: count, context: self.sizes.context(longest + 1 + drafts), choice, drafts };
        let table = self.decode_table(&tables, shape.context)?;
        let input = DecodeInput { table, ..input };
        let drafted = match (&mut self.drafter, &self.rows) {
            (Some(drafter), Some(state)) => {
                let (token, filled) = (state.token.clone(), state.filled.clone());
                let DecodeInput { rows, is_active, choice, table } = input.clone();
                let rows = DraftRows { rows, token, filled, is_active, choice, table };
                drafter.draft(rows, shape.rows, shape.context, shape.choice, drafts)?
            }
            _ => None,
        };
        let (state, model) = (self.rows()?, self.model.clone());
        let likeliest = choice.likeliest.min(self.vocabulary);
        let launched = match drafted {
            None => {
                let (state, chosen) = self.decode_program(shape).call((state, model, input.clone()))?;
                self.rows = Some(state);
                Launched::one_each(chosen, likeliest)
            }
            Some(drafts) => {
                let input = VerifyInput { rows: input.clone(), drafts };
                let (state, Verified { chosen, count }) = self.verify_program(shape).call((state, model, input))?;
                self.rows = Some(state);
                Launched::several_each(chosen, count, shape.drafts + 1, likeliest)
            }
        };
        self.sent = Some((asked, input));
        Ok(launched)
    }

    fn copy(&mut self, copy: CacheCopy) -> Result<(), Error> {
        let positions = match self.sizes.layout {
            CacheLayout::Rows => self.sizes.context(copy.positions),
            CacheLayout::Pages { page_size, .. } => page_size,
        };
        let (from, to) = (self.send(&[copy.from as i32], &[])?, self.send(&[copy.to as i32], &[])?);
        if let Some(drafter) = &mut self.drafter {
            drafter.copy(&from, &to, positions)?;
        }
        let rows = self.rows()?;
        self.rows = Some(self.copy_program(positions).call((rows, from, to))?);
        Ok(())
    }

    fn keep_on_host(&mut self, places: usize) {
        self.on_host = vec![None; places];
    }

    fn move_page(&mut self, moved: PageMove) -> Result<(), Error> {
        match moved {
            PageMove::ToHost { page, place } => {
                let page = self.send(&[page as i32], &[])?;
                let rows = self.rows.clone().ok_or_else(lost_page)?;
                let values = self.page_to_host(rows, page)?;
                *self.on_host.get_mut(place).ok_or_else(lost_page)? = Some(values);
                Ok(())
            }
            PageMove::FromHost { place, page } => {
                let values = self.on_host.get_mut(place).and_then(Option::take).ok_or_else(lost_page)?;
                let page = self.send(&[page as i32], &[])?;
                let content = self.page_of(&self.rows.as_ref().ok_or_else(lost_page)?.cache, &values)?;
                let rows = self.rows()?;
                self.rows = Some(self.write_page_program().call((rows, page, content))?);
                Ok(())
            }
        }
    }

    fn num_drafts(&self) -> usize {
        self.drafter.as_ref().map_or(0, |drafter| drafter.tokens())
    }

    fn num_compiled(&self) -> usize {
        self.drafter.as_ref().map_or(0, |drafter| drafter.num_compiled())
            + self.verify.values().map(Jit::num_compiled).sum::<usize>()
            + self.prefill.values().map(Jit::num_compiled).sum::<usize>()
            + self.decode.values().map(Jit::num_compiled).sum::<usize>()
            + self.copy.values().map(Jit::num_compiled).sum::<usize>()
            + self.read_page.as_ref().map_or(0, Jit::num_compiled)
            + self.write_page.as_ref().map_or(0, Jit::num_compiled)
    }

    fn warm_up(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Error> {
        self.compile_all(progress)
    }
}
