//! Images in other sizes: each axis is multiplied by a matrix of weights.

use tensor::{DType, Literal};
use trace::{Contraction, Precision, Tensor};

use super::{Answer, Rules, one};
use crate::call::{Call, cast, in_rank, size, whole, wide};
use crate::error::Error;

/// How places of the result are found in the input.
#[derive(Clone, Debug)]
struct Sampling {
    mode: String,
    transform: String,
    nearest: String,
    cubic_a: f64,
    excludes_outside: bool,
    is_antialiased: bool,
}

/// One axis: its sizes, its scale, and the part that is cut out.
struct Axis {
    from: usize,
    to: usize,
    scale: f64,
    region: (f64, f64),
}

impl Sampling {
    /// The place in the input of a place of the result.
    fn source(&self, axis: &Axis, at: usize) -> f64 {
        let (from, at) = (axis.from as f64, at as f64);
        let to = axis.scale * from;
        let half = (at + 0.5) / axis.scale - 0.5;
        match self.transform.as_str() {
            "asymmetric" => at / axis.scale,
            "align_corners" if to == 1.0 => 0.0,
            "align_corners" => at * (from - 1.0) / (to - 1.0),
            "pytorch_half_pixel" if to == 1.0 => -0.5,
            "tf_half_pixel_for_nn" => (at + 0.5) / axis.scale,
            "half_pixel_symmetric" => {
                let adjustment = axis.to as f64 / to;
                from / 2.0 * (1.0 - adjustment) + half
            }
            "tf_crop_and_resize" => {
                let (start, end) = axis.region;
                match axis.to {
                    1 => (start + end) * (from - 1.0) / 2.0,
                    _ => at * (end - start) * (from - 1.0) / (to - 1.0) + start * (from - 1.0),
                }
            }
            _ => half,
        }
    }

    fn nearest(&self, source: f64) -> f64 {
        let (low, part) = (source.floor(), source - source.floor());
        match self.nearest.as_str() {
            _ if part == 0.0 => source,
            "floor" => low,
            "ceil" => low + 1.0,
            "round_prefer_ceil" => low + f64::from(u8::from(part >= 0.5)),
            _ => low + f64::from(u8::from(part > 0.5)),
        }
    }

    /// Weights of elements of the input around a place, from which on.
    fn weights(&self, source: f64, scale: f64) -> (i64, Vec<f64>) {
        let (low, part) = (source.floor(), source - source.floor());
        let scale = if self.is_antialiased { scale.min(1.0) } else { 1.0 };
        let reach = if self.mode == "cubic" { 2.0 } else { 1.0 };
        let start = (-reach / scale).floor() as i64 + 1;
        let kernel = |x: f64| match self.mode.as_str() {
            "cubic" => cubic(x.abs(), self.cubic_a),
            _ => (1.0 - x.abs()).clamp(0.0, 1.0),
        };
        let weights: Vec<f64> = (start..2 - start).map(|n| kernel((n as f64 - part) * scale)).collect();
        (low as i64 + start, weights)
    }
}

