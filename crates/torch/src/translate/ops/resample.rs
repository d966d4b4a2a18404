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
    NearestExact,
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
            // In f32, as PyTorch counts.
            Filter::Nearest => put((o as f32 * ratio as f32).floor() as i64, 1.0),
            Filter::NearestExact => put(((o as f32 + 0.5) * ratio as f32).floor() as i64, 1.0),
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
    let dtype = x.dtype();
    let work = if dtype.is_float() { wide(dtype) } else { tensor::DType::F32 };
    let is_copied = matches!(filter, Filter::Nearest | Filter::NearestExact);
    let mut y = if is_copied { x.clone() } else { cast(&x, work) };
    for n in 0..spatial {
        let (size, out) = (x.dims()[2 + n], dims[2 + n]);
        if size == 0 || out == 0 || size.saturating_mul(out) > 1 << 28 {
            return Err(Error::damaged(format!("an axis of {size} as one of {out}")));
        }
        let scale = scales.get(n).copied().flatten();
        let weights = weights(filter, size, out, scale, is_aligned);
        y = match filter {
            Filter::Nearest | Filter::NearestExact => {
                let from = (0..out).map(|o| (0..size).position(|i| weights[i * out + o] > 0.0).unwrap_or(0) as i64);
                let from: Vec<i64> = from.collect();
                y.take(2 + n as isize, &Tensor::constant(&Literal::from_slice(&from, [out])?))
            }
            _ => along(&y, 2 + n, &weights, size, out)?,
        };
    }
    if !dtype.is_float() && !is_copied {
        let (low, high) = (Tensor::scalar(work, 0.0), Tensor::scalar(work, 255.0));
        y = y.round().maximum(&low).minimum(&high);
    }
    Ok(cast(&y, dtype).into())
}

/// What is read outside of an image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// Places of a grid (-1 to 1) in pixels of an axis.
fn in_pixels(x: &Tensor, size: usize, is_aligned: bool) -> Tensor {
    let size = size as f64;
    match is_aligned {
        true => &(x + 1.0) * ((size - 1.0) / 2.0),
        false => &(&(x + 1.0) * size - 1.0) * 0.5,
    }
}

/// Places outside of an axis moved inside, as the padding says.
fn inside(at: &Tensor, size: usize, is_aligned: bool, outside: Outside) -> Tensor {
    let size = size as f64;
    let number = |value: f64| Tensor::scalar(at.dtype(), value);
    let held = |at: &Tensor| {
        let at = at.less_equal(&number(0.0)).select(&number(0.0), at);
        at.greater_equal(&number(size - 1.0)).select(&number(size - 1.0), &at)
    };
    match outside {
        Outside::Zeros => at.clone(),
        Outside::Border => held(at),
        Outside::Reflection => {
            let (low, span) = if is_aligned { (0.0, size - 1.0) } else { (-0.5, size) };
            if span <= 0.0 {
                return at.zeros_like();
            }
            let away = (at - low).abs();
            let flips = (&away / span).floor();
            let rest = &away - &(&flips * span);
            let is_odd = (&flips / 2.0 - (&flips / 2.0).floor()).greater(&number(0.25));
            let back = is_odd.select(&(span - &rest), &rest) + low;
            held(&back)
        }
    }
}

/// Weights of four neighbours, from a place's distance to the second.
fn cubic_weights(part: &Tensor) -> [Tensor; 4] {
    let a = -0.75;
    let near = |x: &Tensor| &(&(&(x * (a + 2.0)) - (a + 3.0)) * &(x * x)) + 1.0;
    let far = |x: &Tensor| &(&(&(&(x * a) - 5.0 * a) * x) + 8.0 * a) * x - 4.0 * a;
    [far(&(part + 1.0)), near(part), near(&(1.0 - part)), far(&(2.0 - part))]
}

