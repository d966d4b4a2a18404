//! Norms: computed in at least f32 and rounded once.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::graph::NodeArgument;
use crate::translate::call::{Call, Value, positive};
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// Mean 0 and variance 1 over axes, with the mean and the reciprocal of the deviation.
fn normalized(x: &Tensor, axes: &[usize], epsilon: f64) -> (Tensor, Tensor, Tensor) {
    let dims: Vec<usize> =
        x.dims().iter().enumerate().map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect();
    let mean = x.mean(axes).reshape(&dims);
    let centred = x - &mean;
    let scale = (&centred.square().mean(axes).reshape(&dims) + epsilon).rsqrt();
    (&centred * &scale, mean, scale)
}

fn layer_norm(call: &mut Call<'_, '_>, default: f64) -> Result<Vec<Tensor>, Error> {
    let x = call.subject()?;
    let count = call.ints("normalized_shape")?.len();
    let epsilon = call.float("eps", default)?;
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let first = x.rank().checked_sub(count).ok_or_else(|| Error::damaged("it normalises more axes than there are"))?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    let (mut y, mean, scale) = normalized(&cast(&x, work), &axes, epsilon);
    if let Some(weight) = call.optional_tensor("weight")? {
        y = y * cast(&weight, work);
    }
    if let Some(bias) = call.optional_tensor("bias")? {
        y = y + cast(&bias, work);
    }
    Ok(vec![cast(&y, dtype), mean, scale])
}

fn rms_norm(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let count = call.ints("normalized_shape")?.len();
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let default = match dtype {
        DType::F64 => f64::EPSILON,
        DType::BF16 => 0.007_812_5,
        DType::F16 => 9.765_625e-4,
        _ => f64::from(f32::EPSILON),
    };
    let epsilon = call.float("eps", default)?;
    let first = x.rank().checked_sub(count).ok_or_else(|| Error::damaged("it normalises more axes than there are"))?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    let dims: Vec<usize> = x.dims().iter().enumerate().map(|(n, size)| if n >= first { 1 } else { *size }).collect();
    let x = cast(&x, work);
    let mut y = &x * &(&x.square().mean(&axes).reshape(&dims) + epsilon).rsqrt();
    if let Some(weight) = call.optional_tensor("weight")? {
        y = y * cast(&weight, work);
    }
    Ok(cast(&y, dtype).into())
}

/// A value for each channel, which is axis 1.
fn by_channel(value: &Tensor, rank: usize, dtype: DType) -> Tensor {
    let mut dims = vec![1; rank];
    if let Some(channel) = dims.get_mut(1) {
        *channel = value.num_elements();
    }
    cast(value, dtype).reshape(&dims)
}

