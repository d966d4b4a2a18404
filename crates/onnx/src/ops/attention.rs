//! Attention and rotary positions, and windows of signals.

use tensor::DType;
use trace::{Contraction, Precision, Tensor};

use super::{Answer, Rules, one};
use crate::call::{Call, cast, size, whole, wide};
use crate::data;
use crate::error::Error;

/// `[batch, sequence, heads · size]` to `[batch, heads, sequence, size]`; four axes are so already.
fn by_heads(x: &Tensor, heads: i64) -> Result<Tensor, Error> {
    if x.rank() == 4 {
        return Ok(x.clone());
    }
    let heads = size(heads)?;
    if x.rank() != 3 || heads == 0 || !x.dims()[2].is_multiple_of(heads) {
        return Err(Error::damaged(format!("{heads} heads of {}", x.spec())));
    }
    Ok(x.reshape(&[x.dims()[0], x.dims()[1], heads, x.dims()[2] / heads]).swap_axes(1, 2))
}

/// Heads of keys repeated for those of queries.
fn repeated(x: &Tensor, heads: usize) -> Result<Tensor, Error> {
    let own = x.dims()[1];
    if own == heads {
        return Ok(x.clone());
    }
    if own == 0 || !heads.is_multiple_of(own) {
        return Err(Error::damaged(format!("{heads} heads of queries for {own} of keys")));
    }
    let dims = x.dims();
    let wide = x.broadcast_along(&[dims[0], own, heads / own, dims[2], dims[3]], &[0, 1, 3, 4]);
    Ok(wide.reshape(&[dims[0], heads, dims[2], dims[3]]))
}

fn attention(call: &Call<'_>) -> Answer {
    let attributes = call.attributes;
    let is_flat = call.input(0)?.rank() == 3;
    let q = by_heads(call.input(0)?, attributes.int("q_num_heads", 0))?;
    let mut k = by_heads(call.input(1)?, attributes.int("kv_num_heads", 0))?;
    let mut v = by_heads(call.input(2)?, attributes.int("kv_num_heads", 0))?;
    if [&q, &k, &v].iter().any(|x| x.rank() != 4) {
        return Err(Error::damaged(format!("attention of {}, {} and {}", q.spec(), k.spec(), v.spec())));
    }
    let past = call.optional(4).map_or(0, |past| past.dims().get(2).copied().unwrap_or(0));
    if let (Some(old_k), Some(old_v)) = (call.optional(4), call.optional(5)) {
        k = Tensor::concat(&[old_k.clone(), k], 2);
        v = Tensor::concat(&[old_v.clone(), v], 2);
    }
    let (present_k, present_v) = (k.clone(), v.clone());
    let heads = q.dims()[1];
    let (k, v) = (repeated(&k, heads)?, repeated(&v, heads)?);
    let (dtype, work) = (q.dtype(), wide(q.dtype()));
    let depth = q.dims()[3].max(1) as f64;
    let scale = attributes.float("scale", 1.0 / depth.sqrt());
    let product = |a: &Tensor, b: &Tensor, axis: usize| {
        let contraction =
            Contraction { lhs_batch: vec![0, 1], rhs_batch: vec![0, 1], lhs_sum: vec![3], rhs_sum: vec![axis] };
        a.dot_general(b, &contraction, work, Precision::Default)
    };
    let raw = product(&q, &k, 3) * scale;
    let (queries, keys) = (q.dims()[2], k.dims()[2]);
    let lowest = Tensor::scalar(work, f64::NEG_INFINITY);
    let mut bias = Tensor::zeros(work, raw.dims());
    if let Some(mask) = call.optional(3) {
        // A mask may be for fewer keys than there are; the rest is not seen.
        let missing = keys.saturating_sub(mask.dim(-1));
        let mask = match mask.dtype() {
            DType::Bool => mask.select(&Tensor::zeros(work, mask.dims()), &lowest.broadcast_to(mask.dims())),
            _ => cast(mask, work),
        };
        let mut high = vec![0; mask.rank()];
        high[mask.rank() - 1] = missing as i64;
        let none = vec![0; mask.rank()];
        bias = bias + mask.pad_all(&lowest, &none, &high, &none);
    }
    let seen = |bias: Tensor, is_seen: &Tensor| {
        is_seen.broadcast_to(bias.dims()).select(&bias, &lowest.broadcast_to(bias.dims()))
    };
    // How far a query is behind a key; the first query stands after what was there before.
    let key = Tensor::iota(DType::I64, raw.dims(), 3);
    let mut before = whole(&[past as i64], &[])?;
    if let Some(lengths) = call.optional(6) {
        let lengths = cast(lengths, DType::I64).broadcast_along(raw.dims(), &[0]);
        bias = seen(bias, &key.less(&lengths));
        before = lengths - whole(&[queries as i64], &[])?;
    }
    let behind = Tensor::iota(DType::I64, raw.dims(), 2) + before - &key;
    let zero = whole(&[0], &[])?;
    if attributes.int("is_causal", 0) != 0 {
        bias = seen(bias, &behind.greater_equal(&zero));
    }
    let (left, right) = (attributes.int("left_window_size", -1), attributes.int("right_window_size", -1));
    if left >= 0 {
        bias = seen(bias, &behind.less_equal(&whole(&[left], &[])?));
    }
    if right >= 0 {
        bias = seen(bias, &behind.greater_equal(&whole(&[right.saturating_neg()], &[])?));
    }
    let capped = match attributes.float("softcap", 0.0) {
        0.0 => raw.clone(),
        cap => (&raw / cap).tanh() * cap,
    };
    let masked = &capped + &bias;
    let weights = masked.softmax(-1);
    // A row that sees nothing gives zeros.
    let sees_any = bias.max(&[3]).greater(&lowest).expand(-1);
    let weights = sees_any.broadcast_to(weights.dims()).select(&weights, &weights.zeros_like());
    let shown = match attributes.int("qk_matmul_output_mode", 0) {
        0 => &raw,
        1 => &capped,
        2 => &masked,
        _ => &weights,
    };
    let mut y = cast(&product(&cast(&weights, v.dtype()), &v, 2), dtype);
    if is_flat {
        let dims = y.dims().to_vec();
        y = y.swap_axes(1, 2).reshape(&[dims[0], dims[2], dims[1] * dims[3]]);
    }
    Ok(vec![y, present_k, present_v, cast(shown, dtype)])
}

