//! Convolutions and pools: features are axis 1 in PyTorch, and last in our ops.

use tensor::DType;
use trace::{Convolution, Tensor, Window};

use crate::error::Error;
use crate::translate::call::{Call, Value, positive};
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// `[batch, features, spatial…]` to `[batch, spatial…, features]`.
fn features_last(x: &Tensor) -> Tensor {
    x.move_axis(1, -1)
}

fn features_second(x: &Tensor) -> Tensor {
    x.move_axis(-1, 1)
}

fn sizes(values: &[i64]) -> Result<Vec<usize>, Error> {
    values.iter().map(|value| positive(*value)).collect()
}

/// A convolution of one, two or three spatial axes, with or without a batch.
fn convolution(call: &mut Call<'_, '_>, is_transposed: bool) -> Answer {
    let (x, weight, dtype) = (call.subject()?, call.tensor("weight")?, call.result_type()?);
    let spatial = weight.rank().saturating_sub(2);
    if weight.rank() < 3 || x.rank() + 1 < weight.rank() || x.rank() > weight.rank() {
        return Err(Error::damaged(format!("a convolution of {} with {}", x.spec(), weight.spec())));
    }
    let has_batch = x.rank() == weight.rank();
    let x = if has_batch { x } else { x.expand(0) };
    let strides = sizes(&call.spatial("stride", spatial, 1)?)?;
    let dilation = sizes(&call.spatial("dilation", spatial, 1)?)?;
    let groups = positive(call.int("groups", 1)?)?.max(1);
    let kernel: Vec<usize> = weight.dims()[2..].to_vec();
    let reach = |n: usize| (dilation[n] * kernel[n].saturating_sub(1)) as i64;
    let padding: Vec<(i64, i64)> = match call.text("padding") {
        Some("same") => (0..spatial).map(|n| (reach(n) / 2, reach(n) - reach(n) / 2)).collect(),
        Some(_) => vec![(0, 0); spatial],
        None => call.spatial("padding", spatial, 0)?.into_iter().map(|pad| (pad, pad)).collect(),
    };
    let x = features_last(&cast(&x, dtype));
    let weight = cast(&weight, dtype);
    let mut how = Convolution::new(spatial).groups(groups);
    how.kernel_dilation = dilation.clone();
    let kernel_last = if is_transposed {
        let extra = call.spatial("output_padding", spatial, 0)?;
        how.input_dilation = strides;
        how.padding = (0..spatial).map(|n| (reach(n) - padding[n].0, reach(n) - padding[n].1 + extra[n])).collect();
        // [in, out / groups, k…], turned around, to [k…, in / groups, out].
        let (inputs, outputs) = (weight.dim(0), weight.dim(1));
        if inputs % groups != 0 {
            return Err(Error::damaged(format!("{inputs} features in {groups} groups")));
        }
        let flipped = weight.reverse(&(2..weight.rank()).collect::<Vec<_>>());
        let split: Vec<usize> = [groups, inputs / groups, outputs].into_iter().chain(kernel.clone()).collect();
        let order: Vec<usize> = (3..3 + spatial).chain([1, 0, 2]).collect();
        let dims: Vec<usize> = kernel.iter().copied().chain([inputs / groups, groups * outputs]).collect();
        flipped.reshape(&split).transpose(&order).reshape(&dims)
    } else {
        how.strides = strides;
        how.padding = padding;
        // [out, in / groups, k…] to [k…, in / groups, out].
        let order: Vec<usize> = (2..weight.rank()).chain([1, 0]).collect();
        weight.transpose(&order)
    };
    let mut y = features_second(&x.convolve(&kernel_last, &how));
    if let Some(bias) = call.optional_tensor("bias")? {
        let mut dims = vec![1; y.rank()];
        dims[1] = bias.num_elements();
        y = y + cast(&bias, dtype).reshape(&dims);
    }
    Ok(if has_batch { y } else { y.squeeze(0) }.into())
}

fn any_convolution(call: &mut Call<'_, '_>) -> Answer {
    let is_transposed = call.bool("transposed", false)?;
    convolution(call, is_transposed)
}

/// What a pool does, as its arguments say.
struct Pool {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    pads: Vec<usize>,
    /// Padding after the end that makes the last window whole.
    beyond: Vec<usize>,
}