/// Batch norm; in training it normalises by the batch, and writes the running statistics.
fn batch_norm(call: &mut Call<'_, '_>, is_training: bool) -> Result<Vec<Tensor>, Error> {
    let was_training = is_training;
    let is_training = is_training && !call.translator.context.is_evaluation();
    let x = call.subject()?;
    let (epsilon, momentum) = (call.float("eps", 1e-5)?, call.float("momentum", 0.1)?);
    let (dtype, work, rank) = (x.dtype(), wide(x.dtype()), x.rank());
    if rank < 2 {
        return Err(Error::damaged("a batch norm of a tensor with one axis"));
    }
    let axes: Vec<usize> = (0..rank).filter(|axis| *axis != 1).collect();
    let wide_x = cast(&x, work);
    let running = (call.optional_tensor("running_mean")?, call.optional_tensor("running_var")?);
    let (mut y, saved) = match (&running, is_training) {
        ((Some(mean), Some(variance)), false) => {
            let scale = (&by_channel(variance, rank, work) + epsilon).rsqrt();
            let y = (&wide_x - &by_channel(mean, rank, work)) * &scale;
            match was_training {
                true => (y, vec![cast(mean, work), scale.reshape(&[x.dim(1)])]),
                false => (y, vec![Tensor::zeros(work, &[0]), Tensor::zeros(work, &[0])]),
            }
        }
        _ => {
            let (y, mean, scale) = normalized(&wide_x, &axes, epsilon);
            let channels = [x.dim(1)];
            (y, vec![mean.reshape(&channels), scale.reshape(&channels)])
        }
    };
    if let ((Some(mean), Some(variance)), true) = (&running, is_training) {
        let count = x.num_elements() / x.dim(1).max(1);
        let own_mean = wide_x.mean(&axes);
        let centred = &wide_x - &by_channel(&own_mean, rank, work);
        let unbiased = centred.square().sum(&axes) / (count as f64 - 1.0).max(1.0);
        let moved =
            |old: &Tensor, new: &Tensor| cast(&(&cast(old, work) * (1.0 - momentum) + new * momentum), old.dtype());
        update(call, "running_mean", &moved(mean, &own_mean))?;
        update(call, "running_var", &moved(variance, &unbiased))?;
    }
    if let Some(weight) = call.optional_tensor("weight")? {
        y = y * by_channel(&weight, rank, work);
    }
    if let Some(bias) = call.optional_tensor("bias")? {
        y = y + by_channel(&bias, rank, work);
    }
    Ok([vec![cast(&y, dtype)], saved].concat())
}

/// Writes to an argument, as these ops do without saying so.
fn update(call: &mut Call<'_, '_>, name: &str, value: &Tensor) -> Result<(), Error> {
    match call.argument(name) {
        Some(NodeArgument::Tensor(tensor)) => call.translator.write(tensor, value),
        _ => Ok(()),
    }
}

/// All results, in the types that are recorded.
fn as_recorded(call: &Call<'_, '_>, results: Vec<Tensor>) -> Answer {
    let recorded = call.translator.recorded_results(call.node)?;
    let own = |(n, result): (usize, Tensor)| match recorded.get(n) {
        Some((dtype, _)) => cast(&result, *dtype),
        None => result,
    };
    Ok(results.into_iter().enumerate().map(own).collect::<Vec<_>>().into())
}

/// The functional form gives the new statistics as results and writes nothing.
fn functional_batch_norm(call: &mut Call<'_, '_>) -> Answer {
    let before = (call.tensor("running_mean")?, call.tensor("running_var")?);
    let is_training = call.bool("training", true)?;
    let results = batch_norm(call, is_training)?;
    let after = (call.tensor("running_mean")?, call.tensor("running_var")?);
    update(call, "running_mean", &before.0)?;
    update(call, "running_var", &before.1)?;
    as_recorded(call, [results, vec![after.0, after.1]].concat())
}

fn group_norm(call: &mut Call<'_, '_>, groups: &str) -> Answer {
    let x = call.subject()?;
    let groups = positive(call.int(groups, 1)?)?;
    let epsilon = call.float("eps", 1e-5)?;
    let (dtype, work, rank) = (x.dtype(), wide(x.dtype()), x.rank());
    if rank < 2 || groups == 0 || x.dim(1) % groups != 0 {
        return Err(Error::damaged(format!("{groups} groups of {}", x.spec())));
    }
    let split: Vec<usize> = [x.dim(0), groups, x.dim(1) / groups].into_iter().chain(x.dims()[2..].to_vec()).collect();
    let axes: Vec<usize> = (2..split.len()).collect();
    let (y, mean, scale) = normalized(&cast(&x, work).reshape(&split), &axes, epsilon);
    let mut y = y.reshape(x.dims());
    if let Some(weight) = call.optional_tensor("weight")? {
        y = y * by_channel(&weight, rank, work);
    }
    if let Some(bias) = call.optional_tensor("bias")? {
        y = y + by_channel(&bias, rank, work);
    }
    let by_group = [x.dim(0), groups];
    let results = vec![cast(&y, dtype), mean.reshape(&by_group), scale.reshape(&by_group)];
    if call.node.outputs.len() == 1 {
        return Ok(results.into());
    }
    as_recorded(call, results)
}

