//! Discrete Fourier transforms of any length over the last one to three dimensions.

use std::f64::consts::PI;

use hlo::{Keyword, OpKind, TensorType};
use tensor::DType;

use super::context::{Context, Eval};
use super::contraction::{complexes, floats};
use super::positions;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round};
use crate::attributes;
use crate::error::Error;

/// Prime lengths above this are transformed by Bluestein's convolution.
const LARGEST_DIRECT_PRIME: usize = 61;

/// The meaning of an op of this family.
pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    match kind {
        OpKind::Fft => Some(fft),
        _ => None,
    }
}

fn fft(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let kind = attributes::keyword(context.op, "fft_type")?;
    let lengths = attributes::ints(context.op, "fft_length")?;
    let operand = context.tensor(0)?;
    let rank = operand.dims().len();
    let Some(first) = rank.checked_sub(lengths.len()).filter(|_| !lengths.is_empty()) else {
        return context.fail("fft_length does not fit the operand");
    };
    let last = lengths[lengths.len() - 1];
    let half = last / 2 + 1;
    let mut dims = operand.dims().to_vec();
    let expected = match kind {
        Keyword::Irfft => [&lengths[..lengths.len() - 1], &[half]].concat(),
        _ => lengths.clone(),
    };
    let is_empty = dims.contains(&0);
    if dims[first..] != expected && !is_empty {
        return context.fail(format!("lengths {lengths:?} do not fit an operand of sizes {dims:?}"));
    }
    let mut values = complexes(&operand.elements);
    let backward =
        if matches!(kind, Keyword::Ifft | Keyword::Irfft) { Direction::Backward } else { Direction::Forward };
    match kind {
        Keyword::Fft | Keyword::Ifft => {
            for axis in (first..rank).rev() {
                along(&mut values, &dims, axis, |row| transform(row, backward));
            }
            let ty = TensorType::new(dims, operand.ty.element.clone());
            let dtype = operand.dtype();
            let elements = Elements::Complex(values.into_iter().map(|x| x.rounded(dtype)).collect());
            Ok(vec![TensorValue { ty, elements }.into()])
        }
        Keyword::Rfft => {
            let mut values: Vec<Complex> =
                floats(&operand.elements)?.into_iter().map(|re| Complex::new(re, 0.0)).collect();
            along(&mut values, &dims, rank - 1, |row| transform(row, Direction::Forward));
            let width = dims[rank - 1].max(0) as usize;
            let keep = half as usize;
            dims[rank - 1] = if is_empty && last == 0 { 0 } else { half };
            let mut values: Vec<Complex> = match width {
                0 => Vec::new(),
                width => values.chunks(width).flat_map(|row| row[..keep].to_vec()).collect(),
            };
            for axis in (first..rank - 1).rev() {
                along(&mut values, &dims, axis, |row| transform(row, Direction::Forward));
            }
            let (dtype, part) =
                if operand.dtype() == DType::F64 { (DType::C128, DType::F64) } else { (DType::C64, DType::F32) };
            let values: Vec<Complex> =
                values.into_iter().map(|x| Complex { re: round(part, x.re), im: round(part, x.im) }).collect();
            let count = positions::count(context, &dims)?;
            let values = if values.len() == count { values } else { vec![Complex::default(); count] };
            Ok(vec![TensorValue { ty: TensorType::new(dims, dtype), elements: Elements::Complex(values) }.into()])
        }
        Keyword::Irfft => {
            for axis in first..rank - 1 {
                along(&mut values, &dims, axis, |row| transform(row, Direction::Backward));
            }
            let width = dims[rank - 1].max(0) as usize;
            dims[rank - 1] = last;
            let count = positions::count(context, &dims)?;
            let part = operand.dtype().complex_part().unwrap_or(DType::F64);
            let mut out = Vec::with_capacity(count);
            for row in values.chunks(width.max(1)) {
                if last == 0 {
                    break;
                }
                // The upper half of the spectrum of a real signal mirrors the lower half.
                let n = last as usize;
                let mut full: Vec<Complex> =
                    (0..n).map(|k| if k < row.len() { row[k] } else { row[n - k].conjugate() }).collect();
                full[0].im = 0.0;
                if n.is_multiple_of(2) {
                    full[n / 2].im = 0.0;
                }
                transform(&mut full, Direction::Backward);
                out.extend(full.into_iter().map(|x| round(part, x.re)));
            }
            if out.len() != count {
                out = vec![0.0; count];
            }
            Ok(vec![TensorValue { ty: TensorType::new(dims, part), elements: Elements::Float(out) }.into()])
        }
        other => context.fail(format!("{} is no transform", other.word())),
    }
}

