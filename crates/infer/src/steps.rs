//! Programs of a model, or of a pipeline stage of one: prefill of one row, decode of many, verification of drafts, and a copy of a row or page, each compiled for a
//! few sizes.

mod inputs;
mod programs;
mod warm_up;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nn::layers::KvCache;
use nn::models::{GivenStates, LanguageModel, ModelPart};
use runtime::{Backend, Jit, JitSharding, LoadedProgram, ReadTensor};
use tensor::{DType, Element, Literal};
use trace::{Donate, PartitionSpec, Tensor, Tree};

use crate::choose::{Choice, ChoiceRows, Chosen};
use crate::draft::{DraftPrompt, DraftRows, Drafter};
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
    /// What the pipeline stage before made of them; `None` on the first.
    pub(crate) hidden: Option<&'a Literal>,
}

/// A row that is decoded.
#[derive(Clone, Copy)]
pub(crate) struct DecodeRow<'a> {
    pub(crate) row: usize,
    pub(crate) choice: RowChoice<'a>,
    /// Its pages, where there are pages.
    pub(crate) table: &'a [u32],
    /// Its last token, which pipeline stages are told.
    pub(crate) token: Option<u32>,
}

/// A decode step.
#[derive(Clone, Copy)]
pub(crate) struct Decode<'a> {
    /// In pages rows have any place, else that of their number.
    pub(crate) rows: &'a [Option<DecodeRow<'a>>],
    /// The most positions that one of them has filled.
    pub(crate) longest: usize,
    /// What the pipeline stage before made of their tokens; `None` on the first.
    pub(crate) hidden: Option<&'a Literal>,
}

