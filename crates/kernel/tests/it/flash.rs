//! Flash attention, interpreted, against attention in plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, Segments};
use tensor::{DType, Literal, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

/// Of the largest value: weights and gradients of scores are rounded to `bf16` before their matmuls.
const TOLERANCE: f64 = 0.012;

struct Plain {
    out: Vec<f64>,
    logsumexp: Vec<f64>,
    dq: Vec<f64>,
    dk: Vec<f64>,
    dv: Vec<f64>,
}

/// Attention and its gradients in `f64`.
fn plain(
    a: &FlashAttention,
    q: &[f64],
    k: &[f64],
    v: &[f64],
    dout: &[f64],
    segments: Option<(&[f64], &[f64])>,
) -> Plain {
    let (d, group) = (a.depth, a.q_heads / a.kv_heads);
    let mut p = Plain {
        out: vec![0.0; q.len()],
        logsumexp: vec![0.0; q.len() / d],
        dq: vec![0.0; q.len()],
        dk: vec![0.0; k.len()],
        dv: vec![0.0; v.len()],
    };
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for b in 0..a.batch {
        for h in 0..a.q_heads {
            for i in 0..a.q_len {
                let row = (b * a.q_heads + h) * a.q_len + i;
                let at = row * d..(row + 1) * d;
                let key = |j: usize| {
                    let row = (b * a.kv_heads + h / group) * a.kv_len + j;
                    row * d..(row + 1) * d
                };
                let stands = (i + a.kv_len) as isize - a.q_len as isize;
                let visible = |j: &usize| {
                    let by_order = a.causality == Causality::Full
                        || (*j as isize <= stands && a.window.is_none_or(|window| (*j + window) as isize > stands));
                    by_order && segments.is_none_or(|(q, kv)| q[b * a.q_len + i] == kv[b * a.kv_len + *j])
                };
                let seen: Vec<usize> = (0..a.kv_len).filter(visible).collect();
                let scores: Vec<f64> =
                    seen.iter().map(|&j| dot(&q[at.clone()], &k[key(j)]) * f64::from(a.scale)).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                p.logsumexp[row] = most + sum.ln();
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp() / sum).collect();
                for (&j, w) in seen.iter().zip(&weights) {
                    for (o, x) in at.clone().zip(key(j)) {
                        p.out[o] += w * v[x];
                    }
                }
                let inner = dot(&p.out[at.clone()], &dout[at.clone()]);
                for (&j, w) in seen.iter().zip(&weights) {
                    let ds = w * (dot(&dout[at.clone()], &v[key(j)]) - inner) * f64::from(a.scale);
                    for (o, x) in at.clone().zip(key(j)) {
                        p.dv[x] += w * dout[o];
                        p.dk[x] += ds * q[o];
                        p.dq[o] += ds * k[x];
                    }
                }
            }
        }
    }
    p
}

fn check(a: &FlashAttention, blocks: FlashBlockSizes, seed: u64) {
    let mut numbers = Numbers::new(seed);
    let q_spec = Spec::new(a.dtype, [a.batch, a.q_heads, a.q_len, a.depth]);
    let kv_spec = Spec::new(a.dtype, [a.batch, a.kv_heads, a.kv_len, a.depth]);
    let [q, dout] = [1.0, 1.0].map(|scale| numbers.array(&q_spec, scale));
    let [k, v] = [1.0, 1.0].map(|scale| numbers.array(&kv_spec, scale));
    let mut ids = |length: usize| {
        // Pieces of packed sequences, numbered; the last piece of keys and queries is the same.
        let cuts: Vec<usize> = (0..3).map(|_| numbers.below(length)).collect();
        let values: Vec<f64> =
            (0..a.batch * length).map(|i| cuts.iter().filter(|&&cut| i % length >= cut).count() as f64).collect();
        literal(&Spec::new(DType::I32, [a.batch, 1, length]), &values)
    };
    let segments: Option<(Literal, Literal)> = (a.segments == Segments::Packed).then(|| {
        let of_kv = ids(a.kv_len);
        let of_q = if a.q_len == a.kv_len { of_kv.clone() } else { ids(a.q_len) };
        (of_q, of_kv)
    });
    let numbers_of = segments.as_ref().map(|(q, kv)| (values(q), values(kv)));
    let expected = plain(
        a,
        &values(&q),
        &values(&k),
        &values(&v),
        &values(&dout),
        numbers_of.as_ref().map(|(q, kv)| (&q[..], &kv[..])),
    );
    let name = format!("{a:?} {blocks:?}");
    let forward = flash::forward(a, blocks, Generation::V5e).unwrap();
    let packed: Vec<Literal> = segments.into_iter().flat_map(|(q, kv)| [q, kv]).collect();
    let operands: Vec<Literal> = [q.clone(), k.clone(), v.clone()].into_iter().chain(packed.clone()).collect();
    let results = interpret(&forward, &operands).unwrap();
    assert_close(&format!("out of {name}"), &results[0], &expected.out, TOLERANCE);
    // Operands of f32 are rounded to bf16 for the matmul of scores.
    let tolerance = if a.dtype == DType::F32 { 1e-3 } else { 1e-5 };
    assert_close(&format!("logsumexp of {name}"), &results[1], &expected.logsumexp, tolerance);

    let backward = flash::backward(a, blocks, Generation::V5e).unwrap();
    let [out, logsumexp] = [results[0].clone(), results[1].clone()];
    let operands: Vec<Literal> = [q, k, v, out, logsumexp, dout].into_iter().chain(packed).collect();
    let results = interpret(&backward, &operands).unwrap();
    for (what, got, expected) in
        [("dq", &results[0], &expected.dq), ("dk", &results[1], &expected.dk), ("dv", &results[2], &expected.dv)]
    {
        assert_close(&format!("{what} of {name}"), got, expected, TOLERANCE);
    }
}

