//! Convolutions and pools: features are axis 1 in ONNX, and last in our ops.

use tensor::DType;
use trace::{Convolution, Tensor, Window};

use super::{Answer, Rules, one};
use crate::call::{Call, cast, size, wide};
use crate::error::Error;

/// `[batch, features, spatial…]` to `[batch, spatial…, features]`.
fn features_last(x: &Tensor) -> Tensor {
    x.move_axis(1, -1)
}

fn features_second(x: &Tensor) -> Tensor {
    x.move_axis(-1, 1)
}

/// Sizes, strides, dilation and padding of a moving window.
struct Moving {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<(i64, i64)>,
}

impl Moving {
    fn of(call: &Call<'_>, dims: &[usize], kernel: Vec<usize>) -> Result<Moving, Error> {
        let spatial = dims.len();
        let strides = call.spatial("strides", spatial, 1)?;
        let dilation = call.spatial("dilations", spatial, 1)?;
        if kernel.len() != spatial || [&kernel, &strides, &dilation].iter().any(|list| list.contains(&0)) {
            return Err(Error::damaged(format!("a window of {kernel:?} by {strides:?}")));
        }
        // Bounded, so that no sum of them overflows.
        let most = 1 << 30;
        if kernel.iter().chain(&strides).chain(&dilation).chain(dims).any(|value| *value > most) {
            return Err(Error::damaged(format!("a window of {kernel:?} by {strides:?}")));
        }
        let reach = |n: usize| (dilation[n] * (kernel[n] - 1)) as i64;
        let padding = match call.attributes.text("auto_pad", "NOTSET").as_str() {
            side @ ("SAME_UPPER" | "SAME_LOWER") => {
                let total = |n: usize| {
                    let out = dims[n].div_ceil(strides[n]) as i64;
                    ((out - 1) * strides[n] as i64 + reach(n) + 1 - dims[n] as i64).max(0)
                };
                let sides = |n: usize| match side {
                    "SAME_UPPER" => (total(n) / 2, total(n) - total(n) / 2),
                    _ => (total(n) - total(n) / 2, total(n) / 2),
                };
                (0..spatial).map(sides).collect()
            }
            "VALID" => vec![(0, 0); spatial],
            "NOTSET" | "" => pads(call, spatial)?,
            other => return Err(Error::damaged(format!("the padding `{other}`"))),
        };
        Ok(Moving { kernel, strides, dilation, padding })
    }

    fn reach(&self, axis: usize) -> i64 {
        (self.dilation[axis] * (self.kernel[axis] - 1)) as i64
    }
}

fn pads(call: &Call<'_>, spatial: usize) -> Result<Vec<(i64, i64)>, Error> {
    let Some(pads) = call.attributes.ints("pads") else { return Ok(vec![(0, 0); spatial]) };
    if pads.len() != 2 * spatial || pads.iter().any(|pad| pad.unsigned_abs() > 1 << 30) {
        return Err(Error::damaged(format!("padding {pads:?} for {spatial} axes")));
    }
    Ok((0..spatial).map(|n| (pads[n], pads[spatial + n])).collect())
}

/// The convolution of an image with a kernel `[out, in / groups, spatial…]`.
pub(super) fn convolved(call: &Call<'_>, x: &Tensor, weight: &Tensor) -> Result<Tensor, Error> {
    if weight.rank() < 3 || x.rank() != weight.rank() {
        return Err(Error::damaged(format!("a convolution of {} with {}", x.spec(), weight.spec())));
    }
    let kernel: Vec<usize> = weight.dims()[2..].to_vec();
    let moving = Moving::of(call, &x.dims()[2..], kernel)?;
    let mut how = Convolution::new(x.rank() - 2).groups(size(call.attributes.int("group", 1))?.max(1));
    how.strides = moving.strides;
    how.kernel_dilation = moving.dilation;
    how.padding = moving.padding;
    // `[spatial…, in, out]`.
    let order: Vec<usize> = (2..weight.rank()).chain([1, 0]).collect();
    Ok(features_second(&features_last(x).convolve(&weight.transpose(&order), &how)))
}

