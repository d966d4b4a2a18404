//! Losses against their formulas, and in chunks against the whole.

use nn::{CrossEntropy, Fused, binary_cross_entropy, mean_squared_error};
use tensor::DType;
use trace::{Tensor, value_and_grad};

use crate::harness::{apply, difference, number, of_floats, of_ints, shape_of, with_key};

const LOGITS: [f32; 12] = [0.3, -1.2, 2.0, 0.1, 5.0, 4.0, -3.0, 0.0, 0.5, 0.25, -0.5, 100.0];
const LABELS: [i32; 3] = [2, -100, 3];

fn expected(loss: &CrossEntropy) -> f64 {
    let rows = LOGITS.chunks(4).zip(LABELS).filter(|(_, label)| loss.ignore_index != Some(*label));
    let each: Vec<f64> = rows
        .map(|(row, label)| {
            let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            let top = row.iter().copied().fold(f64::MIN, f64::max);
            let total = top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
            let spread = loss.label_smoothing / 4.0;
            let of = |n: usize| spread + if n as i32 == label { 1.0 - loss.label_smoothing } else { 0.0 };
            let entropy: f64 = row.iter().enumerate().map(|(n, x)| of(n) * (total - x)).sum();
            entropy + loss.z_loss * total * total
        })
        .collect();
    each.iter().sum::<f64>() / each.len() as f64
}

#[test]
fn cross_entropy_follows_its_formula() {
    let plain = CrossEntropy { ignore_index: Some(-100), ..CrossEntropy::default() };
    for loss in [
        plain,
        CrossEntropy { z_loss: 1e-3, ..plain },
        CrossEntropy { label_smoothing: 0.1, ..plain },
        CrossEntropy { label_smoothing: 0.2, z_loss: 1e-2, ..plain },
    ] {
        let inputs = [of_floats(&[3, 4], &LOGITS), of_ints(&[3], &LABELS)];
        let shapes = (shape_of(&inputs[0]), shape_of(&inputs[1]));
        let actual = number(&apply(&shapes, &inputs, |(logits, labels)| loss.mean(logits, labels))[0]);
        let expected = expected(&loss);
        assert!((f64::from(actual) - expected).abs() < 1e-5 * expected.abs().max(1.0), "{loss:?}: {actual} {expected}");
    }
}

#[test]
fn chunks_give_what_the_whole_gives() {
    let differences = with_key(11, |key| {
        let keys = key.split(3);
        let hidden = keys[0].normal(DType::F32, &[2, 10, 6]);
        let head = keys[1].normal(DType::F32, &[6, 9]);
        let labels = keys[2].randint(DType::I32, &[2, 10], 0, 9);
        let loss = CrossEntropy { ignore_index: Some(3), z_loss: 1e-3, label_smoothing: 0.1 };
        let whole = value_and_grad(|(h, w)| loss.mean(&h.matmul(w), &labels), &(hidden.clone(), head.clone()));
        // Pieces that divide the positions, that do not, one position of each sequence, and one larger than all.
        [10, 8, 1, 64].map(|chunk_size| {
            let chunks = value_and_grad(
                |(h, w): &(Tensor, Tensor)| loss.mean_chunked(h, &labels, chunk_size, |part| part.matmul(w)),
                &(hidden.clone(), head.clone()),
            );
            [difference(&chunks.0, &whole.0), difference(&chunks.1.0, &whole.1.0), difference(&chunks.1.1, &whole.1.1)]
        })
    });
    assert_eq!(differences.len(), 12);
    assert!(differences.iter().all(|off| number(off) < 1e-5));
}

#[test]
fn fused_with_the_matmul_gives_what_the_whole_gives() {
    let differences = with_key(12, |key| {
        let keys = key.split(3);
        let hidden = keys[0].normal(DType::F32, &[2, 10, 6]);
        let words = keys[1].normal(DType::F32, &[9, 6]);
        let labels = keys[2].randint(DType::I32, &[2, 10], 0, 9);
        let losses = [0.0, 1e-2].map(|z_loss| CrossEntropy { ignore_index: Some(3), z_loss, label_smoothing: 0.0 });
        losses.map(|loss| {
            let inputs = (hidden.clone(), words.clone());
            let whole = value_and_grad(|(h, w)| loss.mean(&h.matmul(&w.transpose(&[1, 0])), &labels), &inputs);
            // Pieces that divide the rows, that do not, and one larger than all.
            [5, 8, 64].map(|chunk_size| {
                let fused = value_and_grad(
                    |(h, w): &(Tensor, Tensor)| loss.mean_fused(h, &labels, w, chunk_size, Fused::On),
                    &inputs,
                );
                [difference(&fused.0, &whole.0), difference(&fused.1.0, &whole.1.0), difference(&fused.1.1, &whole.1.1)]
            })
        })
    });
    assert_eq!(differences.len(), 18);
    assert!(
        differences.iter().all(|off| number(off) < 1e-5),
        "{:?}",
        differences.iter().map(number).collect::<Vec<_>>()
    );
}

#[test]
fn smoothed_labels_are_not_fused() {
    let smoothed = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
    assert!(CrossEntropy::default().is_fusable(128) && !smoothed.is_fusable(128));
    let shapes = Tensor::of(trace::Spec::new(DType::F32, [2, 4, 8]));
    let error = trace::shapes_of(&shapes, |hidden| {
        let labels = Tensor::zeros(DType::I32, &[2, 4]);
        smoothed.mean_fused(hidden, &labels, &Tensor::zeros(DType::F32, &[16, 8]), 4, Fused::On)
    });
    assert!(error.err().is_some_and(|error| error.to_string().contains("label smoothing")));
}

#[test]
fn squares_and_binary_cross_entropy() {
    let inputs = [of_floats(&[4], &[0.0, 2.0, -30.0, 30.0]), of_floats(&[4], &[1.0, 0.5, 0.0, 1.0])];
    let shapes = (shape_of(&inputs[0]), shape_of(&inputs[1]));
    let actual = apply(&shapes, &inputs, |(x, y)| (mean_squared_error(x, y), binary_cross_entropy(x, y)));
    assert!((number(&actual[0]) - (1.0 + 2.25 + 900.0 + 841.0) / 4.0).abs() < 1e-2);
    let entropy = (2f64.ln() + (2.0 + (-2f64).exp().ln_1p() - 1.0)) / 4.0;
    assert!((f64::from(number(&actual[1])) - entropy).abs() < 1e-6);
}