fn attention() -> FlashAttention {
    FlashAttention {
        batch: 1,
        q_heads: 1,
        kv_heads: 1,
        q_len: 256,
        kv_len: 256,
        depth: 128,
        dtype: DType::BF16,
        scale: 0.09,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
    }
}

const BLOCKS: FlashBlockSizes = FlashBlockSizes { q: 128, kv_major: 256, kv: 128 };

#[test]
fn causal() {
    check(&attention(), BLOCKS, 1);
    check(&attention(), FlashBlockSizes { kv_major: 128, ..BLOCKS }, 2);
    check(
        &FlashAttention { q_len: 128, kv_len: 384, ..attention() },
        FlashBlockSizes { q: 128, kv_major: 384, kv: 128 },
        3,
    );
}

#[test]
fn every_position() {
    check(&FlashAttention { causality: Causality::Full, q_len: 128, ..attention() }, BLOCKS, 4);
}

#[test]
fn heads_that_share_keys() {
    check(&FlashAttention { q_heads: 4, kv_heads: 2, batch: 2, ..attention() }, BLOCKS, 5);
}

#[test]
fn sliding_window() {
    let a = FlashAttention { q_len: 384, kv_len: 384, window: Some(100), ..attention() };
    check(&a, FlashBlockSizes { q: 128, kv_major: 384, kv: 128 }, 6);
    check(&FlashAttention { window: Some(200), ..a.clone() }, FlashBlockSizes { q: 128, kv_major: 128, kv: 128 }, 7);
    check(&FlashAttention { window: Some(1), ..a }, FlashBlockSizes { q: 128, kv_major: 128, kv: 128 }, 8);
}

#[test]
fn packed_sequences() {
    let a = FlashAttention { segments: Segments::Packed, batch: 2, ..attention() };
    check(&a, BLOCKS, 9);
    check(&FlashAttention { causality: Causality::Full, ..a }, BLOCKS, 10);
}

#[test]
fn random_shapes() {
    let mut numbers = Numbers::new(11);
    for seed in 0..6 {
        let kv_heads = 1 + numbers.below(2);
        let (q, kv) = (128 * (1 + numbers.below(2)), 128 * (1 + numbers.below(2)));
        let kv_major = kv * (1 + numbers.below(2));
        let kv_len = kv_major * (1 + numbers.below(2));
        let causality = if numbers.below(3) > 0 { Causality::Causal } else { Causality::Full };
        let is_causal = causality == Causality::Causal;
        // Causal queries are no more than keys.
        let q_len = if is_causal && q > kv_len { kv_len } else { q };
        let a = FlashAttention {
            batch: 1,
            q_heads: kv_heads * (1 + numbers.below(2)),
            kv_heads,
            q_len,
            kv_len,
            depth: [64, 128][numbers.below(2)],
            dtype: [DType::BF16, DType::F32][numbers.below(2)],
            window: (is_causal && numbers.below(2) == 0).then(|| 1 + numbers.below(300)),
            segments: if q_len == kv_len && numbers.below(2) == 0 { Segments::Packed } else { Segments::One },
            causality,
            ..attention()
        };
        check(&a, FlashBlockSizes { q: q.min(q_len), kv_major, kv }, 100 + seed);
    }
}