/// A bias for each feature, which are axis 1.
pub(super) fn by_feature(bias: &Tensor, like: &Tensor) -> Result<Tensor, Error> {
    match like.rank() >= 2 && bias.dims() == [like.dims()[1]] {
        true => Ok(bias.broadcast_along(like.dims(), &[1])),
        false => Err(Error::damaged(format!("{} for the features of {}", bias.spec(), like.spec()))),
    }
}

fn convolution(call: &Call<'_>) -> Answer {
    let mut y = convolved(call, call.input(0)?, call.input(1)?)?;
    if let Some(bias) = call.optional(2) {
        y = &y + &by_feature(bias, &y)?;
    }
    one(y)
}

/// The gradient of a convolution by its input: steps become distances.
fn transposed(call: &Call<'_>) -> Answer {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    if weight.rank() < 3 || x.rank() != weight.rank() {
        return Err(Error::damaged(format!("a convolution of {} with {}", x.spec(), weight.spec())));
    }
    let spatial = x.rank() - 2;
    let groups = size(call.attributes.int("group", 1))?.max(1);
    let strides = call.spatial("strides", spatial, 1)?;
    let dilation = call.spatial("dilations", spatial, 1)?;
    let extra = call.spatial("output_padding", spatial, 0)?;
    let kernel = &weight.dims()[2..];
    let most = 1 << 30;
    let sizes = kernel.iter().chain(&strides).chain(&dilation);
    if sizes.clone().any(|value| *value == 0) || sizes.chain(&extra).chain(x.dims()).any(|value| *value > most) {
        return Err(Error::damaged(format!("a window of {kernel:?} by {strides:?}")));
    }
    let reach = |n: usize| (dilation[n] * (kernel[n] - 1)) as i64;
    let whole = |n: usize| strides[n] as i64 * (x.dims()[2 + n] as i64 - 1) + extra[n] as i64 + reach(n) + 1;
    let auto = call.attributes.text("auto_pad", "NOTSET");
    let wanted = call.attributes.ints("output_shape");
    let cut: Vec<(i64, i64)> = match (wanted, auto.as_str()) {
        (None, "NOTSET" | "") => pads(call, spatial)?,
        (None, "VALID") => vec![(0, 0); spatial],
        (wanted, side) => {
            let out = |n: usize| match wanted {
                Some(shape) => shape.get(shape.len().wrapping_sub(spatial).wrapping_add(n)).copied().unwrap_or(0),
                None => x.dims()[2 + n] as i64 * strides[n] as i64,
            };
            let sides = |n: usize| {
                // More than the window gives is filled up after the end.
                let total = whole(n).saturating_sub(out(n)).clamp(-(1 << 30), 1 << 30);
                let half = total.div_euclid(2);
                if side == "SAME_UPPER" { (half, total - half) } else { (total - half, half) }
            };
            (0..spatial).map(sides).collect()
        }
    };
    if weight.dims()[0] % groups != 0 {
        return Err(Error::damaged(format!("{groups} groups of {}", weight.spec())));
    }
    let mut how = Convolution::new(spatial).groups(groups);
    how.input_dilation = strides;
    how.kernel_dilation = dilation.clone();
    how.padding = (0..spatial).map(|n| (reach(n) - cut[n].0, reach(n) - cut[n].1 + extra[n] as i64)).collect();
    // `[in, out / groups, spatial…]` to `[spatial… backwards, in / groups, out]`.
    let (input, output) = (weight.dims()[0], weight.dims()[1]);
    let grouped = [&[groups, input / groups, output], kernel].concat();
    let order: Vec<usize> = (3..3 + spatial).chain([1, 0, 2]).collect();
    let merged = [kernel, &[input / groups, groups * output]].concat();
    let turned = weight.reshape(&grouped).transpose(&order).reshape(&merged).reverse(&(0..spatial).collect::<Vec<_>>());
    let mut y = features_second(&features_last(x).convolve(&turned, &how));
    if let Some(bias) = call.optional(2) {
        y = &y + &by_feature(bias, &y)?;
    }
    one(y)
}

/// An image with its features last, the window, and the padding with what `ceil_mode` adds after the end.
type Pool = (Tensor, Moving, Vec<(i64, i64)>);

