//! Fused cross-entropy, interpreted, against plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::cross_entropy::{self, Blocks, CrossEntropy};
use tensor::{DType, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

#[test]
fn forward_and_backward() {
    let mut numbers = Numbers::new(31);
    for (rows, depth, words) in [(128, 64, 256), (256, 128, 384)] {
        let loss = CrossEntropy { rows, depth, words, dtype: DType::BF16 };
        let blocks = Blocks { rows: 128, words: 128 };
        let x = numbers.array(&Spec::new(DType::BF16, [rows, depth]), 0.5);
        let w = numbers.array(&Spec::new(DType::BF16, [words, depth]), 0.5);
        let row = Spec::new(DType::F32, [1, rows]);
        let dloss = numbers.array(&row, 1.0);
        let label: Vec<f64> = (0..rows).map(|_| numbers.below(words) as f64).collect();
        let labels = literal(&Spec::new(DType::I32, [1, rows]), &label);
        let (xs, ws, ds) = (values(&x), values(&w), values(&dloss));
        let (mut losses, mut all) = (vec![0.0; rows], vec![0.0; rows]);
        let (mut dx, mut dw) = (vec![0.0; rows * depth], vec![0.0; words * depth]);
        for r in 0..rows {
            let logits: Vec<f64> =
                (0..words).map(|n| (0..depth).map(|i| xs[r * depth + i] * ws[n * depth + i]).sum()).collect();
            let most = logits.iter().copied().fold(f64::MIN, f64::max);
            all[r] = most + logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln();
            losses[r] = all[r] - logits[label[r] as usize];
            for (n, l) in logits.iter().enumerate() {
                let d = ((l - all[r]).exp() - f64::from(n == label[r] as usize)) * ds[r];
                for i in 0..depth {
                    dx[r * depth + i] += d * ws[n * depth + i];
                    dw[n * depth + i] += d * xs[r * depth + i];
                }
            }
        }
        let forward = cross_entropy::forward(&loss, blocks, Generation::V5e).unwrap();
        let results = interpret(&forward, &[x.clone(), w.clone(), labels.clone()]).unwrap();
        assert_close("losses", &results[0], &losses, 1e-5);
        assert_close("logsumexp", &results[1], &all, 1e-5);
        let operands = [x, w, labels, results[1].clone(), dloss];
        let backward = cross_entropy::backward_x(&loss, blocks, Generation::V5e).unwrap();
        assert_close("dx", &interpret(&backward, &operands).unwrap()[0], &dx, 8e-3);
        let backward = cross_entropy::backward_weight(&loss, blocks, Generation::V5e).unwrap();
        assert_close("dw", &interpret(&backward, &operands).unwrap()[0], &dw, 8e-3);
    }
}
