//! Fourier transforms.

use trace::{Fourier, Tensor};

use crate::error::Error;
use crate::translate::call::{Call, Value, in_rank, positive};
use crate::translate::run::Rules;
use crate::translate::types::cast;

type Answer = Result<Value, Error>;

/// Transforms one axis of complex numbers; without a factor in both directions.
fn along(x: &Tensor, axis: usize, is_forward: bool) -> Tensor {
    let last = x.move_axis(axis as isize, -1);
    let size = last.dim(-1);
    let y = match is_forward {
        true => last.fft(Fourier::Forward, &[size]),
        // The inverse divides by the size.
        false => scaled(&last.fft(Fourier::Inverse, &[size]), size as f64),
    };
    y.move_axis(-1, axis as isize)
}

fn scaled(x: &Tensor, by: f64) -> Tensor {
    if by == 1.0 {
        return x.clone();
    }
    match x.dtype().is_complex() {
        true => (x.real() * by).complex(&(x.imag() * by)),
        false => x * by,
    }
}

/// The factor of a normalization: 0 none, 1 by the root of the count, 2 by the count.
fn factor(mode: i64, count: f64) -> f64 {
    match mode {
        1 => 1.0 / count.sqrt(),
        2 => 1.0 / count,
        _ => 1.0,
    }
}

fn complex(x: &Tensor) -> Tensor {
    if x.dtype().is_complex() { x.clone() } else { x.complex(&x.zeros_like()) }
}

/// An axis cut or filled with zeros to a size.
fn resized(x: &Tensor, axis: usize, size: usize) -> Tensor {
    let (at, own) = (axis as isize, x.dims()[axis]);
    if size <= own {
        return x.slice(at, 0..size);
    }
    let mut dims = x.dims().to_vec();
    dims[axis] = size - own;
    Tensor::concat(&[x.clone(), Tensor::zeros(x.dtype(), &dims)], at)
}

/// All axes of a transform, in order; the last may be of real numbers.
fn axes_of(call: &mut Call<'_, '_>, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
    call.ints(name)?.into_iter().map(|axis| in_rank(axis, rank)).collect()
}

/// Real numbers to the half of the spectrum that determines the rest.
fn real_forward(x: &Tensor, axis: usize) -> Tensor {
    let last = x.move_axis(axis as isize, -1);
    last.fft(Fourier::RealForward, &[last.dim(-1)]).move_axis(-1, axis as isize)
}

/// From half of a spectrum to so many real numbers, without a factor.
fn real_inverse(x: &Tensor, axis: usize, size: usize) -> Tensor {
    let last = resized(x, axis, size / 2 + 1).move_axis(axis as isize, -1);
    scaled(&last.fft(Fourier::RealInverse, &[size]), size as f64).move_axis(-1, axis as isize)
}

fn counted(x: &Tensor, axes: &[usize]) -> f64 {
    axes.iter().map(|axis| x.dims()[*axis] as f64).product()
}

fn complex_to_complex(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = axes_of(call, "dim", x.rank())?;
    let (mode, is_forward) = (call.int("normalization", 0)?, call.bool("forward", true)?);
    let by = factor(mode, counted(&x, &axes));
    Ok(scaled(&axes.iter().fold(x, |x, axis| along(&x, *axis, is_forward)), by).into())
}

fn real_to_complex(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = axes_of(call, "dim", x.rank())?;
    let by = factor(call.int("normalization", 0)?, counted(&x, &axes));
    let Some((last, others)) = axes.split_last() else { return Err(Error::damaged("a transform of no axes")) };
    let start = match call.bool("onesided", true)? {
        true => real_forward(&x, *last),
        false => along(&complex(&x), *last, true),
    };
    Ok(scaled(&others.iter().fold(start, |x, axis| along(&x, *axis, true)), by).into())
}

fn complex_to_real(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = axes_of(call, "dim", x.rank())?;
    let size = positive(call.int("last_dim_size", 1)?)?;
    let Some((last, others)) = axes.split_last() else { return Err(Error::damaged("a transform of no axes")) };
    let by = factor(call.int("normalization", 0)?, counted(&x, others) * size as f64);
    let inner = others.iter().fold(x, |x, axis| along(&x, *axis, false));
    Ok(scaled(&real_inverse(&inner, *last, size), by).into())
}

/// What one of the `fft_*` ops does.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Forward,
    Inverse,
    RealForward,
    RealInverse,
}

