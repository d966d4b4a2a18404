//! Losses and distances: computed in at least f32, then each, the mean or the sum.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::ops::reduce::root;
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// Each loss, their mean, or their sum.
fn finished(call: &mut Call<'_, '_>, losses: Tensor) -> Answer {
    let dtype = call.result_type()?;
    let loss = match call.int("reduction", 1)? {
        0 => losses,
        1 => losses.mean_all(),
        _ => losses.sum_all(),
    };
    Ok(cast(&loss, dtype).into())
}

/// A tensor in the type that losses are computed in.
fn given(call: &mut Call<'_, '_>, name: &str) -> Result<Tensor, Error> {
    let x = call.tensor(name)?;
    Ok(cast(&x, wide(call.result_type()?)))
}

fn number(x: &Tensor, value: f64) -> Tensor {
    Tensor::scalar(x.dtype(), value)
}

/// `max(x, low)`, whose derivative at `low` is 1 as PyTorch's.
fn at_least(x: &Tensor, low: f64) -> Tensor {
    let low = number(x, low);
    x.less(&low).select(&low.broadcast_to(x.dims()), x)
}

/// |x| with derivative 0 at 0.
fn size(x: &Tensor) -> Tensor {
    x.equals(&number(x, 0.0)).select(&x.zeros_like(), &x.abs())
}

fn difference(call: &mut Call<'_, '_>, f: impl Fn(&Tensor) -> Tensor) -> Answer {
    let losses = f(&(given(call, "self")? - given(call, "target")?));
    finished(call, losses)
}

fn smooth_l1(call: &mut Call<'_, '_>) -> Answer {
    let beta = call.float("beta", 1.0)?;
    difference(call, |x| {
        if beta == 0.0 {
            return size(x);
        }
        let inside = x.abs().less(&number(x, beta));
        inside.select(&(x * x * (0.5 / beta)), &(size(x) - 0.5 * beta))
    })
}

fn huber(call: &mut Call<'_, '_>) -> Answer {
    let delta = call.float("delta", 1.0)?;
    difference(call, |x| {
        let inside = x.abs().less_equal(&number(x, delta));
        inside.select(&(x * x * 0.5), &((size(x) - 0.5 * delta) * delta))
    })
}

/// Weighs losses where the op has weights.
fn weighed(call: &mut Call<'_, '_>, losses: Tensor) -> Result<Tensor, Error> {
    Ok(match call.has("weight") {
        true => losses * given(call, "weight")?,
        false => losses,
    })
}

fn binary_cross_entropy(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, given(call, "target")?);
    let (yes, no) = (at_least(&x.log(), -100.0), at_least(&x.negate().log_1p(), -100.0));
    let losses = (&target * &yes + (1.0 - &target) * no).negate();
    let losses = weighed(call, losses)?;
    finished(call, losses)
}

fn binary_cross_entropy_with_logits(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, given(call, "target")?);
    let soft = x.negate().softplus();
    let soft = match call.has("pos_weight") {
        true => soft * (&(given(call, "pos_weight")? - 1.0) * &target + 1.0),
        false => soft,
    };
    let losses = (1.0 - &target) * x + soft;
    let losses = weighed(call, losses)?;
    finished(call, losses)
}

/// `x log y`, 0 where x is.
pub(super) fn x_log_y(x: &Tensor, y: &Tensor) -> Tensor {
    let is_zero = x.equals(&number(x, 0.0)).and(&y.is_nan().not());
    let safe = is_zero.select(&y.zeros_like().full_like(1.0), y);
    x * &safe.log()
}

fn kl_div(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, given(call, "target")?);
    let losses = match call.bool("log_target", false)? {
        true => target.exp() * (target - x),
        false => x_log_y(&target, &target) - target * x,
    };
    finished(call, losses)
}

fn poisson(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "input")?, given(call, "target")?);
    let epsilon = call.float("eps", 1e-8)?;
    let mut losses = match call.bool("log_input", true)? {
        true => x.exp() - &target * &x,
        false => &x - &(&target * &(&x + epsilon).log()),
    };
    if call.bool("full", false)? {
        let is_large = target.greater(&number(&target, 1.0));
        let safe = is_large.select(&target, &target.full_like(2.0));
        let more = &safe * &safe.log() - &safe + (&safe * std::f64::consts::TAU).log() * 0.5;
        losses = losses + is_large.select(&more, &more.zeros_like());
    }
    finished(call, losses)
}

