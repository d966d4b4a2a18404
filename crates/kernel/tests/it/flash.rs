//! Flash attention, interpreted, against attention in plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::flash::{self, Causality, FlashAttention, FlashBlockSizes, FlashMask, PassDirection, Segments};
use tensor::{DType, Literal, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

/// Of the largest value: weights and gradients of scores are rounded to `bf16` before their matmuls.
const TOLERANCE: f64 = 0.012;

/// A query that masks of `i8` hide all keys from.
const BLIND: usize = 70;

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
    mask: Option<&[f64]>,
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
                // What the mask has for a key; 0 keeps nothing of it where it is a mask of i8.
                let own = |j: usize| match (a.mask, mask) {
                    (Some(m), Some(mask)) => {
                        let of = |size: usize, at: usize| if size == 1 { 0 } else { at };
                        let row = (of(m.batch, b) * m.heads + of(m.heads, h)) * m.queries + of(m.queries, i);
                        Some((m.dtype == DType::I8, mask[row * a.kv_len + j]))
                    }
                    _ => None,
                };
                let visible = |j: &usize| visible(j) && own(*j) != Some((true, 0.0));
                let added = |j: usize| own(j).map_or(0.0, |(keeps, number)| if keeps { 0.0 } else { number });
                let seen: Vec<usize> = (0..a.kv_len).filter(visible).collect();
                let cap = a.soft_cap.map(f64::from);
                let capped = |j: usize| {
                    let score = dot(&q[at.clone()], &k[key(j)]) * f64::from(a.scale);
                    cap.map_or(score, |cap| cap * (score / cap).tanh())
                };
                let scores: Vec<f64> = seen.iter().map(|&j| capped(j) + added(j)).collect();
                if seen.is_empty() {
                    continue;
                }
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
                    let slope = cap.map_or(1.0, |cap| 1.0 - (capped(j) / cap).powi(2));
                    let ds = w * (dot(&dout[at.clone()], &v[key(j)]) - inner) * f64::from(a.scale) * slope;
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
    let mask = a.mask.map(|mask| {
        let spec = Spec::new(mask.dtype, [mask.batch, mask.heads, mask.queries, a.kv_len]);
        match mask.dtype {
            // Blocks of which some are masked in whole, some in part and some not at all.
            DType::I8 => {
                let kinds: Vec<usize> = (0..64).map(|_| numbers.below(3)).collect();
                let one = |i: usize| {
                    let (key, query) = (i % a.kv_len, i / a.kv_len % a.q_len);
                    // All but one query see themselves at least.
                    if key == query || query == BLIND {
                        return f64::from(u8::from(query != BLIND));
                    }
                    match kinds[(key / 128 + 3 * (query / 128)) % kinds.len()] {
                        0 => 0.0,
                        1 => 1.0,
                        _ => f64::from(u8::from((key * 7 + query * 3) % 5 > 2)),
                    }
                };
                literal(&spec, &(0..spec.num_elements()).map(one).collect::<Vec<_>>())
            }
            _ => numbers.array(&spec, 2.0),
        }
    });
    let numbers_of_mask = mask.as_ref().map(values);
    let numbers_of = segments.as_ref().map(|(q, kv)| (values(q), values(kv)));
    let expected = plain(
        a,
        &values(&q),
        &values(&k),
        &values(&v),
        &values(&dout),
        numbers_of.as_ref().map(|(q, kv)| (&q[..], &kv[..])),
        numbers_of_mask.as_deref(),
    );
    let name = format!("{a:?} {blocks:?}");
    let forward = flash::forward(a, blocks, Generation::V5e).unwrap();
    let packed: Vec<Literal> = segments.into_iter().flat_map(|(q, kv)| [q, kv]).collect();
    let masks = |pass: PassDirection| mask.as_ref().map_or(Vec::new(), |mask| masks(a, blocks, pass, mask));
    let before = masks(PassDirection::Forward).into_iter();
    let operands: Vec<Literal> = before.chain([q.clone(), k.clone(), v.clone()]).chain(packed.clone()).collect();
    let results = interpret(&forward, &operands).unwrap();
    assert_close(&format!("out of {name}"), &results[0], &expected.out, TOLERANCE);
    // Operands of f32 are rounded to bf16 for the matmul of scores.
    let tolerance = if a.dtype == DType::F32 { 1e-3 } else { 1e-5 };
    // A query that sees no key has a number that makes its weights zeros in the backward pass.
    let of_seeing: Vec<f64> = values(&results[1]).iter().map(|&sum| if sum > 1e38 { 0.0 } else { sum }).collect();
    let blind = values(&results[1]).len() - of_seeing.iter().filter(|&&sum| sum != 0.0).count();
    let has_blind = a.mask.is_some_and(|mask| mask.dtype == DType::I8);
    assert_eq!(blind, if has_blind { a.batch * a.q_heads } else { 0 }, "{name}");
    let of_seeing = literal(&Spec::new(DType::F32, [of_seeing.len()]), &of_seeing);
    assert_close(&format!("logsumexp of {name}"), &of_seeing, &expected.logsumexp, tolerance);

    let backward = flash::backward(a, blocks, Generation::V5e).unwrap();
    let [out, logsumexp] = [results[0].clone(), results[1].clone()];
    let before = masks(PassDirection::Backward).into_iter();
    let operands: Vec<Literal> = before.chain([q, k, v, out, logsumexp, dout]).chain(packed).collect();
    let results = interpret(&backward, &operands).unwrap();
    for (what, got, expected) in
        [("dq", &results[0], &expected.dq), ("dk", &results[1], &expected.dk), ("dv", &results[2], &expected.dv)]
    {
        assert_close(&format!("{what} of {name}"), got, expected, TOLERANCE);
    }
}

