//! Tests of what methods reach on Gaussian weights and on such with outliers, in dB of signal over quantization noise.

use nn::quant::{QuantScheme, ZeroPoints};
use tensor::DType;

use super::examples::{gaussian, with_outliers};
use super::rotation::Rotation;
use super::{Clip, Matrix, Rounding, metrics, nearest};

fn sqnr(weight: &Matrix, rounding: &Rounding) -> f64 {
    let packed = nearest::quantize(weight, rounding, None).unwrap();
    metrics::sqnr_db(weight.values(), &packed.dequantize())
}

fn scheme(values: DType, group: Option<usize>) -> QuantScheme {
    QuantScheme { group, ..QuantScheme::per_channel(values) }
}

/// The rounding, dB on Gaussian weights, and dB where 20 of 4096 inputs are 8 times larger.
fn table() -> Vec<(Rounding, f64, f64)> {
    let exact = |values, group| Rounding::new(scheme(values, group)).clip(Clip::None);
    let clipped = |values, group| Rounding::new(scheme(values, group));
    vec![
        (exact(DType::I8, None), 41.2, 29.0),
        (exact(DType::F8E4M3FN, None), 31.5, 31.8),
        (exact(DType::I4, None), 16.0, 4.3),
        (clipped(DType::I4, None), 19.3, 10.1),
        (exact(DType::I4, Some(128)), 18.6, 12.8),
        (clipped(DType::I4, Some(128)), 19.9, 14.0),
        (exact(DType::F4E2M1FN, Some(32)).scale_type(DType::F8E8M0FNU), 18.8, 17.4),
        (exact(DType::F4E2M1FN, Some(16)).scale_type(DType::F8E4M3FN), 20.4, 20.5),
        (exact(DType::F4E2M1FN, Some(512)), 18.9, 12.8),
        (clipped(DType::I4, Some(128)).bits(3), 14.2, 9.4),
        (clipped(DType::I2, None), 8.2, 4.7),
    ]
}

#[test]
fn gaussian_weights_and_outliers_give_the_known_decibels() {
    let (plain, outliers) = (gaussian(192, 4096, 1), with_outliers(192, 4096, 1));
    let mut turned = outliers.clone();
    Rotation::new(4096, 7).unwrap().rotate_inputs(&mut turned).unwrap();
    for (rounding, on_plain, on_outliers) in table() {
        let (a, b, c) = (sqnr(&plain, &rounding), sqnr(&outliers, &rounding), sqnr(&turned, &rounding));
        assert!((a - on_plain).abs() < 0.2, "{rounding:?}: {a:.2} dB, not {on_plain}");
        assert!((b - on_outliers).abs() < 0.3, "{rounding:?}: {b:.2} dB with outliers, not {on_outliers}");
        // After a rotation outliers are gone.
        assert!((c - a).abs() < 0.2, "{rounding:?}: {c:.2} dB after a rotation, {a:.2} without outliers");
    }
}

#[test]
fn zero_points_help_where_weights_are_not_centred() {
    let mut values = gaussian(8, 256, 3).into_values();
    values.iter_mut().for_each(|value| *value += 2.0);
    let weight = Matrix::new("shifted", 8, 256, values).unwrap();
    let symmetric = Rounding::new(scheme(DType::I4, Some(64)));
    let shifted = Rounding::new(QuantScheme { zero_points: ZeroPoints::PerGroup, ..scheme(DType::I4, Some(64)) });
    assert!(sqnr(&weight, &shifted) > sqnr(&weight, &symmetric) + 3.0);
}
