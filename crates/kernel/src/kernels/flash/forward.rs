//! The forward pass: attention by an online softmax, and the log-sum-exp of each query, from one walk over the keys.
//!
//! A number for each query is kept 128 times over in a row of lanes while the kernel runs: what is computed with it needs no
//! repetition along lanes, which would cost more than the arithmetic. What is written is a dense row.

use chips::Generation;
use tensor::{DType, Spec};

use super::mask::{Edges, Orientation, Table, key_iterations, masked, offset, unmasked_block};
use super::{FlashAttention, FlashBlockSizes, MASK_VALUE, MaskKind, Segments};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedRhs};
use crate::ir::RefId;
use crate::kernel::CostEstimate;
use crate::kernel::{AxisId, Kernel, Semantics};
use crate::writer::Val;

/// Lanes of a vector register.
pub(super) const LANES: usize = 128;

/// The forward kernel. Operands: where there is a mask what [`mask_for`](super::mask_for) makes of it, queries, keys, values and, if packed, segments of queries `[batch, 1, q_len]` and keys
/// `[batch, 1, kv_len]`. Results: like the queries, and log-sum-exp `[batch, q_heads, 1, q_len]`.
pub fn forward(attention: &FlashAttention, blocks: FlashBlockSizes, generation: Generation) -> Result<Kernel, Error> {
    attention.check(&blocks)?;
    let a = attention;
    let FlashBlockSizes { q: bq, kv_major, kv: bk } = blocks;
    let (steps, inner, depth) = (a.kv_len / kv_major, kv_major / bk, a.depth);
    let group = a.group() as i32;
    let mut kernel = KernelBuilder::new("flash_attention_fwd", generation);
    let batches = kernel.grid(a.batch, Semantics::Parallel);
    let heads = kernel.grid(a.q_heads, Semantics::Parallel);
    let rows = kernel.grid(a.q_len / bq, Semantics::Parallel);
    let columns = kernel.grid(steps, Semantics::Arbitrary);

    let table = a.table(&blocks).map(|count| kernel.prefetch("blocks of the mask", [count]));
    let mask = a.mask.zip(a.mask_spec()).map(|(mask, spec)| {
        let own = kernel.input("mask", spec, [1, 1, mask.queries.min(bq), kv_major], |m| {
            let one_of = |size: usize, at: AxisId| if size == 1 { m.i32(0) } else { m.program_id(at) };
            let seen = unmasked_block(a, (m.program_id(rows), bq), (m.program_id(columns), kv_major));
            vec![one_of(mask.batch, batches), one_of(mask.heads, heads), one_of(mask.queries, rows), seen]
        });
        (own, mask)
    });
    let q_block = [1, 1, bq, depth];
    let q = kernel.input("queries", a.q_spec(), q_block, |m| {
        vec![m.program_id(batches), m.program_id(heads), m.program_id(rows), m.i32(0)]
    });
    let mut kv = |name: &str| {
        kernel.input(name, a.kv_spec(), [1, 1, kv_major, depth], |m| {
            let seen = unmasked_block(a, (m.program_id(rows), bq), (m.program_id(columns), kv_major));
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
            let seen = unmasked_block(a, (m.program_id(rows), bq), (m.program_id(columns), kv_major));
            vec![m.program_id(batches), m.i32(0), seen]
        });
        (of_q, of_kv, kernel.scratch("segments by row", DType::I32, [bq, LANES]))
    });
    let out = kernel.output("attention", a.q_spec(), q_block, |m| {
        vec![m.program_id(batches), m.program_id(heads), m.program_id(rows), m.i32(0)]
    });
    let logsumexp = kernel.output("logsumexp", a.rows_spec(), [1, 1, 1, bq], |m| {
        vec![m.program_id(batches), m.program_id(heads), m.i32(0), m.program_id(rows)]
    });
    let maxima = kernel.scratch("maxima", DType::F32, [bq, LANES]);
    let sums = kernel.scratch("sums", DType::F32, [bq, LANES]);
    let sum = kernel.scratch("accumulator", DType::F32, [bq, depth]);
    let pairs = a.computed_pairs(&blocks);
    kernel.cost(CostEstimate {
        flops: pairs.saturating_mul(4 * depth as u64),
        transcendentals: pairs.saturating_mul(a.transcendentals()),
        bytes_accessed: 2 * a.q_spec().bytes() + 2 * a.kv_spec().bytes() + a.rows_spec().bytes() + a.mask_bytes(),
    });

    // Powers of two: the logarithm's base costs nothing together with the scale.
    let (_, scale, blind_below) = a.scales();
    let factor = scale * std::f32::consts::LOG2_E;
    kernel.body(|k| {
        let column = k.program_id(columns);
        k.when(column.equals(0), || {
            k.store(maxima, k.full(DType::F32, [bq, LANES], MASK_VALUE));
            k.store(sums, k.zeros(DType::F32, [bq, LANES]));
            k.store(sum, k.zeros(DType::F32, [bq, depth]));
            if let Some((of_q, _, by_row)) = segments {
                k.store(by_row, k.load(of_q).broadcast([LANES, bq]).transpose());
            }
        });
        let q_begin = k.program_id(rows) * bq as i32 + offset(a);
        let kv_begin = column * kv_major as i32;
        let bounds = key_iterations(k, a, (q_begin, bq), (kv_begin, bk, inner));
        let table = table.map(|entries| {
            let at = (k.program_id(rows), column * inner as i32, 1);
            Table::new(k, (a, &blocks), entries, (k.program_id(batches), k.program_id(heads)), at)
        });
        bounds.run(k, a, table, |n: Val<'_>, edges: Edges| {
            let begin = (n * bk as i32).multiple_of(bk as u32);
            let keys = k.load_part(key, &[begin, k.i32(0)], [bk, depth]);
            let values = k.load_part(value, &[begin, k.i32(0)], [bk, depth]);
            let mut scores = a.before_masks(k.matmul(k.load(q), keys, TransposedRhs));
            let block = |of: RefId, rows: usize| k.load_part(of, &[k.i32(0), begin], [rows, bk]);
            if let Some((own, mask)) = mask.filter(|(_, mask)| mask.kind() != MaskKind::Keeps) {
                scores = scores + block(own, mask.queries.min(bq)).cast(DType::F32);
            }
            if edges == Edges::Inside {
                let kept = mask.filter(|(_, mask)| mask.kind() == MaskKind::Keeps);
                let kept = kept.map(|(own, _)| block(own, bq).cast(DType::I32).differs(0));
                let same = segments.map(|(_, of_kv, by_row)| {
                    k.load(by_row).repeat(bk / LANES).equals(k.load_part(of_kv, &[k.i32(0), begin], [1, bk]))
                });
                let ahead = q_begin - kv_begin - begin;
                scores = masked(k, a, (scores, Orientation::QueriesByKeys), ahead, [same, kept]);
            }
            let before = k.load(maxima);
            let now = before.max(scores.maximum(1));
            let shrink = ((before - now) * factor).exp2();
            let weights = ((scores - now.repeat(bk / LANES)) * factor).exp2();
            k.store(maxima, now);
            k.store(sums, k.load(sums) * shrink + weights.sum(1));
            let weighted = k.matmul(weights.cast(a.dtype), values, Plain);
            k.store(sum, k.load(sum) * fitted(shrink, depth) + weighted);
        });
        k.when(column.equals(steps as i32 - 1), || {
            let (maxima, sums) = (k.load(maxima), k.load(sums));
            // A query whose keys are all masked gives zeros; its log-sum-exp makes its weights zeros in the backward pass.
            let sees = maxima.greater(blind_below);
            let inverse = sees.select(k.full(DType::F32, [bq, LANES], 1.0) / sums, 0.0);
            k.store(out, (k.load(sum) * fitted(inverse, depth)).cast(a.dtype));
            let all = sees.select(maxima * scale + sums.log(), -MASK_VALUE);
            k.store(logsumexp, all.transpose().maximum(0));
        });
    })
}

/// A number for each row, over as many lanes as a row of the result has.
fn fitted(rows: Val<'_>, depth: usize) -> Val<'_> {
    if depth.is_multiple_of(LANES) { rows.repeat(depth / LANES) } else { rows.maximum(1) }
}