impl Pool {
    fn of(call: &mut Call<'_, '_>, x: &Tensor, spatial: usize) -> Result<Pool, Error> {
        let kernel = sizes(&call.spatial("kernel_size", spatial, 1)?)?;
        let own: Vec<i64> = kernel.iter().map(|size| *size as i64).collect();
        let strides = match call.ints("stride")?.is_empty() {
            true => own,
            false => call.spatial("stride", spatial, 1)?,
        };
        let strides = sizes(&strides)?;
        let pads = sizes(&call.spatial("padding", spatial, 0)?)?;
        if call.spatial("dilation", spatial, 1)?.iter().any(|dilation| *dilation != 1) {
            return Err(call.unsupported("a pool with dilation"));
        }
        let results = call.result_dims()?;
        let beyond = (0..spatial).map(|n| {
            let axis = x.rank() - spatial + n;
            let out = results.get(results.len() - spatial + n).copied().unwrap_or(0);
            let needed = out.saturating_sub(1) * strides[n] + kernel[n];
            needed.saturating_sub(x.dims()[axis] + 2 * pads[n])
        });
        let beyond: Vec<usize> = beyond.collect();
        if strides.contains(&0) || kernel.contains(&0) {
            return Err(Error::damaged("a pool of size 0"));
        }
        Ok(Pool { kernel, strides, pads, beyond })
    }

    fn window(&self, rank: usize, padding: &[(i64, i64)]) -> Window {
        let lead = rank - self.kernel.len();
        let ones = vec![1; lead];
        Window {
            dims: [ones.clone(), self.kernel.clone()].concat(),
            strides: [ones, self.strides.clone()].concat(),
            padding: [vec![(0, 0); lead], padding.to_vec()].concat(),
        }
    }

    fn all_padding(&self) -> Vec<(i64, i64)> {
        self.pads.iter().zip(&self.beyond).map(|(pad, more)| (*pad as i64, (pad + more) as i64)).collect()
    }
}

fn max_pool(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let pool = Pool::of(call, &x, spatial)?;
    let window = pool.window(x.rank(), &pool.all_padding());
    Ok(x.window_max(&window).into())
}

fn avg_pool(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let pool = Pool::of(call, &x, spatial)?;
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let sum = cast(&x, work).window_sum(&pool.window(x.rank(), &pool.all_padding()));
    if let Some(divisor) = call.scalar("divisor_override")? {
        return Ok(cast(&(sum / divisor.as_f64()), dtype).into());
    }
    let lead = x.rank() - spatial;
    let mut ones = Tensor::ones(work, &[vec![1; lead], x.dims()[lead..].to_vec()].concat());
    let mut padding = pool.all_padding();
    if call.bool("count_include_pad", true)? {
        // Zeros around count, what lies beyond them does not.
        let pads: Vec<i64> = [vec![0; lead], pool.pads.iter().map(|pad| *pad as i64).collect()].concat();
        ones = ones.pad_all(&Tensor::scalar(work, 1.0), &pads, &pads, &vec![0; x.rank()]);
        padding = pool.beyond.iter().map(|more| (0, *more as i64)).collect();
    }
    let count = ones.window_sum(&pool.window(x.rank(), &padding));
    Ok(cast(&(sum / count), dtype).into())
}

fn with_positions(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    Ok(Value::Several(vec![max_pool(call, spatial)?, Value::Nothing]))
}

/// Means of parts that may overlap by one.
fn adaptive(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let results = call.result_dims()?;
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let mut y = cast(&x, work);
    for n in 0..spatial {
        let axis = x.rank() - spatial + n;
        let (size, out) = (x.dims()[axis], results.get(axis).copied().unwrap_or(0));
        if size == out {
            continue;
        }
        let mut weights = vec![0f32; size * out];
        for o in 0..out {
            let (start, end) = (o * size / out, ((o + 1) * size).div_ceil(out));
            for i in start..end {
                weights[i * out + o] = 1.0 / (end - start) as f32;
            }
        }
        y = super::resample::along(&y, axis, &weights, size, out)?;
    }
    Ok(cast(&y, dtype).into())
}

