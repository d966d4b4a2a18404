//! Random numbers against JAX's: bit for bit, or within rounding where functions are computed.

use std::process::Command;

use tensor::{DType, Literal};
use testkit::{Needed, require};
use trace::{Key, Rows, Tensor, scan};

use crate::run::{Device, literal, numbers, read_arrays};

/// How far a stream may be from JAX's, relative to numbers larger than 1.
const SAME: f64 = 0.0;

/// Every stream under the name the Python side gives it.
fn streams(key: &Key, logits: &Tensor) -> Vec<(&'static str, Tensor, f64)> {
    let f32s = DType::F32;
    let categorical = {
        let (_, drawn) = scan(&(), &key.stacked(50), None, |_, key| ((), key.categorical(logits, -1)));
        drawn
    };
    let (_, in_scan) = scan(&Tensor::zeros(f32s, &[3]), &key.stacked(4), None, |sum, key| {
        (sum + &key.uniform(f32s, &[3], 0.0, 1.0), key.bits(DType::U32, &[2]))
    });
    let split = Tensor::stack(&key.split(5).iter().map(|key| key.data().clone()).collect::<Vec<_>>(), 0);
    vec![
        ("key", key.data().clone(), SAME),
        ("key_of_scalar", Key::from_seed(&Tensor::scalar(DType::I32, -7.0)).data().clone(), SAME),
        ("key_of_64_bits", Key::from_seed(0x1234_5678_9ABC_DEF0).data().clone(), SAME),
        ("split", split, SAME),
        ("fold_in", key.fold_in(7).data().clone(), SAME),
        ("fold_in_twice", key.fold_in(1).fold_in(0xFFFF_FFFF).data().clone(), SAME),
        ("bits_8", key.bits(DType::U8, &[5, 33]), SAME),
        ("bits_16", key.bits(DType::U16, &[5, 33]), SAME),
        ("bits_32", key.bits(DType::U32, &[5, 33]), SAME),
        ("bits_64", key.bits(DType::U64, &[5, 33]), SAME),
        ("uniform", key.uniform(f32s, &[1000], 0.0, 1.0), SAME),
        ("uniform_between", key.uniform(f32s, &[3, 100], -2.0, 6.0), SAME),
        ("uniform_bf16", key.uniform(DType::BF16, &[7, 31], 0.0, 1.0), SAME),
        ("uniform_bf16_between", key.uniform(DType::BF16, &[200], -1.0, 1.0), SAME),
        ("uniform_f16", key.uniform(DType::F16, &[200], 0.0, 1.0), SAME),
        ("uniform_f64", key.uniform(DType::F64, &[100], 0.0, 1.0), SAME),
        ("uniform_scalar", key.uniform(f32s, &[], 0.0, 1.0), SAME),
        ("normal", key.normal(f32s, &[50, 40]), 1e-6),
        ("normal_bf16", key.normal(DType::BF16, &[500]), 8e-3),
        ("truncated_normal", key.truncated_normal(f32s, &[1000], -2.0, 2.0), 2e-6),
        ("truncated_normal_uneven", key.truncated_normal(f32s, &[1000], -0.5, 3.0), 2e-6),
        ("bernoulli", key.bernoulli(0.3, &[1000]), SAME),
        ("gumbel", key.gumbel(f32s, &[500]), 1e-6),
        ("categorical", categorical, SAME),
        ("permutation", key.permutation(1000), SAME),
        ("permutation_of_many", key.permutation(3000), SAME),
        ("randint", key.randint(DType::I32, &[1000], -5, 1000), SAME),
        ("randint_wide", key.randint(DType::I32, &[1000], -2_000_000_000, 2_000_000_000), SAME),
        ("randint_u8", key.randint(DType::U8, &[1000], 0, 256), SAME),
        ("randint_i16", key.randint(DType::I16, &[1000], -100, 30_000), SAME),
        ("dropout_in_scan", in_scan, SAME),
    ]
}

#[test]
fn streams_are_those_of_jax() {
    let Some(python) = require("streams_are_those_of_jax", Needed::Python) else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = testkit::repository().join("crates/testkit/python/random_streams.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = read_arrays(folder.path());

    let logits = [0.1, 2.0, -1.0, 0.5, 3.0, 0.0, 0.0, 1.0, -1.0, -1.0, 0.0, 0.0];
    let mut listed = Vec::new();
    let drawn = Device::new().run(&[literal(DType::F32, &[3, 4], &logits)], |inputs| {
        let streams = streams(&Key::from_seed(42), &inputs[0]);
        listed.extend(streams.iter().map(|(name, _, tolerance)| (*name, *tolerance)));
        streams.into_iter().map(|(_, tensor, _)| tensor).collect()
    });
    assert_eq!(listed.len(), expected.len(), "every stream of the Python side is compared");
    for ((name, tolerance), have) in listed.into_iter().zip(drawn) {
        let want = &expected[name];
        assert_eq!(have.dims(), want.dims(), "{name}");
        if have.dtype().bits() == 64 && !have.dtype().is_float() {
            assert_eq!(have.bytes(), want.bytes(), "{name}");
        }
        for (at, (have, want)) in numbers(&have).into_iter().zip(numbers(want)).enumerate() {
            let apart = (have - want).abs() / want.abs().max(1.0);
            assert!(apart <= tolerance, "{name}[{at}] is {have}, JAX has {want}");
        }
    }
}

#[test]
fn a_seed_that_is_an_input_gives_the_same_key() {
    let device = Device::new();
    let seed = Literal::new(DType::I64, [], 0x1234_5678_9ABC_DEF0i64.to_le_bytes().to_vec()).unwrap();
    let keys = device.run(&[seed], |inputs| {
        vec![Key::from_seed(&inputs[0]).data().clone(), Key::from_seed(0x1234_5678_9ABC_DEF0).data().clone()]
    });
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn rows_of_a_larger_tensor_are_drawn_as_there() {
    let drawn = Device::new().run(&[], |_| {
        let key = Key::from_seed(7);
        let first = Tensor::scalar(DType::I32, 2.0);
        let rows = key.bernoulli_rows(0.4, &[4, 5], &Rows { first, every: 3, of: 12 });
        vec![key.bernoulli(0.4, &[12, 5]).reshape(&[4, 3, 5]).at(1, 2), rows]
    });
    assert_eq!(drawn[0], drawn[1]);
}
