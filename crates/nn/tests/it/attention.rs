//! Attention: against a loop over positions, and block by block against the whole.

use nn::layers::{AttentionImpl, AttentionMask, AttentionOptions, Positions, attend, attend_with};
use tensor::DType;
use trace::{Key, Tensor, vjp};

use crate::harness::{apply, difference, floats, number, of_floats, off_by, shape_of, with_key};

/// Random queries, keys and values: batch 2, 4 heads over 2 groups, heads of 8.
fn drawn(key: &Key, dtype: DType, queries: usize, keys: usize) -> (Tensor, Tensor, Tensor) {
    let parts = key.split(3);
    let of = |n: usize, dims: &[usize]| parts[n].normal(DType::F32, dims).cast(dtype);
    (of(0, &[2, queries, 4, 8]), of(1, &[2, keys, 2, 8]), of(2, &[2, keys, 2, 8]))
}

fn positions(count: usize, packed: bool) -> Positions {
    let plain = Positions::sequence(count);
    let segments = packed.then(|| {
        let position = Tensor::iota(DType::I32, &[2, count], 1);
        let segment = position.greater(&Tensor::scalar(DType::I32, 4.0)).cast(DType::I32);
        (segment.clone(), segment)
    });
    Positions { segments, ..plain }
}

#[test]
fn attention_is_the_weighted_sum_of_what_is_seen() {
    let (queries, heads, groups, size) = (7, 4, 2, 8);
    let drawn_values = with_key(1, |key| drawn(key, DType::F32, queries, queries));
    let [q, k, v] = [0, 1, 2].map(|n| floats(&drawn_values[n]));
    let masks = [
        AttentionMask::Full,
        AttentionMask::Causal,
        AttentionMask::SlidingWindow(3),
        AttentionMask::Chunk(3),
        AttentionMask::Around(2),
    ];
    for mask in masks {
        let shapes = (shape_of(&drawn_values[0]), shape_of(&drawn_values[1]), shape_of(&drawn_values[2]));
        let actual = apply(&shapes, &drawn_values, |(q, k, v)| {
            attend(q, k, v, &Positions::sequence(queries), mask, AttentionImpl::Plain)
        });
        let mut expected = Vec::new();
        for b in 0..2 {
            for t in 0..queries {
                for h in 0..heads {
                    let g = h / (heads / groups);
                    let at = |n: usize, count: usize, head: usize| ((b * queries + n) * count + head) * size;
                    let sees = |s: usize| match mask {
                        AttentionMask::Full => true,
                        AttentionMask::Causal => s <= t,
                        AttentionMask::SlidingWindow(window) => s <= t && t - s < window,
                        AttentionMask::Chunk(size) => s <= t && s / size == t / size,
                        AttentionMask::Around(size) => s.abs_diff(t) <= size,
                    };
                    let score = |s: usize| {
                        let dot: f64 = (0..size)
                            .map(|d| f64::from(q[at(t, heads, h) + d]) * f64::from(k[at(s, groups, g) + d]))
                            .sum();
                        (dot / (size as f64).sqrt()).exp()
                    };
                    let seen: Vec<usize> = (0..queries).filter(|&s| sees(s)).collect();
                    let total: f64 = seen.iter().map(|&s| score(s)).sum();
                    for d in 0..size {
                        let sum: f64 = seen.iter().map(|&s| score(s) * f64::from(v[at(s, groups, g) + d])).sum();
                        expected.push((sum / total) as f32);
                    }
                }
            }
        }
        assert!(off_by(&floats(&actual[0]), &expected) < 1e-5, "{mask:?}");
    }
}

