//! A smaller model that drafts tokens, which the model then verifies several at a time (speculative decoding).
//!
//! A draft is chosen as the model's own token would be: with the same filters, and with the random numbers of the same seed and
//! position. The model chooses at every place as it would without drafts, so the answer is the one without drafts, drawn or
//! greedy; drafts only say how many of its tokens one step gives.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use nn::layers::KvCache;
use nn::models::LanguageModel;
use runtime::{Backend, Jit, JitSharding};
use tensor::DType;
use trace::{Donate, Tensor, Tree};

use crate::choose::{ChoiceRows, choose};
use crate::error::Error;
use crate::sharding::EngineSharding;
use crate::sizes::{ChoiceShape, StepSizes};

/// The rows that drafts are for, as the model has them.
#[derive(Clone, Tree)]
pub(crate) struct DraftRows {
    /// The row at each place, `i32 [places]`, where the KV cache has pages; else a row's place is its number.
    pub(crate) rows: Option<Tensor>,
    /// The last token of each row, `i32 [rows]`: it is in no cache yet.
    pub(crate) token: Tensor,
    /// Positions filled of each row, `i32 [rows]`.
    pub(crate) filled: Tensor,
    /// `i1 [places]`: whether a row there is decoded.
    pub(crate) is_active: Tensor,
    /// How they choose.
    pub(crate) choice: ChoiceRows,
    /// Their pages, `i32 [rows, pages]`, where the KV cache has pages.
    pub(crate) table: Option<Tensor>,
}

/// Tokens that are read into a row.
#[derive(Clone, Tree)]
pub(crate) struct DraftPrompt {
    /// `i32 [1, tokens]`.
    pub(crate) tokens: Tensor,
    /// `i32` scalars: the row, positions filled, and the place of the last token among these.
    pub(crate) row: Tensor,
    pub(crate) filled: Tensor,
    pub(crate) last: Tensor,
    /// Its pages, `i32 [1, pages]`, where the KV cache has pages.
    pub(crate) table: Option<Tensor>,
}

/// Drafts tokens, whatever the model.
pub(crate) trait Drafter {
    /// Tokens that it drafts for a row.
    fn tokens(&self) -> usize;

    /// Reads tokens into a row after positions that are filled.
    fn prefill(&mut self, prompt: DraftPrompt, context: usize) -> Result<(), Error>;

    /// Drafts so many tokens of the rows at `count` places, `i32 [count, tokens]`, and reads them into the cache. Of no tokens it reads the
    /// last one only, and gives none.
    fn draft(
        &mut self,
        rows: DraftRows,
        count: usize,
        context: usize,
        shape: ChoiceShape,
        tokens: usize,
    ) -> Result<Option<Tensor>, Error>;

    /// Copies what is in a row or page, up to so many positions, into another.
    fn copy(&mut self, from: &Tensor, to: &Tensor, positions: usize) -> Result<(), Error>;

    /// Compiles what [`Drafter::prefill`] needs for these sizes.
    fn warm_up_prefill(&mut self, prompt: DraftPrompt, context: usize) -> Result<(), Error>;

    /// Compiles what [`Drafter::draft`] needs for these sizes.
    fn warm_up_draft(
        &mut self,
        rows: DraftRows,
        count: usize,
        context: usize,
        shape: ChoiceShape,
        tokens: usize,
    ) -> Result<(), Error>;

    /// Compiles what [`Drafter::copy`] needs for so many positions.
    fn warm_up_copy(&mut self, from: &Tensor, to: &Tensor, positions: usize) -> Result<(), Error>;

    /// Programs compiled so far.
    fn num_compiled(&self) -> usize;
}

/// What goes from step to step.
#[derive(Clone, Tree)]
struct DraftState {
    cache: KvCache,
}

type DraftKey = (usize, usize, ChoiceShape, usize);
type PrefillJit<D> = Jit<(DraftState, D, DraftPrompt), DraftState>;
type CopyJit = Jit<(DraftState, Tensor, Tensor), DraftState>;
type DraftJit<D> = Jit<(DraftState, D, DraftRows), (DraftState, Option<Tensor>)>;

