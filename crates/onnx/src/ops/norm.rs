//! Normalizations and softmax.

use tensor::DType;
use trace::{Tensor, Window};

use super::convolution::by_feature;
use super::{Answer, Rules, one};
use crate::call::{Call, cast, in_rank, size, wide};
use crate::error::Error;

/// The mean over axes, which stay with one element.
fn kept_mean(x: &Tensor, axes: &[usize]) -> Tensor {
    let dims: Vec<usize> = (0..x.rank()).map(|axis| if axes.contains(&axis) { 1 } else { x.dims()[axis] }).collect();
    x.mean(axes).reshape(&dims)
}

/// Without mean and with variance 1 over axes; the mean and one over the standard deviation too.
fn standardized(x: &Tensor, axes: &[usize], epsilon: f64) -> (Tensor, Tensor, Tensor) {
    let mean = kept_mean(x, axes);
    let centered = x - &mean;
    let inverse = (kept_mean(&centered.square(), axes) + epsilon).rsqrt();
    (&centered * &inverse, mean, inverse)
}

fn batch_norm(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    if call.attributes.int("training_mode", 0) != 0 || call.num_outputs > 1 {
        return Err(Error::new(
            "batch normalization in training mode is not translated",
            "export the model for inference",
        ));
    }
    let work = wide(x.dtype());
    let part = |at: usize| by_feature(&cast(call.input(at)?, work), x);
    let (scale, bias, mean, variance) = (part(1)?, part(2)?, part(3)?, part(4)?);
    let inverse = (variance + call.attributes.float("epsilon", 1e-5)).rsqrt();
    one(cast(&((cast(x, work) - mean) * (inverse * scale) + bias), x.dtype()))
}

fn instance_norm(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    if x.rank() < 3 {
        return Err(Error::damaged(format!("instances of {}", x.spec())));
    }
    let work = wide(x.dtype());
    let axes: Vec<usize> = (2..x.rank()).collect();
    let (y, ..) = standardized(&cast(x, work), &axes, call.attributes.float("epsilon", 1e-5));
    let part = |at: usize| by_feature(&cast(call.input(at)?, work), x);
    one(cast(&(y * part(1)? + part(2)?), x.dtype()))
}

fn layer_norm(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let axes: Vec<usize> = (axis..x.rank()).collect();
    let work = wide(x.dtype());
    let (y, mean, inverse) = standardized(&cast(x, work), &axes, call.attributes.float("epsilon", 1e-5));
    let mut y = cast(&y, x.dtype()) * call.input(1)?;
    if let Some(bias) = call.optional(2) {
        y = y + bias;
    }
    Ok(vec![y, mean, inverse])
}

fn rms_norm(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let axes: Vec<usize> = (axis..x.rank()).collect();
    let work = cast(x, wide(x.dtype()));
    let inverse = (kept_mean(&work.square(), &axes) + call.attributes.float("epsilon", 1e-5)).rsqrt();
    one(cast(&(&work * &inverse), x.dtype()) * call.input(1)?)
}

/// Scale and bias are one for each group in opset 18, and one for each feature later.
fn group_norm(call: &Call<'_>) -> Answer {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let groups = size(call.attributes.int("num_groups", 0))?;
    if x.rank() < 2 || groups == 0 || x.dims()[1] % groups != 0 {
        return Err(Error::damaged(format!("{groups} groups of {}", x.spec())));
    }
    let features = x.dims()[1];
    let rest: usize = x.dims()[2..].iter().product();
    let work = wide(x.dtype());
    let grouped = cast(x, work).reshape(&[x.dims()[0], groups, features / groups * rest]);
    let (y, ..) = standardized(&grouped, &[2], call.attributes.float("epsilon", 1e-5));
    let y = y.reshape(x.dims());
    let spread = |part: &Tensor| -> Result<Tensor, Error> {
        let part = cast(part, work);
        match part.dims() == [groups] && groups != features {
            true => by_feature(&part.expand(-1).broadcast_to(&[groups, features / groups]).reshape(&[features]), &y),
            false => by_feature(&part, &y),
        }
    };
    one(cast(&(&y * &spread(scale)? + spread(bias)?), x.dtype()))
}

fn lp_norm(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let norm = match call.attributes.int("p", 2) {
        1 => x.abs().sum(&[axis]),
        _ => x.square().sum(&[axis]).sqrt(),
    };
    let norm = norm.expand(axis as isize);
    let zero = Tensor::scalar(x.dtype(), 0.0);
    let safe = norm.equals(&zero).select(&Tensor::ones(x.dtype(), norm.dims()), &norm);
    one(x / &safe)
}

