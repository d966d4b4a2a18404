//! Images in other sizes: each axis is multiplied by a matrix of weights.

use tensor::Literal;
use trace::{Contraction, Precision, Tensor};

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// An axis of `size` becomes one of `out`: each result is a sum with weights `[size, out]`.
pub(super) fn along(x: &Tensor, axis: usize, weights: &[f32], size: usize, out: usize) -> Result<Tensor, Error> {
    let matrix = Tensor::constant(&Literal::from_slice(weights, [size, out])?.cast(x.dtype())?);
    let contraction = Contraction { lhs_sum: vec![axis], rhs_sum: vec![0], ..Contraction::default() };
    Ok(x.dot_general(&matrix, &contraction, x.dtype(), Precision::Highest).move_axis(-1, axis as isize))
}

#[derive(Clone, Copy)]
enum Filter {
    Nearest,
    Linear,
    Cubic,
}

/// The weights of an axis.
fn weights(filter: Filter, size: usize, out: usize, scale: Option<f64>, is_aligned: bool) -> Vec<f32> {
    let mut weights = vec![0f32; size * out];
    let ratio = match scale {
        Some(scale) if scale > 0.0 => 1.0 / scale,
        _ => size as f64 / out.max(1) as f64,
    };
    let last = size as i64 - 1;
    for o in 0..out {
        let mut put = |at: i64, weight: f64| {
            let at = at.clamp(0, last) as usize;
            weights[at * out + o] += weight as f32;
        };
        let source = match is_aligned {
            true if out > 1 => o as f64 * (size - 1) as f64 / (out - 1) as f64,
            true => 0.0,
            false => (o as f64 + 0.5) * ratio - 0.5,
        };
        match filter {
            Filter::Nearest => put((o as f64 * ratio).floor() as i64, 1.0),
            Filter::Linear => {
                let source = source.max(0.0);
                let low = source.floor();
                let part = source - low;
                put(low as i64, 1.0 - part);
                put(low as i64 + 1, part);
            }
            Filter::Cubic => {
                let low = source.floor();
                let part = source - low;
                for n in -1..=2 {
                    put(low as i64 + n, cubic((n as f64 - part).abs()));
                }
            }
        }
    }
    weights
}

/// Keys' kernel with a = -0.75.
fn cubic(x: f64) -> f64 {
    let a = -0.75;
    match x {
        x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

fn resampled(call: &mut Call<'_, '_>, filter: Filter, spatial: usize) -> Answer {
    let x = call.subject()?;
    let dims = call.result_dims()?;
    let is_aligned = call.bool("align_corners", false)?;
    // The scale that was given, not the ratio of the sizes.
    let scales: Vec<Option<f64>> = match call.floats("scale_factors") {
        Some(scales) => scales.into_iter().map(Some).collect(),
        None => {
            let names: &[&str] = match spatial {
                1 => &["scales"],
                2 => &["scales_h", "scales_w"],
                _ => &["scales_d", "scales_h", "scales_w"],
            };
            names.iter().map(|name| Ok(call.scalar(name)?.map(|scale| scale.as_f64()))).collect::<Result<_, Error>>()?
        }
    };
    if x.rank() != spatial + 2 || dims.len() != x.rank() {
        return Err(Error::damaged(format!("an image of {}", x.spec())));
    }
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let mut y = cast(&x, work);
    for n in 0..spatial {
        let (size, out) = (x.dims()[2 + n], dims[2 + n]);
        if size == 0 || out == 0 || size.saturating_mul(out) > 1 << 28 {
            return Err(Error::damaged(format!("an axis of {size} as one of {out}")));
        }
        let scale = scales.get(n).copied().flatten();
        let weights = weights(filter, size, out, scale, is_aligned);
        y = match filter {
            Filter::Nearest => {
                let from = (0..out).map(|o| (0..size).position(|i| weights[i * out + o] > 0.0).unwrap_or(0) as i64);
                let from: Vec<i64> = from.collect();
                y.take(2 + n as isize, &Tensor::constant(&Literal::from_slice(&from, [out])?))
            }
            _ => along(&y, 2 + n, &weights, size, out)?,
        };
    }
    Ok(cast(&y, dtype).into())
}

pub(super) const RULES: Rules = &[
    ("upsample_nearest1d", |c| resampled(c, Filter::Nearest, 1)),
    ("upsample_nearest2d", |c| resampled(c, Filter::Nearest, 2)),
    ("upsample_nearest3d", |c| resampled(c, Filter::Nearest, 3)),
    ("upsample_linear1d", |c| resampled(c, Filter::Linear, 1)),
    ("upsample_bilinear2d", |c| resampled(c, Filter::Linear, 2)),
    ("upsample_trilinear3d", |c| resampled(c, Filter::Linear, 3)),
    ("upsample_bicubic2d", |c| resampled(c, Filter::Cubic, 2)),
];