fn instance_norm(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    if !call.bool("use_input_stats", true)? {
        return Ok(batch_norm(call, false)?.swap_remove(0).into());
    }
    let (epsilon, momentum) = (call.float("eps", 1e-5)?, call.float("momentum", 0.1)?);
    let (dtype, work, rank) = (x.dtype(), wide(x.dtype()), x.rank());
    let axes: Vec<usize> = (2..rank).collect();
    let wide_x = cast(&x, work);
    let (mut y, mean, _) = normalized(&wide_x, &axes, epsilon);
    if let (Some(old_mean), Some(old_variance)) =
        (call.optional_tensor("running_mean")?, call.optional_tensor("running_var")?)
    {
        // The mean of the instances' statistics moves the running ones.
        let count: usize = x.dims()[2..].iter().product();
        let unbiased = (&wide_x - &mean).square().sum(&axes) / (count as f64 - 1.0).max(1.0);
        let channels = [x.dim(0), x.dim(1)];
        let moved = |old: &Tensor, new: Tensor| {
            cast(&(&cast(old, work) * (1.0 - momentum) + new.mean(&[0]) * momentum), old.dtype())
        };
        update(call, "running_mean", &moved(&old_mean, mean.reshape(&channels)))?;
        update(call, "running_var", &moved(&old_variance, unbiased))?;
    }
    if let Some(weight) = call.optional_tensor("weight")? {
        y = y * by_channel(&weight, rank, work);
    }
    if let Some(bias) = call.optional_tensor("bias")? {
        y = y + by_channel(&bias, rank, work);
    }
    Ok(cast(&y, dtype).into())
}

/// Gradients of a norm by its input, weight and bias, as a function of the three.
fn backward(call: &mut Call<'_, '_>, affine: &[usize], f: impl Fn(&Tensor, &Tensor, &Tensor) -> Tensor) -> Answer {
    let (ct, x) = (call.tensor("grad_out")?, call.tensor("input")?);
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let of = |given: Option<Tensor>, value: f64| match given {
        Some(given) => cast(&given, work),
        None => Tensor::full(work, affine, value),
    };
    let weight = of(call.optional_tensor("weight")?, 1.0);
    let ct = cast(&ct, work);
    let at = (cast(&x, work), weight.clone(), Tensor::zeros(work, affine));
    let found =
        trace::grad(|(x, weight, bias): &(Tensor, Tensor, Tensor)| (f(x, weight, bias) * ct.clone()).sum_all(), &at);
    let own = |gradient: &Tensor| cast(gradient, dtype);
    Ok(vec![own(&found.0), own(&found.1), own(&found.2)].into())
}

/// The epsilon is in the saved deviation: it is what normalises.
fn scaled_by(x: &Tensor, mean: &Tensor, scale: &Tensor, axes: &[usize]) -> Tensor {
    // Through both statistics a gradient passes: they are computed again, with the epsilon that gives the saved deviation.
    let kept = |y: Tensor, dims: &[usize]| y.reshape(dims);
    let dims: Vec<usize> =
        x.dims().iter().enumerate().map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect();
    let (mean, scale) = (mean.reshape(&dims), scale.reshape(&dims));
    let centred_saved = (x - &mean).stop_gradient();
    let variance = kept(centred_saved.square().mean(axes), &dims);
    let epsilon = (&(&scale * &scale).full_like(1.0) / &(&scale * &scale) - variance).stop_gradient();
    let own_mean = kept(x.mean(axes), &dims);
    let centred = x - &own_mean;
    let own = (kept(centred.square().mean(axes), &dims) + epsilon).rsqrt();
    centred * own
}

