//! Traced functions run on the CPU device, and what PyTorch makes of the same.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use compile::Program;
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Parameters};
use tensor::{DType, Literal};
use testkit::{Needed, repository, require};
use trace::{Donate, Function, Key, Tensor, Tree};

/// A program on the CPU device, compiled once.
pub(crate) fn prepared(function: &Function) -> impl Fn(&[Literal]) -> Vec<Literal> {
    let backend = Backend::auto(&Config::new(Mode::Training).device(Target::Cpu)).unwrap();
    let program = Arc::new(Program::from_module(function.module.clone()));
    let model = backend.prepare_program(&program, &Parameters::none()).unwrap();
    move |inputs| {
        let inputs: Vec<_> = inputs.iter().map(|input| backend.send(&Arc::new(input.clone())).unwrap()).collect();
        model.run(&inputs).unwrap().iter().map(|output| output.to_host().unwrap()).collect()
    }
}

/// Runs a program on the CPU device.
pub(crate) fn run(function: &Function, inputs: &[Literal]) -> Vec<Literal> {
    prepared(function)(inputs)
}

/// Traces a function of these literals and runs it; `shapes` is the structure they fill.
pub(crate) fn apply<I: Tree, O: Tree>(shapes: &I, inputs: &[Literal], f: impl FnOnce(&I) -> O) -> Vec<Literal> {
    let (function, _) = trace::trace("test", shapes, Donate::Nothing, f).unwrap_or_else(|error| panic!("{error}"));
    run(&function, inputs)
}

/// Traces a function of a key and runs it with a seed.
pub(crate) fn with_key<O: Tree>(seed: u64, f: impl FnOnce(&Key) -> O) -> Vec<Literal> {
    apply(&(), &[], |()| f(&Key::from_seed(seed)))
}

/// The only number of a result.
pub(crate) fn number(literal: &Literal) -> f32 {
    assert_eq!(literal.num_elements(), 1, "{:?}", literal.dims());
    floats(literal)[0]
}

pub(crate) fn floats(literal: &Literal) -> Vec<f32> {
    assert_eq!(literal.dtype(), DType::F32);
    literal.bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

pub(crate) fn of_floats(dims: &[usize], values: &[f32]) -> Literal {
    Literal::new(DType::F32, dims, values.iter().flat_map(|value| value.to_le_bytes()).collect()).unwrap()
}

pub(crate) fn of_ints(dims: &[usize], values: &[i32]) -> Literal {
    Literal::new(DType::I32, dims, values.iter().flat_map(|value| value.to_le_bytes()).collect()).unwrap()
}

pub(crate) fn shape_of(literal: &Literal) -> Tensor {
    Tensor::of(trace::Spec::new(literal.dtype(), literal.dims()))
}

/// The largest difference, relative to the largest expected number.
pub(crate) fn off_by(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let largest = expected.iter().fold(1e-6f32, |largest, value| largest.max(value.abs()));
    let differences = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // A NaN must not pass as small.
    differences.fold(0.0f32, |most, d| if d.is_nan() { f32::INFINITY } else { most.max(d) }) / largest
}

/// The largest difference of two tensors, inside a traced function.
pub(crate) fn difference(one: &Tensor, other: &Tensor) -> Tensor {
    let (one, other) = (one.cast(DType::F32), other.cast(DType::F32));
    let all: Vec<usize> = (0..one.rank()).collect();
    (&one - &other).abs().max(&all) / other.abs().max(&all).maximum(&Tensor::scalar(DType::F32, 1e-6))
}

/// What the peer makes of one of its tasks, in a folder; `None` after reporting the skip.
pub(crate) fn peer(test: &str, task: &str, folder: &Path) -> Option<PathBuf> {
    let python = require(test, Needed::TorchPython)?;
    let script = repository().join("crates/testkit/python/nn_peer.py");
    let output = Command::new(python).arg(script).arg(task).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder.to_path_buf())
}
