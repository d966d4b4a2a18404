//! Matmuls of few rows, which wait for their weights or keys and values: fewer bits of these are less to wait for.

use super::{Advice, AdviceKind, Scene, places};
use crate::estimate::OpLine;
use crate::memory::{BufferClass, ProgramArgument};
use crate::op_time::Bound;
use crate::quality::{INT4_COST, INT8_COST};
use crate::work::Work;

/// Multiply-adds for each byte read below which an operand is most of what a matmul reads: as many rows.
const FEW_ROWS: f64 = 64.0;

/// Matmuls of inference that are limited by device memory and read operands of 16 bits and more.
pub(super) fn few_bits(scene: &Scene<'_>, arguments: &[ProgramArgument]) -> Option<Advice> {
    if arguments.iter().any(|argument| argument.class == BufferClass::OptimizerState) {
        return None;
    }
    let mut found: Vec<(f64, &OpLine)> = Vec::new();
    for (op, id) in scene.ops().filter(|(op, _)| op.bound == Bound::Hbm && op.flops > 0.0) {
        let work = Work::of(scene.module, &scene.users, id);
        if work.narrow.is_empty() && op.flops < FEW_ROWS * op.hbm_bytes {
            // In 8 bits, half of it.
            found.push((op.seconds / 2.0, op));
        }
    }
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    let title =
        format!("{} matmuls of few rows wait for device memory; in 8 bits they would wait half as long", found.len());
    let remedy = format!(
        "serve the model with weights of 8 bits ({INT8_COST}) or 4 bits ({INT4_COST}) and a KV cache of 8: `tpu plan MODEL --step decode \
         --weights dense,w8a16,w4a16 --kv-cache bf16,int8` compares them"
    );
    Some(Advice::new(AdviceKind::FewBits, title, remedy, gain).at(places(found)))
}
