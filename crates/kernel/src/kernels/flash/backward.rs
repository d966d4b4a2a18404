//! The backward pass: gradients of queries, keys and values from one walk over pairs of blocks.
//!
//! A step has a block of keys and all queries of one head; the gradient of the queries is summed in scratch over the steps.
//! Scores lie keys by queries, so that what belongs to a query is a dense row and needs no repetition along lanes.

use chips::Generation;
use tensor::{DType, Spec};

use super::forward::LANES;
use super::mask::{Edges, Orientation, Table, masked, offset, query_iterations};
use super::{FlashAttention, FlashBlockSizes, MaskKind, Segments};
use crate::builder::KernelBuilder;
use crate::error::Error;
use crate::ir::MatMulForm::{Plain, TransposedLhs, TransposedRhs};
use crate::ir::RefId;
use crate::kernel::CostEstimate;
use crate::kernel::{Kernel, Semantics};
use crate::writer::Val;

/// The backward kernel. Operands: where there is a mask what [`mask_for`](super::mask_for) makes of it, queries, keys, values, the forward pass's two results, the gradient of the first of them, and
/// segments as in the forward pass. Results: gradients of queries, keys and values. `blocks.kv_major` is not used.
pub fn backward(attention: &FlashAttention, blocks: FlashBlockSizes, generation: Generation) -> Result<Kernel, Error> {
    attention.check(&blocks)?;
    let a = attention;
    let FlashBlockSizes { q: bq, kv: bk, .. } = blocks;
    let (steps, count, depth, group) = (a.kv_len / bk, a.q_len / bq, a.depth, a.group() as i32);
    let mut kernel = KernelBuilder::new("flash_attention_bwd", generation);
    let batches = kernel.grid(a.batch, Semantics::Parallel);
    let heads = kernel.grid(a.kv_heads, Semantics::Parallel);
    let sharers = kernel.grid(a.group(), Semantics::Arbitrary);
    let columns = kernel.grid(steps, Semantics::Arbitrary);

    let table = a.table(&blocks).map(|count| kernel.prefetch("blocks of the mask", [count]));
    let mask = a.mask.zip(a.mask_spec()).map(|(mask, spec)| {
        let is_by_key = mask.kind() == MaskKind::AddedByKey;
        // Keys by queries, as scores are.
        let (spec, block) = match is_by_key {
            true => (spec, [1, 1, 1, bk]),
            false => (Spec::new(mask.dtype, [mask.batch, mask.heads, a.kv_len, a.q_len]), [1, 1, bk, a.q_len]),
        };
        let own = kernel.input("mask", spec, block, |m| {
            let head = m.program_id(heads) * group + m.program_id(sharers);
            let batch = if mask.batch == 1 { m.i32(0) } else { m.program_id(batches) };
            let head = if mask.heads == 1 { m.i32(0) } else { head };
            let (at, none) = (m.program_id(columns), m.i32(0));
            if is_by_key { vec![batch, head, none, at] } else { vec![batch, head, at, none] }
        });
        (own, mask)
    });
    let (all_queries, kv_block) = ([1, 1, a.q_len, depth], [1, 1, bk, depth]);
    let of_head = |kernel: &mut KernelBuilder, name: &str, spec: Spec, block: [usize; 4]| {
        kernel.input(name, spec, block, |m| {
            let head = m.program_id(heads) * group + m.program_id(sharers);
            vec![m.program_id(batches), head, m.i32(0), m.i32(0)]
        })
    };
    let of_keys = |kernel: &mut KernelBuilder, name: &str| {
        kernel.input(name, a.kv_spec(), kv_block, |m| {
            vec![m.program_id(batches), m.program_id(heads), m.program_id(columns), m.i32(0)]
        })
    };
    let q = of_head(&mut kernel, "queries", a.q_spec(), all_queries);
    let (key, value) = (of_keys(&mut kernel, "keys"), of_keys(&mut kernel, "values"));
    let out = of_head(&mut kernel, "attention", a.q_spec(), all_queries);
    let logsumexp = of_head(&mut kernel, "logsumexp", a.rows_spec(), [1, 1, 1, a.q_len]);
    let dout = of_head(&mut kernel, "gradient of attention", a.q_spec(), all_queries);
    let segments = (a.segments == Segments::Packed).then(|| {
        let spec = |length: usize| Spec::new(DType::I32, [a.batch, 1, length]);
        let of_q = kernel.input("segments of queries", spec(a.q_len), [1, 1, a.q_len], |m| {
            vec![m.program_id(batches), m.i32(0), m.i32(0)]
        });
        let of_kv = kernel.input("segments of keys", spec(a.kv_len), [1, 1, bk], |m| {
            vec![m.program_id(batches), m.i32(0), m.program_id(columns)]
        });
        (of_q, of_kv, kernel.scratch("segments by row", DType::I32, [bk, LANES]))
    });
    let dq = kernel.output("gradient of queries", a.q_spec(), all_queries, |m| {
        let head = m.program_id(heads) * group + m.program_id(sharers);
        vec![m.program_id(batches), head, m.i32(0), m.i32(0)]
    });
    // Heads that share keys are summed in scratch; the block stays where it is until the last of them.
    let mut to_keys = |name: &str| {
        kernel.output(name, a.kv_spec(), kv_block, |m| {
            let is_last = m.program_id(sharers).equals(group - 1);
            let block = is_last.select(m.program_id(columns), 0);
            vec![m.program_id(batches), m.program_id(heads), block, m.i32(0)]
        })
    };
    let (dk, dv) = (to_keys("gradient of keys"), to_keys("gradient of values"));
    let kept = if group > 1 { a.kv_len } else { bk };
    let dk_sum = kernel.scratch("sum for keys", DType::F32, [kept, depth]);
    let dv_sum = kernel.scratch("sum for values", DType::F32, [kept, depth]);
    let dq_sum = kernel.scratch("sum for queries", DType::F32, [a.q_len, depth]);
    let inner = kernel.scratch("inner products", DType::F32, [1, a.q_len]);
    let is_by_key = a.mask.is_some_and(|mask| mask.kind() == MaskKind::AddedByKey);
    let by_key = is_by_key.then(|| kernel.scratch("mask by key", DType::F32, [bk, LANES]));
    let pairs = a.computed_pairs(&blocks);
    kernel.cost(CostEstimate {
        flops: pairs.saturating_mul(10 * depth as u64),
        transcendentals: pairs.saturating_mul(a.transcendentals()),
        bytes_accessed: 4 * a.q_spec().bytes() + 4 * a.kv_spec().bytes() + a.rows_spec().bytes() + a.mask_bytes(),
    });

    let log2_e = std::f32::consts::LOG2_E;
    let (_, scale, _) = a.scales();
    let factor = scale * log2_e;
    kernel.body(|k| {
        let (sharer, column) = (k.program_id(sharers), k.program_id(columns));
        let zero = k.i32(0);
        k.when(column.equals(0), || {
            k.store(dq_sum, k.zeros(DType::F32, [a.q_len, depth]));
            k.for_each(zero, k.i32(count as i32), &[], |n, _| {
                let begin = (n * bq as i32).multiple_of(bq as u32);
                let part = |from| k.load_part(from, &[begin, zero], [bq, depth]).cast(DType::F32);
                let product = (part(out) * part(dout)).sum(1).broadcast([bq, LANES]);
                k.store_part(inner, &[zero, begin], product.transpose().maximum(0));
                Vec::new()
            });
        });
        // Rows of the sums that belong to this step's keys.
        let kept_begin = if group > 1 { (column * bk as i32).multiple_of(bk as u32) } else { zero };
        k.when(sharer.equals(0), || {
            let none = k.zeros(DType::F32, [bk, depth]);
            k.store_part(dk_sum, &[kept_begin, zero], none);
            k.store_part(dv_sum, &[kept_begin, zero], none);
        });
        if let Some((_, of_kv, by_row)) = segments {
            k.store(by_row, k.load(of_kv).broadcast([LANES, bk]).transpose());
        }
        if let (Some(by_key), Some((own, _))) = (by_key, mask) {
            k.store(by_key, k.load(own).cast(DType::F32).broadcast([LANES, bk]).transpose());
        }
        let kv_begin = column * bk as i32;
        let bounds = query_iterations(k, a, (kv_begin, bk), (bq, count));
        let table = table.map(|entries| {
            let head = k.program_id(heads) * group + sharer;
            let at = (zero, column, a.kv_len / bk);
            Table::new(k, (a, &blocks), entries, (k.program_id(batches), head), at)
        });
        bounds.run(k, a, table, |n: Val<'_>, edges: Edges| {
            let begin = (n * bq as i32).multiple_of(bq as u32);
            let (keys, values) = (k.load(key), k.load(value));
            let queries = k.load_part(q, &[begin, zero], [bq, depth]);
            let gradient = k.load_part(dout, &[begin, zero], [bq, depth]);
            let row = |from| k.load_part(from, &[zero, begin], [1, bq]);
            let mut scores = a.before_masks(k.matmul(keys, queries, TransposedRhs));
            // How a capped score follows the one before.
            let slope = a.soft_cap.map(|cap| {
                let tanh = scores * (1.0 / cap);
                k.full(DType::F32, [bk, bq], 1.0) - tanh * tanh
            });
            let block = |of: RefId| k.load_part(of, &[zero, begin], [bk, bq]);
            if let Some((own, _)) = mask.filter(|(_, mask)| mask.kind() != MaskKind::Keeps) {
                let added = match by_key {
                    Some(by_key) => k.load(by_key).repeat(bq / LANES),
                    None => block(own).cast(DType::F32),
                };
                scores = scores + added;
            }
            if edges == Edges::Inside {
                let kept = mask.filter(|(_, mask)| mask.kind() == MaskKind::Keeps);
                let kept = kept.map(|(own, _)| block(own).cast(DType::I32).differs(0));
                let same = segments.map(|(of_q, _, by_row)| k.load(by_row).repeat(bq / LANES).equals(row(of_q)));
                let ahead = begin + offset(a) - kv_begin;
                scores = masked(k, a, (scores, Orientation::KeysByQueries), ahead, [same, kept]);
            }
            let weights = (scores * factor - row(logsumexp) * log2_e).exp2();
            let dv = k.matmul(weights.cast(a.dtype), gradient, Plain);
            k.store_part(dv_sum, &[kept_begin, zero], k.load_part(dv_sum, &[kept_begin, zero], [bk, depth]) + dv);
            let dweights = k.matmul(values, gradient, TransposedRhs);
            let dscores = weights * (dweights - row(inner));
            let dscores = slope.map_or(dscores, |slope| dscores * slope).cast(a.dtype);
            let dk = k.matmul(dscores, queries, Plain);
            k.store_part(dk_sum, &[kept_begin, zero], k.load_part(dk_sum, &[kept_begin, zero], [bk, depth]) + dk);
            let dq = k.matmul(dscores, keys, TransposedLhs);
            k.store_part(dq_sum, &[begin, zero], k.load_part(dq_sum, &[begin, zero], [bq, depth]) + dq);
        });
        k.when(sharer.equals(group - 1), || {
            let part = |from| k.load_part(from, &[kept_begin, zero], [bk, depth]);
            k.store(dk, (part(dk_sum) * a.scale).cast(a.dtype));
            k.store(dv, part(dv_sum).cast(a.dtype));
        });
        k.when(column.equals(steps as i32 - 1), || {
            k.for_each(zero, k.i32(count as i32), &[], |n, _| {
                let begin = (n * bq as i32).multiple_of(bq as u32);
                let part = k.load_part(dq_sum, &[begin, zero], [bq, depth]);
                k.store_part(dq, &[begin, zero], (part * a.scale).cast(a.dtype));
                Vec::new()
            });
        });
    })
}