fn layer_norm_backward(call: &mut Call<'_, '_>) -> Answer {
    let (x, mean, scale) = (call.tensor("input")?, call.tensor("mean")?, call.tensor("rstd")?);
    let count = call.ints("normalized_shape")?.len();
    let first = x.rank().checked_sub(count).ok_or_else(|| Error::damaged("it normalises more axes than there are"))?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    let work = wide(x.dtype());
    let (mean, scale) = (cast(&mean, work), cast(&scale, work));
    backward(call, &x.dims()[first..], |x, weight, bias| scaled_by(x, &mean, &scale, &axes) * weight + bias)
}

fn group_norm_backward(call: &mut Call<'_, '_>) -> Answer {
    let (x, mean, scale) = (call.tensor("input")?, call.tensor("mean")?, call.tensor("rstd")?);
    let groups = positive(call.int("group", 1)?)?;
    if x.rank() < 2 || groups == 0 || x.dim(1) % groups != 0 {
        return Err(Error::damaged(format!("{groups} groups of {}", x.spec())));
    }
    let split: Vec<usize> = [x.dim(0), groups, x.dim(1) / groups].into_iter().chain(x.dims()[2..].to_vec()).collect();
    let axes: Vec<usize> = (2..split.len()).collect();
    let (work, rank, channels) = (wide(x.dtype()), x.rank(), x.dim(1));
    let (mean, scale) = (cast(&mean, work), cast(&scale, work));
    backward(call, &[channels], |x, weight, bias| {
        let y = scaled_by(&x.reshape(&split), &mean, &scale, &axes).reshape(x.dims());
        y * by_channel(weight, rank, work) + by_channel(bias, rank, work)
    })
}

fn weight_norm(call: &mut Call<'_, '_>) -> Answer {
    let (v, g) = (call.tensor("v")?, call.tensor("g")?);
    let axis = call.axis("dim", 0, v.rank())?;
    let axes: Vec<usize> = (0..v.rank()).filter(|other| *other != axis).collect();
    let dims: Vec<usize> = v.dims().iter().enumerate().map(|(n, size)| if n == axis { *size } else { 1 }).collect();
    let length = v.square().sum(&axes).sqrt().reshape(&dims);
    Ok((&v * &(&g.reshape(&dims) / &length)).into())
}

fn first(results: Result<Vec<Tensor>, Error>) -> Answer {
    Ok(results?.swap_remove(0).into())
}

pub(super) const RULES: Rules = &[
    ("layer_norm", |c| first(layer_norm(c, 1e-5))),
    ("native_layer_norm", |c| {
        let results = layer_norm(c, 1e-5)?;
        as_recorded(c, results)
    }),
    ("native_layer_norm_backward", layer_norm_backward),
    ("native_group_norm_backward", group_norm_backward),
    ("rms_norm", rms_norm),
    ("_fused_rms_norm", |c| Ok(Value::Several(vec![rms_norm(c)?, Value::Nothing]))),
    ("batch_norm", |c| {
        let is_training = c.bool("training", false)?;
        first(batch_norm(c, is_training))
    }),
    ("native_batch_norm", |c| {
        let is_training = c.bool("training", false)?;
        let results = batch_norm(c, is_training)?;
        as_recorded(c, results)
    }),
    ("_native_batch_norm_legit", |c| {
        let is_training = c.bool("training", false)?;
        let results = batch_norm(c, is_training)?;
        as_recorded(c, results)
    }),
    ("_native_batch_norm_legit_no_training", |c| batch_norm(c, false).map(Value::from)),
    ("_native_batch_norm_legit_functional", functional_batch_norm),
    ("group_norm", |c| match group_norm(c, "num_groups")? {
        Value::Several(mut all) => Ok(all.swap_remove(0)),
        other => Ok(other),
    }),
    ("native_group_norm", |c| group_norm(c, "group")),
    ("instance_norm", instance_norm),
    ("_weight_norm", weight_norm),
];
