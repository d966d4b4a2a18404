//! The programs of a model or of a part of it, traced for the sizes of a step.

use hlo::dims::ScatterDims;
use nn::layers::KvCache;
use nn::models::{GivenStates, LanguageModel, PartInput};
use runtime::Jit;
use tensor::DType;
use trace::{Donate, Tensor, Tree, Update};

use super::{
    CopyJit, DecodeInput, DecodeJit, DecodeShape, ModelSteps, PrefillInput, PrefillJit, PrefillShape, ReadPageJit,
    Rows, StepOutput, StepStates, Verified, VerifyInput, VerifyJit, WritePageJit,
};
use crate::choose::{Chosen, choose};
use crate::draft::at_places;
use crate::sharding::EngineSharding;

impl StepStates {
    /// What layers read.
    fn input<'a>(&'a self, given: Option<&'a GivenStates>) -> PartInput<'a> {
        match self {
            StepStates::Tokens(tokens) => PartInput::Tokens(tokens, given),
            StepStates::Hidden(states) => PartInput::Hidden(states),
        }
    }
}

impl StepOutput {
    fn chosen(chosen: Chosen) -> StepOutput {
        StepOutput { chosen: Some(chosen), hidden: None }
    }

    fn hidden(states: Tensor) -> StepOutput {
        StepOutput { chosen: None, hidden: Some(states) }
    }
}

impl<M: LanguageModel + 'static> ModelSteps<M> {
    pub(super) fn prefill_program(&mut self, shape: PrefillShape) -> &mut PrefillJit<M> {
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.prefill.entry(shape).or_insert_with(|| {
            let PrefillShape { context, choice: shape, .. } = shape;
            let program =
                Jit::new(backend, "prefill", Donate::First, move |(rows, model, input): &(Rows, M, PrefillInput)| {
                    let PrefillInput { states, given, row, filled, last, choice, table } = input;
                    let count = last + &Tensor::scalar(DType::I32, 1.0);
                    let start = sizes.row_start(row, filled, &count, table.as_ref(), context);
                    let (hidden, cache) = model.extend_part(states.input(given.as_ref()), &start, &rows.cache);
                    let now_filled = (filled + last + Tensor::scalar(DType::I32, 1.0)).expand(0);
                    let at = std::slice::from_ref(row);
                    let all_filled = rows.filled.dynamic_update(&now_filled, at);
                    let Some(choice) = choice else {
                        return (
                            Rows { cache, token: rows.token.clone(), filled: all_filled },
                            StepOutput::hidden(hidden),
                        );
                    };
                    let logits = model.lm_head(&hidden.dynamic_slice_in(1, last, 1).squeeze(1));
                    let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                    let token = rows.token.dynamic_update(&chosen.token, at);
                    (Rows { cache, token, filled: all_filled }, StepOutput::chosen(chosen))
                });
            program.on(on)
        })
    }

    pub(super) fn decode_program(&mut self, shape: DecodeShape) -> &mut DecodeJit<M> {
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.decode.entry(shape).or_insert_with(|| {
            let DecodeShape { rows: count, context, choice: shape, .. } = shape;
            let program =
                Jit::new(backend, "decode", Donate::First, move |(rows, model, input): &(Rows, M, DecodeInput)| {
                    let DecodeInput { rows: places, states, is_active, choice, table } = input;
                    let (token, filled) = rows.at(places.as_ref(), count);
                    let start = sizes.rows_start((&filled, is_active), (0, 1), table.as_ref(), context);
                    // A model that is alone has its last tokens on the device.
                    let own = StepStates::Tokens(token.expand(1));
                    let input = states.as_ref().unwrap_or(&own).input(None);
                    let (hidden, cache) = model.extend_part(input, &start, &rows.cache);
                    let now_filled = &filled + &is_active.cast(DType::I32);
                    let Some(choice) = choice else {
                        let rows = rows.after(cache, &token, &now_filled, places.as_ref());
                        return (rows, StepOutput::hidden(hidden));
                    };
                    let logits = model.lm_head(&hidden.squeeze(1));
                    let chosen = choose(&logits, choice, &now_filled, shape.choice, shape.likeliest);
                    let next = is_active.select(&chosen.token, &token);
                    (rows.after(cache, &next, &now_filled, places.as_ref()), StepOutput::chosen(chosen))
                });
            program.on(on)
        })
    }

    /// The model reads the last token and the drafts at once, and chooses at every place as it would without them. Drafts hold up to
    /// the first that is not what it chooses.
    pub(super) fn verify_program(&mut self, shape: DecodeShape) -> &mut VerifyJit<M> {
        let width = shape.drafts + 1;
        let (backend, on, sizes) = (&self.backend, self.on.as_ref().map(EngineSharding::programs), self.sizes);
        self.verify.entry(shape).or_insert_with(|| {
            let DecodeShape { rows: count, context, choice: shape, drafts: drafted } = shape;
            let program =
                Jit::new(backend, "verify", Donate::First, move |(rows, model, input): &(Rows, M, VerifyInput)| {
                    let VerifyInput { rows: DecodeInput { rows: places, is_active, choice, table, .. }, drafts } =
                        input;
                    let Some(choice) = choice else { trace::refuse("drafts are verified where tokens are chosen") };
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

    pub(super) fn copy_program(&mut self, positions: usize) -> &mut CopyJit {
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

    pub(super) fn read_page_program(&mut self) -> &mut ReadPageJit {
        let (backend, on) = (&self.backend, self.on.as_ref().map(EngineSharding::programs));
        self.read_page.get_or_insert_with(|| {
            let read = |(rows, page): &(Rows, Tensor)| rows.cache.row(page);
            Jit::new(backend, "read_page", Donate::Nothing, read).on(on)
        })
    }

    pub(super) fn write_page_program(&mut self) -> &mut WritePageJit {
        let (backend, on) = (&self.backend, self.on.as_ref().map(EngineSharding::programs));
        self.write_page.get_or_insert_with(|| {
            let write = |(rows, page, content): &(Rows, Tensor, KvCache)| Rows {
                cache: rows.cache.with_row(page, content),
                ..rows.clone()
            };
            Jit::new(backend, "write_page", Donate::First, write).on(on)
        })
    }
}

impl Rows {
    /// The last token of the rows at so many places, and positions filled of them.
    #[track_caller]
    pub(super) fn at(&self, places: Option<&Tensor>, count: usize) -> (Tensor, Tensor) {
        (at_places(&self.token, places, count), at_places(&self.filled, places, count))
    }

    /// The rows after a step of those at some places.
    #[track_caller]
    pub(super) fn after(&self, cache: KvCache, token: &Tensor, filled: &Tensor, places: Option<&Tensor>) -> Rows {
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
/// `[rows, ...]` as `[rows * times, ...]`, each row so many times.
#[track_caller]
fn repeated(leaf: &Tensor, times: usize) -> Tensor {
    let (mut apart, mut joined) = (leaf.dims().to_vec(), leaf.dims().to_vec());
    apart.insert(1, times);
    joined[0] *= times;
    leaf.expand(1).broadcast_to(&apart).reshape(&joined)
}
