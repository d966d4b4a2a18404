//! Attention, kept whole: where it has no mask of its own it is our attention, which TPUs run as a fused kernel.

use nn::layers::{AttentionImpl, AttentionMask, AttentionOptions, Positions, attend_with};
use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::ops::dropout::{dropped, kept};
use crate::translate::ops::matmul::matmul;
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

fn attention(call: &mut Call<'_, '_>) -> Answer {
    let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    let mask = call.optional_tensor("attn_mask")?;
    let is_causal = call.bool("is_causal", false)?;
    let rank = query.rank();
    if rank < 2 || key.rank() < 2 || value.rank() < 2 {
        return Err(Error::damaged("attention needs at least two axes"));
    }
    let scale = call.float("scale", 1.0 / (query.dim(-1) as f64).sqrt())?;
    let rate = call.float("dropout_p", 0.0)?;
    let scores = [&query.dims()[..rank - 1], &[key.dim(-2)]].concat();
    let kept = kept(call, rate, &scores)?.map(|kept| (kept, rate));
    let is_square = !is_causal || query.dim(-2) == key.dim(-2);
    if rank == 4
        && query.dtype() != DType::F64
        && (key.rank(), value.rank()) == (4, 4)
        && mask.is_none()
        && kept.is_none()
        && is_square
        && key.dims() == value.dims()
        && query.dim(0) == key.dim(0)
        && query.dim(-1) == key.dim(-1)
        && query.dim(1).is_multiple_of(key.dim(1).max(1))
    {
        let heads_last = |x: &Tensor| x.swap_axes(1, 2);
        let (queries, keys) = (query.dim(2), key.dim(2));
        let positions = match queries == keys {
            true => Positions::sequence(queries),
            false => Positions {
                queries: Tensor::iota(DType::I32, &[queries], 0),
                keys: Tensor::iota(DType::I32, &[keys], 0),
                segments: None,
                is_sequence: false,
            },
        };
        let kind = if is_causal { AttentionMask::Causal } else { AttentionMask::Full };
        let options = AttentionOptions { scale: Some(scale), ..AttentionOptions::default() };
        let y = attend_with(
            &heads_last(&query),
            &heads_last(&key),
            &heads_last(&value),
            &positions,
            kind,
            AttentionImpl::Auto,
            options,
        );
        return Ok(heads_last(&y).into());
    }
    let form = Masks { mask, is_causal, kept };
    Ok(plain(&query, &key, &value, form, scale)?.into())
}

/// What may be looked at, and what dropout leaves of it with its rate.
struct Masks {
    mask: Option<Tensor>,
    is_causal: bool,
    kept: Option<(Tensor, f64)>,
}

/// Scores, mask, softmax and sum as written; a row that may look at nothing is 0.
fn plain(query: &Tensor, key: &Tensor, value: &Tensor, masks: Masks, scale: f64) -> Result<Tensor, Error> {
    let Masks { mask, is_causal, kept } = masks;
    let dtype = query.dtype();
    let work = wide(dtype);
    let (query, key, value) = (cast(query, work), cast(key, work), cast(value, work));
    let (key, value) = (grouped(&query, &key)?, grouped(&query, &value)?);
    let mut scores = matmul(&(&query * scale), &key.swap_axes(-1, -2))?;
    let least = Tensor::scalar(work, f64::NEG_INFINITY);
    if is_causal {
        let dims = [scores.dim(-2), scores.dim(-1)];
        let visible = Tensor::iota(DType::I32, &dims, 0).greater_equal(&Tensor::iota(DType::I32, &dims, 1));
        scores = visible.broadcast_to(scores.dims()).select(&scores, &least.broadcast_to(scores.dims()));
    }
    match mask {
        Some(mask) if mask.dtype() == DType::Bool => {
            let dims = joined(scores.dims(), mask.dims());
            let scores_wide = scores.broadcast_to(&dims);
            scores = mask.broadcast_to(&dims).select(&scores_wide, &least.broadcast_to(&dims));
        }
        Some(mask) => scores = scores + cast(&mask, work),
        None => {}
    }
    let largest = scores.max(&[scores.rank() - 1]).expand(-1);
    let finite = largest.is_finite().select(&largest, &largest.zeros_like()).stop_gradient();
    let weights = (&scores - &finite).exp();
    let sum = weights.sum(&[weights.rank() - 1]).expand(-1);
    let is_empty = sum.equals(&Tensor::scalar(work, 0.0));
    let mut weights = &weights / &is_empty.select(&sum.zeros_like().full_like(1.0), &sum);
    if let Some((kept, rate)) = kept {
        weights = dropped(&weights, &kept, rate);
    }
    Ok(cast(&matmul(&weights, &value)?, dtype))
}

/// Keys and values of fewer heads, repeated for the queries'.
fn grouped(query: &Tensor, x: &Tensor) -> Result<Tensor, Error> {
    if query.rank() < 3 || x.rank() != query.rank() || query.dim(-3) == x.dim(-3) || x.dim(-3) <= 1 {
        return Ok(x.clone());
    }
    let (heads, own) = (query.dim(-3), x.dim(-3));
    if heads % own != 0 {
        return Err(Error::damaged(format!("{heads} heads of queries and {own} of keys")));
    }
    let axis = x.rank() - 3;
    let mut wide = x.dims().to_vec();
    wide.insert(axis + 1, heads / own);
    let mut dims = x.dims().to_vec();
    dims[axis] = heads;
    Ok(x.expand(axis as isize + 1).broadcast_to(&wide).reshape(&dims))
}

fn joined(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let pad = |dims: &[usize]| [vec![1; rank - dims.len()], dims.to_vec()].concat();
    pad(a).into_iter().zip(pad(b)).map(|(a, b)| a.max(b)).collect()
}

pub(super) const RULES: Rules = &[
    ("scaled_dot_product_attention", attention),
    ("_scaled_dot_product_flash_attention_for_cpu", |c| {
        let y = attention(c)?;
        Ok(Value::Several(vec![y, Value::Nothing]))
    }),
    ("_scaled_dot_product_efficient_attention", |c| {
        let y = attention(c)?;
        Ok(Value::Several(vec![y, Value::Nothing, Value::Nothing, Value::Nothing]))
    }),
];