/// `fft_*`: sizes, axes and the normalization by name.
fn named(call: &mut Call<'_, '_>, kind: Kind, axes: Option<usize>) -> Answer {
    let x = call.subject()?;
    let rank = x.rank();
    let (sizes, dims) = match axes {
        Some(1) => (call.optional_ints("n")?, Some(vec![call.int("dim", -1)?])),
        _ => (call.optional_ints("s")?, call.optional_ints("dim")?),
    };
    let dims = match (dims, &sizes, axes) {
        (Some(dims), _, _) => dims,
        (None, _, Some(count)) => (-(count as i64)..0).collect(),
        (None, Some(sizes), None) => (-(sizes.len() as i64)..0).collect(),
        (None, None, None) => (0..rank as i64).collect(),
    };
    let axes: Vec<usize> = dims.into_iter().map(|axis| in_rank(axis, rank)).collect::<Result<_, _>>()?;
    let results = call.result_dims()?;
    if axes.iter().any(|axis| *axis >= rank) || results.len() != rank {
        return Err(Error::damaged("a transform of an axis that is not there"));
    }
    let Some((last, others)) = axes.split_last() else { return Ok(complex(&x).into()) };
    let real = call.result_type()?;
    let x = match kind {
        Kind::RealForward => {
            cast(&x, if real == tensor::DType::C128 { tensor::DType::F64 } else { tensor::DType::F32 })
        }
        _ if x.dtype().is_complex() => x,
        _ => complex(&cast(&x, if x.dtype() == tensor::DType::F64 { tensor::DType::F64 } else { tensor::DType::F32 })),
    };
    // Each axis has the size of the result, but for the half of a real transform.
    let size = |axis: usize, n: usize| -> Result<usize, Error> {
        match sizes.as_ref().and_then(|sizes| sizes.get(n)).copied() {
            Some(-1) | None if kind == Kind::RealInverse && axis == *last => Ok(results[axis]),
            Some(-1) | None => Ok(x.dims()[axis]),
            Some(size) => positive(size),
        }
    };
    let lengths: Vec<usize> = axes.iter().enumerate().map(|(n, axis)| size(*axis, n)).collect::<Result<_, _>>()?;
    if lengths.contains(&0) {
        return Err(Error::damaged("a transform of nothing"));
    }
    let count: f64 = lengths.iter().map(|length| *length as f64).product();
    let is_forward = matches!(kind, Kind::Forward | Kind::RealForward);
    let by = match (call.text("norm").unwrap_or("backward"), is_forward) {
        ("ortho", _) => 1.0 / count.sqrt(),
        ("forward", true) | ("backward", false) => 1.0 / count,
        _ => 1.0,
    };
    let mut y = x;
    for (axis, length) in others.iter().zip(&lengths) {
        y = resized(&y, *axis, *length);
    }
    let length = lengths[lengths.len() - 1];
    let y = match kind {
        Kind::RealForward => {
            let start = real_forward(&resized(&y, *last, length), *last);
            others.iter().fold(start, |y, axis| along(&y, *axis, true))
        }
        Kind::RealInverse => {
            let inner = others.iter().fold(y, |y, axis| along(&y, *axis, false));
            real_inverse(&inner, *last, length)
        }
        _ => axes.iter().fold(resized(&y, *last, length), |y, axis| along(&y, *axis, is_forward)),
    };
    Ok(scaled(&y, by).into())
}

pub(super) const RULES: Rules = &[
    ("_fft_c2c", complex_to_complex),
    ("_fft_r2c", real_to_complex),
    ("_fft_c2r", complex_to_real),
    ("fft_fft", |c| named(c, Kind::Forward, Some(1))),
    ("fft_ifft", |c| named(c, Kind::Inverse, Some(1))),
    ("fft_rfft", |c| named(c, Kind::RealForward, Some(1))),
    ("fft_irfft", |c| named(c, Kind::RealInverse, Some(1))),
    ("fft_fft2", |c| named(c, Kind::Forward, Some(2))),
    ("fft_ifft2", |c| named(c, Kind::Inverse, Some(2))),
    ("fft_rfft2", |c| named(c, Kind::RealForward, Some(2))),
    ("fft_irfft2", |c| named(c, Kind::RealInverse, Some(2))),
    ("fft_fftn", |c| named(c, Kind::Forward, None)),
    ("fft_ifftn", |c| named(c, Kind::Inverse, None)),
    ("fft_rfftn", |c| named(c, Kind::RealForward, None)),
    ("fft_irfftn", |c| named(c, Kind::RealInverse, None)),
];
