//! States of a made-up training run: tensors that depend on the step, so that a mixture of two steps is noticed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tensor::{DType, Literal};
use testkit::Random;
use weights::{Saved, Snapshot, SnapshotPiece, Types};

/// Random bytes of a type and shape.
pub(crate) fn literal(dtype: DType, dims: &[usize], random: &mut Random) -> Literal {
    let mut literal = Literal::zeros(dtype, dims).unwrap();
    let mask = if dtype.bits() < 8 { (1u16 << dtype.bits()) as u8 - 1 } else { 0xff };
    literal.bytes_mut().iter_mut().for_each(|byte| *byte = random.next_u64() as u8 & mask);
    literal
}

/// The tensors of a step.
pub(crate) fn tensors(step: u64) -> BTreeMap<String, Literal> {
    let mut random = Random::new(step + 1);
    let kinds = [
        ("model.embed", DType::F32, vec![64, 48]),
        ("model.layers.0.w", DType::BF16, vec![48, 96]),
        ("model.layers.1.w", DType::F16, vec![96, 48]),
        ("optimizer.m", DType::F32, vec![96, 96]),
        ("optimizer.count", DType::I32, vec![]),
        ("quantized", DType::I4, vec![33]),
        ("empty", DType::F32, vec![0, 7]),
    ];
    kinds.into_iter().map(|(name, dtype, dims)| (name.to_string(), literal(dtype, &dims, &mut random))).collect()
}

/// What a step keeps beside its tensors, with numbers whose last bits matter.
pub(crate) fn metadata(step: u64) -> Value {
    let mut random = Random::new(step + 77);
    let fraction = f64::from_bits(0x3ff0_0000_0000_0000 | random.next_u64() >> 12) - 1.0;
    json!({ "step": step, "random_state": random.next_u64(), "loss": fraction, "data": { "file": "a.bin", "at": step * 512 } })
}

/// The state of a step.
pub(crate) fn snapshot(step: u64) -> Snapshot {
    let pieces = tensors(step).into_iter().map(|(name, value)| SnapshotPiece::whole(name, Arc::new(value))).collect();
    Snapshot { step, pieces, metadata: metadata(step) }
}

/// Checks that a checkpoint is exactly its step's state.
#[track_caller]
pub(crate) fn assert_exact(saved: &Saved) {
    assert_eq!(saved.metadata(), &metadata(saved.step()));
    assert_eq!(saved.read_all(Types::AsSaved).unwrap(), tensors(saved.step()));
}

/// An error with its causes, as a person sees it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