/// Reads an image `[batch, channels, height, width]` at a grid `[batch, rows, columns, 2]`.
fn grid_sampler(call: &mut Call<'_, '_>) -> Answer {
    let (x, grid) = (call.subject()?, call.tensor("grid")?);
    let mode = call.int("interpolation_mode", 0)?;
    let outside = match call.int("padding_mode", 0)? {
        0 => Outside::Zeros,
        1 => Outside::Border,
        _ => Outside::Reflection,
    };
    let is_aligned = call.bool("align_corners", false)?;
    if x.rank() != 4 || grid.rank() != 4 || grid.dim(-1) != 2 || x.dim(0) != grid.dim(0) {
        return Err(call.unsupported("a grid of three axes"));
    }
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let (x, grid) = (cast(&x, work), cast(&grid, work));
    let [batch, channels, height, width] = [x.dim(0), x.dim(1), x.dim(2), x.dim(3)];
    let (rows, columns) = (grid.dim(1), grid.dim(2));
    let places = |n: usize, size: usize| in_pixels(&grid.at(-1, n), size, is_aligned).reshape(&[batch, rows * columns]);
    let moved = |at: &Tensor, size: usize| inside(at, size, is_aligned, outside);
    let (across, down) = (places(0, width), places(1, height));
    // Of cubic interpolation each neighbour is moved inside by itself.
    let (across, down) = match mode {
        2 => (across, down),
        _ => (moved(&across, width), moved(&down, height)),
    };
    let flat = x.reshape(&[batch, channels, height * width]);
    let number = |value: usize| Tensor::scalar(work, value as f64);
    // Pixels at whole places; those outside are 0.
    let read = |down: &Tensor, across: &Tensor| {
        let zero = number(0);
        let is_inside = (down.greater_equal(&zero).and(&down.less(&number(height))))
            .and(&across.greater_equal(&zero).and(&across.less(&number(width))));
        let at = |x: &Tensor, size: usize| x.maximum(&zero).minimum(&number(size - 1)).cast(tensor::DType::I64);
        let place = &(&at(down, height) * width as f64) + &at(across, width);
        let wide = [batch, channels, rows * columns];
        let place = place.stop_gradient().expand(1).broadcast_to(&wide);
        let value = flat.take_along(2, &place);
        is_inside.expand(1).broadcast_to(&wide).select(&value, &value.zeros_like())
    };
    let y = match mode {
        1 => read(&down.round(), &across.round()),
        2 => {
            let (top, left) = (down.floor().stop_gradient(), across.floor().stop_gradient());
            let (of_rows, of_columns) = (cubic_weights(&(&down - &top)), cubic_weights(&(&across - &left)));
            let mut sum: Option<Tensor> = None;
            for (i, row) in of_rows.iter().enumerate() {
                for (j, column) in of_columns.iter().enumerate() {
                    let place =
                        |at: &Tensor, n: usize, size: usize| moved(&(at + (n as f64 - 1.0)), size).stop_gradient();
                    let value = read(&place(&top, i, height), &place(&left, j, width)) * (row * column).expand(1);
                    sum = Some(sum.map_or(value.clone(), |sum| sum + value));
                }
            }
            sum.unwrap_or_else(|| Tensor::zeros(work, &[batch, channels, rows * columns]))
        }
        _ => {
            let (top, left) = (down.floor().stop_gradient(), across.floor().stop_gradient());
            let (bottom, right) = (&top + 1.0, &left + 1.0);
            let (low, near) = ((&down - &top).expand(1), (&across - &left).expand(1));
            let (high, far) = (1.0 - &low, 1.0 - &near);
            read(&top, &left) * (&high * &far)
                + read(&top, &right) * (&high * &near)
                + read(&bottom, &left) * (&low * &far)
                + read(&bottom, &right) * (&low * &near)
        }
    };
    Ok(cast(&y.reshape(&[batch, channels, rows, columns]), dtype).into())
}

pub(super) const RULES: Rules = &[
    ("upsample_nearest1d", |c| resampled(c, Filter::Nearest, 1)),
    ("upsample_nearest2d", |c| resampled(c, Filter::Nearest, 2)),
    ("upsample_nearest3d", |c| resampled(c, Filter::Nearest, 3)),
    ("_upsample_nearest_exact1d", |c| resampled(c, Filter::NearestExact, 1)),
    ("_upsample_nearest_exact2d", |c| resampled(c, Filter::NearestExact, 2)),
    ("_upsample_nearest_exact3d", |c| resampled(c, Filter::NearestExact, 3)),
    ("upsample_linear1d", |c| resampled(c, Filter::Linear, 1)),
    ("upsample_bilinear2d", |c| resampled(c, Filter::Linear, 2)),
    ("upsample_trilinear3d", |c| resampled(c, Filter::Linear, 3)),
    ("grid_sampler", grid_sampler),
    ("grid_sampler_2d", grid_sampler),
    ("upsample_bicubic2d", |c| resampled(c, Filter::Cubic, 2)),
];