#[test]
fn blocks_give_what_the_whole_gives() {
    for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::BF16, 3e-2)] {
        for mask in [AttentionMask::Full, AttentionMask::Causal, AttentionMask::SlidingWindow(4)] {
            let implementations = [
                (false, AttentionImpl::Chunked(4)),
                (true, AttentionImpl::Chunked(5)),
                (false, AttentionImpl::Chunked(64)),
            ];
            for (packed, implementation) in
                implementations.into_iter().chain([(false, AttentionImpl::Flash), (true, AttentionImpl::Flash)])
            {
                let differences = with_key(7, |key| {
                    let keys = key.split(2);
                    let inputs = drawn(&keys[0], dtype, 12, 12);
                    let ct = keys[1].normal(DType::F32, &[2, 12, 4, 8]).cast(dtype);
                    let positions = positions(12, packed);
                    let of = |implementation: AttentionImpl| {
                        let (out, pull) = vjp(|(q, k, v)| attend(q, k, v, &positions, mask, implementation), &inputs);
                        (out, pull(&ct))
                    };
                    let (plain, (pq, pk, pv)) = of(AttentionImpl::Plain);
                    let (chunked, (cq, ck, cv)) = of(implementation);
                    (difference(&chunked, &plain), difference(&cq, &pq), difference(&ck, &pk), difference(&cv, &pv))
                });
                for (what, off) in ["result", "query", "key", "value"].iter().zip(&differences) {
                    let off = number(off);
                    assert!(off < tolerance, "{dtype} {mask:?} {packed} {implementation:?}: {what} is off by {off}");
                }
            }
        }
    }
}

/// Sinks and soft caps, forward and backward; plain attention is differentiated op by op.
#[test]
fn blocks_with_sinks_and_caps_give_what_the_whole_gives() {
    for mask in [AttentionMask::SlidingWindow(4), AttentionMask::Chunk(5), AttentionMask::Around(3)] {
        let differences = with_key(9, |key| {
            let keys = key.split(3);
            let (q, k, v) = drawn(&keys[0], DType::F32, 12, 12);
            let sinks = keys[1].normal(DType::F32, &[4]);
            let ct = keys[2].normal(DType::F32, &[2, 12, 4, 8]);
            let positions = positions(12, false);
            let of = |implementation: AttentionImpl| {
                let inputs = (q.clone(), k.clone(), v.clone(), sinks.clone());
                let (out, pull) = vjp(
                    |(q, k, v, sinks): &(Tensor, Tensor, Tensor, Tensor)| {
                        let options =
                            AttentionOptions { soft_cap: Some(0.7), sinks: Some(sinks), ..AttentionOptions::default() };
                        attend_with(q, k, v, &positions, mask, implementation, options)
                    },
                    &inputs,
                );
                (out, pull(&ct))
            };
            let (plain, (pq, pk, pv, ps)) = of(AttentionImpl::Plain);
            let (chunked, (cq, ck, cv, cs)) = of(AttentionImpl::Chunked(5));
            // Kernels know neither: another implementation is taken.
            let (flash, _) = of(AttentionImpl::Flash);
            let without = attend(&q, &k, &v, &positions, mask, AttentionImpl::Plain);
            (
                (difference(&chunked, &plain), difference(&flash, &plain), difference(&cq, &pq)),
                (difference(&ck, &pk), difference(&cv, &pv), difference(&cs, &ps)),
                difference(&without, &plain),
            )
        });
        let (same, other) = differences.split_at(6);
        for (what, off) in ["result", "flash", "query", "key", "value", "sinks"].iter().zip(same) {
            let off = number(off);
            assert!(off < 2e-5, "{mask:?}: {what} is off by {off}");
        }
        assert!(number(&other[0]) > 0.05, "sinks and caps change nothing");
    }
}

#[test]
fn a_position_that_is_not_there_is_not_seen() {
    let differences = with_key(3, |key| {
        let (q, k, v) = drawn(key, DType::F32, 3, 6);
        let positions = |list: &[f32]| Tensor::from_f32s(&[list.len()], list).cast(DType::I32);
        let queries = positions(&[0.0, 1.0, 2.0]);
        let masked = Positions {
            queries: queries.clone(),
            keys: positions(&[0.0, 1.0, 2.0, -1.0, -1.0, -1.0]),
            segments: None,
            is_sequence: false,
        };
        let short = Positions { keys: queries.clone(), queries, segments: None, is_sequence: true };
        let cut = |x: &Tensor| x.slice(1, 0..3);
        let expected = attend(&q, &cut(&k), &cut(&v), &short, AttentionMask::Full, AttentionImpl::Plain);
        [AttentionImpl::Plain, AttentionImpl::Chunked(4), AttentionImpl::Flash].map(|implementation| {
            difference(&attend(&q, &k, &v, &masked, AttentionMask::Full, implementation), &expected)
        })
    });
    assert!(differences.iter().all(|off| number(off) < 1e-5));
    // Two sides of the same comparison that could both be wrong: the harness sees a difference where there is one.
    let ones = of_floats(&[2], &[1.0, 1.5]);
    let seen = apply(&shape_of(&ones), &[ones], |x| difference(x, &Tensor::ones(DType::F32, &[2])));
    assert_eq!(number(&seen[0]), 0.5);
}