fn pool(call: &Call<'_>) -> Result<Pool, Error> {
    let x = call.input(0)?;
    let kernel = call.attributes.ints("kernel_shape").ok_or_else(|| Error::damaged("it names no kernel"))?;
    if x.rank() < 3 {
        return Err(Error::damaged(format!("a pool of {}", x.spec())));
    }
    let kernel = kernel.iter().map(|value| size(*value)).collect::<Result<Vec<_>, _>>()?;
    let moving = Moving::of(call, &x.dims()[2..], kernel)?;
    let mut padding = moving.padding.clone();
    if call.attributes.int("ceil_mode", 0) != 0 {
        for (n, (before, after)) in padding.iter_mut().enumerate() {
            let (dim, stride) = (x.dims()[2 + n] as i64, moving.strides[n] as i64);
            let span = dim + *before + *after - moving.reach(n) - 1;
            let mut steps = (span + stride - 1).div_euclid(stride);
            // A window that would begin in the padding after the end is left out.
            if steps * stride >= dim + *before {
                steps -= 1;
            }
            *after += (steps * stride - span).max(0);
        }
    }
    Ok((features_last(x), moving, padding))
}

/// Values of every window along a new last axis: `[batch, out…, features, window]`. For windows with dilation.
fn windows(x: &Tensor, moving: &Moving, padding: &[(i64, i64)], fill: f64) -> Result<Tensor, Error> {
    let spatial = moving.kernel.len();
    let around = |inner: Vec<i64>| [vec![0], inner, vec![0]].concat();
    let low = around(padding.iter().map(|(before, _)| *before).collect());
    let high = around(padding.iter().map(|(_, after)| *after).collect());
    let padded = x.pad_all(&Tensor::scalar(x.dtype(), fill), &low, &high, &vec![0; x.rank()]);
    let count: usize = moving.kernel.iter().product();
    if count > 4096 {
        return Err(Error::unsupported(format!("a pool of {:?} elements with dilation", moving.kernel)));
    }
    let mut all = Vec::new();
    for n in 0..count {
        let mut part = padded.clone();
        let mut left = n;
        for axis in (0..spatial).rev() {
            let at = left % moving.kernel[axis] * moving.dilation[axis];
            left /= moving.kernel[axis];
            let span = padded.dims()[1 + axis] as i64 - moving.reach(axis);
            if span < 1 {
                return Err(Error::damaged("a window that is larger than the image"));
            }
            part = part.slice_by(1 + axis as isize, at..at + span as usize, moving.strides[axis]);
        }
        all.push(part);
    }
    Ok(Tensor::stack(&all, -1))
}

fn is_plain(moving: &Moving) -> bool {
    moving.dilation.iter().all(|value| *value == 1)
}

fn lowest(dtype: DType) -> f64 {
    match dtype {
        dtype if dtype.is_float() => f64::NEG_INFINITY,
        dtype if dtype.is_signed_integer() => -((1u64 << (dtype.bits() - 1)) as f64),
        _ => 0.0,
    }
}

fn max_pool(call: &Call<'_>) -> Answer {
    let (x, moving, padding) = pool(call)?;
    if call.num_outputs < 2 && is_plain(&moving) && x.dtype().is_float() {
        let window = Window::spatial(&moving.kernel, &moving.strides, &padding);
        return one(features_second(&x.window_max(&window)));
    }
    let all = windows(&x, &moving, &padding, lowest(x.dtype()))?;
    let last = all.rank() - 1;
    let mut results = vec![features_second(&all.max(&[last]))];
    if call.num_outputs > 1 {
        // Each element's place in the whole input, features second.
        let dims = call.input(0)?.dims().to_vec();
        let spatial: Vec<usize> = (0..dims.len() - 2).collect();
        let is_column = call.attributes.int("storage_order", 0) != 0;
        let order: Vec<usize> = if is_column { spatial.clone() } else { spatial.iter().rev().copied().collect() };
        let mut place = Tensor::zeros(DType::I64, &dims);
        let mut stride = 1i64;
        for axis in order {
            place = place + Tensor::iota(DType::I64, &dims, 2 + axis) * stride as f64;
            stride = stride.saturating_mul(dims[2 + axis] as i64);
        }
        place = place + Tensor::iota(DType::I64, &dims, 1) * stride as f64;
        stride = stride.saturating_mul(dims[1] as i64);
        place = place + Tensor::iota(DType::I64, &dims, 0) * stride as f64;
        let places = windows(&features_last(&place), &moving, &padding, 0.0)?;
        let best = all.argmax(last as isize).cast(DType::I64).expand(-1);
        results.push(features_second(&places.take_along(last as isize, &best).squeeze(-1)));
    }
    Ok(results)
}

