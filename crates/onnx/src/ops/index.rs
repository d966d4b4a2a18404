//! Reading and writing at computed places; sorting; cumulative sums.

use hlo::dims::{GatherDims, ScatterDims};
use tensor::DType;
use trace::{Order, Tensor, Update, sort_together};

use super::{Answer, Rules, one};
use crate::call::{Call, cast, in_rank, size, whole};
use crate::error::Error;

/// Positions counted from the end where they are negative.
fn wrapped(indices: &Tensor, dim: usize) -> Result<Tensor, Error> {
    let indices = cast(indices, DType::I64);
    let zero = whole(&[0], &[])?;
    Ok(indices.less(&zero).select(&(&indices + &whole(&[dim as i64], &[])?), &indices))
}

fn gather(call: &Call<'_>) -> Answer {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, x.rank())?;
    one(x.take(axis as isize, &wrapped(indices, x.dims()[axis])?))
}

fn gather_elements(call: &Call<'_>) -> Answer {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(0, x.rank())?;
    let from = wrapped(indices, x.dims()[axis])?;
    // Only the part of the other axes that has indices.
    let fits = x.rank() == indices.rank() && (0..x.rank()).all(|n| n == axis || indices.dims()[n] <= x.dims()[n]);
    if !fits {
        return Err(Error::damaged(format!("elements of {} at {}", x.spec(), indices.spec())));
    }
    let part = (0..x.rank()).filter(|n| *n != axis).fold(x.clone(), |x, n| x.slice(n as isize, 0..indices.dims()[n]));
    one(part.take_along(axis as isize, &from))
}

/// Indices of several axes, each wrapped by its own size.
fn wrapped_rows(indices: &Tensor, dims: &[usize]) -> Result<Tensor, Error> {
    let indices = cast(indices, DType::I64);
    let sizes: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
    let sizes = whole(&sizes, &[sizes.len()])?;
    Ok(indices.less(&whole(&[0], &[])?).select(&(&indices + &sizes.broadcast_to(indices.dims())), &indices))
}

fn gather_nd(call: &Call<'_>) -> Answer {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch = size(call.attributes.int("batch_dims", 0))?;
    let depth = indices.dims().last().copied().unwrap_or(0);
    let fits = indices.rank() > batch
        && depth > 0
        && batch + depth <= x.rank()
        && x.dims()[..batch] == indices.dims()[..batch];
    if !fits {
        return Err(Error::damaged(format!("slices of {} at {}", x.spec(), indices.spec())));
    }
    let from = wrapped_rows(indices, &x.dims()[batch..batch + depth])?;
    let indexed: Vec<i64> = (batch..batch + depth).map(|axis| axis as i64).collect();
    let lead = indices.rank() - 1;
    let rest = x.rank() - batch - depth;
    let numbers = |range: std::ops::Range<usize>| range.map(|n| n as i64).collect::<Vec<i64>>();
    let dims = GatherDims {
        offset_dims: numbers(lead..lead + rest),
        collapsed_slice_dims: indexed.clone(),
        operand_batching_dims: numbers(0..batch),
        start_indices_batching_dims: numbers(0..batch),
        start_index_map: indexed,
        index_vector_dim: lead as i64,
    };
    let sizes: Vec<usize> = (0..x.rank()).map(|axis| if axis < batch + depth { 1 } else { x.dims()[axis] }).collect();
    one(x.gather(&from, dims, &sizes))
}

fn update_of(call: &Call<'_>) -> Result<Update, Error> {
    Ok(match call.attributes.text("reduction", "none").as_str() {
        "none" => Update::Set,
        "add" => Update::Add,
        "mul" => Update::Multiply,
        "max" => Update::Maximum,
        "min" => Update::Minimum,
        other => return Err(Error::damaged(format!("the reduction `{other}`"))),
    })
}

fn scatter_elements(call: &Call<'_>) -> Answer {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis(0, x.rank())?;
    if indices.rank() != x.rank() || indices.dims() != updates.dims() {
        return Err(Error::damaged(format!("elements of {} at {}", x.spec(), indices.spec())));
    }
    let at = wrapped(indices, x.dims()[axis])?;
    let place = |n: usize| if n == axis { at.clone() } else { Tensor::iota(DType::I64, at.dims(), n) };
    let places: Vec<Tensor> = (0..x.rank()).map(|n| place(n).expand(-1)).collect();
    let all: Vec<i64> = (0..x.rank() as i64).collect();
    let dims = ScatterDims {
        inserted_window_dims: all.clone(),
        scatter_dims_to_operand_dims: all,
        index_vector_dim: x.rank() as i64,
        ..ScatterDims::default()
    };
    one(x.scatter(&Tensor::concat(&places, -1), updates, dims, update_of(call)?))
}

fn scatter_nd(call: &Call<'_>) -> Answer {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let depth = indices.dims().last().copied().unwrap_or(0);
    if indices.rank() == 0 || depth == 0 || depth > x.rank() {
        return Err(Error::damaged(format!("slices of {} at {}", x.spec(), indices.spec())));
    }
    let lead = indices.rank() - 1;
    let indexed: Vec<i64> = (0..depth as i64).collect();
    let dims = ScatterDims {
        update_window_dims: (lead..lead + x.rank() - depth).map(|n| n as i64).collect(),
        inserted_window_dims: indexed.clone(),
        scatter_dims_to_operand_dims: indexed,
        index_vector_dim: lead as i64,
        ..ScatterDims::default()
    };
    one(x.scatter(&wrapped_rows(indices, &x.dims()[..depth])?, updates, dims, update_of(call)?))
}

