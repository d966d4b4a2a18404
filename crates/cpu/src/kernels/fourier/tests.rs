//! Transforms against sums written out.

use super::*;
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;

/// The definition, along one axis: `sign` -1 forward, 1 backward.
fn naive(values: &[Complex<f64>], dims: &[usize], axis: usize, sign: f64) -> Vec<Complex<f64>> {
    let inner: usize = dims[axis + 1..].iter().product();
    let n = dims[axis];
    let element = |at: usize| {
        let (base, k) = (at / (inner * n) * inner * n + at % inner, at / inner % n);
        let term = |j: usize| {
            let turn = sign * 2.0 * std::f64::consts::PI * ((j * k) % n) as f64 / n as f64;
            values[base + j * inner] * Complex::new(turn.cos(), turn.sin())
        };
        (0..n).map(term).sum::<Complex<f64>>() / if sign > 0.0 { n as f64 } else { 1.0 }
    };
    (0..values.len()).map(element).collect()
}

fn check(dims: &[usize], rank: usize) {
    let cores = Cores { machine: Machine::detect(), pool: Pool::new(2) };
    let lengths = &dims[dims.len() - rank..];
    let total: usize = dims.iter().product();
    let signal: Vec<Complex<f64>> =
        (0..total).map(|i| Complex::new((i * i % 13) as f64 - 5.0, (i * 7 % 11) as f64 * 0.5)).collect();
    let axes = dims.len() - rank..dims.len();
    let close = |found: &[f64], expected: &[f64], what: &str| {
        assert_eq!(found.len(), expected.len());
        for (n, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 1e-9 * total as f64, "{what} of {dims:?}: {a} is not {b} at {n}");
        }
    };
    let parts = |v: &[Complex<f64>]| v.iter().flat_map(|x| [x.re, x.im]).collect::<Vec<f64>>();
    let run = |kind: Transform, dims: &[usize], dtype: DType, from: &[f64], size: usize| {
        let plan = Fourier::new(kind, dims, lengths, dtype).unwrap();
        let mut to = vec![0f64; size];
        // SAFETY: the vectors have the sizes of the transform.
        unsafe { plan.run(from.as_ptr().cast(), to.as_mut_ptr().cast(), &cores) };
        to
    };
    for (kind, sign) in [(Transform::Fft, -1.0), (Transform::Ifft, 1.0)] {
        let expected = axes.clone().fold(signal.clone(), |v, axis| naive(&v, dims, axis, sign));
        close(&run(kind, dims, DType::C128, &parts(&signal), 2 * total), &parts(&expected), "complex");
    }
    let real: Vec<f64> = signal.iter().map(|x| x.re).collect();
    let complex: Vec<Complex<f64>> = real.iter().map(|&re| Complex::new(re, 0.0)).collect();
    let spectrum = axes.clone().fold(complex, |v, axis| naive(&v, dims, axis, -1.0));
    let n = dims[dims.len() - 1];
    let lower: Vec<Complex<f64>> = spectrum.chunks(n).flat_map(|row| row[..n / 2 + 1].to_vec()).collect();
    close(&run(Transform::Rfft, dims, DType::F64, &real, 2 * lower.len()), &parts(&lower), "real");
    let mut half = dims.to_vec();
    *half.last_mut().unwrap() = n / 2 + 1;
    close(&run(Transform::Irfft, &half, DType::C128, &parts(&lower), total), &real, "inverse real");
}

#[test]
fn transforms_equal_the_definition() {
    for n in [1, 2, 3, 4, 5, 6, 8, 12, 15, 17, 64, 67, 134] {
        check(&[2, n], 1);
    }
    check(&[3, 5, 8], 2);
    check(&[2, 4, 3, 9], 3);
    check(&[20, 30], 2);
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(Fourier::new(Transform::Fft, &[4], &[5], DType::C64).is_none());
    assert!(Fourier::new(Transform::Fft, &[0], &[0], DType::C64).is_none());
    assert!(Fourier::new(Transform::Fft, &[4], &[4], DType::F32).is_none());
    assert!(Fourier::new(Transform::Irfft, &[3], &[4], DType::C64).is_some());
}
