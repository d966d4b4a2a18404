//! Round to nearest: each value by itself, with the scale of its group found by search.

use weights::quant::PackedMatrix;

use crate::error::Error;
use crate::methods::matrix::Matrix;
use crate::methods::packing::{code, pack};
use crate::methods::rounding::Rounding;
use crate::methods::statistics::InputStatistics;
use crate::methods::threads;

/// Rows that a thread rounds at a time.
const ROWS: usize = 16;

/// Rounds a weight to nearest. With statistics, the error that the clip is searched by is weighted by the inputs' mean
/// squares.
pub fn quantize(
    weight: &Matrix,
    rounding: &Rounding,
    statistics: Option<&InputStatistics>,
) -> Result<PackedMatrix, Error> {
    let (grid, rounding) = (rounding.grid()?, &rounding.for_weight(weight));
    if let Some(statistics) = statistics {
        statistics.check_for(weight.name(), weight.in_features())?;
    }
    // Weights of no importance at all would make every clip equal.
    let importance = statistics.map(InputStatistics::mean_square).filter(|squares| squares.iter().any(|s| *s > 0.0));
    let search = rounding.search();
    let group_size = rounding.group(weight.in_features());
    let done = threads::map_chunks(weight.out_features(), ROWS, |rows| {
        let mut codes = Vec::with_capacity(rows.len() * weight.in_features());
        let mut groups = Vec::new();
        let mut multiples = vec![0.0; group_size];
        for row in rows {
            for (n, values) in weight.row(row).chunks(group_size).enumerate() {
                let importance = importance.as_ref().map(|all| &all[n * group_size..][..values.len()]);
                let group = grid.fit(values, importance, &search);
                let multiples = &mut multiples[..values.len()];
                grid.nearest_all(values, group, multiples);
                codes.extend(multiples.iter().map(|multiple| code(&grid, rounding, *multiple, group)));
                groups.push(group);
            }
        }
        (codes, groups)
    });
    let (codes, groups): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    pack(weight, rounding, codes.concat(), &groups.concat(), None)
}

#[cfg(test)]
mod tests {
    use nn::quant::{QuantScheme, ZeroPoints};
    use tensor::DType;

    use super::*;
    use crate::methods::examples::{correlated, gaussian};
    use crate::methods::{Clip, metrics};

    #[test]
    fn codes_and_scales_equal_the_formula() {
        let weight = gaussian(5, 70, 4);
        for group in [None, Some(32), Some(7), Some(1), Some(1000)] {
            let scheme = QuantScheme { group, ..QuantScheme::per_channel(DType::I4) };
            let packed = quantize(&weight, &Rounding::new(scheme).clip(Clip::None), None).unwrap();
            let size = group.unwrap_or(70).min(70);
            for row in 0..5 {
                for (n, values) in weight.row(row).chunks(size).enumerate() {
                    let scale = values.iter().fold(0.0f32, |most, value| most.max(value.abs())) / 7.0;
                    assert_eq!(packed.scales()[row * 70usize.div_ceil(size) + n], scale);
                    for (k, value) in values.iter().enumerate() {
                        let code = packed.codes()[row * 70 + n * size + k] as i8;
                        assert!((f32::from(code) * scale - value).abs() <= scale * 0.5001, "{group:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn zero_points_make_the_ends_of_a_range_exact() {
        let values = vec![-1.0, 0.0, 0.2, 2.0, 3.0, 1.0, 5.0, 0.0];
        let weight = Matrix::new("w", 2, 4, values).unwrap();
        let scheme = QuantScheme { zero_points: ZeroPoints::PerGroup, ..QuantScheme::per_channel(DType::I4) };
        let packed = quantize(&weight, &Rounding::new(scheme).clip(Clip::None), None).unwrap();
        let back = packed.dequantize();
        assert_eq!((packed.codes()[0] as i8, packed.codes()[3] as i8), (-8, 7));
        assert!((back[0] + 1.0).abs() < 1e-6 && (back[3] - 2.0).abs() < 1e-6);
        // Zero stays zero.
        assert_eq!((back[1], back[7]), (0.0, 0.0));
    }

    #[test]
    fn clips_by_importance_lose_less_of_what_is_important() {
        let (weight, statistics) = (gaussian(16, 256, 5), correlated(512, 256, 6));
        let rounding = Rounding::new("w4a16".parse().unwrap());
        let weighted = |packed: PackedMatrix| {
            let errors = weight.values().iter().zip(packed.dequantize()).map(|(a, b)| (a - b) * (a - b));
            let squares = statistics.mean_square();
            errors.enumerate().map(|(n, error)| f64::from(error * squares[n % 256])).sum::<f64>()
        };
        let plain = weighted(quantize(&weight, &rounding, None).unwrap());
        let by_importance = weighted(quantize(&weight, &rounding, Some(&statistics)).unwrap());
        assert!(by_importance < plain, "{by_importance} {plain}");
    }

    #[test]
    fn degenerate_weights_have_scales_that_formats_take() {
        for values in [vec![0.0; 4], vec![1e-45, 0.0, -1e-45, 0.0], vec![6e4, -6e4, 1.0, 0.0]] {
            let weight = Matrix::new("w", 1, 4, values.clone()).unwrap();
            for name in ["w4a16", "w8a16", "w2a16-g3", "w8a16-fp8", "w4a16-fp4", "w4a16-zp"] {
                for scale_type in [DType::F32, DType::BF16, DType::F16, DType::F8E8M0FNU, DType::F8E4M3FN] {
                    let rounding = Rounding::new(name.parse().unwrap()).scale_type(scale_type);
                    let packed = quantize(&weight, &rounding, None).unwrap();
                    assert!(packed.scales().iter().all(|scale| scale.is_normal()), "{name} {scale_type} {values:?}");
                }
            }
        }
    }

    #[test]
    fn schemes_and_statistics_that_do_not_fit_are_refused() {
        let weight = gaussian(2, 8, 1);
        let refused = |rounding: Rounding| quantize(&weight, &rounding, None).unwrap_err().to_string();
        let u4 = Rounding::new(QuantScheme::per_channel(DType::U4));
        assert_eq!(refused(u4), "weights are not rounded to codes of ui4 with 4 bits");
        let w4 = Rounding::new("w4a16".parse().unwrap());
        assert!(refused(w4.bits(5)).contains("i4 with 5 bits") && refused(w4.bits(1)).contains("1 bits"));
        assert!(refused(Rounding::new("w4a16-fp4-zp".parse().unwrap())).contains("with zero points"));
        assert_eq!(refused(w4.scale_type(DType::I8)), "scales of type i8 are not made");
        let other = quantize(&weight, &w4, Some(&correlated(4, 9, 1))).unwrap_err().to_string();
        assert_eq!(other, "layer `gaussian`: it has 8 inputs, its statistics have 9");
    }

    #[test]
    fn sizes_count_scales_and_zero_points() {
        let weight = gaussian(4, 256, 1);
        let bits = |name: &str| {
            metrics::bits_per_weight(&quantize(&weight, &Rounding::new(name.parse().unwrap()), None).unwrap())
        };
        assert_eq!(bits("w4a16"), 4.0 + 32.0 / 256.0);
        assert_eq!(bits("w4a16-g64-zp"), 4.0 + 40.0 / 64.0);
        let packed = quantize(&weight, &Rounding::new("w4a16-g128".parse().unwrap()).bits(3), None).unwrap();
        assert_eq!(metrics::bits_per_weight(&packed), 3.25);
        assert_eq!(metrics::compression_ratio(&packed, 16), 16.0 / 3.25);
    }
}