/// A model's programs on a device, whatever the model. Programs are started; what they choose is read later.
pub(crate) trait Steps {
    /// Reads tokens into a row; chooses the token after them.
    fn prefill(&mut self, prefill: &Prefill<'_>) -> Result<Launched, Error>;

    /// One more token of the rows that are there, or several where there are drafts.
    fn decode(&mut self, decode: &Decode<'_>) -> Result<Launched, Error>;

    /// Copies what is in a row or page into another.
    fn copy(&mut self, copy: CacheCopy) -> Result<(), Error>;

    /// So many pages may be kept in the host's memory.
    fn keep_on_host(&mut self, places: usize);

    /// Moves a page to the host's memory or from it.
    fn move_page(&mut self, moved: PageMove) -> Result<(), Error>;

    /// Tokens that a step may write of a row beyond the one that it surely gives.
    fn num_drafts(&self) -> usize;

    /// Pipeline stages; 1 without.
    fn num_stages(&self) -> usize;

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

/// What layers read in a step.
#[derive(Clone, Tree)]
enum StepStates {
    /// `i32 [rows, tokens]`.
    Tokens(#[tree(rename = "tokens")] Tensor),
    /// What the pipeline stage before gives, `[rows, tokens, width]`.
    Hidden(#[tree(rename = "hidden")] Tensor),
}

/// What a step gives: one of the two.
#[derive(Clone, Tree)]
struct StepOutput {
    chosen: Option<Chosen>,
    /// What the next pipeline stage reads.
    hidden: Option<Tensor>,
}

/// One prefill.
#[derive(Clone, Tree)]
struct PrefillInput {
    states: StepStates,
    given: Option<GivenStates>,
    /// `i32` scalars: the row, positions filled, and the place of the last token among these.
    row: Tensor,
    filled: Tensor,
    last: Tensor,
    /// Where tokens are chosen.
    choice: Option<ChoiceRows>,
    /// The row's pages, `i32 [1, pages]`, where there are pages.
    table: Option<Tensor>,
}

/// One decode step.
#[derive(Clone, Tree)]
struct DecodeInput {
    /// The row at each place, `i32 [places]`, where there are pages: places without a row have one beyond the last. Else a row's place
    /// is its number.
    rows: Option<Tensor>,
    /// Absent where a model is alone: it has the last tokens.
    states: Option<StepStates>,
    /// `i1 [places]`: rows that others read nothing of are left as they are.
    is_active: Tensor,
    /// Where tokens are chosen.
    choice: Option<ChoiceRows>,
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

type PrefillJit<M> = Jit<(Rows, M, PrefillInput), (Rows, StepOutput)>;
type DecodeJit<M> = Jit<(Rows, M, DecodeInput), (Rows, StepOutput)>;
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
    /// Of activations.
    width: usize,
    /// Which layers the model has.
    part: ModelPart,
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
        (model, part): (M, ModelPart),
        (vocabulary, width): (usize, usize),
        sizes: StepSizes,
    ) -> Result<Self, Error> {
        let rows = trace::shapes_of(&model, |model: &M| empty_rows(model, sizes))?;
        Ok(ModelSteps {
            backend: backend.clone(),
            on,
            sizes,
            vocabulary,
            width,
            part,
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
        let choice = match self.part.is_last() {
            true => ChoiceShape { choice: Choice::Filtered, ..ChoiceShape::GREEDY },
            false => ChoiceShape::GREEDY,
        };
        let (context, rows) = (self.sizes.context(self.sizes.max_length), self.rows()?);
        let tokens = vec![0; self.sizes.chunk];
        let prefill =
            Prefill { row: 0, filled: 0, tokens: &tokens, given: None, table: &[], choice: row(), hidden: None };
        let input = (rows.clone(), self.model.clone(), self.empty_prefill_input(&prefill, choice, context)?);
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
}

impl StepOutput {
    fn launched(self, likeliest: usize) -> Result<Launched, Error> {
        match (self.chosen, self.hidden) {
            (Some(chosen), _) => Ok(Launched::one_each(chosen, likeliest)),
            (None, Some(states)) => Ok(Launched::hidden(states)),
            (None, None) => Err(Error::setting("a step gave nothing", "report this")),
        }
    }
}

impl PrefillInput {
    /// The same for a model that drafts.
    fn for_draft(&self) -> Result<DraftPrompt, Error> {
        let PrefillInput { states, row, filled, last, table, .. } = self.clone();
        match states {
            StepStates::Tokens(tokens) => Ok(DraftPrompt { tokens, row, filled, last, table }),
            StepStates::Hidden(_) => Err(no_draft()),
        }
    }
}

fn no_draft() -> Error {
    Error::setting("a pipeline stage has no draft model", "leave out --draft")
}

fn lost_page() -> Error {
    Error::setting("a page of the KV cache is not in the host's memory", "report this")
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
            drafter.prefill(input.for_draft()?, context)?;
        }
        let (rows, model) = (self.rows()?, self.model.clone());
        let (rows, output) =
            self.prefill_program(PrefillShape { context, choice: shape, has_given }).call((rows, model, input))?;
        self.rows = Some(rows);
        output.launched(shape.likeliest.min(self.vocabulary))
    }

    fn decode(&mut self, decode: &Decode<'_>) -> Result<Launched, Error> {
        let Decode { rows, longest, hidden } = *decode;
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
        let states = self.decode_states(&places, hidden)?;
        let input = DecodeInput { table, states, ..input };
        let drafted = match (&mut self.drafter, &self.rows) {
            (Some(drafter), Some(state)) => {
                let (token, filled) = (state.token.clone(), state.filled.clone());
                let DecodeInput { rows, is_active, choice, table, .. } = input.clone();
                let choice = choice.ok_or_else(no_draft)?;
                let rows = DraftRows { rows, token, filled, is_active, choice, table };
                drafter.draft(rows, shape.rows, shape.context, shape.choice, drafts)?
            }
            _ => None,
        };
        let (state, model) = (self.rows()?, self.model.clone());
        let likeliest = choice.likeliest.min(self.vocabulary);
        let launched = match drafted {
            None => {
                let (state, output) = self.decode_program(shape).call((state, model, input.clone()))?;
                self.rows = Some(state);
                output.launched(likeliest)?
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

    fn num_stages(&self) -> usize {
        1
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
