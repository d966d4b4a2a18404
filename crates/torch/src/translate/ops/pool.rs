//! Pools: the largest or the mean of windows, and their inverses.

use hlo::dims::ScatterDims;
use tensor::{DType, Literal};
use trace::{Tensor, Update, Window};

use crate::error::Error;
use crate::graph::NodeArgument;
use crate::translate::call::{Call, Value, positive};
use crate::translate::ops::convolution::sizes;
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// Elements of all windows together that a pool is written out for.
const MOST_PLACES: usize = 1 << 26;

/// What a pool does, as its arguments say.
#[derive(Clone)]
struct Pool {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilation: Vec<usize>,
    pads: Vec<usize>,
    /// Padding after the end that makes the last window whole.
    beyond: Vec<usize>,
    /// Windows along each spatial axis.
    counts: Vec<usize>,
}

impl Pool {
    /// A pool of `x` to so many windows.
    fn of(call: &mut Call<'_, '_>, x: &Tensor, spatial: usize, results: &[usize]) -> Result<Pool, Error> {
        let kernel = sizes(&call.spatial("kernel_size", spatial, 1)?)?;
        let own: Vec<i64> = kernel.iter().map(|size| *size as i64).collect();
        let strides = match call.ints("stride")?.is_empty() {
            true => own,
            false => call.spatial("stride", spatial, 1)?,
        };
        let strides = sizes(&strides)?;
        let pads = sizes(&call.spatial("padding", spatial, 0)?)?;
        let dilation = sizes(&call.spatial("dilation", spatial, 1)?)?;
        if strides.contains(&0) || kernel.contains(&0) || dilation.contains(&0) {
            return Err(Error::damaged("a pool of size 0"));
        }
        if x.rank() < spatial || results.len() < spatial {
            return Err(Error::damaged(format!("a pool over {spatial} axes of {}", x.spec())));
        }
        let counts = results[results.len() - spatial..].to_vec();
        let beyond = (0..spatial).map(|n| {
            let reach = dilation[n].saturating_mul(kernel[n] - 1).saturating_add(1);
            let needed = counts[n].saturating_sub(1).saturating_mul(strides[n]).saturating_add(reach);
            needed.saturating_sub(x.dims()[x.rank() - spatial + n].saturating_add(2 * pads[n]))
        });
        let beyond = beyond.collect();
        Ok(Pool { kernel, strides, dilation, pads, beyond, counts })
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

    /// The windows of a tensor in a new last axis: each a slice of the padded tensor.
    fn windows(&self, x: &Tensor, outside: &Tensor) -> Result<Tensor, Error> {
        let (spatial, lead) = (self.kernel.len(), x.rank() - self.kernel.len());
        let padding = self.all_padding();
        let around = |side: fn(&(i64, i64)) -> i64| [vec![0; lead], padding.iter().map(side).collect()].concat();
        let padded = x.pad_all(outside, &around(|pair| pair.0), &around(|pair| pair.1), &vec![0; x.rank()]);
        let count: usize = self.kernel.iter().product();
        if count.saturating_mul(x.num_elements()) > MOST_PLACES {
            return Err(Error::damaged("windows of a pool that are too large"));
        }
        let parts = (0..count).map(|mut n| {
            let mut part = padded.clone();
            for axis in (0..spatial).rev() {
                let start = n % self.kernel[axis] * self.dilation[axis];
                n /= self.kernel[axis];
                let end = start + self.counts[axis].saturating_sub(1) * self.strides[axis] + 1;
                part = part.slice_by((lead + axis) as isize, start..end, self.strides[axis]);
            }
            part
        });
        Ok(Tensor::stack(&parts.collect::<Vec<_>>(), -1))
    }
}

/// Whether a result of a node is read by anything.
fn is_read(call: &Call<'_, '_>, n: usize) -> bool {
    matches!(call.node.outputs.get(n), Some(NodeArgument::Tensor(name)) if !name.contains("_unused_"))
}

/// Places in a tensor's spatial axes, counted row by row.
fn positions(dims: &[usize], rank: usize) -> Tensor {
    let shape: Vec<usize> = [vec![1; rank - dims.len()], dims.to_vec()].concat();
    Tensor::iota(DType::I64, &[dims.iter().product()], 0).reshape(&shape)
}

fn max_pool(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let results = call.result_dims()?;
    let pool = Pool::of(call, &x, spatial, &results)?;
    if x.dtype() == DType::Bool {
        return Err(call.unsupported("a pool of booleans"));
    }
    let wants_places = is_read(call, 1);
    if pool.dilation.iter().all(|by| *by == 1) && !wants_places {
        return Ok(Value::Several(vec![
            x.window_max(&pool.window(x.rank(), &pool.all_padding())).into(),
            Value::Nothing,
        ]));
    }
    let least = Tensor::scalar(x.dtype(), f64::NEG_INFINITY);
    let windows = pool.windows(&x, &least)?;
    let chosen = windows.argmax(-1).expand(-1);
    let places =
        pool.windows(&positions(&x.dims()[x.rank() - spatial..], x.rank()), &Tensor::scalar(DType::I64, 0.0))?;
    let places = places.broadcast_to(windows.dims()).take_along(-1, &chosen).squeeze(-1);
    Ok(vec![windows.take_along(-1, &chosen).squeeze(-1), places].into())
}

fn first(value: Answer) -> Answer {
    Ok(match value? {
        Value::Several(mut all) if !all.is_empty() => all.swap_remove(0),
        other => other,
    })
}

/// Means of windows; with zeros around counted or not.
fn averaged(x: &Tensor, pool: &Pool, divisor: Option<f64>, counts_padding: bool) -> Tensor {
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let sum = cast(x, work).window_sum(&pool.window(x.rank(), &pool.all_padding()));
    if let Some(divisor) = divisor {
        return cast(&(sum / divisor), dtype);
    }
    let lead = x.rank() - pool.kernel.len();
    if pool.pads.iter().chain(&pool.beyond).all(|pad| *pad == 0) {
        return cast(&(sum / pool.kernel.iter().product::<usize>() as f64), dtype);
    }
    let mut ones = Tensor::ones(work, &[vec![1; lead], x.dims()[lead..].to_vec()].concat());
    let mut padding = pool.all_padding();
    if counts_padding {
        // Zeros around count, what lies beyond them does not.
        let pads: Vec<i64> = [vec![0; lead], pool.pads.iter().map(|pad| *pad as i64).collect()].concat();
        ones = ones.pad_all(&Tensor::scalar(work, 1.0), &pads, &pads, &vec![0; x.rank()]);
        padding = pool.beyond.iter().map(|more| (0, *more as i64)).collect();
    }
    let count = ones.window_sum(&pool.window(x.rank(), &padding));
    cast(&(sum / count), dtype)
}

fn avg_pool(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let results = call.result_dims()?;
    let pool = Pool::of(call, &x, spatial, &results)?;
    let divisor = call.scalar("divisor_override")?.map(|divisor| divisor.as_f64());
    Ok(averaged(&x, &pool, divisor, call.bool("count_include_pad", true)?).into())
}

fn avg_pool_backward(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let (ct, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    let pool = Pool::of(call, &x, spatial, ct.dims())?;
    let divisor = call.scalar("divisor_override")?.map(|divisor| divisor.as_f64());
    let counts_padding = call.bool("count_include_pad", true)?;
    Ok(trace::grad(|x: &Tensor| (averaged(x, &pool, divisor, counts_padding) * ct.clone()).sum_all(), &x).into())
}

/// Means of parts that may overlap by one.
fn means(x: &Tensor, counts: &[usize]) -> Result<Tensor, Error> {
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let lead = x.rank() - counts.len();
    let mut y = cast(x, work);
    for (n, out) in counts.iter().copied().enumerate() {
        let (axis, size) = (lead + n, x.dims()[lead + n]);
        if size == out {
            continue;
        }
        if out > 0 && size % out == 0 {
            let mut split = y.dims().to_vec();
            split.splice(axis..=axis, [out, size / out]);
            y = y.reshape(&split).mean(&[axis + 1]);
            continue;
        }
        let mut weights = vec![0f32; size.saturating_mul(out)];
        for o in 0..out {
            let (start, end) = part(o, size, out);
            for i in start..end {
                weights[i * out + o] = 1.0 / (end - start) as f32;
            }
        }
        y = super::resample::along(&y, axis, &weights, size, out)?;
    }
    Ok(cast(&y, dtype))
}

/// Where a part of an axis begins and ends.
fn part(n: usize, size: usize, parts: usize) -> (usize, usize) {
    (n * size / parts, ((n + 1) * size).div_ceil(parts))
}

fn adaptive_counts(call: &Call<'_, '_>, x: &Tensor, spatial: usize) -> Result<Vec<usize>, Error> {
    let results = call.result_dims()?;
    let is_fit = x.rank() >= spatial && results.len() == x.rank() && results.iter().product::<usize>() < MOST_PLACES;
    match is_fit {
        true => Ok(results[x.rank() - spatial..].to_vec()),
        false => Err(Error::damaged(format!("a pool over {spatial} axes of {}", x.spec()))),
    }
}

fn adaptive(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let counts = adaptive_counts(call, &x, spatial)?;
    Ok(means(&x, &counts)?.into())
}

fn adaptive_backward(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let (ct, x) = (call.tensor("grad_output")?, call.tensor("self")?);
    if ct.rank() != x.rank() || x.rank() < spatial {
        return Err(Error::damaged(format!("the gradient of a pool of {} by {}", x.spec(), ct.spec())));
    }
    let counts = ct.dims()[x.rank() - spatial..].to_vec();
    let mut failed = None;
    let gradient = trace::grad(
        |x: &Tensor| match means(x, &counts) {
            Ok(y) => (y * ct.clone()).sum_all(),
            Err(error) => {
                failed = Some(error);
                x.sum_all()
            }
        },
        &x,
    );
    failed.map_or_else(|| Ok(gradient.into()), Err)
}

/// The largest of parts that may overlap, with their places.
fn adaptive_max(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let x = call.subject()?;
    let counts = adaptive_counts(call, &x, spatial)?;
    let lead = x.rank() - spatial;
    let dims = &x.dims()[lead..];
    let total: usize = counts.iter().product();
    // The places of each part; a part that is smaller than others names its first place again.
    let mut parts: Vec<Vec<i64>> = Vec::new();
    for mut n in 0..total {
        let mut places = vec![0i64];
        let mut ranges = vec![(0, 0); spatial];
        for axis in (0..spatial).rev() {
            ranges[axis] = part(n % counts[axis], dims[axis], counts[axis]);
            n /= counts[axis];
        }
        for (axis, (start, end)) in ranges.into_iter().enumerate() {
            places =
                places.iter().flat_map(|at| (start..end).map(move |i| at * dims[axis] as i64 + i as i64)).collect();
        }
        parts.push(places);
    }
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    if most == 0 || most.saturating_mul(total) > MOST_PLACES {
        return Err(Error::damaged(format!("a pool of {}", x.spec())));
    }
    let table: Vec<i64> = parts
        .iter()
        .flat_map(|places| (0..most).map(|n| places.get(n).or(places.first()).copied().unwrap_or(0)))
        .collect();
    let table = Tensor::constant(&Literal::from_slice(&table, [total, most])?);
    let flat: Vec<usize> = x.dims()[..lead].iter().copied().chain([dims.iter().product()]).collect();
    let windows = x.reshape(&flat).take(-1, &table);
    let chosen = windows.argmax(-1).expand(-1);
    let results: Vec<usize> = x.dims()[..lead].iter().copied().chain(counts).collect();
    let places = table.broadcast_to(windows.dims()).take_along(-1, &chosen).reshape(&results);
    Ok(vec![windows.take_along(-1, &chosen).reshape(&results), places].into())
}

/// Values at places of the spatial axes, which are counted row by row; those of one place are added.
fn spread(values: &Tensor, places: &Tensor, dims: &[usize], spatial: usize, update: Update) -> Result<Tensor, Error> {
    if dims.len() < spatial || values.rank() != dims.len() || places.dims() != values.dims() {
        return Err(Error::damaged(format!("values {} at {}", values.spec(), places.spec())));
    }
    let lead: usize = dims[..dims.len() - spatial].iter().product();
    let (size, count) = (dims[dims.len() - spatial..].iter().product(), values.num_elements() / lead.max(1));
    let rows = Tensor::iota(DType::I64, &[lead, count], 0);
    let at = Tensor::stack(&[rows, cast(places, DType::I64).reshape(&[lead, count])], -1);
    let scatter = ScatterDims {
        inserted_window_dims: vec![0, 1],
        scatter_dims_to_operand_dims: vec![0, 1],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let zeros = Tensor::zeros(values.dtype(), &[lead, size]);
    Ok(zeros.scatter(&at, &values.reshape(&[lead, count]), scatter, update).reshape(dims))
}

fn max_pool_backward(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let (ct, x, places) = (call.tensor("grad_output")?, call.tensor("self")?, call.tensor("indices")?);
    Ok(spread(&ct, &places, x.dims(), spatial, Update::Add)?.into())
}

fn max_unpool(call: &mut Call<'_, '_>, spatial: usize) -> Answer {
    let (x, places, dims) = (call.subject()?, call.tensor("indices")?, call.result_dims()?);
    Ok(spread(&x, &places, &dims, spatial, Update::Set)?.into())
}

/// Patches of two spatial axes.
struct Patches {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilation: Vec<usize>,
    pads: Vec<i64>,
    /// Patches along each axis.
    counts: Vec<usize>,
}

impl Patches {
    fn of(call: &mut Call<'_, '_>, dims: &[usize]) -> Result<Patches, Error> {
        let kernel = sizes(&call.spatial("kernel_size", 2, 1)?)?;
        let strides = sizes(&call.spatial("stride", 2, 1)?)?;
        let dilation = sizes(&call.spatial("dilation", 2, 1)?)?;
        let pads = call.spatial("padding", 2, 0)?;
        if kernel.contains(&0) || strides.contains(&0) || pads.iter().any(|pad| !(0..1 << 24).contains(pad)) {
            return Err(Error::damaged("patches of size 0"));
        }
        let counts = (0..2).map(|n| {
            let reach = dilation[n].saturating_mul(kernel[n] - 1).saturating_add(1);
            let room = (dims[n] + 2 * pads[n] as usize).checked_sub(reach);
            room.map(|room| room / strides[n] + 1).ok_or_else(|| Error::damaged("patches larger than the image"))
        });
        let counts = counts.collect::<Result<_, _>>()?;
        Ok(Patches { kernel, strides, dilation, pads, counts })
    }

    /// Starts of all positions of the kernel.
    fn starts(&self) -> impl Iterator<Item = [usize; 2]> {
        let (columns, dilation) = (self.kernel[1], [self.dilation[0], self.dilation[1]]);
        let places = (0..self.kernel[0]).flat_map(move |i| (0..columns).map(move |j| [i, j]));
        places.map(move |[i, j]| [i * dilation[0], j * dilation[1]])
    }
}

/// Patches as columns: `[batch, features * kernel, places]`.
fn im2col(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let dims = call.result_dims()?;
    let x = if x.rank() == 3 { x.expand(0) } else { x };
    if x.rank() != 4 {
        return Err(Error::damaged(format!("patches of {}", x.spec())));
    }
    let patches = Patches::of(call, &x.dims()[2..])?;
    let around = [0, 0, patches.pads[0], patches.pads[1]];
    let padded = x.pad_all(&Tensor::scalar(x.dtype(), 0.0), &around, &around, &[0; 4]);
    let parts = patches.starts().map(|start| {
        (0..2).fold(padded.clone(), |part, n| {
            let end = start[n] + (patches.counts[n] - 1) * patches.strides[n] + 1;
            part.slice_by(2 + n as isize, start[n]..end, patches.strides[n])
        })
    });
    Ok(Tensor::stack(&parts.collect::<Vec<_>>(), 2).reshape(&dims).into())
}

/// Columns back to an image; where patches overlap, they are added.
fn col2im(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let results = call.result_dims()?;
    let size = sizes(&call.spatial("output_size", 2, 1)?)?;
    let patches = Patches::of(call, &size)?;
    let count = patches.kernel[0] * patches.kernel[1];
    let lead = x.rank().saturating_sub(2);
    let batch: usize = x.dims()[..lead].iter().product();
    let features = x.dim(-2) / count.max(1);
    let dims = [batch, features, count, patches.counts[0], patches.counts[1]];
    if dims.iter().product::<usize>() != x.num_elements() {
        return Err(Error::damaged(format!("columns {} of an image {size:?}", x.spec())));
    }
    let columns = x.reshape(&dims);
    let padded: Vec<usize> = (0..2).map(|n| size[n] + 2 * patches.pads[n] as usize).collect();
    let mut sum: Option<Tensor> = None;
    for (k, start) in patches.starts().enumerate() {
        let (mut low, mut high, mut between) = ([0i64; 4], [0i64; 4], [0i64; 4]);
        for n in 0..2 {
            let end = start[n] + (patches.counts[n] - 1) * patches.strides[n] + 1;
            low[2 + n] = start[n] as i64;
            high[2 + n] = padded[n] as i64 - end as i64;
            between[2 + n] = patches.strides[n] as i64 - 1;
        }
        let part = columns.at(2, k).pad_all(&Tensor::scalar(x.dtype(), 0.0), &low, &high, &between);
        sum = Some(sum.map_or(part.clone(), |sum| sum + part));
    }
    let sum = sum.ok_or_else(|| Error::damaged("columns of nothing"))?;
    let inside = (0..2).fold(sum, |x, n| {
        let pad = patches.pads[n] as usize;
        x.slice(2 + n as isize, pad..pad + size[n])
    });
    Ok(inside.reshape(&results).into())
}

/// Blocks of pixels to features and back.
fn pixel_shuffle(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let by = positive(call.int("upscale_factor", 1)?)?;
    let dims = call.result_dims()?;
    let rank = x.rank();
    if rank < 3 || by == 0 {
        return Err(Error::damaged("a pixel shuffle needs three axes"));
    }
    let (lead, [channels, height, width]) = (&x.dims()[..rank - 3], [x.dim(-3), x.dim(-2), x.dim(-1)]);
    let split: Vec<usize> = lead.iter().copied().chain([channels / (by * by), by, by, height, width]).collect();
    let n = lead.len();
    let order: Vec<usize> = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    Ok(x.reshape(&split).transpose(&order).reshape(&dims).into())
}

fn pixel_unshuffle(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let by = positive(call.int("downscale_factor", 1)?)?;
    let dims = call.result_dims()?;
    let rank = x.rank();
    if rank < 3 || by == 0 || !x.dim(-1).is_multiple_of(by) || !x.dim(-2).is_multiple_of(by) {
        return Err(Error::damaged(format!("a pixel shuffle of {}", x.spec())));
    }
    let (lead, [channels, height, width]) = (&x.dims()[..rank - 3], [x.dim(-3), x.dim(-2), x.dim(-1)]);
    let split: Vec<usize> = lead.iter().copied().chain([channels, height / by, by, width / by, by]).collect();
    let n = lead.len();
    let order: Vec<usize> = (0..n).chain([n, n + 2, n + 4, n + 1, n + 3]).collect();
    Ok(x.reshape(&split).transpose(&order).reshape(&dims).into())
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

pub(super) const RULES: Rules = &[
    ("max_pool1d", |c| first(max_pool(c, 1))),
    ("max_pool2d", |c| first(max_pool(c, 2))),
    ("max_pool3d", |c| first(max_pool(c, 3))),
    ("max_pool1d_with_indices", |c| max_pool(c, 1)),
    ("max_pool2d_with_indices", |c| max_pool(c, 2)),
    ("max_pool3d_with_indices", |c| max_pool(c, 3)),
    ("max_pool2d_with_indices_backward", |c| max_pool_backward(c, 2)),
    ("max_pool3d_with_indices_backward", |c| max_pool_backward(c, 3)),
    ("max_unpool2d", |c| max_unpool(c, 2)),
    ("max_unpool3d", |c| max_unpool(c, 3)),
    ("avg_pool1d", |c| avg_pool(c, 1)),
    ("avg_pool2d", |c| avg_pool(c, 2)),
    ("avg_pool3d", |c| avg_pool(c, 3)),
    ("avg_pool2d_backward", |c| avg_pool_backward(c, 2)),
    ("avg_pool3d_backward", |c| avg_pool_backward(c, 3)),
    ("adaptive_avg_pool1d", |c| adaptive(c, 1)),
    ("adaptive_avg_pool2d", |c| adaptive(c, 2)),
    ("_adaptive_avg_pool2d", |c| adaptive(c, 2)),
    ("adaptive_avg_pool3d", |c| adaptive(c, 3)),
    ("_adaptive_avg_pool3d", |c| adaptive(c, 3)),
    ("_adaptive_avg_pool2d_backward", |c| adaptive_backward(c, 2)),
    ("_adaptive_avg_pool3d_backward", |c| adaptive_backward(c, 3)),
    ("adaptive_max_pool1d", |c| adaptive_max(c, 1)),
    ("adaptive_max_pool2d", |c| adaptive_max(c, 2)),
    ("adaptive_max_pool3d", |c| adaptive_max(c, 3)),
    ("im2col", im2col),
    ("col2im", col2im),
    ("pixel_shuffle", pixel_shuffle),
    ("pixel_unshuffle", pixel_unshuffle),
    ("channel_shuffle", channel_shuffle),
    ("native_channel_shuffle", channel_shuffle),
];