#[test]
fn attention_weights_are_dropped() {
    let outputs = with_key(5, |key| {
        let parts = key.split(2);
        let (query, keys, values) = drawn(&parts[0], DType::F32, 6, 6);
        let positions = Positions::sequence(6);
        let dropping =
            AttentionOptions { dropout_rate: 0.5, dropout_key: Some(&parts[1]), ..AttentionOptions::default() };
        let of = |dropping| {
            attend_with(&query, &keys, &values, &positions, AttentionMask::Causal, AttentionImpl::Plain, dropping)
        };
        // The weights themselves: attention to values that are one at one position each.
        let hot = Tensor::iota(DType::I32, &[6, 8], 0).equals(&Tensor::iota(DType::I32, &[6, 8], 1)).cast(DType::F32);
        let hot = hot.reshape(&[1, 6, 1, 8]).broadcast_to(&[2, 6, 2, 8]);
        let weights = |dropping| {
            attend_with(&query, &keys, &hot, &positions, AttentionMask::Causal, AttentionImpl::Plain, dropping)
        };
        let none = AttentionOptions { dropout_rate: 0.5, ..AttentionOptions::default() };
        let (_, pull) = vjp(
            |values| {
                attend_with(&query, &keys, values, &positions, AttentionMask::Causal, AttentionImpl::Plain, dropping)
            },
            &values,
        );
        let slope = pull(&query.zeros_like().exp());
        (
            of(none),
            of(dropping),
            weights(none),
            weights(dropping),
            attend(&query, &keys, &values, &positions, AttentionMask::Causal, AttentionImpl::Plain),
            slope,
        )
    });
    let [plain, dropped, weights, kept, attended, slope] = [0, 1, 2, 3, 4, 5].map(|n| floats(&outputs[n]));
    assert_eq!(plain, attended);
    assert!(off_by(&dropped, &plain) > 1e-3);
    // A weight is gone or twice as large; about half of those that see anything are gone.
    let seen: Vec<(f32, f32)> = weights.iter().copied().zip(kept).filter(|(weight, _)| *weight > 0.0).collect();
    assert!(seen.iter().all(|(weight, kept)| *kept == 0.0 || (kept / weight - 2.0).abs() < 1e-5), "{seen:?}");
    let gone = seen.iter().filter(|(_, kept)| *kept == 0.0).count() as f64 / seen.len() as f64;
    assert!((0.3..0.7).contains(&gone), "{gone}");
    // The cotangent of a value is the sum of the weights that were kept.
    let (mine, theirs): (f64, f64) =
        (slope.iter().map(|s| f64::from(*s)).sum(), seen.iter().map(|(_, kept)| f64::from(*kept) * 8.0).sum());
    assert!((mine / theirs - 1.0).abs() < 1e-4, "{mine} {theirs}");
}

#[test]
fn chunked_attention_refuses_dropout() {
    let traced = trace::shapes_of(&(), |()| {
        let key = Key::from_seed(1);
        let (query, keys, values) = drawn(&key, DType::F32, 4, 4);
        let dropping = AttentionOptions { dropout_rate: 0.1, dropout_key: Some(&key), ..AttentionOptions::default() };
        attend_with(
            &query,
            &keys,
            &values,
            &Positions::sequence(4),
            AttentionMask::Causal,
            AttentionImpl::Chunked(2),
            dropping,
        )
    });
    let error = traced.unwrap_err().to_string();
    assert!(error.contains("needs the plain implementation") && error.contains("attention.rs"), "{error}");
}
