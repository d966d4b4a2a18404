//! Traced functions on inputs of changing lengths: few programs, the results of exact shapes.

use std::sync::Arc;

use compile::optimize::ComputePrecision;
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, BucketedAxis, BucketedJit, Buckets, Error, Jit, TreeArrays, ValidationError, not_padding};
use tensor::{DType, Literal, Spec};
use trace::{Donate, Tensor};

type Inputs = (Tensor, Tensor);

const WIDTH: usize = 3;

fn backend() -> Backend {
    Backend::auto(&Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32)).unwrap()
}

fn floats(dims: &[usize], value: impl Fn(usize) -> f32) -> Arc<Literal> {
    let bytes = (0..dims.iter().product()).flat_map(|n| value(n).to_le_bytes()).collect();
    Arc::new(Literal::new(DType::F32, dims, bytes).unwrap())
}

fn read(literal: &Literal) -> Vec<f32> {
    literal.bytes().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Scores of rows, and their softmax over all rows: every row sees every other.
fn scores(weights: &Tensor, rows: &Tensor) -> Tensor {
    rows.einsum("td,d->t", weights)
}

fn bucketed(backend: &Backend) -> BucketedJit<Inputs, (Tensor, Tensor)> {
    let axis = BucketedAxis::new("length", Buckets::powers_of_two(4..=64)).input("1", 0).result("0", 0);
    BucketedJit::new(backend, "attend", Donate::Nothing, [axis], |(weights, rows): &Inputs, lengths| {
        let scores = scores(weights, rows);
        let is_there = not_padding(&lengths["length"], rows.dim(0));
        let seen = is_there.select(&scores, &Tensor::scalar(DType::F32, -1e30)).softmax(-1);
        (seen.clone(), seen.einsum("t,td->d", rows))
    })
    .unwrap()
}

#[test]
fn fifty_lengths_take_five_programs_and_give_exact_results() {
    let backend = backend();
    let weights = floats(&[WIDTH], |n| n as f32 - 0.7);
    let on_device = Tensor::from(backend.send(&weights).unwrap());
    let mut padded = bucketed(&backend);
    // The peer: the same function without padding, compiled for every length.
    let mut exact: Jit<Inputs, (Tensor, Tensor)> =
        Jit::new(&backend, "exact", Donate::Nothing, |(weights, rows): &Inputs| {
            let seen = scores(weights, rows).softmax(-1);
            (seen.clone(), seen.einsum("t,td->d", rows))
        });
    for length in 1..=50 {
        let rows = floats(&[length, WIDTH], |n| ((n * 37 + length) % 11) as f32 / 5.0 - 1.0);
        let given = (on_device.clone(), Tensor::on_host(rows));
        let results = padded.call(&given).unwrap().to_host().unwrap();
        let expected = exact.call(given).unwrap().to_literals().unwrap();
        for ((path, ours), (_, theirs)) in results.iter().zip(&expected) {
            assert_eq!(ours.dims(), theirs.dims(), "{path} of {length}");
            for (a, b) in read(ours).iter().zip(read(theirs)) {
                assert!((a - b).abs() < 1e-5, "{path} of {length}: {a} {b}");
            }
        }
    }
    assert_eq!(exact.num_compiled(), 50);
    // 4, 8, 16, 32, 64.
    assert_eq!(padded.num_compiled(), 5);
}

#[test]
fn what_does_not_fit_is_refused() {
    let backend = backend();
    let mut padded = bucketed(&backend);
    let weights = floats(&[WIDTH], |_| 1.0);
    let weights = Tensor::on_host(weights);
    let given = |length: usize| (weights.clone(), Tensor::on_host(floats(&[length, WIDTH], |_| 1.0)));
    let beyond = padded.call(&given(65)).unwrap_err();
    assert!(
        matches!(&beyond, Error::Validation(ValidationError::BeyondBuckets { size: 65, largest: 64, .. })),
        "{beyond}"
    );
    let shape = (weights.clone(), Tensor::of(Spec::new(DType::F32, [4, WIDTH])));
    let error = padded.call(&shape).unwrap_err();
    assert!(matches!(&error, Error::Validation(ValidationError::NoValue { name, .. }) if name == "0.1"), "{error}");
    // What is on the device is taken as it is, if it need not be padded.
    let sent = |length| Tensor::from(backend.send(&floats(&[length, WIDTH], |_| 1.0)).unwrap());
    assert!(padded.call(&(weights.clone(), sent(8))).is_ok());
    let error = padded.call(&(weights.clone(), sent(7))).unwrap_err();
    assert!(error.to_string().contains("give it on the host"), "{error}");
    assert_eq!(padded.num_compiled(), 1);
    let make = |axis: BucketedAxis| {
        BucketedJit::<Inputs, Tensor>::new(&backend, "f", Donate::Nothing, [axis], |(a, _), _| a.clone())
    };
    assert!(make(BucketedAxis::new("n", Buckets::of([]))).is_err_and(|error| error.to_string().contains("no buckets")));
    assert!(make(BucketedAxis::new("n", Buckets::of([4]))).is_err_and(|error| error.to_string().contains("no input")));
    let mut absent = make(BucketedAxis::new("n", Buckets::of([4])).input("7", 0)).unwrap();
    let error = absent.call(&given(2)).unwrap_err();
    assert!(error.to_string().contains("input `7`"), "{error}");
    let twice = BucketedAxis::new("n", Buckets::of([4])).input("0", 0).input("1", 0);
    let error = make(twice).unwrap().call(&given(2)).unwrap_err();
    assert!(error.to_string().contains("is 3 in `0` and 2 in `1`"), "{error}");
}