/// Each element by what its neighbours among the features are.
fn local_response(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let attributes = call.attributes;
    let count = size(attributes.int("size", 1))?;
    if x.rank() < 2 || count == 0 || count > 1 << 20 {
        return Err(Error::damaged(format!("{count} neighbours of {}", x.spec())));
    }
    let mut window = Window { dims: vec![1; x.rank()], strides: vec![1; x.rank()], padding: vec![(0, 0); x.rank()] };
    window.dims[1] = count;
    window.padding[1] = (((count - 1) / 2) as i64, (count / 2) as i64);
    let sum = x.square().window_sum(&window);
    let (alpha, beta, bias) =
        (attributes.float("alpha", 1e-4), attributes.float("beta", 0.75), attributes.float("bias", 1.0));
    one(x / &(sum * (alpha / count as f64) + bias).powf(beta))
}

fn mean_variance(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let named = call.attributes.ints("axes").unwrap_or(&[0, 2, 3]);
    let axes = crate::call::all_in_rank(named, x.rank())?;
    let mean = kept_mean(x, &axes);
    let deviation = (kept_mean(&x.square(), &axes) - mean.square()).sqrt();
    one((x - &mean) / (deviation + 1e-9))
}

/// Before opset 13 all axes from the given one on count as one.
fn softmax(call: &Call<'_>, f: impl FnOnce(&Tensor, isize) -> Tensor) -> Answer {
    let x = call.input(0)?;
    let work = cast(x, wide(x.dtype()));
    if call.opset >= 13 {
        let axis = call.axis(-1, x.rank())?;
        return one(cast(&f(&work, axis as isize), x.dtype()));
    }
    let axis = in_rank(call.attributes.int("axis", 1), x.rank())?;
    let (before, after) = x.dims().split_at(axis);
    let flat = work.reshape(&[before.iter().product(), after.iter().product()]);
    one(cast(&f(&flat, 1).reshape(x.dims()), x.dtype()))
}

fn hardmax(x: &Tensor, axis: isize) -> Tensor {
    x.argmax(axis).one_hot(x.dim(axis), x.dtype()).move_axis(-1, axis)
}

/// The loss of each row that is wanted: its classes are axis 1.
fn negative_log_likelihood(call: &Call<'_>, scores: &Tensor) -> Result<Tensor, Error> {
    let labels = call.input(1)?;
    if scores.rank() < 2 || labels.rank() + 1 != scores.rank() {
        return Err(Error::damaged(format!("labels {} of {}", labels.spec(), scores.spec())));
    }
    let classes = scores.dims()[1];
    let labels = cast(labels, DType::I64);
    let is_hot = labels.one_hot(classes, scores.dtype()).move_axis(-1, 1);
    let weight = match call.optional(2) {
        Some(weight) => by_feature(weight, scores)?,
        None => Tensor::ones(scores.dtype(), scores.dims()),
    };
    let mut weight = (&is_hot * &weight).sum(&[1]);
    if call.attributes.has("ignore_index") {
        let ignored = Tensor::scalar(DType::I64, call.attributes.int("ignore_index", 0) as f64);
        weight = labels.equals(&ignored).select(&weight.zeros_like(), &weight);
    }
    let zero = scores.zeros_like();
    let hot = is_hot.differs(&Tensor::scalar(scores.dtype(), 0.0));
    let loss = -(hot.select(scores, &zero).sum(&[1]) * &weight);
    Ok(match call.attributes.text("reduction", "mean").as_str() {
        "none" => loss,
        "sum" => loss.sum_all(),
        _ => loss.sum_all() / weight.sum_all(),
    })
}

fn cross_entropy(call: &Call<'_>) -> Answer {
    let scores = call.input(0)?.log_softmax(1);
    Ok(vec![negative_log_likelihood(call, &scores)?, scores])
}

pub(super) const RULES: Rules = &[
    ("BatchNormalization", batch_norm),
    ("GroupNormalization", group_norm),
    ("Hardmax", |c| softmax(c, hardmax)),
    ("InstanceNormalization", instance_norm),
    ("LRN", local_response),
    ("LayerNormalization", layer_norm),
    ("LogSoftmax", |c| softmax(c, Tensor::log_softmax)),
    ("LpNormalization", lp_norm),
    ("MeanVarianceNormalization", mean_variance),
    ("NegativeLogLikelihoodLoss", |c| one(negative_log_likelihood(c, c.input(0)?)?)),
    ("RMSNormalization", rms_norm),
    ("Softmax", |c| softmax(c, Tensor::softmax)),
    ("SoftmaxCrossEntropyLoss", cross_entropy),
];