/// A model that drafts.
pub(crate) struct ModelDrafter<D: LanguageModel + 'static> {
    backend: Backend,
    on: Option<EngineSharding>,
    sizes: StepSizes,
    /// Tokens of the vocabulary of the model that verifies.
    vocabulary: usize,
    tokens: usize,
    model: D,
    /// Absent while a program has it.
    state: Option<DraftState>,
    prefill: HashMap<usize, PrefillJit<D>>,
    draft: HashMap<DraftKey, DraftJit<D>>,
    copy: HashMap<usize, CopyJit>,
}

impl<D: LanguageModel + 'static> ModelDrafter<D> {
    /// A model whose parameters are on the devices.
    pub(crate) fn new(
        backend: &Backend,
        on: Option<EngineSharding>,
        model: D,
        (vocabulary, tokens): (usize, usize),
        sizes: StepSizes,
    ) -> Result<Self, Error> {
        let shapes = model.clone();
        let (batch, positions) = sizes.cache();
        let make = move |(): &()| DraftState { cache: shapes.cache(batch, positions) };
        let on_mesh = on.as_ref().map(EngineSharding::programs);
        let state = Some(Jit::new(backend, "empty_draft_cache", Donate::Nothing, make).on(on_mesh).call(())?);
        Ok(ModelDrafter {
            backend: backend.clone(),
            on,
            sizes,
            vocabulary,
            tokens,
            model,
            state,
            prefill: HashMap::new(),
            draft: HashMap::new(),
            copy: HashMap::new(),
        })
    }

    fn state(&mut self) -> Result<DraftState, Error> {
        self.state.take().ok_or_else(|| {
            Error::setting("the draft model lost its KV cache: an earlier step failed", "start the engine again")
        })
    }

    fn jit_sharding(&self) -> Option<JitSharding> {
        self.on.as_ref().map(EngineSharding::programs)
    }

    fn prefill_program(&mut self, context: usize) -> &mut PrefillJit<D> {
        let on = self.jit_sharding();
        let (backend, sizes) = (&self.backend, self.sizes);
        self.prefill.entry(context).or_insert_with(|| {
            let program = Jit::new(
                backend,
                "draft_prefill",
                Donate::First,
                move |(state, model, prompt): &(DraftState, D, DraftPrompt)| {
                    let DraftPrompt { tokens, row, filled, last, table } = prompt;
                    let count = last + &Tensor::scalar(DType::I32, 1.0);
                    let start = sizes.row_start(row, filled, &count, table.as_ref(), context);
                    DraftState { cache: model.extend(tokens, &start, &state.cache).1 }
                },
            );
            program.on(on)
        })
    }

    fn copy_program(&mut self, positions: usize) -> &mut CopyJit {
        let on = self.jit_sharding();
        let backend = &self.backend;
        self.copy.entry(positions).or_insert_with(|| {
            let copy = move |(state, from, to): &(DraftState, Tensor, Tensor)| DraftState {
                cache: state.cache.with_copied_row(from, to, positions),
            };
            Jit::new(backend, "copy_draft_row", Donate::First, copy).on(on)
        })
    }

    fn draft_program(&mut self, key: DraftKey) -> &mut DraftJit<D> {
        let (count, context, shape, tokens) = key;
        let (vocabulary, sizes) = (self.vocabulary, self.sizes);
        let on = self.jit_sharding();
        let backend = &self.backend;
        self.draft.entry(key).or_insert_with(|| {
            let program =
                Jit::new(backend, "draft", Donate::First, move |(state, model, rows): &(DraftState, D, DraftRows)| {
                    let places = rows.rows.as_ref();
                    let mut token = at_places(&rows.token, places, count);
                    let filled = at_places(&rows.filled, places, count);
                    let mut cache = state.cache.clone();
                    let mut drafted = Vec::new();
                    // One more than are drafted: the last draft is read too, in case that all of them hold.
                    for n in 0..=tokens {
                        let places = (&filled, &rows.is_active);
                        let start = sizes.rows_start(places, (n, 1), rows.table.as_ref(), context);
                        let (hidden, next) = model.extend(&token.expand(1), &start, &cache);
                        cache = next;
                        if n < tokens {
                            let logits = resized(&model.lm_head(&hidden.squeeze(1)), vocabulary);
                            let position = &filled + &Tensor::scalar(DType::I32, (n + 1) as f64);
                            token = choose(&logits, &rows.choice, &position, shape.choice, 0).token;
                            drafted.push(token.clone());
                        }
                    }
                    let drafted = (!drafted.is_empty()).then(|| Tensor::stack(&drafted, 1));
                    (DraftState { cache }, drafted)
                });
            program.on(on)
        })
    }
}

