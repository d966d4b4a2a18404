//! Fused cross-entropy, interpreted, against plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::cross_entropy::{self, CrossEntropyBlockSizes, FusedCrossEntropy, Sum};
use tensor::{DType, Spec};

use crate::arrays::{Numbers, assert_close, literal, values};

#[test]
fn forward_and_backward() {
    let mut numbers = Numbers::new(31);
    // The last has a vocabulary of no whole blocks.
    for (rows, depth, vocab_size) in [(128, 64, 256), (256, 128, 384), (256, 64, 300)] {
        let loss = FusedCrossEntropy { rows, depth, vocab_size, dtype: DType::BF16 };
        let blocks = CrossEntropyBlockSizes { rows: 128, vocab: 128 };
        let padded = vocab_size.next_multiple_of(128);
        let x = numbers.array(&Spec::new(DType::BF16, [rows, depth]), 0.5);
        let w = numbers.array(&Spec::new(DType::BF16, [vocab_size, depth]), 0.5);
        let row = Spec::new(DType::F32, [1, rows]);
        let (share, of_label) = (numbers.array(&row, 1.0), numbers.array(&row, 1.0));
        let label: Vec<f64> = (0..rows).map(|_| numbers.below(vocab_size) as f64).collect();
        let labels = literal(&Spec::new(DType::I32, [1, rows]), &label);
        let (xs, ws, ps, os) = (values(&x), values(&w), values(&share), values(&of_label));
        let (mut losses, mut all) = (vec![0.0; rows], vec![0.0; rows]);
        let (mut dx, mut dw) = (vec![0.0; rows * depth], vec![0.0; padded * depth]);
        for r in 0..rows {
            let logits: Vec<f64> =
                (0..vocab_size).map(|n| (0..depth).map(|i| xs[r * depth + i] * ws[n * depth + i]).sum()).collect();
            let most = logits.iter().copied().fold(f64::MIN, f64::max);
            all[r] = most + logits.iter().map(|l| (l - most).exp()).sum::<f64>().ln();
            losses[r] = all[r] - logits[label[r] as usize];
            for (n, l) in logits.iter().enumerate() {
                let d = (l - all[r]).exp() * ps[r] - f64::from(n == label[r] as usize) * os[r];
                for i in 0..depth {
                    dx[r * depth + i] += d * ws[n * depth + i];
                    dw[n * depth + i] += d * xs[r * depth + i];
                }
            }
        }
        let zeros = vec![0.0; (padded - vocab_size) * depth];
        let w = literal(&Spec::new(DType::BF16, [padded, depth]), &[ws, zeros].concat());
        let forward = cross_entropy::forward(&loss, blocks, Generation::V5e).unwrap();
        let results = interpret(&forward, &[x.clone(), w.clone(), labels.clone()]).unwrap();
        assert_close("losses", &results[0], &losses, 1e-5);
        assert_close("logsumexp", &results[1], &all, 1e-5);
        let operands = [x, w, labels, results[1].clone(), share, of_label];
        let run = |kernel: &kernel::Kernel, operands: &[tensor::Literal]| interpret(kernel, operands).unwrap();
        let backward = cross_entropy::backward_x(&loss, blocks, Generation::V5p).unwrap();
        assert_close("dx", &run(&backward, &operands)[0], &dx, 8e-3);
        let backward = cross_entropy::backward_weight(&loss, blocks, Generation::V5p).unwrap();
        assert_close("dw", &run(&backward, &operands)[0], &dw, 8e-3);
        let backward = cross_entropy::backward(&loss, blocks, Sum::Begins, Generation::V5e).unwrap();
        let both = run(&backward, &operands);
        assert_close("dx of both", &both[0], &dx, 8e-3);
        assert_close("dw of both", &both[1], &dw, 8e-3);
        let backward = cross_entropy::backward(&loss, blocks, Sum::GoesOn, Generation::V5e).unwrap();
        let again = run(&backward, &[&operands[..], &both[1..]].concat());
        let twice: Vec<f64> = dw.iter().map(|d| 2.0 * d).collect();
        assert_close("dw that goes on", &again[1], &twice, 8e-3);
    }
}
