//! Steps of inference as programs: a prompt read into a cache, or one more token of every sequence.

use std::collections::BTreeMap;

use nn::Placement;
use nn::layers::KeyValues;
use nn::models::LanguageModel;
use runtime::Program;
use tensor::DType;
use trace::{Donate, Key, Leaf, Role, Sharding, Spec, Tensor, Tree};

/// A step of inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServingStep {
    /// A prompt is read into an empty cache.
    Prefill,
    /// Every sequence gets one more token.
    Decode,
}

/// What a step takes: the cache, whose memory it may use, comes first, the tokens last.
type Inputs<M> = (KeyValues, M, Option<Tensor>, Tensor);

/// What the axes of a cache are.
const CACHE: [&str; 5] = ["layers", "batch", "heads", "keys", "head"];

/// The step of a model for so many sequences, in a cache of so many positions. Its last argument has the tokens; it gives
/// the cache and the likeliest next token of each sequence.
pub(super) fn step_program<M: LanguageModel + 'static>(
    init: impl Fn(&Key) -> M,
    step: ServingStep,
    (batch, positions): (usize, usize),
    placement: Option<&Placement>,
) -> Result<Program, runtime::Error> {
    let (model, cache) = trace::shapes_of(&(), |()| {
        let model = init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)));
        let cache = model.cache(batch, positions);
        (model, cache)
    })?;
    let of = |dims: &[usize]| Tensor::of(Spec::new(DType::I32, dims));
    let (name, position, tokens) = match step {
        ServingStep::Prefill => ("prefill", None, of(&[batch, positions])),
        ServingStep::Decode => ("decode", Some(of(&[])), of(&[batch])),
    };
    let parameters: BTreeMap<String, Vec<usize>> =
        model.paths().into_iter().zip(model.specs().into_iter().map(|spec| spec.dims)).collect();
    let donate = Donate::Leading(cache.specs().len());
    let inputs: Inputs<M> = (cache, model, position, tokens);
    let next = |(cache, model, position, tokens): &Inputs<M>| {
        let (logits, cache) = match position {
            None => model.prefill(tokens, cache),
            Some(position) => model.decode_step(tokens, position, cache),
        };
        (cache, logits.argmax(-1))
    };
    let traced = match placement {
        None => trace::trace(name, &inputs, donate, next),
        Some(placement) => {
            let of = |role: Role, leaf: &Leaf| {
                let dims = &leaf.spec.dims;
                match (role, leaf.path.split_once('.')) {
                    (_, Some(("0", _))) => Ok(placement.layout().sharding(&CACHE, dims)),
                    (Role::Input, Some(("1", path))) => {
                        placement.state(path, dims, &parameters).map_err(|error| trace::Error::Mesh(error.to_string()))
                    }
                    (Role::Input, None) if leaf.path == "3" => {
                        placement.batch("the tokens", dims).map_err(|error| trace::Error::Mesh(error.to_string()))
                    }
                    _ => Ok(Sharding::replicated(dims.len())),
                }
            };
            let placed = trace::Placed { layout: placement.layout(), of: &of };
            trace::trace_on(&placed, name, &inputs, donate, next)
        }
    };
    Ok(Program::from_module(traced?.0.module))
}
