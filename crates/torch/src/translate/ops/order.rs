//! Sorting, and what needs an order: medians, running extremes, searches.

use tensor::DType;
use trace::{Order, Tensor};

use crate::error::Error;
use crate::translate::call::{Call, Value, positive};
use crate::translate::run::Rules;
use crate::translate::types::{Operand, cast, join};

type Answer = Result<Value, Error>;

/// Largest axis whose pairs of positions are written out.
const MOST_PAIRED: usize = 4096;

/// Values along an axis in order, with the positions they came from.
fn in_order(x: &Tensor, axis: isize, order: Order) -> Vec<Tensor> {
    let positions = Tensor::iota(DType::I64, x.dims(), axis as usize);
    if x.dtype() == DType::Bool {
        let mut sorted = trace::sort_together(&[x.cast(DType::I32), positions], axis, order);
        sorted[0] = cast(&sorted[0], DType::Bool);
        return sorted;
    }
    trace::sort_together(&[x.clone(), positions], axis, order)
}

fn sorted(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let order = if call.bool("descending", false)? { Order::Descending } else { Order::Ascending };
    Ok(in_order(&x, axis, order).into())
}

fn topk(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let k = positive(call.int("k", 1)?)?;
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let order = if call.bool("largest", true)? { Order::Descending } else { Order::Ascending };
    if k > x.dim(axis) {
        return Err(Error::damaged(format!("{k} of {} positions", x.dim(axis))));
    }
    Ok(in_order(&x, axis, order).iter().map(|part| part.slice(axis, 0..k)).collect::<Vec<_>>().into())
}

/// The value at a place of the order; along an axis with its position, or of everything.
fn nth(call: &mut Call<'_, '_>, place: impl Fn(usize) -> usize, spreads_nan: bool) -> Answer {
    let x = call.subject()?;
    let (has_axis, keep) = (call.has("dim"), call.bool("keepdim", false)?);
    if x.rank() == 0 {
        return Ok(match has_axis || call.node.outputs.len() > 1 {
            true => vec![x, Tensor::zeros(DType::I64, &[])].into(),
            false => x.into(),
        });
    }
    let is_whole = !has_axis && call.node.outputs.len() == 1;
    let (x, axis) = match is_whole {
        true => (x.reshape(&[x.num_elements()]), 0),
        false => (x.clone(), call.axis("dim", -1, x.rank())? as isize),
    };
    let size = x.dim(axis);
    let at = place(size);
    if at >= size {
        return Err(Error::damaged(format!("place {at} of {size} in order")));
    }
    let mut parts: Vec<Tensor> =
        in_order(&x, axis, Order::Ascending).iter().map(|part| part.slice(axis, at..at + 1)).collect();
    if spreads_nan && x.dtype().is_float() {
        let has_nan = x.is_nan().any(&[axis as usize]).expand(axis);
        parts[0] = has_nan.select(&parts[0].full_like(f64::NAN), &parts[0]);
    }
    if is_whole {
        return Ok(parts[0].reshape(&[]).into());
    }
    let parts = parts.iter().map(|part| if keep { part.clone() } else { part.squeeze(axis) });
    Ok(parts.collect::<Vec<_>>().into())
}

fn kth_value(call: &mut Call<'_, '_>) -> Answer {
    let k = positive(call.int("k", 1)?)?;
    nth(call, |_| k.wrapping_sub(1), false)
}

/// The largest or smallest of everything up to each position, and where it was last.
fn running(call: &mut Call<'_, '_>, is_max: bool) -> Answer {
    let x = call.subject()?;
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    if x.num_elements() == 0 {
        return Ok(vec![x.clone(), Tensor::zeros(DType::I64, x.dims())].into());
    }
    // Signed, so that it can be negated.
    let key = if x.dtype().is_float() { x.clone() } else { x.cast(DType::I64) };
    let key = if is_max { key } else { key.negate() }.stop_gradient();
    let best = key.cumulative_max(axis as isize);
    let positions = Tensor::iota(DType::I64, x.dims(), axis);
    let is_best = key.equals(&best).or(&key.differs(&key));
    let seen = is_best.select(&positions, &positions.full_like(-1.0)).cumulative_max(axis as isize);
    Ok(vec![x.take_along(axis as isize, &seen), seen].into())
}

