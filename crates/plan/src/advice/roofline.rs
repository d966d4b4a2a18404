//! Where a program and its hot operations lie under the machine's roof: operations for each byte against what the machine needs.

use chips::{ComputeBoundBatch, Slice};
use serde::Serialize;

use crate::estimate::Estimate;
use crate::machine::Machine;
use crate::op_time::Bound;

/// Operations an analysis lists.
const LISTED: usize = 20;

/// A program under the machine's roof.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// FLOPs of matmuls for each byte of device memory that the step moves.
    pub intensity: f64,
    /// What the machine needs to be limited by its MXUs: peak rate over bandwidth.
    pub machine_intensity: f64,
    /// The smallest batches on a device at which a matmul is limited by its matrix units.
    pub compute_bound_batch: ComputeBoundBatch,
    /// Peak rate of one device, operations per second.
    pub peak_flops_per_s: f64,
    /// Bandwidth of device memory, bytes per second.
    pub hbm_bytes_per_s: f64,
    /// What the step reaches, operations per second.
    pub reached_flops_per_s: f64,
    /// Hot operations, most time first.
    pub ops: Vec<RooflineOp>,
}

/// An operation under the roof.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RooflineOp {
    /// Name of the instruction.
    pub name: String,
    /// Name the source gave it.
    pub source: String,
    /// Seconds in a step.
    pub seconds: f64,
    /// Operations for each byte of device memory; none where it moves no byte.
    pub intensity: Option<f64>,
    /// Operations per second that it reaches.
    pub flops_per_s: f64,
    /// Share of what the roof allows at its intensity.
    pub share_of_roof: f64,
    /// What limits it.
    pub bound: Bound,
}

impl Roofline {
    /// Places an estimate under the roof of its slice.
    pub fn of(estimate: &Estimate, slice: &Slice) -> Roofline {
        let machine = Machine::of(slice);
        let (peak, bandwidth) = (machine.bf16_flops, machine.hbm_bytes_per_s);
        let bytes: f64 = estimate.ops.iter().map(|op| op.hbm_bytes).sum();
        let op = |op: &crate::estimate::OpLine| {
            let seconds = op.seconds.max(1e-12);
            let from_memory = op.hbm_bytes / bandwidth;
            let from_units = op.flops / peak;
            RooflineOp {
                name: op.name.clone(),
                source: op.source.clone(),
                seconds: op.seconds,
                intensity: (op.hbm_bytes > 0.0).then(|| op.flops / op.hbm_bytes + 0.0),
                flops_per_s: op.flops / seconds,
                share_of_roof: (from_memory.max(from_units) / seconds).min(1.0),
                bound: op.bound,
            }
        };
        Roofline {
            intensity: estimate.flops / bytes.max(1.0),
            machine_intensity: peak / bandwidth,
            compute_bound_batch: slice.spec().compute_bound_batch(),
            peak_flops_per_s: peak,
            hbm_bytes_per_s: bandwidth,
            reached_flops_per_s: estimate.flops / estimate.step.seconds.max(1e-12),
            ops: estimate.ops.iter().take(LISTED).map(op).collect(),
        }
    }
}
