//! The forward pass: results and the logarithm of each query's sum, from one walk over the keys.
//!
//! Scores are kept transposed, keys by queries: maxima and sums run along sublanes, and a number for each query is a dense row.

use chips::Generation;
use tensor::{DType, Spec};

use super::visible::{hide, offset, rounds, seen_block};
use super::{Attention, Blocks, HIDDEN, Segments};
use crate::cost::Cost;
use crate::error::Error;
use crate::ir::MatMulForm::{TransposedLhs, TransposedRhs};
use crate::kernel::{Kernel, KernelBuilder, Semantics};
use crate::writer::Val;

/// The forward kernel. Operands: queries, keys, values and, if packed, segments of queries `[batch, 1, q_len]` and keys
/// `[batch, 1, kv_len]`. Results: like the queries, and logarithms of sums of exponentials `[batch, q_heads, 1, q_len]`.
pub fn forward(attention: &Attention, blocks: Blocks, generation: Generation) -> Result<Kernel, Error> {
    attention.check(&blocks)?;
    let a = attention;
    let Blocks { q: bq, kv_major, kv: bk } = blocks;
    let (steps, inner, depth) = (a.kv_len / kv_major, kv_major / bk, a.depth);
    let group = (a.q_heads / a.kv_heads) as i32;
    let mut kernel = KernelBuilder::new("flash_attention_fwd", generation);
    let batches = kernel.grid(a.batch, Semantics::Parallel);
    let heads = kernel.grid(a.q_heads, Semantics::Parallel);
    let rows = kernel.grid(a.q_len / bq, Semantics::Parallel);
    let columns = kernel.grid(steps, Semantics::Arbitrary);

    let q_block = [1, 1, bq, depth];
    let q = kernel.input("queries", a.q_spec(), q_block, |m| {
        vec![m.program_id(batches), m.program_id(heads), m.program_id(rows), m.i32(0)]
    });
    let kv_block = [1, 1, kv_major, depth];
    let mut kv = |name: &str| {
        kernel.input(name, a.kv_spec(), kv_block, |m| {
            let seen = seen_block(m, a, (m.program_id(rows), bq), (m.program_id(columns), kv_major));
            vec![m.program_id(batches), m.program_id(heads) / group, seen, m.i32(0)]
        })
    };
    let (key, value) = (kv("keys"), kv("values"));
    let segments = (a.segments == Segments::Packed).then(|| {
        let spec = |length: usize| Spec::new(DType::I32, [a.batch, 1, length]);
        let of_q = kernel.input("segments of queries", spec(a.q_len), [1, 1, bq], |m| {
            vec![m.program_id(batches), m.i32(0), m.program_id(rows)]
        });
        let of_kv = kernel.input("segments of keys", spec(a.kv_len), [1, 1, kv_major], |m| {
            let seen = seen_block(m, a, (m.program_id(rows), bq), (m.program_id(columns), kv_major));
            vec![m.program_id(batches), m.i32(0), seen]
        });
        (of_q, of_kv)
    });
    let out = kernel.output("attention", a.q_spec(), q_block, |m| {
        vec![m.program_id(batches), m.program_id(heads), m.program_id(rows), m.i32(0)]
    });
    let logsumexp = kernel.output("logsumexp", a.rows_spec(), [1, 1, 1, bq], |m| {
        vec![m.program_id(batches), m.program_id(heads), m.i32(0), m.program_id(rows)]
    });
    let maxima = kernel.scratch("maxima", DType::F32, [1, bq]);
    let sums = kernel.scratch("sums", DType::F32, [1, bq]);
    let sum = kernel.scratch("accumulator", DType::F32, [depth, bq]);
    let pairs = a.visible_pairs();
    kernel.cost(Cost {
        flops: pairs.saturating_mul(4 * depth as u64),
        transcendentals: pairs,
        bytes_accessed: 2 * a.q_spec().bytes() + 2 * a.kv_spec().bytes() + a.rows_spec().bytes(),
    });

    // Powers of two: the logarithm's base costs nothing together with the scale.
    let factor = a.scale * std::f32::consts::LOG2_E;
    kernel.body(|k| {
        let column = k.program_id(columns);
        k.when(column.equals(0), || {
            k.store(maxima, k.full(DType::F32, [1, bq], HIDDEN));
            k.store(sums, k.zeros(DType::F32, [1, bq]));
            k.store(sum, k.zeros(DType::F32, [depth, bq]));
        });
        let q_begin = k.program_id(rows) * bq as i32 + offset(a);
        let kv_begin = column * kv_major as i32;
        let bounds = rounds(k, a, (q_begin, bq), (kv_begin, bk, inner));
        let round = |n: Val<'_>, is_partial: bool| {
            let begin = (n * bk as i32).multiple_of(bk as u32);
            let keys = k.load_part(key, &[begin, k.i32(0)], [bk, depth]);
            let values = k.load_part(value, &[begin, k.i32(0)], [bk, depth]);
            let mut scores = k.matmul(keys, k.load(q), TransposedRhs);
            if is_partial {
                let same = segments.map(|(of_q, of_kv)| {
                    let keys = k.load_part(of_kv, &[k.i32(0), begin], [1, bk]);
                    keys.reshape([bk, 1]).equals(k.load(of_q))
                });
                scores = hide(k, a, scores, q_begin - kv_begin - begin, same);
            }
            let before = k.load(maxima);
            let now = before.max(scores.maximum(0));
            let shrink = ((before - now) * factor).exp2();
            let weights = ((scores - now) * factor).exp2();
            k.store(maxima, now);
            k.store(sums, k.load(sums) * shrink + weights.sum(0));
            let product = k.matmul(values, weights.cast(a.dtype), TransposedLhs);
            k.store(sum, k.load(sum) * shrink + product);
        };
        let each = |from, to, is_partial: bool| {
            k.for_each(from, to, &[], |n, _| {
                round(n, is_partial);
                Vec::new()
            });
        };
        if a.segments == Segments::Packed {
            each(bounds.begin, bounds.end, true);
        } else {
            if a.window.is_some() {
                each(bounds.begin, bounds.whole_begin, true);
            }
            each(bounds.whole_begin, bounds.whole_end, false);
            if a.causality == super::Causality::Causal {
                each(bounds.whole_end, bounds.end, true);
            }
        }
        k.when(column.equals(steps as i32 - 1), || {
            let (maxima, sums) = (k.load(maxima), k.load(sums));
            // A query that sees nothing gives zeros; its sum is such that its weights are zeros on the way back.
            let sees = maxima.greater(HIDDEN / 2.0);
            let inverse = sees.select(k.full(DType::F32, [1, bq], 1.0) / sums, 0.0);
            k.store(out, (k.load(sum) * inverse).transpose().cast(a.dtype));
            k.store(logsumexp, sees.select(maxima * a.scale + sums.log(), -HIDDEN));
        });
    })
}