/// Applies a function to every row along an axis.
fn along(values: &mut [Complex], dims: &[i64], axis: usize, mut each: impl FnMut(&mut Vec<Complex>)) {
    let strides = positions::strides(dims);
    let others = positions::others(dims.len(), &[&[axis as i64]]);
    for base in positions::offsets(dims, &strides, &others) {
        let places = (0..dims[axis] as usize).map(|i| base + i * strides[axis]);
        let mut row: Vec<Complex> = places.clone().map(|at| values[at]).collect();
        each(&mut row);
        places.zip(row).for_each(|(at, x)| values[at] = x);
    }
}

/// Which of the two transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From signal to spectrum.
    Forward,
    /// From spectrum to signal, divided by the length.
    Backward,
}

/// The transform of a row, in place.
pub(crate) fn transform(row: &mut Vec<Complex>, direction: Direction) {
    let n = row.len();
    if n < 2 {
        return;
    }
    match direction {
        Direction::Forward => *row = forward(row),
        Direction::Backward => {
            // The inverse is the conjugate of the transform of the conjugate.
            row.iter_mut().for_each(|x| *x = x.conjugate());
            *row = forward(row).into_iter().map(|x| x.conjugate().scaled(1.0 / n as f64)).collect();
        }
    }
}

/// `exp(-2πi k / n)`, exact at multiples of a quarter turn.
fn root(k: usize, n: usize) -> Complex {
    let k = k % n;
    match 4 * k {
        0 => Complex::new(1.0, 0.0),
        q if q == n => Complex::new(0.0, -1.0),
        q if q == 2 * n => Complex::new(-1.0, 0.0),
        q if q == 3 * n => Complex::new(0.0, 1.0),
        _ => {
            let (sin, cos) = (2.0 * PI * k as f64 / n as f64).sin_cos();
            Complex::new(cos, -sin)
        }
    }
}

/// Splits by the smallest prime factor; the depth is at most the number of factors.
fn forward(row: &[Complex]) -> Vec<Complex> {
    let n = row.len();
    if n < 2 {
        return row.to_vec();
    }
    let factor = (2..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)).unwrap_or(n);
    if factor == n {
        return if n <= LARGEST_DIRECT_PRIME { direct(row) } else { bluestein(row) };
    }
    let parts: Vec<Vec<Complex>> =
        (0..factor).map(|p| forward(&row.iter().skip(p).step_by(factor).copied().collect::<Vec<_>>())).collect();
    let length = n / factor;
    let roots: Vec<Complex> = (0..n).map(|k| root(k, n)).collect();
    (0..n)
        .map(|k| {
            let term = |p: usize| parts[p][k % length].times(roots[p * k % n]);
            (0..factor).map(term).fold(Complex::default(), Complex::plus)
        })
        .collect()
}

fn direct(row: &[Complex]) -> Vec<Complex> {
    let n = row.len();
    let roots: Vec<Complex> = (0..n).map(|k| root(k, n)).collect();
    (0..n)
        .map(|k| row.iter().enumerate().fold(Complex::default(), |sum, (j, x)| sum.plus(x.times(roots[j * k % n]))))
        .collect()
}

/// A transform of any length as a convolution of a power-of-two length.
fn bluestein(row: &[Complex]) -> Vec<Complex> {
    let n = row.len();
    let m = (2 * n - 1).next_power_of_two();
    // exp(-πi j² / n): the square is reduced modulo 2n before it loses bits.
    let chirp: Vec<Complex> =
        (0..n).map(|j| root(((j as u128 * j as u128) % (2 * n as u128)) as usize, 2 * n)).collect();
    let mut a = vec![Complex::default(); m];
    let mut b = vec![Complex::default(); m];
    for j in 0..n {
        a[j] = row[j].times(chirp[j]);
        b[j] = chirp[j].conjugate();
        if j > 0 {
            b[m - j] = chirp[j].conjugate();
        }
    }
    let (a, b) = (forward(&a), forward(&b));
    let mut product: Vec<Complex> = a.iter().zip(&b).map(|(x, y)| x.times(*y)).collect();
    transform(&mut product, Direction::Backward);
    (0..n).map(|k| product[k].times(chirp[k])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_transforms_equal_the_definition() {
        for n in [1, 2, 3, 4, 6, 8, 12, 15, 17, 64, 67, 134, 360] {
            let row: Vec<Complex> =
                (0..n).map(|i| Complex::new((i * i % 7) as f64 - 2.0, (i % 5) as f64 * 0.5)).collect();
            let (fast, slow) = (forward(&row), direct(&row));
            for (a, b) in fast.iter().zip(&slow) {
                assert!(a.minus(*b).magnitude() < 1e-9 * n as f64, "{n}: {a:?} is not {b:?}");
            }
            let mut back = row.clone();
            transform(&mut back, Direction::Forward);
            transform(&mut back, Direction::Backward);
            assert!(back.iter().zip(&row).all(|(a, b)| a.minus(*b).magnitude() < 1e-10 * n as f64));
        }
    }
}