fn average_pool(call: &Call<'_>) -> Answer {
    let (x, moving, padding) = pool(call)?;
    let dtype = x.dtype();
    let x = cast(&x, wide(dtype));
    let counts_padding = call.attributes.int("count_include_pad", 0) != 0;
    // What counts: elements, or elements and the padding that was asked for, without what rounding up added.
    let ones = Tensor::ones(x.dtype(), x.dims());
    let (counted, around) = match counts_padding {
        false => (ones, padding.clone()),
        true => {
            let low: Vec<i64> = [vec![0], moving.padding.iter().map(|(low, _)| *low).collect(), vec![0]].concat();
            let high: Vec<i64> = [vec![0], moving.padding.iter().map(|(_, high)| *high).collect(), vec![0]].concat();
            let one = Tensor::scalar(x.dtype(), 1.0);
            let left = padding.iter().zip(&moving.padding).map(|(all, own)| (all.0 - own.0, all.1 - own.1));
            (ones.pad_all(&one, &low, &high, &vec![0; x.rank()]), left.collect())
        }
    };
    let (sum, count) = if is_plain(&moving) {
        let window = Window::spatial(&moving.kernel, &moving.strides, &padding);
        let counting = Window::spatial(&moving.kernel, &moving.strides, &around);
        (x.window_sum(&window), counted.window_sum(&counting))
    } else {
        let sum = |x: &Tensor, padding: &[(i64, i64)]| -> Result<Tensor, Error> {
            let all = windows(x, &moving, padding, 0.0)?;
            let last = all.rank() - 1;
            Ok(all.sum(&[last]))
        };
        (sum(&x, &padding)?, sum(&counted, &around)?)
    };
    one(cast(&features_second(&(sum / count)), dtype))
}

fn lp_pool(call: &Call<'_>) -> Answer {
    let (x, moving, padding) = pool(call)?;
    let p = call.attributes.int("p", 2).max(1) as f64;
    let powers = x.abs().powf(p);
    let sum = if is_plain(&moving) {
        powers.window_sum(&Window::spatial(&moving.kernel, &moving.strides, &padding))
    } else {
        let all = windows(&powers, &moving, &padding, 0.0)?;
        all.sum(&[all.rank() - 1])
    };
    one(features_second(&sum.powf(1.0 / p)))
}

/// A pool over all spatial axes, which stay with one element.
fn global(call: &Call<'_>, f: impl FnOnce(&Tensor, &[usize]) -> Tensor) -> Answer {
    let x = call.input(0)?;
    if x.rank() < 2 {
        return Err(Error::damaged(format!("a pool of {}", x.spec())));
    }
    let axes: Vec<usize> = (2..x.rank()).collect();
    let dims: Vec<usize> = (0..x.rank()).map(|axis| if axis < 2 { x.dims()[axis] } else { 1 }).collect();
    one(cast(&f(&cast(x, wide(x.dtype())), &axes).reshape(&dims), x.dtype()))
}

pub(super) const RULES: Rules = &[
    ("AveragePool", average_pool),
    ("Conv", convolution),
    ("ConvTranspose", transposed),
    ("GlobalAveragePool", |c| global(c, Tensor::mean)),
    ("GlobalLpPool", |c| {
        let p = c.attributes.int("p", 2).max(1) as f64;
        global(c, |x, axes| x.abs().powf(p).sum(axes).powf(1.0 / p))
    }),
    ("GlobalMaxPool", |c| global(c, Tensor::max)),
    ("LpPool", lp_pool),
    ("MaxPool", max_pool),
];
