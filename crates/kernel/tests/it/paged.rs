//! Attention to a paged KV cache, interpreted, against attention in plain loops: pages in any order, sequences of any length.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::paged::{self, AttentionSinks, PagedAttention};
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

/// What attention reads, as numbers; scales are of keys and of values.
struct Given {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    sinks: Option<Vec<f64>>,
    scales: Option<(Vec<f64>, Vec<f64>)>,
}

/// Attention in `f64`; queries beyond a sequence's tokens are left as they are.
fn plain(a: &PagedAttention, all: &[Sequence], layer: usize, given: &Given, out: &mut [f64]) {
    let (d, own) = (a.depth, a.rotary.unwrap_or(a.depth));
    let features = d + a.rotary.unwrap_or(0);
    for (s, sequence) in all.iter().enumerate() {
        for h in 0..a.kv_heads {
            for n in 0..a.queries {
                let row = (s * a.kv_heads + h) * a.queries + n;
                let (query, out) = (&given.q[row * features..][..features], &mut out[row * d..][..d]);
                if sequence.tokens == 0 {
                    out.fill(0.0);
                }
                if n / a.group >= sequence.tokens {
                    continue;
                }
                let stands = sequence.filled + n / a.group;
                let first = a.window.map_or(0, |window| (stands + 1).saturating_sub(window));
                let first = a.chunk.map_or(first, |chunk| first.max(stands / chunk * chunk));
                let at = |j: usize| {
                    let page = sequence.pages[j / a.page_size];
                    ((layer * a.pages + page) * a.kv_heads + h) * a.page_size + j % a.page_size
                };
                let scaled = |codes: &[f64], size: usize, scales: Option<&Vec<f64>>, at: usize| -> Vec<f64> {
                    let scale = scales.map_or(1.0, |scales| scales[at]);
                    codes[at * size..][..size].iter().map(|code| code * scale).collect()
                };
                let key = |j: usize| scaled(&given.k, own, given.scales.as_ref().map(|(keys, _)| keys), at(j));
                let value = |j: usize| scaled(&given.v, d, given.scales.as_ref().map(|(_, values)| values), at(j));
                let score = |j: usize| {
                    let key = if a.rotary.is_some() { [value(j), key(j)].concat() } else { key(j) };
                    let dot: f64 = query.iter().zip(&key).map(|(q, k)| q * k).sum();
                    let score = dot * f64::from(a.scale);
                    a.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
                };
                let scores: Vec<f64> = (first..=stands).map(score).collect();
                let sink = given.sinks.as_ref().map(|sinks| sinks[h * a.group + n % a.group]);
                let most = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().copied().chain(sink).map(|score| (score - most).exp()).sum();
                out.fill(0.0);
                for (n, score) in scores.iter().enumerate() {
                    let weight = (score - most).exp() / sum;
                    out.iter_mut().zip(value(first + n)).for_each(|(out, value)| *out += weight * value);
                }
            }
        }
    }
}

fn check(a: &PagedAttention, block: usize, all: &[Sequence], seed: u64) {
    let mut numbers = Numbers::new(seed);
    let features = a.depth + a.rotary.unwrap_or(0);
    let q = numbers.array(&Spec::new(a.dtype, [a.sequences, a.kv_heads, a.queries, features]), 1.0);
    let mut of_cache = |size: usize| {
        let spec = Spec::new(a.codes, [a.layers, a.pages, a.kv_heads, a.page_size, size]);
        if a.codes != DType::I8 {
            return numbers.array(&spec, 1.0);
        }
        let wide = numbers.array(&Spec::new(DType::F32, spec.dims.clone()), 100.0);
        literal(&spec, &values(&wide).iter().map(|value| value.round()).collect::<Vec<_>>())
    };
    let (k, v) = (of_cache(a.rotary.unwrap_or(a.depth)), of_cache(a.depth));
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
    let mut operands: Vec<Literal> =
        vec![ints(vec![layer]), ints(table), ints(filled), ints(tokens), q.clone(), k.clone(), v.clone()];
    let mut given = Given { q: values(&q), k: values(&k), v: values(&v), sinks: None, scales: None };
    if a.sinks == AttentionSinks::Present {
        let sinks = numbers.array(&Spec::new(DType::F32, [a.kv_heads, a.group]), 2.0);
        given.sinks = Some(values(&sinks));
        operands.push(sinks);
    }
    if a.codes != a.dtype {
        let spec = Spec::new(DType::F32, [a.layers, a.pages, a.kv_heads, a.page_size]);
        let [of_keys, of_values] = [(); 2].map(|()| {
            let drawn = values(&numbers.array(&spec, 0.005));
            literal(&spec, &drawn.iter().map(|scale| scale.abs() + 0.005).collect::<Vec<_>>())
        });
        given.scales = Some((values(&of_keys), values(&of_values)));
        operands.extend([of_keys, of_values]);
    }
    let kernel = paged::attention(a, block, Generation::V6e).unwrap();
    let result = interpret(&kernel, &operands).unwrap().remove(0);
    let mut expected = values(&result);
    plain(a, all, layer, &given, &mut expected);
    assert_close(&format!("{a:?}"), &result, &expected, TOLERANCE);
}