/// Keys' kernel.
fn cubic(x: f64, a: f64) -> f64 {
    match x {
        x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// An axis in another size.
fn along(x: &Tensor, at: usize, how: &Sampling, axis: &Axis) -> Result<Tensor, Error> {
    let last = axis.from as i64 - 1;
    if how.mode == "nearest" {
        let from: Vec<i64> = (0..axis.to).map(|n| (how.nearest(how.source(axis, n)) as i64).clamp(0, last)).collect();
        return Ok(x.take(at as isize, &whole(&from, &[axis.to])?));
    }
    let mut matrix = vec![0f32; axis.from * axis.to];
    for n in 0..axis.to {
        let (first, mut weights) = how.weights(how.source(axis, n), axis.scale);
        if how.excludes_outside {
            for (k, weight) in weights.iter_mut().enumerate() {
                if !(0..=last).contains(&(first + k as i64)) {
                    *weight = 0.0;
                }
            }
        }
        let sum: f64 = weights.iter().sum();
        for (k, weight) in weights.iter().enumerate() {
            let from = (first + k as i64).clamp(0, last) as usize;
            matrix[from * axis.to + n] += (weight / sum) as f32;
        }
    }
    let matrix = Tensor::constant(&Literal::from_slice(&matrix, [axis.from, axis.to])?.cast(x.dtype())?);
    let contraction = Contraction { lhs_sum: vec![at], rhs_sum: vec![0], ..Contraction::default() };
    Ok(x.dot_general(&matrix, &contraction, x.dtype(), Precision::Highest).move_axis(-1, at as isize))
}

/// Scales and sizes of the axes that change, as given or as the policy for the aspect ratio makes them.
fn targets(call: &Call<'_>, x: &Tensor, axes: &[usize]) -> Result<Vec<(f64, usize)>, Error> {
    let dims: Vec<f64> = axes.iter().map(|axis| x.dims()[*axis] as f64).collect();
    // Opset 10 and `Upsample` have scales in the second place.
    let place = if call.opset >= 11 && call.op == "Resize" { 2 } else { 1 };
    let scales = match call.numbers(place)?.filter(|scales| !scales.is_empty()) {
        Some(scales) => Some(scales),
        None => call.attributes.floats("scales").map(|scales| scales.iter().map(|scale| f64::from(*scale)).collect()),
    };
    if let Some(scales) = scales {
        if scales.len() != axes.len() || scales.iter().any(|scale| !scale.is_finite() || *scale <= 0.0) {
            return Err(Error::damaged(format!("scales {scales:?} for {} axes", axes.len())));
        }
        return Ok(scales.iter().zip(&dims).map(|(scale, dim)| (*scale, (dim * scale).floor() as usize)).collect());
    }
    let sizes = call.ints(3)?.ok_or_else(|| Error::damaged("it names neither scales nor sizes"))?;
    if sizes.len() != axes.len() {
        return Err(Error::damaged(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let sizes = sizes.into_iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let ratios = sizes.iter().zip(&dims).map(|(size, dim)| *size as f64 / dim);
    let common = match call.attributes.text("keep_aspect_ratio_policy", "stretch").as_str() {
        "not_larger" => ratios.clone().reduce(f64::min),
        "not_smaller" => ratios.clone().reduce(f64::max),
        _ => None,
    };
    Ok(match common {
        Some(scale) => dims.iter().map(|dim| (scale, (dim * scale + 0.5).floor() as usize)).collect(),
        None => ratios.zip(sizes.iter().copied()).collect(),
    })
}

fn resize(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let attributes = call.attributes;
    let axes: Vec<usize> = match attributes.ints("axes") {
        Some(axes) => axes.iter().map(|axis| in_rank(*axis, x.rank())).collect::<Result<_, _>>()?,
        None => (0..x.rank()).collect(),
    };
    let is_old = call.op == "Upsample" || call.opset < 11;
    let how = Sampling {
        mode: attributes.text("mode", "nearest"),
        transform: attributes.text("coordinate_transformation_mode", if is_old { "asymmetric" } else { "half_pixel" }),
        nearest: attributes.text("nearest_mode", if is_old { "floor" } else { "round_prefer_floor" }),
        cubic_a: attributes.float("cubic_coeff_a", -0.75),
        excludes_outside: attributes.int("exclude_outside", 0) != 0,
        is_antialiased: attributes.int("antialias", 0) != 0,
    };
    let regions = call.numbers(1).ok().flatten().filter(|_| how.transform == "tf_crop_and_resize");
    let targets = targets(call, x, &axes)?;
    let (dtype, work) = (x.dtype(), wide(x.dtype()));
    let mut y = if how.mode == "nearest" { x.clone() } else { cast(x, work) };
    let mut is_inside = Tensor::full(DType::Bool, &[], 1.0);
    for (n, (at, (scale, to))) in axes.iter().zip(targets).enumerate() {
        let from = x.dims()[*at];
        if from == 0 || to == 0 || from.saturating_mul(to) > 1 << 26 || (1.0 / scale) > 4096.0 {
            return Err(Error::damaged(format!("an axis of {from} elements as one of {to}")));
        }
        let region =
            regions.as_ref().and_then(|all| Some((*all.get(n)?, *all.get(axes.len() + n)?))).unwrap_or((0.0, 1.0));
        let axis = Axis { from, to, scale, region };
        if from == to && scale == 1.0 && regions.is_none() {
            continue;
        }
        y = along(&y, *at, &how, &axis)?;
        if regions.is_some() {
            let inside = |n: usize| i64::from((0.0..=from as f64 - 1.0).contains(&how.source(&axis, n)));
            let known: Vec<i64> = (0..to).map(inside).collect();
            let mut dims = vec![1; x.rank()];
            dims[*at] = to;
            let known = Tensor::constant(&Literal::from_slice(&known, dims)?);
            is_inside = is_inside.and(&known.differs(&Tensor::scalar(DType::I64, 0.0)));
        }
    }
    if regions.is_some() {
        let outside = Tensor::full(y.dtype(), y.dims(), attributes.float("extrapolation_value", 0.0));
        y = is_inside.broadcast_to(y.dims()).select(&y, &outside);
    }
    one(match dtype.is_float() || y.dtype() == dtype {
        true => cast(&y, dtype),
        false => cast(&y.round(), dtype),
    })
}

pub(super) const RULES: Rules = &[("Resize", resize), ("Upsample", resize)];