fn rotary(call: &Call<'_>) -> Answer {
    let (given, attributes) = (call.input(0)?, call.attributes);
    // `[batch, sequence, heads, size]`.
    let x = match given.rank() {
        4 => given.swap_axes(1, 2),
        _ => by_heads(given, attributes.int("num_heads", 0))?.swap_axes(1, 2),
    };
    let &[batch, sequence, _, depth] = x.dims() else {
        return Err(Error::damaged(format!("rotation of {}", given.spec())));
    };
    let turned = match size(attributes.int("rotary_embedding_dim", 0))? {
        0 => depth,
        turned if turned <= depth => turned,
        turned => return Err(Error::damaged(format!("{turned} of {depth} elements"))),
    };
    let table = |at: usize| -> Result<Tensor, Error> {
        let table = call.input(at)?;
        let rows = match call.optional(3) {
            Some(positions) => table.take(0, &cast(positions, DType::I64)),
            None => table.clone(),
        };
        match rows.dims() == [batch, sequence, turned / 2] {
            true => Ok(rows.expand(2)),
            false => Err(Error::damaged(format!("a table {} for {}", table.spec(), x.spec()))),
        }
    };
    let (cos, sin) = (table(1)?, table(2)?);
    let (head, rest) = (x.slice(-1, 0..turned), x.slice(-1, turned..depth));
    let is_interleaved = attributes.int("interleaved", 0) != 0;
    let (a, b) = match is_interleaved {
        true => (head.slice_by(-1, 0..turned, 2), head.slice_by(-1, 1..turned, 2)),
        false => (head.slice(-1, 0..turned / 2), head.slice(-1, turned / 2..turned)),
    };
    let (real, imaginary) = (&a * &cos - &b * &sin, &a * &sin + &b * &cos);
    let head = match is_interleaved {
        true => Tensor::stack(&[real, imaginary], -1).reshape(head.dims()),
        false => Tensor::concat(&[real, imaginary], -1),
    };
    let y = Tensor::concat(&[head, rest], -1);
    one(if given.rank() == 4 { y.swap_axes(1, 2) } else { y.reshape(given.dims()) })
}

/// A window of cosines, with these weights.
fn signal_window(call: &Call<'_>, weights: &[f64]) -> Answer {
    let count = call.ints(0)?.and_then(|values| values.first().copied()).unwrap_or(-1);
    let count = size(count)?;
    if count > 1 << 24 {
        return Err(Error::damaged(format!("a window of {count} elements")));
    }
    let is_periodic = call.attributes.int("periodic", 1) != 0;
    let period = if is_periodic { count as f64 } else { count as f64 - 1.0 };
    let dtype = data::dtype(i32::try_from(call.attributes.int("output_datatype", 1)).unwrap_or(0))?;
    let value = |n: usize| {
        let angle = std::f64::consts::TAU * n as f64 / period;
        weights.iter().enumerate().map(|(k, weight)| weight * (angle * k as f64).cos()).sum::<f64>()
    };
    let values: Vec<f64> = (0..count).map(value).collect();
    let literal = data::of_numbers(&values, dtype, &[count]);
    one(Tensor::constant(&literal.ok_or_else(|| Error::unsupported(format!("a window of {dtype}")))?))
}

pub(super) const RULES: Rules = &[
    ("Attention", attention),
    ("BlackmanWindow", |c| signal_window(c, &[0.42, -0.5, 0.08])),
    ("HammingWindow", |c| signal_window(c, &[25.0 / 46.0, -(1.0 - 25.0 / 46.0)])),
    ("HannWindow", |c| signal_window(c, &[0.5, -0.5])),
    ("RotaryEmbedding", rotary),
];