fn hinge_embedding(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, given(call, "target")?);
    let margin = call.float("margin", 1.0)?;
    let zeros = x.zeros_like();
    let far = at_least(&(margin - &x), 0.0);
    let losses = target.differs(&number(&target, 1.0)).select(&far, &zeros)
        + target.differs(&number(&target, -1.0)).select(&x, &zeros);
    finished(call, losses)
}

fn margin_ranking(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, target) = (given(call, "input1")?, given(call, "input2")?, given(call, "target")?);
    let margin = call.float("margin", 0.0)?;
    let losses = at_least(&(target.negate() * (a - b) + margin), 0.0);
    finished(call, losses)
}

fn cosine_embedding(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, target) = (given(call, "input1")?, given(call, "input2")?, given(call, "target")?);
    let margin = call.float("margin", 0.0)?;
    let last = [a.rank().max(b.rank()) - 1];
    let squares = |x: &Tensor| x.square().sum(&[x.rank() - 1]) + 1e-12;
    let cosine = (&a * &b).sum(&last) / (squares(&a) * squares(&b)).sqrt();
    let is = |value: f64| target.equals(&number(&target, value));
    let zeros = cosine.zeros_like();
    let losses =
        is(1.0).select(&(1.0 - &cosine), &zeros) + is(-1.0).select(&at_least(&(&cosine - margin), 0.0), &zeros);
    finished(call, losses)
}

fn soft_margin(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, given(call, "target")?);
    let losses = (x * target).negate().softplus();
    finished(call, losses)
}

fn multi_margin(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, call.tensor("target")?);
    let (p, margin) = (call.float("p", 1.0)?, call.float("margin", 1.0)?);
    let is_single = x.rank() == 1;
    let x = if is_single { x.expand(0) } else { x };
    let target = target.reshape(&[target.num_elements()]);
    if x.rank() != 2 || target.dim(0) != x.dim(0) {
        return Err(Error::damaged(format!("classes {} of {}", target.spec(), x.spec())));
    }
    let own = x.take_along(1, &target.expand(-1));
    let mut losses = at_least(&(margin - &own + &x), 0.0);
    if p == 2.0 {
        losses = losses.square();
    }
    if call.has("weight") {
        losses = losses * given(call, "weight")?.take(0, &target).expand(-1);
    }
    let is_own = target.one_hot(x.dim(1), DType::Bool);
    let losses = is_own.select(&losses.zeros_like(), &losses).sum(&[1]) / x.dim(1) as f64;
    let losses = if is_single { losses.reshape(&[]) } else { losses };
    finished(call, losses)
}

/// The p-norm of the last axis.
fn length(x: &Tensor, p: f64) -> Tensor {
    let last = [x.rank() - 1];
    let size = size(x);
    match p {
        0.0 => cast(&size.differs(&number(x, 0.0)), x.dtype()).sum(&last),
        1.0 => size.sum(&last),
        2.0 => root(&x.square().sum(&last)),
        p if p == f64::INFINITY => size.max(&last),
        p => {
            let sum = size.powf(p).sum(&last);
            let is_zero = sum.equals(&number(x, 0.0));
            let safe = is_zero.select(&sum.full_like(1.0), &sum).powf(1.0 / p);
            is_zero.select(&sum.zeros_like(), &safe)
        }
    }
}

fn pairwise_distance(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (given(call, "x1")?, given(call, "x2")?, call.result_type()?);
    let (p, epsilon) = (call.float("p", 2.0)?, call.float("eps", 1e-6)?);
    let y = length(&(a - b + epsilon), p);
    let y = if call.bool("keepdim", false)? { y.expand(-1) } else { y };
    Ok(cast(&y, dtype).into())
}