/// What kernels take in place of a mask: its blocks by their kind, and itself, turned for the backward pass.
fn masks(a: &FlashAttention, blocks: FlashBlockSizes, pass: PassDirection, mask: &Literal) -> Vec<Literal> {
    let m = a.mask.unwrap();
    let numbers = values(mask);
    let (rows, columns) = (a.q_len / blocks.q, a.kv_len / blocks.kv);
    let mut all = Vec::new();
    if m.dtype == DType::I8 {
        let kind = |n: usize| {
            let (of, row, column) = (n / (rows * columns), n / columns % rows, n % columns);
            let kept = |i: usize| {
                let (query, key) = (row * blocks.q + i / blocks.kv, column * blocks.kv + i % blocks.kv);
                numbers[(of * a.q_len + query) * a.kv_len + key] != 0.0
            };
            match (0..blocks.q * blocks.kv).filter(|&i| kept(i)).count() {
                0 => 2.0,
                n if n == blocks.q * blocks.kv => 1.0,
                _ => 0.0,
            }
        };
        let count = m.batch * m.heads * rows * columns;
        all.push(literal(&Spec::new(DType::I32, [count]), &(0..count).map(kind).collect::<Vec<_>>()));
    }
    if pass == PassDirection::Forward || m.queries == 1 {
        all.push(mask.clone());
    } else {
        let turned = |i: usize| {
            let (of, key, query) = (i / (a.q_len * a.kv_len), i / a.q_len % a.kv_len, i % a.q_len);
            numbers[(of * a.q_len + query) * a.kv_len + key]
        };
        let spec = Spec::new(m.dtype, [m.batch, m.heads, a.kv_len, a.q_len]);
        all.push(literal(&spec, &(0..numbers.len()).map(turned).collect::<Vec<_>>()));
    }
    all
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
        soft_cap: None,
        causality: Causality::Causal,
        window: None,
        segments: Segments::One,
        mask: None,
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
fn soft_caps() {
    let capped = FlashAttention { soft_cap: Some(0.7), ..attention() };
    check(&capped, BLOCKS, 20);
    let shared = FlashAttention { q_heads: 4, kv_heads: 2, window: Some(150), ..capped.clone() };
    check(&shared, BLOCKS, 21);
    let mask = FlashMask { dtype: DType::I8, batch: 1, heads: 1, queries: 256, density: None };
    check(&FlashAttention { mask: Some(mask), ..capped.clone() }, BLOCKS, 22);
    for queries in [1, 256] {
        let added = FlashMask { dtype: DType::F32, queries, ..mask };
        check(&FlashAttention { mask: Some(added), ..capped.clone() }, BLOCKS, 23);
    }
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
fn masks_of_their_own() {
    let full = FlashAttention { causality: Causality::Full, q_heads: 2, batch: 2, ..attention() };
    let mask = FlashMask { dtype: DType::I8, batch: 1, heads: 1, queries: 256, density: None };
    let with = |a: &FlashAttention, mask: FlashMask| FlashAttention { mask: Some(mask), ..a.clone() };
    check(&with(&full, mask), BLOCKS, 12);
    check(&with(&full, FlashMask { batch: 2, heads: 2, ..mask }), FlashBlockSizes { kv_major: 128, ..BLOCKS }, 13);
    // With positions and segments together.
    check(&with(&attention(), mask), BLOCKS, 14);
    let shared = FlashAttention { q_heads: 4, kv_heads: 2, window: Some(150), ..attention() };
    check(&with(&shared, FlashMask { heads: 4, ..mask }), BLOCKS, 15);
    check(&with(&FlashAttention { segments: Segments::Packed, ..attention() }, mask), BLOCKS, 16);
    // Added to scores: by key, by query and key, by head.
    for dtype in [DType::BF16, DType::F32] {
        let added = FlashMask { dtype, queries: 1, batch: 2, ..mask };
        check(&with(&full, added), BLOCKS, 17);
        check(&with(&full, FlashMask { queries: 256, heads: 2, ..added }), BLOCKS, 18);
        check(&with(&attention(), FlashMask { batch: 1, ..added }), BLOCKS, 19);
    }
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