fn adaptive_max(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let results = call.result_dims()?;
    let mut y = x.clone();
    for n in 0..spatial {
        let axis = x.rank() - spatial + n;
        let (size, out) = (x.dims()[axis], results.get(axis).copied().unwrap_or(1).max(1));
        let at = axis as isize;
        let parts: Vec<Tensor> = (0..out)
            .map(|o| y.slice(at, o * size / out..((o + 1) * size).div_ceil(out)).max(&[axis]).expand(at))
            .collect();
        y = Tensor::concat(&parts, at);
    }
    Ok(Value::Several(vec![y.into(), Value::Nothing]))
}

/// Patches as columns: `[batch, features * kernel, places]`.
fn im2col(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let kernel = sizes(&call.spatial("kernel_size", 2, 1)?)?;
    let strides = sizes(&call.spatial("stride", 2, 1)?)?;
    let dilation = sizes(&call.spatial("dilation", 2, 1)?)?;
    let pads = call.spatial("padding", 2, 0)?;
    let dims = call.result_dims()?;
    if x.rank() != 4 {
        return Err(call.unsupported("`im2col` without a batch"));
    }
    let zero = Tensor::scalar(x.dtype(), 0.0);
    let around = [0, 0, pads[0], pads[1]];
    let padded = x.pad_all(&zero, &around, &around, &[0; 4]);
    let out: Vec<usize> = (0..2)
        .map(|n| {
            let reach = dilation[n] * kernel[n].saturating_sub(1) + 1;
            (padded.dims()[2 + n].saturating_sub(reach)) / strides[n].max(1) + 1
        })
        .collect();
    let mut parts = Vec::new();
    for i in 0..kernel[0] {
        for j in 0..kernel[1] {
            let (top, left) = (i * dilation[0], j * dilation[1]);
            let rows = padded.slice_by(2, top..top + (out[0] - 1) * strides[0] + 1, strides[0]);
            parts.push(rows.slice_by(3, left..left + (out[1] - 1) * strides[1] + 1, strides[1]));
        }
    }
    Ok(Tensor::stack(&parts, 2).reshape(&dims).into())
}

fn channel_shuffle(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let groups = positive(call.int("groups", 1)?)?.max(1);
    if x.rank() < 2 || x.dim(1) % groups != 0 {
        return Err(Error::damaged(format!("{groups} groups of {}", x.spec())));
    }
    let split: Vec<usize> = [x.dim(0), groups, x.dim(1) / groups].into_iter().chain(x.dims()[2..].to_vec()).collect();
    Ok(x.reshape(&split).swap_axes(1, 2).reshape(x.dims()).into())
}

/// Booleans have no maximum; nothing else is refused here.
fn checked_max(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    match call.result_type()? {
        DType::Bool => Err(call.unsupported("a pool of booleans")),
        _ => max_pool(call, spatial),
    }
}

pub(super) const RULES: Rules = &[
    ("conv1d", |c| convolution(c, false)),
    ("conv2d", |c| convolution(c, false)),
    ("conv3d", |c| convolution(c, false)),
    ("conv_transpose1d", |c| convolution(c, true)),
    ("conv_transpose2d", |c| convolution(c, true)),
    ("conv_transpose3d", |c| convolution(c, true)),
    ("convolution", any_convolution),
    ("_convolution", any_convolution),
    ("max_pool1d", |c| checked_max(c, 1)),
    ("max_pool2d", |c| checked_max(c, 2)),
    ("max_pool3d", |c| checked_max(c, 3)),
    ("max_pool2d_with_indices", |c| with_positions(c, 2)),
    ("max_pool3d_with_indices", |c| with_positions(c, 3)),
    ("avg_pool1d", |c| avg_pool(c, 1)),
    ("avg_pool2d", |c| avg_pool(c, 2)),
    ("avg_pool3d", |c| avg_pool(c, 3)),
    ("adaptive_avg_pool1d", |c| adaptive(c, 1)),
    ("adaptive_avg_pool2d", |c| adaptive(c, 2)),
    ("_adaptive_avg_pool2d", |c| adaptive(c, 2)),
    ("adaptive_avg_pool3d", |c| adaptive(c, 3)),
    ("_adaptive_avg_pool3d", |c| adaptive(c, 3)),
    ("adaptive_max_pool1d", |c| adaptive_max(c, 1)),
    ("adaptive_max_pool2d", |c| adaptive_max(c, 2)),
    ("im2col", im2col),
    ("channel_shuffle", channel_shuffle),
];
