//! Attention to a paged KV cache, interpreted, against attention in plain loops: pages in any order, sequences of any length.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::paged::{self, PagedAttention};
use tensor::{DType, Literal, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

/// Of the largest value: weights are rounded to `bf16` before their matmul.
const TOLERANCE: f64 = 0.012;

/// A sequence: its pages, positions filled before its queries, tokens that have queries.
struct Sequence {
    pages: Vec<usize>,
    filled: usize,
    tokens: usize,
}

/// Attention in `f64`; queries beyond a sequence's tokens are left as they are.
fn plain(a: &PagedAttention, all: &[Sequence], layer: usize, q: &[f64], k: &[f64], v: &[f64], out: &mut [f64]) {
    let d = a.depth;
    for (s, sequence) in all.iter().enumerate() {
        for h in 0..a.kv_heads {
            for n in 0..a.queries {
                let row = ((s * a.kv_heads + h) * a.queries + n) * d;
                if sequence.tokens == 0 {
                    out[row..row + d].fill(0.0);
                }
                if n / a.group >= sequence.tokens {
                    continue;
                }
                let stands = sequence.filled + n / a.group;
                let first = a.window.map_or(0, |window| (stands + 1).saturating_sub(window));
                let at = |j: usize| {
                    let page = sequence.pages[j / a.page_size];
                    ((((layer * a.pages + page) * a.kv_heads + h) * a.page_size) + j % a.page_size) * d
                };
                let score = |j: usize| {
                    let dot: f64 = (0..d).map(|i| q[row + i] * k[at(j) + i]).sum();
                    let score = dot * f64::from(a.scale);
                    a.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
                };
                let scores: Vec<f64> = (first..=stands).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                for i in 0..d {
                    let weighted = |(n, score): (usize, &f64)| (score - most).exp() / sum * v[at(first + n) + i];
                    out[row + i] = scores.iter().enumerate().map(weighted).sum();
                }
            }
        }
    }
}

fn check(a: &PagedAttention, block: usize, all: &[Sequence], seed: u64) {
    let mut numbers = Numbers::new(seed);
    let q = numbers.array(&Spec::new(a.dtype, [a.sequences, a.kv_heads, a.queries, a.depth]), 1.0);
    let kv = Spec::new(a.dtype, [a.layers, a.pages, a.kv_heads, a.page_size, a.depth]);
    let (k, v) = (numbers.array(&kv, 1.0), numbers.array(&kv, 1.0));
    let ints = |values: Vec<usize>| {
        let values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
        literal(&Spec::new(DType::I32, [values.len()]), &values)
    };
    let mut table = vec![0; a.sequences * a.table];
    for (sequence, places) in all.iter().zip(table.chunks_mut(a.table)) {
        places.iter_mut().zip(&sequence.pages).for_each(|(place, page)| *place = *page);
    }
    let layer = a.layers - 1;
    let (filled, tokens) = all.iter().map(|one| (one.filled, one.tokens)).unzip();
    let operands: Vec<Literal> =
        vec![ints(vec![layer]), ints(table), ints(filled), ints(tokens), q.clone(), k.clone(), v.clone()];
    let kernel = paged::attention(a, block, Generation::V6e).unwrap();
    let result = interpret(&kernel, &operands).unwrap().remove(0);
    let mut expected = values(&result);
    plain(a, all, layer, &values(&q), &values(&k), &values(&v), &mut expected);
    assert_close(&format!("{a:?}"), &result, &expected, TOLERANCE);
}

#[test]
fn decode_and_prefill_of_sequences_of_any_length() {
    let a = PagedAttention {
        sequences: 4,
        kv_heads: 2,
        group: 4,
        queries: 16,
        depth: 128,
        layers: 2,
        pages: 9,
        page_size: 128,
        table: 3,
        dtype: DType::BF16,
        scale: 0.09,
        window: None,
        soft_cap: None,
    };
    let decode = || {
        let of = |pages: &[usize], filled: usize, tokens: usize| Sequence { pages: pages.to_vec(), filled, tokens };
        [of(&[5], 0, 1), of(&[2, 8, 0], 300, 1), of(&[], 0, 0), of(&[7, 1], 127, 3)]
    };
    check(&a, 16, &decode(), 1);
    check(&PagedAttention { window: Some(130), ..a.clone() }, 16, &decode(), 2);
    check(&PagedAttention { soft_cap: Some(2.0), ..a.clone() }, 16, &decode(), 3);
    check(&PagedAttention { kv_heads: 1, group: 16, queries: 48, ..a.clone() }, 48, &decode(), 5);
    // A chunk of a prompt in two blocks beside sequences with one query; heads of 64.
    let mixed = PagedAttention { queries: 32, group: 2, depth: 64, window: Some(40), dtype: DType::F32, ..a.clone() };
    let of = |pages: &[usize], filled: usize, tokens: usize| Sequence { pages: pages.to_vec(), filled, tokens };
    check(&mixed, 16, &[of(&[3, 4], 120, 16), of(&[6], 9, 1), of(&[8, 1, 2], 255, 9), of(&[0], 0, 16)], 4);

    let refused =
        |a: PagedAttention, block: usize| paged::attention(&a, block, Generation::V6e).unwrap_err().to_string();
    assert!(refused(PagedAttention { page_size: 64, ..a.clone() }, 16).contains("multiple of 128"));
    assert!(refused(PagedAttention { dtype: DType::I8, ..a.clone() }, 16).contains("not supported"));
    assert!(refused(a.clone(), 8).contains("whole tiles"));
    assert!(refused(PagedAttention { table: usize::MAX / 2, ..a }, 16).contains("too long"));
}