fn triplet_margin(call: &mut Call<'_, '_>) -> Answer {
    let (anchor, near, far) = (given(call, "anchor")?, given(call, "positive")?, given(call, "negative")?);
    let (margin, p, epsilon) = (call.float("margin", 1.0)?, call.float("p", 2.0)?, call.float("eps", 1e-6)?);
    let between = |a: &Tensor, b: &Tensor| length(&(a - b + epsilon), p);
    let mut to_far = between(&anchor, &far);
    if call.bool("swap", false)? {
        to_far = to_far.minimum(&between(&near, &far));
    }
    let losses = at_least(&(between(&anchor, &near) - to_far + margin), 0.0);
    finished(call, losses)
}

fn cosine_similarity(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (given(call, "x1")?, given(call, "x2")?, call.result_type()?);
    let epsilon = call.float("eps", 1e-8)?;
    let with_axis = |x: Tensor| if x.rank() == 0 { x.reshape(&[1]) } else { x };
    let (a, b) = (with_axis(a), with_axis(b));
    let axis = call.axis("dim", 1, a.rank().max(b.rank()))?;
    let product = &a * &b;
    let (a, b) = (a.broadcast_to(product.dims()), b.broadcast_to(product.dims()));
    let size = |x: &Tensor| at_least(&root(&x.square().sum(&[axis])), epsilon).expand(axis as isize);
    let y = ((&a / &size(&a)) * (&b / &size(&b))).sum(&[axis]);
    Ok(cast(&y, dtype).into())
}

/// Distances of all rows of one from all rows of the other.
fn distances(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (given(call, "x1")?, given(call, "x2")?, call.result_type()?);
    let p = call.float("p", 2.0)?;
    if a.rank() < 2 || b.rank() < 2 || a.dim(-1) != b.dim(-1) {
        return Err(Error::damaged(format!("distances of {} from {}", a.spec(), b.spec())));
    }
    let dims = call.result_dims()?;
    if a.dim(-1) == 0 {
        return Ok(Tensor::zeros(dtype, &dims).into());
    }
    let wide: Vec<usize> = dims.iter().copied().chain([a.dim(-1)]).collect();
    let all = a.expand(-2).broadcast_to(&wide) - b.expand(-3).broadcast_to(&wide);
    Ok(cast(&length(&all, p), dtype).into())
}

/// Distances of rows from all rows behind them.
fn own_distances(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let p = call.float("p", 2.0)?;
    if x.rank() != 2 || x.dim(0) > 1 << 12 {
        return Err(Error::damaged(format!("distances of {}", x.spec())));
    }
    let rows = x.dim(0) as i64;
    let pairs: Vec<(i64, i64)> = (0..rows).flat_map(|a| (a + 1..rows).map(move |b| (a, b))).collect();
    let side = |of: fn(&(i64, i64)) -> i64| -> Result<Tensor, Error> {
        let places: Vec<i64> = pairs.iter().map(of).collect();
        Ok(Tensor::constant(&tensor::Literal::from_slice(&places, [places.len()])?))
    };
    let x = cast(&x, wide(dtype));
    let all = x.take(0, &side(|pair| pair.0)?) - x.take(0, &side(|pair| pair.1)?);
    Ok(cast(&length(&all, p), dtype).into())
}

/// The class axis of scores.
fn class_axis(x: &Tensor) -> isize {
    if x.rank() == 1 { 0 } else { 1 }
}

fn cross_entropy(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, call.tensor("target")?);
    let class = class_axis(&x);
    let logs = x.log_softmax(class);
    let smoothing = call.float("label_smoothing", 0.0)?;
    if !target.dtype().is_float() {
        return by_class(call, &logs, &target, smoothing);
    }
    // The target has a probability of every class.
    let classes = x.dim(class) as f64;
    let target = cast(&target, logs.dtype()) * (1.0 - smoothing) + smoothing / classes;
    let mut losses = (logs * target).negate();
    if call.has("weight") {
        losses = losses * along(&given(call, "weight")?, x.rank(), class);
    }
    let losses = losses.sum(&[class as usize]);
    let dtype = call.result_type()?;
    let batch = (x.num_elements() as f64 / classes.max(1.0)).max(1.0);
    Ok(match call.int("reduction", 1)? {
        0 => cast(&losses, dtype),
        1 => cast(&(losses.sum_all() / batch), dtype),
        _ => cast(&losses.sum_all(), dtype),
    }
    .into())
}