fn one_hot(call: &Call<'_>) -> Answer {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let depth = call.numbers(1)?.and_then(|values| values.first().copied()).unwrap_or(-1.0);
    if !(0.0..=268_435_456.0).contains(&depth) || values.dims() != [2] {
        return Err(Error::damaged(format!("a depth of {depth}, values {}", values.spec())));
    }
    let depth = depth as usize;
    let axis = in_rank(call.attributes.int("axis", -1), indices.rank() + 1)?;
    let is_hot = wrapped(indices, depth)?.one_hot(depth, DType::I32).move_axis(-1, axis as isize);
    let is_hot = is_hot.differs(&Tensor::scalar(DType::I32, 0.0));
    let value = |at: usize| values.at(0, at).broadcast_to(is_hot.dims());
    one(is_hot.select(&value(1), &value(0)))
}

fn top_k(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.rank())?;
    let k = match call.ints(1)? {
        Some(values) => values.first().copied().unwrap_or(-1),
        None => call.attributes.int("k", -1),
    };
    let k = size(k)?;
    if k > x.dims()[axis] {
        return Err(Error::damaged(format!("the first {k} of {} elements", x.dims()[axis])));
    }
    let order = if call.attributes.int("largest", 1) != 0 { Order::Descending } else { Order::Ascending };
    let at = Tensor::iota(DType::I64, x.dims(), axis);
    let sorted = sort_together(&[x.clone(), at], axis as isize, order);
    Ok(sorted.iter().map(|sorted| sorted.slice(axis as isize, 0..k)).collect())
}

fn cumulative(call: &Call<'_>, f: impl FnOnce(&Tensor, isize) -> Tensor, first: f64) -> Answer {
    let x = call.input(0)?;
    let axis =
        call.ints(1)?.and_then(|values| values.first().copied()).ok_or_else(|| Error::damaged("it names no axis"))?;
    let axis = in_rank(axis, x.rank())?;
    let is_reversed = call.attributes.int("reverse", 0) != 0;
    let from = if is_reversed { x.reverse(&[axis]) } else { x.clone() };
    let mut sums = f(&from, axis as isize);
    if call.attributes.int("exclusive", 0) != 0 && x.dims()[axis] > 0 {
        let mut dims = x.dims().to_vec();
        dims[axis] = 1;
        let before = Tensor::full(x.dtype(), &dims, first);
        sums = Tensor::concat(&[before, sums.slice(axis as isize, 0..x.dims()[axis] - 1)], axis as isize);
    }
    one(if is_reversed { sums.reverse(&[axis]) } else { sums })
}

/// Slices of an axis that a known condition keeps.
fn compress(call: &Call<'_>) -> Answer {
    let mut x = call.input(0)?.clone();
    let kept = call.ints(1)?.ok_or_else(|| Error::damaged("it names no condition"))?;
    let axis = match call.attributes.has("axis") {
        true => call.axis(0, x.rank())?,
        false => {
            x = x.reshape(&[x.num_elements()]);
            0
        }
    };
    let at = kept.iter().enumerate().filter(|(n, keep)| **keep != 0 && *n < x.dims()[axis]).map(|(n, _)| n as i64);
    let at: Vec<i64> = at.collect();
    one(x.take(axis as isize, &whole(&at, &[at.len()])?))
}

/// Places of what differs from 0, of values that are known.
fn non_zero(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let values = call.numbers(0)?.unwrap_or_default();
    let found: Vec<usize> = values.iter().enumerate().filter(|(_, value)| **value != 0.0).map(|(n, _)| n).collect();
    let mut rows = Vec::new();
    for axis in 0..x.rank() {
        let inner: usize = x.dims()[axis + 1..].iter().product();
        rows.extend(found.iter().map(|n| (n / inner.max(1) % x.dims()[axis].max(1)) as i64));
    }
    one(whole(&rows, &[x.rank(), found.len()])?)
}

/// Writes along an axis from a place of each row's own: an update of a KV cache.
fn tensor_scatter(call: &Call<'_>) -> Answer {
    let (past, update) = (call.input(0)?, call.input(1)?);
    let axis = in_rank(call.attributes.int("axis", -2), past.rank())?;
    let is_circular = call.attributes.text("mode", "linear") == "circular";
    if past.rank() != update.rank() || axis == 0 {
        return Err(Error::damaged(format!("an update {} of {}", update.spec(), past.spec())));
    }
    let (length, steps) = (past.dims()[axis], update.dims()[axis]);
    let start = match call.optional(2) {
        Some(start) => cast(start, DType::I64),
        None => Tensor::zeros(DType::I64, &[past.dims()[0]]),
    };
    // Which step of the update a place takes.
    let at = Tensor::iota(DType::I64, past.dims(), axis);
    let mut step = at - start.broadcast_along(past.dims(), &[0]);
    if is_circular {
        let count = whole(&[length as i64], &[])?;
        step = (step.remainder(&count) + &count).remainder(&count);
    }
    let zero = whole(&[0], &[])?;
    let is_new = step.greater_equal(&zero).and(&step.less(&whole(&[steps as i64], &[])?));
    let last = whole(&[steps as i64 - 1], &[])?;
    let from = step.maximum(&zero).minimum(&last);
    one(is_new.select(&update.take_along(axis as isize, &from), past))
}

pub(super) const RULES: Rules = &[
    ("Compress", compress),
    ("CumProd", |c| cumulative(c, Tensor::cumulative_product, 1.0)),
    ("CumSum", |c| cumulative(c, Tensor::cumulative_sum, 0.0)),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("TopK", top_k),
];
