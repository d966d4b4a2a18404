//! RMSNorm, interpreted, against plain loops.

use chips::Generation;
use kernel::interpret;
use kernel::kernels::rms_norm::{self, FusedRmsNorm};
use tensor::{DType, Spec};

use crate::arrays::{Numbers, assert_close, values};

#[test]
fn forward_and_backward() {
    let mut numbers = Numbers::new(21);
    for (rows, size, block, dtype, tolerance) in
        [(16, 128, 8, DType::F32, 1e-5), (32, 384, 16, DType::BF16, 6e-3), (24, 100, 24, DType::F32, 1e-5)]
    {
        let norm = FusedRmsNorm { rows, size, dtype, weight: DType::F32, epsilon: 1e-5 };
        let spec = Spec::new(dtype, [rows, size]);
        let [x, dy] = [2.0, 1.0].map(|scale| numbers.array(&spec, scale));
        let w = numbers.array(&Spec::new(DType::F32, [1, size]), 1.0);
        let (xs, ws, dys) = (values(&x), values(&w), values(&dy));
        let (mut y, mut dx, mut dw) = (vec![0.0; rows * size], vec![0.0; rows * size], vec![0.0; size]);
        for row in 0..rows {
            let at = row * size..(row + 1) * size;
            let mean = xs[at.clone()].iter().map(|v| v * v).sum::<f64>() / size as f64;
            let inverse = 1.0 / (mean + 1e-5).sqrt();
            let along = at.clone().map(|i| dys[i] * ws[i % size] * xs[i] * inverse).sum::<f64>() / size as f64;
            for i in at {
                let normal = xs[i] * inverse;
                y[i] = normal * ws[i % size];
                dx[i] = (dys[i] * ws[i % size] - normal * along) * inverse;
                dw[i % size] += dys[i] * normal;
            }
        }
        let forward = rms_norm::forward(&norm, block, Generation::V5e).unwrap();
        let results = interpret(&forward, &[x.clone(), w.clone()]).unwrap();
        assert_close("y", &results[0], &y, tolerance);
        let backward = rms_norm::backward(&norm, block, Generation::V5e).unwrap();
        let results = interpret(&backward, &[x, w, dy]).unwrap();
        assert_close("dx", &results[0], &dx, tolerance);
        assert_close("dw", &results[1], &dw, 1e-5);
    }
}