/// How many edges lie below each value.
fn search(call: &mut Call<'_, '_>, edges: &str, values: &str) -> Answer {
    let dtype = call.result_type()?;
    let mut edges = call.tensor(edges)?;
    if call.has("sorter") {
        edges = edges.take_along(-1, &call.tensor("sorter")?);
    }
    let is_right = call.bool("right", false)? || call.text("side") == Some("right");
    let values = match call.operand(values)? {
        Operand::Tensor(values) => values,
        number => number.cast(edges.dtype()),
    };
    let work = join(edges.dtype(), values.dtype());
    let count = edges.dims().last().copied().ok_or_else(|| Error::damaged("a search among no edges"))?;
    let dims: Vec<usize> = values.dims().iter().copied().chain([count]).collect();
    let (edges, values) = (cast(&edges, work), cast(&values, work).expand(-1).broadcast_to(&dims));
    let edges = match edges.rank() {
        1 => edges.broadcast_to(&dims),
        _ => edges.expand(-2).broadcast_to(&dims),
    };
    let below = if is_right { edges.greater(&values).not() } else { edges.greater_equal(&values).not() };
    Ok(cast(&below.cast(DType::I32).sum(&[dims.len() - 1]), dtype).into())
}

/// Whether each element is one of others.
fn is_in(call: &mut Call<'_, '_>) -> Answer {
    let name = |call: &Call<'_, '_>, a: &'static str, b: &'static str| if call.has(a) { a } else { b };
    let (first, second) = (name(call, "elements", "element"), name(call, "test_elements", "test_element"));
    let (elements, among) = (call.operand(first)?, call.operand(second)?);
    let work = crate::translate::types::promoted(&elements, &among);
    let (elements, among) = (elements.cast(work), among.cast(work));
    let among = among.reshape(&[among.num_elements()]);
    let dims: Vec<usize> = elements.dims().iter().copied().chain([among.dim(0)]).collect();
    let same = elements.expand(-1).broadcast_to(&dims).equals(&among.broadcast_to(&dims)).any(&[dims.len() - 1]);
    Ok(if call.bool("invert", false)? { same.not() } else { same }.into())
}

/// The logarithm of running sums of exponentials.
fn log_cumulative(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    if x.rank() == 0 || x.num_elements() == 0 {
        return Ok(x.into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let size = x.dims()[axis];
    if size > MOST_PAIRED {
        return Err(call.unsupported(format!("a running sum of {size} exponentials")));
    }
    let work = crate::translate::types::wide(dtype);
    // Each position with all up to it, in a new last axis.
    let last = cast(&x, work).move_axis(axis as isize, -1);
    let dims: Vec<usize> = last.dims().iter().copied().chain([size]).collect();
    let n = dims.len();
    let seen = Tensor::iota(DType::I32, &dims, n - 1).less_equal(&Tensor::iota(DType::I32, &dims, n - 2));
    let all = last.expand(-2).broadcast_to(&dims);
    let all = seen.select(&all, &all.full_like(f64::NEG_INFINITY));
    let most = all.max(&[n - 1]).expand(-1);
    let finite = most.is_finite().select(&most, &most.zeros_like()).stop_gradient();
    let sum = (&all - &finite).exp().sum(&[n - 1]).log() + finite.squeeze(-1);
    Ok(cast(&sum.move_axis(-1, axis as isize), dtype).into())
}

pub(super) const RULES: Rules = &[
    ("sort", sorted),
    ("msort", |c| {
        let x = c.subject()?;
        Ok(if x.rank() == 0 { x } else { in_order(&x, 0, Order::Ascending).swap_remove(0) }.into())
    }),
    ("argsort", |c| match sorted(c)? {
        Value::Several(mut both) => Ok(both.pop().unwrap_or(Value::Nothing)),
        other => Ok(other),
    }),
    ("topk", topk),
    ("median", |c| nth(c, |size| size.saturating_sub(1) / 2, true)),
    ("kthvalue", kth_value),
    ("cummax", |c| running(c, true)),
    ("cummin", |c| running(c, false)),
    ("bucketize", |c| search(c, "boundaries", "self")),
    ("searchsorted", |c| search(c, "sorted_sequence", "self")),
    ("isin", is_in),
    ("logcumsumexp", log_cumulative),
];
