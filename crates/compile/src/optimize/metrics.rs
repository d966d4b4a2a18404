//! What a program costs, before and after it is rewritten.

use hlo::Module;
use serde::Serialize;

/// Costs of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProgramMetrics {
    /// Ops of all functions.
    pub ops: u64,
    /// Floating-point operations of one run, as [`hlo::cost`] counts them.
    pub flops: f64,
    /// Bytes one run moves, as [`hlo::cost`] counts them.
    pub bytes: f64,
    /// Device memory the compiler plans for it, where a compiler was given.
    pub hbm_bytes: Option<u64>,
    /// Bytes one run accesses by the compiler's own count, where a compiler was given.
    pub accessed_bytes: Option<f64>,
}

impl ProgramMetrics {
    /// Counts what can be counted without a compiler.
    pub fn of(module: &Module) -> ProgramMetrics {
        let cost = hlo::cost::cost(module);
        let ops = module.funcs.iter().map(|func| func.ops.len() as u64).sum();
        ProgramMetrics { ops, flops: cost.flops, bytes: cost.bytes, hbm_bytes: None, accessed_bytes: None }
    }
}
