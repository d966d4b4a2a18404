//! RMS and layer norm, interpreted, against plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::norm::{self, FusedNorm, FusedNormKind};
use tensor::{DType, Spec};

use crate::arrays::{Numbers, assert_close, values};

#[test]
fn forward_and_backward() {
    let mut numbers = Numbers::new(21);
    for kind in [FusedNormKind::Rms, FusedNormKind::Layer] {
        for (rows, size, block, dtype, tolerance) in
            [(16, 128, 8, DType::F32, 1e-5), (32, 384, 16, DType::BF16, 6e-3), (24, 100, 24, DType::F32, 1e-5)]
        {
            let norm = FusedNorm::new(kind, [rows, size], dtype, DType::F32, 1e-5);
            let spec = Spec::new(dtype, [rows, size]);
            let [x, dy, residual] = [2.0, 1.0, 1.0].map(|scale| numbers.array(&spec, scale));
            let [w, b] = [1.0, 1.0].map(|scale| numbers.array(&Spec::new(DType::F32, [1, size]), scale));
            let (xs, ws, dys, bs, rs) = (values(&x), values(&w), values(&dy), values(&b), values(&residual));
            let [mut y, mut dx, mut shifted, mut joined] = [(); 4].map(|()| vec![0.0; rows * size]);
            let (mut dw, mut db) = (vec![0.0; size], vec![0.0; size]);
            for row in 0..rows {
                let at = row * size..(row + 1) * size;
                let is_layer = f64::from(kind == FusedNormKind::Layer);
                let mean = is_layer * xs[at.clone()].iter().sum::<f64>() / size as f64;
                let square = xs[at.clone()].iter().map(|v| (v - mean).powi(2)).sum::<f64>() / size as f64;
                let inverse = 1.0 / (square + 1e-5).sqrt();
                let normal = |i: usize| (xs[i] - mean) * inverse;
                let along = at.clone().map(|i| dys[i] * ws[i % size] * normal(i)).sum::<f64>() / size as f64;
                let of_mean = is_layer * at.clone().map(|i| dys[i] * ws[i % size]).sum::<f64>() / size as f64;
                for i in at {
                    y[i] = normal(i) * ws[i % size];
                    shifted[i] = y[i] + bs[i % size];
                    dx[i] = (dys[i] * ws[i % size] - of_mean - normal(i) * along) * inverse;
                    joined[i] = dx[i] + rs[i];
                    dw[i % size] += dys[i] * normal(i);
                    db[i % size] += dys[i];
                }
            }
            let run = |kernel: kernel::Kernel, operands: &[&tensor::Literal]| {
                let operands: Vec<tensor::Literal> = operands.iter().map(|&operand| operand.clone()).collect();
                interpret(&kernel, &operands).unwrap()
            };
            let results = run(norm::forward(&norm, block, Generation::V5e).unwrap(), &[&x, &w]);
            assert_close("y", &results[0], &y, tolerance);
            // Of another type than the rows.
            let with_bias = FusedNorm { bias: Some(DType::F32), result: DType::F32, ..norm };
            let results = run(norm::forward(&with_bias, block, Generation::V5e).unwrap(), &[&x, &w, &b]);
            assert_eq!(results[0].dtype(), DType::F32);
            assert_close("y with a bias", &results[0], &shifted, 1e-5);
            let results = run(norm::backward(&norm, block, Generation::V5e).unwrap(), &[&x, &w, &dy]);
            assert_eq!(results.len(), if kind == FusedNormKind::Layer { 3 } else { 2 });
            assert_close("dx", &results[0], &dx, tolerance);
            assert_close("dw", &results[1], &dw, 1e-5);
            if let Some(of_bias) = results.get(2) {
                assert_close("db", of_bias, &db, 1e-5);
            }
            let residual_too = FusedNorm { residual: Some(dtype), ..norm };
            let results =
                run(norm::backward(&residual_too, block, Generation::V5e).unwrap(), &[&x, &w, &dy, &residual]);
            assert_close("dx and residual", &results[0], &joined, tolerance);
        }
    }
}
