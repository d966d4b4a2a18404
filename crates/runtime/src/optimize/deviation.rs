//! How far results of a rewritten program are from those of the program as written.

use std::sync::Arc;

use tensor::{DType, Literal, decode_float};

use crate::CacheUse;
use crate::backend::{Backend, DeviceArray, Parameters};
use crate::error::Error;
use crate::program::Program;

/// Runs a program on sample inputs: on the backend as it is configured, without any rewrite.
pub(super) fn run(backend: &Backend, program: &Arc<Program>, samples: &[Arc<Literal>]) -> Result<Vec<Literal>, Error> {
    let model = backend.prepare_as_written(program, &Parameters::none(), CacheUse::Off)?;
    let sent = samples.iter().map(|sample| backend.send(sample)).collect::<Result<Vec<_>, _>>()?;
    model.run(&sent)?.iter().map(DeviceArray::to_host).collect()
}

/// The largest difference between two lists of results: for numbers with a fraction, as a share of the largest of their
/// array; for others, the share of elements that differ. What is not finite in one must be so in the other.
pub fn deviation(before: &[Literal], after: &[Literal]) -> f64 {
    if before.len() != after.len() {
        return f64::INFINITY;
    }
    before.iter().zip(after).map(|(before, after)| of_array(before, after)).fold(0.0, f64::max)
}

fn of_array(before: &Literal, after: &Literal) -> f64 {
    let dtype = before.dtype();
    if dtype != after.dtype() || before.dims() != after.dims() {
        return f64::INFINITY;
    }
    let part = dtype.complex_part().unwrap_or(dtype);
    if !part.is_float() {
        let width = dtype.size_bytes();
        let pairs = before.bytes().chunks_exact(width).zip(after.bytes().chunks_exact(width));
        let different = pairs.filter(|(a, b)| a != b).count();
        return different as f64 / before.num_elements().max(1) as f64;
    }
    let (before, after) = (floats(part, before), floats(part, after));
    let largest = before.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()));
    let difference = |(&a, &b): (&f64, &f64)| match (a.is_finite(), b.is_finite()) {
        (true, true) => (a - b).abs(),
        (false, false) if a == b || a.is_nan() && b.is_nan() => 0.0,
        _ => f64::INFINITY,
    };
    let most = before.iter().zip(&after).map(difference).fold(0.0, f64::max);
    if most == 0.0 { 0.0 } else { most / largest }
}

fn floats(part: DType, literal: &Literal) -> Vec<f64> {
    let read = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        decode_float(part, u64::from_le_bytes(word)).unwrap_or(f64::NAN)
    };
    literal.bytes().chunks_exact(part.size_bytes()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Literal {
        Literal::new(DType::F32, [values.len()], values.iter().flat_map(|x| x.to_le_bytes()).collect()).unwrap()
    }

    #[test]
    fn differences_are_shares() {
        let check = |a: &[f32], b: &[f32], expected: f64| assert_eq!(deviation(&[f32s(a)], &[f32s(b)]), expected);
        check(&[1.0, -4.0], &[2.0, -4.0], 0.25);
        check(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], 0.0);
        check(&[f32::NAN, 1.0], &[0.0, 1.0], f64::INFINITY);
        check(&[f32::INFINITY], &[f32::NEG_INFINITY], f64::INFINITY);
        check(&[0.0], &[0.0], 0.0);
        let words = |bytes: &[u8]| Literal::new(DType::U8, [bytes.len()], bytes.to_vec()).unwrap();
        assert_eq!(deviation(&[words(&[1, 2, 3, 4])], &[words(&[1, 9, 3, 4])]), 0.25);
        assert_eq!(deviation(&[], &[f32s(&[])]), f64::INFINITY);
    }
}