fn of(pages: &[usize], filled: usize, tokens: usize) -> Sequence {
    Sequence { pages: pages.to_vec(), filled, tokens }
}

/// One token and several, in one page and in three, and a sequence without tokens.
fn mixed() -> [Sequence; 4] {
    [of(&[5], 0, 1), of(&[2, 8, 0], 300, 1), of(&[], 0, 0), of(&[7, 1], 127, 3)]
}

const PLAIN: PagedAttention = PagedAttention {
    sequences: 4,
    kv_heads: 2,
    group: 4,
    queries: 16,
    depth: 128,
    rotary: None,
    layers: 2,
    pages: 9,
    page_size: 128,
    table: 3,
    dtype: DType::BF16,
    codes: DType::BF16,
    scale: 0.09,
    window: None,
    chunk: None,
    soft_cap: None,
    sinks: AttentionSinks::Absent,
};

#[test]
fn decode_and_prefill_of_sequences_of_any_length() {
    let a = PLAIN;
    check(&a, 16, &mixed(), 1);
    check(&PagedAttention { window: Some(130), ..a.clone() }, 16, &mixed(), 2);
    check(&PagedAttention { soft_cap: Some(2.0), ..a.clone() }, 16, &mixed(), 3);
    check(&PagedAttention { kv_heads: 1, group: 16, queries: 48, ..a.clone() }, 48, &mixed(), 5);
    // A chunk of a prompt in two blocks beside sequences with one query; heads of 64.
    let (dtype, codes) = (DType::F32, DType::F32);
    let chunk = PagedAttention { queries: 32, group: 2, depth: 64, window: Some(40), dtype, codes, ..a.clone() };
    check(&chunk, 16, &[of(&[3, 4], 120, 16), of(&[6], 9, 1), of(&[8, 1, 2], 255, 9), of(&[0], 0, 16)], 4);

    let refused =
        |a: PagedAttention, block: usize| paged::attention(&a, block, Generation::V6e).unwrap_err().to_string();
    assert!(refused(PagedAttention { page_size: 64, ..a.clone() }, 16).contains("multiple of 128"));
    assert!(refused(PagedAttention { dtype: DType::I8, ..a.clone() }, 16).contains("not supported"));
    assert!(refused(PagedAttention { codes: DType::F32, ..a.clone() }, 16).contains("not supported"));
    assert!(refused(PagedAttention { rotary: Some(64), ..a.clone() }, 16).contains("2 KV heads"));
    assert!(refused(PagedAttention { chunk: Some(0), ..a.clone() }, 16).contains("a size is 0"));
    assert!(refused(PagedAttention { chunk: Some(1), group: 1, queries: 32, ..a.clone() }, 32).contains("chunks of 1"));
    assert!(refused(a.clone(), 8).contains("whole tiles"));
    assert!(refused(PagedAttention { table: usize::MAX / 2, ..a }, 16).contains("too long"));
}

#[test]
fn attention_sinks_and_chunks() {
    let sinks = PagedAttention { sinks: AttentionSinks::Present, depth: 32, ..PLAIN };
    check(&sinks, 16, &mixed(), 11);
    check(&PagedAttention { soft_cap: Some(2.0), window: Some(130), ..sinks.clone() }, 16, &mixed(), 12);
    // Groups that are no power of two, in several blocks.
    check(&PagedAttention { group: 3, queries: 48, ..sinks.clone() }, 16, &mixed(), 13);
    check(&PagedAttention { kv_heads: 1, group: 6, queries: 32, ..sinks }, 32, &mixed(), 14);
    // Chunks that end before, in and between the queries of a block.
    let chunks = PagedAttention { chunk: Some(150), depth: 32, ..PLAIN };
    check(&chunks, 16, &mixed(), 15);
    let prompts = || [of(&[3, 4], 146, 8), of(&[6], 9, 1), of(&[8, 1, 2], 149, 8), of(&[0], 0, 8)];
    check(&PagedAttention { queries: 32, ..chunks.clone() }, 16, &prompts(), 16);
    check(&PagedAttention { queries: 32, chunk: Some(3), ..chunks.clone() }, 32, &prompts(), 17);
    check(&PagedAttention { chunk: Some(100_000), ..chunks }, 16, &mixed(), 18);
}

#[test]
fn codes_with_scales() {
    let codes = PagedAttention { codes: DType::I8, depth: 64, ..PLAIN };
    check(&codes, 16, &mixed(), 21);
    check(&PagedAttention { dtype: DType::F32, window: Some(40), ..codes.clone() }, 16, &mixed(), 22);
    let sinks = AttentionSinks::Present;
    check(&PagedAttention { kv_heads: 1, soft_cap: Some(3.0), sinks, ..codes }, 16, &mixed(), 23);
}

#[test]
fn values_that_are_parts_of_their_keys() {
    let mla =
        PagedAttention { kv_heads: 1, group: 16, queries: 48, depth: 128, rotary: Some(64), scale: 0.05, ..PLAIN };
    check(&mla, 48, &mixed(), 31);
    check(&PagedAttention { queries: 64, ..mla.clone() }, 16, &mixed(), 32);
    check(&PagedAttention { codes: DType::I8, ..mla }, 48, &mixed(), 33);
}