/// A value for each class, along the axis of classes.
fn along(weight: &Tensor, rank: usize, class: isize) -> Tensor {
    let mut dims = vec![1; rank];
    dims[class as usize] = weight.num_elements();
    weight.reshape(&dims)
}

/// The element of each class axis that a target names.
fn picked(x: &Tensor, target: &Tensor, class: isize) -> Tensor {
    let size = x.dim(class);
    let inside = target.maximum(&Tensor::scalar(target.dtype(), 0.0));
    let inside = inside.minimum(&Tensor::scalar(target.dtype(), size.saturating_sub(1) as f64));
    x.take_along(class, &inside.expand(class)).squeeze(class)
}

/// Losses of targets that name a class; ignored ones count nothing. Several results where the op has them: the weight of all.
fn by_class(call: &mut Call<'_, '_>, logs: &Tensor, target: &Tensor, smoothing: f64) -> Answer {
    let class = class_axis(logs);
    if target.rank() + 1 != logs.rank() {
        return Err(Error::damaged(format!("classes {} of {}", target.spec(), logs.spec())));
    }
    let ignored = call.int("ignore_index", -100)?;
    let counted = target.differs(&Tensor::scalar(target.dtype(), ignored as f64));
    let weight = match call.has("weight") {
        true => Some(given(call, "weight")?),
        false => None,
    };
    let weights = match &weight {
        Some(weight) => picked(&along(weight, logs.rank(), class).broadcast_to(logs.dims()), target, class),
        None => Tensor::ones(logs.dtype(), target.dims()),
    };
    let weights = counted.select(&weights, &weights.zeros_like());
    let own = picked(logs, target, class);
    let mut losses = counted.select(&own, &own.zeros_like()).negate() * weights.clone();
    let total = weights.sum_all();
    if smoothing != 0.0 {
        let all = match &weight {
            Some(weight) => logs * &along(weight, logs.rank(), class),
            None => logs.clone(),
        };
        let smooth = all.sum(&[class as usize]).negate();
        let smooth = counted.select(&smooth, &smooth.zeros_like()) / logs.dim(class) as f64;
        losses = losses * (1.0 - smoothing) + smooth * smoothing;
    }
    let dtype = call.result_type()?;
    let loss = match call.int("reduction", 1)? {
        0 => losses,
        1 => losses.sum_all() / total.clone(),
        _ => losses.sum_all(),
    };
    let loss = cast(&loss, dtype);
    Ok(match call.node.outputs.len() > 1 {
        true => vec![loss, cast(&total, dtype)].into(),
        false => loss.into(),
    })
}

fn nll_loss(call: &mut Call<'_, '_>) -> Answer {
    let (x, target) = (given(call, "self")?, call.tensor("target")?);
    by_class(call, &x, &target, 0.0)
}

pub(super) const RULES: Rules = &[
    ("cross_entropy_loss", cross_entropy),
    ("nll_loss", nll_loss),
    ("nll_loss_nd", nll_loss),
    ("nll_loss2d", nll_loss),
    ("nll_loss_forward", nll_loss),
    ("nll_loss2d_forward", nll_loss),
    ("mse_loss", |c| difference(c, |x| x * x)),
    ("l1_loss", |c| difference(c, size)),
    ("smooth_l1_loss", smooth_l1),
    ("huber_loss", huber),
    ("binary_cross_entropy", binary_cross_entropy),
    ("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits),
    ("kl_div", kl_div),
    ("poisson_nll_loss", poisson),
    ("hinge_embedding_loss", hinge_embedding),
    ("margin_ranking_loss", margin_ranking),
    ("cosine_embedding_loss", cosine_embedding),
    ("soft_margin_loss", soft_margin),
    ("multi_margin_loss", multi_margin),
    ("triplet_margin_loss", triplet_margin),
    ("pairwise_distance", pairwise_distance),
    ("cosine_similarity", cosine_similarity),
    ("cdist", distances),
    ("_cdist_forward", distances),
    ("_euclidean_dist", distances),
    ("pdist", own_distances),
    ("_pdist_forward", own_distances),
];
