//! Dropout: on where the program was exported in training mode and a key is given, off in evaluation.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;

type Answer = Result<Value, Error>;

/// Which elements stay, of a tensor with these sizes; none where nothing is dropped.
pub(super) fn kept(call: &mut Call<'_, '_>, rate: f64, dims: &[usize]) -> Result<Option<Tensor>, Error> {
    if rate <= 0.0 {
        return Ok(None);
    }
    let key = call.translator.context.draw("the model was exported in training mode with dropout")?;
    Ok(key.map(|key| key.bernoulli(1.0 - rate, dims)))
}

/// What is kept of a tensor, scaled up by as much as is lost.
pub(super) fn dropped(x: &Tensor, kept: &Tensor, rate: f64) -> Tensor {
    let scaled = x / (1.0 - rate).max(f64::EPSILON);
    kept.broadcast_to(x.dims()).select(&scaled, &x.zeros_like())
}

fn is_training(call: &mut Call<'_, '_>) -> Result<bool, Error> {
    let name = if call.has("training") { "training" } else { "train" };
    call.bool(name, false)
}

/// `whole_from` is the axis from which on elements are kept or lost together.
fn dropout(call: &mut Call<'_, '_>, whole_from: usize) -> Result<(Tensor, Option<Tensor>), Error> {
    let x = call.subject()?;
    let rate = call.float("p", 0.5)?;
    if !is_training(call)? {
        return Ok((x, None));
    }
    let dims: Vec<usize> = x.dims().iter().enumerate().map(|(n, d)| if n < whole_from { *d } else { 1 }).collect();
    Ok(match kept(call, rate, &dims)? {
        Some(kept) => (dropped(&x, &kept, rate), Some(kept)),
        None => (x, None),
    })
}

/// Keeps mean and variance: what is lost becomes the least value of SELU.
fn alpha_dropout(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let rate = call.float("p", 0.5)?;
    let kept = if is_training(call)? { kept(call, rate, x.dims())? } else { None };
    let Some(kept) = kept else { return Ok(x.into()) };
    let least = -1.758_099_340_847_376_6;
    let scale = 1.0 / ((least * least * rate + 1.0) * (1.0 - rate)).max(f64::EPSILON).sqrt();
    let shift = -scale * least * rate;
    let mixed = kept.select(&x, &x.full_like(least));
    Ok((&mixed * scale + shift).into())
}

/// Gives the mask too.
fn native_dropout(call: &mut Call<'_, '_>) -> Answer {
    let (x, kept) = dropout(call, usize::MAX)?;
    let kept = kept.unwrap_or_else(|| Tensor::ones(DType::Bool, x.dims()));
    Ok(Value::Several(vec![x.into(), kept.into()]))
}

pub(super) const RULES: Rules = &[
    ("dropout", |c| Ok(dropout(c, usize::MAX)?.0.into())),
    ("feature_dropout", |c| Ok(dropout(c, 2)?.0.into())),
    ("alpha_dropout", alpha_dropout),
    ("native_dropout", native_dropout),
];