/// Of numbers of all rows those at so many places; without places the first.
#[track_caller]
pub(crate) fn at_places(all: &Tensor, places: Option<&Tensor>, count: usize) -> Tensor {
    match places {
        None => all.slice(0, 0..count),
        Some(places) => all.take(0, places),
    }
}

/// Logits of a vocabulary of another size: tokens that only one of the two has are never chosen.
#[track_caller]
fn resized(logits: &Tensor, vocabulary: usize) -> Tensor {
    let own = logits.dim(-1);
    if own >= vocabulary {
        return logits.slice(-1, 0..vocabulary);
    }
    let none = Tensor::scalar(DType::F32, f64::NEG_INFINITY);
    logits.pad_all(&none, &[0, 0], &[0, (vocabulary - own) as i64], &[0, 0])
}

impl<D: LanguageModel + 'static> Drafter for ModelDrafter<D> {
    fn tokens(&self) -> usize {
        self.tokens
    }

    fn prefill(&mut self, prompt: DraftPrompt, context: usize) -> Result<(), Error> {
        let input = (self.state()?, self.model.clone(), prompt);
        self.state = Some(self.prefill_program(context).call(input)?);
        Ok(())
    }

    fn draft(
        &mut self,
        rows: DraftRows,
        count: usize,
        context: usize,
        shape: ChoiceShape,
        tokens: usize,
    ) -> Result<Option<Tensor>, Error> {
        let shape = ChoiceShape { likeliest: 0, ..shape };
        let input = (self.state()?, self.model.clone(), rows);
        let (state, drafted) = self.draft_program((count, context, shape, tokens)).call(input)?;
        self.state = Some(state);
        Ok(drafted)
    }

    fn copy(&mut self, from: &Tensor, to: &Tensor, positions: usize) -> Result<(), Error> {
        let state = self.state()?;
        self.state = Some(self.copy_program(positions).call((state, from.clone(), to.clone()))?);
        Ok(())
    }

    fn warm_up_copy(&mut self, from: &Tensor, to: &Tensor, positions: usize) -> Result<(), Error> {
        let state = self.state()?;
        let input = (state.clone(), from.clone(), to.clone());
        self.copy_program(positions).prepare(&input, &AtomicBool::new(false))?;
        self.state = Some(state);
        Ok(())
    }

    fn warm_up_prefill(&mut self, prompt: DraftPrompt, context: usize) -> Result<(), Error> {
        let state = self.state()?;
        let input = (state.clone(), self.model.clone(), prompt);
        self.prefill_program(context).prepare(&input, &AtomicBool::new(false))?;
        self.state = Some(state);
        Ok(())
    }

    fn warm_up_draft(
        &mut self,
        rows: DraftRows,
        count: usize,
        context: usize,
        shape: ChoiceShape,
        tokens: usize,
    ) -> Result<(), Error> {
        let state = self.state()?;
        let input = (state.clone(), self.model.clone(), rows);
        self.draft_program((count, context, shape, tokens)).prepare(&input, &AtomicBool::new(false))?;
        self.state = Some(state);
        Ok(())
    }

    fn num_compiled(&self) -> usize {
        self.prefill.values().map(Jit::num_compiled).sum::<usize>()
            + self.draft.values().map(Jit::num_compiled).sum::<usize>()
            + self.copy.values().map(Jit::num_compiled).sum::<usize>()
    }
}
