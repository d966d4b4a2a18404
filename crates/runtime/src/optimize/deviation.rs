//! How far results of a rewritten program are from those of the program as written.

use std::sync::Arc;

use compile::optimize::narrowed;
use compile::{CacheUse, Program};
use tensor::{DType, Literal, decode_float, encode_float};

use super::partitions::PartitionedProgram;
use crate::backend::{Backend, DeviceArray, LoadedProgram, Parameters};
use crate::device::Platform;
use crate::error::Error;

/// A program compiled for trials: on the backend as it is configured, without any rewrite.
pub(super) enum Tried<'a> {
    /// On one device.
    Whole { backend: &'a Backend, model: LoadedProgram },
    /// A program for several devices, on the CPU.
    InParts(Box<PartitionedProgram>),
}

impl<'a> Tried<'a> {
    pub(super) fn new(backend: &'a Backend, program: &Program) -> Result<Tried<'a>, Error> {
        let partitions = program.partitions().and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
        if partitions > 1 && *backend.platform() == Platform::Cpu {
            return PartitionedProgram::new(program, partitions).map(|parts| Tried::InParts(Box::new(parts)));
        }
        let program = Arc::new(program.clone());
        let model = backend.prepare_as_written(&program, &Parameters::none(), CacheUse::Off)?;
        Ok(Tried::Whole { backend, model })
    }

    /// The results of one run.
    pub(super) fn run(&self, samples: &[Arc<Literal>]) -> Result<Vec<Literal>, Error> {
        let (backend, model) = match self {
            Tried::Whole { backend, model } => (backend, model),
            Tried::InParts(program) => return program.run(samples),
        };
        // Parameters may be taken in bf16; a wrong number of samples is found when the model runs.
        let wanted = model.inputs().map(|port| Some(port.spec.dtype)).chain(std::iter::repeat(None));
        let sent = samples.iter().zip(wanted).map(|(sample, wanted)| {
            backend.send(&wanted.map_or_else(|| Arc::clone(sample), |wanted| narrowed(sample, wanted)))
        });
        let sent = sent.collect::<Result<Vec<_>, _>>()?;
        model.run(&sent)?.iter().map(DeviceArray::to_host).collect()
    }
}

/// How inputs are moved to see how much results depend on their last bits: by at most half a unit of bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nudge {
    /// To the next bf16, which is what a rewrite does first of all.
    Round,
    /// Up and down by turns that look random: programs that round their inputs themselves do not notice rounding.
    Scatter,
    /// As [`Scatter`](Self::Scatter), the other way around.
    Mirror,
}

/// Half a unit of bf16, as a share of a number.
const HALF_UNIT: f32 = 1.0 / 512.0;

/// The sample with its elements moved; only f32 is wider than bf16.
fn nudged(sample: &Arc<Literal>, nudge: Nudge) -> Arc<Literal> {
    if sample.dtype() != DType::F32 {
        return Arc::clone(sample);
    }
    let mut state = 0x2545_f491_4f6c_dd1d ^ ((sample.num_elements() as u64) << 7);
    let mut move_one = |bytes: &[u8]| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let number = f32::from_le_bytes(bytes.try_into().ok()?);
        let is_up = (state >> 40) & 1 == 0;
        let moved = match nudge {
            // bf16 is the upper half of f32.
            Nudge::Round => f32::from_bits((encode_float(DType::BF16, f64::from(number))? as u32) << 16),
            Nudge::Scatter | Nudge::Mirror if is_up == (nudge == Nudge::Scatter) => number * (1.0 + HALF_UNIT),
            Nudge::Scatter | Nudge::Mirror => number * (1.0 - HALF_UNIT),
        };
        Some(moved.to_le_bytes())
    };
    let bytes: Option<Vec<[u8; 4]>> = sample.bytes().chunks_exact(4).map(&mut move_one).collect();
    let literal = bytes.and_then(|bytes| Literal::new(DType::F32, sample.dims().to_vec(), bytes.concat()));
    literal.map_or_else(|| Arc::clone(sample), Arc::new)
}

/// How far each result moves when the f32 inputs move by up to half a unit of bf16: the most that was seen in three runs. A
/// run that gives no numbers where there were some says nothing.
pub(super) fn sensitivities(
    program: &Tried<'_>,
    samples: &[Arc<Literal>],
    expected: &[Literal],
) -> Result<Vec<f64>, Error> {
    let mut most = vec![0.0; expected.len()];
    for nudge in [Nudge::Round, Nudge::Scatter, Nudge::Mirror] {
        let samples: Vec<Arc<Literal>> = samples.iter().map(|sample| nudged(sample, nudge)).collect();
        let moved = deviations(expected, &program.run(&samples)?);
        for (most, moved) in most.iter_mut().zip(moved).filter(|(_, moved)| moved.is_finite()) {
            *most = f64::max(*most, moved);
        }
    }
    Ok(most)
}

/// The [deviation] of each result.
pub(super) fn deviations(before: &[Literal], after: &[Literal]) -> Vec<f64> {
    before.iter().zip(after).map(|(before, after)| of_array(before, after)).collect()
}

/// The largest difference between two lists of results: for numbers with a fraction, as a share of the largest of their
/// array; for others, the share of elements that differ. What is not finite in one must be so in the other.
pub fn deviation(before: &[Literal], after: &[Literal]) -> f64 {
    if before.len() != after.len() {
        return f64::INFINITY;
    }
    deviations(before, after).into_iter().fold(0.0, f64::max)
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

/// Whether all numbers of an array are finite.
pub(super) fn is_finite(literal: &Literal) -> bool {
    let dtype = literal.dtype();
    let part = dtype.complex_part().unwrap_or(dtype);
    !part.is_float() || floats(part, literal).iter().all(|x| x.is_finite())
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
    fn inputs_move_by_at_most_half_a_unit_of_bf16() {
        let sample = Arc::new(f32s(&[1.0, -3.001, 0.0, 1e-3, f32::INFINITY]));
        for nudge in [Nudge::Round, Nudge::Scatter, Nudge::Mirror] {
            let moved = floats(DType::F32, &nudged(&sample, nudge));
            for (before, after) in floats(DType::F32, &sample).into_iter().zip(moved) {
                assert!(before == after || ((after - before) / before).abs() <= 1.001 / 512.0, "{before} {after}");
            }
        }
        assert_eq!(nudged(&sample, Nudge::Round).bytes()[..4], 1f32.to_le_bytes());
        let (scatter, mirror) = (nudged(&sample, Nudge::Scatter), nudged(&sample, Nudge::Mirror));
        assert_ne!(scatter.bytes()[..4], mirror.bytes()[..4]);
        let words = Arc::new(Literal::new(DType::I32, [1], vec![1, 0, 0, 0]).unwrap());
        assert_eq!(nudged(&words, Nudge::Scatter).bytes(), words.bytes());
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
