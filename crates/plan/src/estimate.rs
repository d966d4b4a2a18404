//! The estimate of a step: how long, what limits it, where the time goes.

use std::collections::BTreeMap;

use chips::Slice;
use serde::Serialize;
use xla::HloModule;

use crate::machine::{Machine, MeasuredRates};
use crate::op_time::Bound;
use crate::simulate::{OpCost, Simulation, simulate};

/// What the caller knows about a step that the program does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Workload {
    /// Tokens (or samples) that all devices together work through in a step.
    pub tokens_per_step: Option<f64>,
    /// Operations that the model needs in a step on all devices together, by whatever convention the caller uses; without it the
    /// utilization counts what the program does.
    pub model_flops_per_step: Option<f64>,
    /// Rates measured on chips of the slice, in place of the usual ones.
    #[serde(skip)]
    pub rates: MeasuredRates,
}

/// How long a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepTime {
    /// Seconds, the single best figure.
    pub seconds: f64,
    /// One published run in ten took less than this share of its estimate lets expect.
    pub low_s: f64,
    /// One in ten took more.
    pub high_s: f64,
}

/// Seconds of a step that one thing takes or is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// What.
    pub bound: Bound,
    /// Seconds.
    pub seconds: f64,
    /// Share of the step.
    pub share: f64,
}

/// Transfers of a step beside the core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransferTime {
    /// What they travel over.
    pub lane: Bound,
    /// Seconds they are under way.
    pub seconds: f64,
    /// Seconds of these that the core waits.
    pub exposed_s: f64,
}

/// One instruction, or all of one name, in a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpLine {
    /// Name of the instruction.
    pub name: String,
    /// Operation.
    pub opcode: String,
    /// Shape of its result.
    pub shape: String,
    /// Name the source gave it, if the program carries one.
    pub source: String,
    /// Executions in a step.
    pub executions: f64,
    /// Seconds in a step.
    pub seconds: f64,
    /// What limits it, or what it waits for.
    pub bound: Bound,
    /// FLOPs of matmuls in a step.
    pub flops: f64,
    /// Bytes of device memory in a step.
    pub hbm_bytes: f64,
}

/// The estimate of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Slice, in canonical form.
    pub slice: String,
    /// Devices of the slice.
    pub devices: u64,
    /// How long.
    pub step: StepTime,
    /// Where the time goes, most first.
    pub shares: Vec<Share>,
    /// Transfers beside the core.
    pub transfers: Vec<TransferTime>,
    /// FLOPs of matmuls on one device in a step, as the program runs them, rematerialized ones included.
    pub flops: f64,
    /// Share of the device's peak rate that these reach: hardware utilization.
    pub hfu: f64,
    /// Share of the peak rate that the model's own operations reach, where the caller gave them.
    pub mfu: Option<f64>,
    /// Tokens per second on all devices, where the caller gave tokens.
    pub tokens_per_s: Option<f64>,
    /// Instructions, most time first.
    pub ops: Vec<OpLine>,
    /// Time by layer or function name of the source, most first.
    pub sources: Vec<(String, f64)>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// What is said where the whole compiler's program takes another time than a quick compilation's of the same; `None` below 1 %.
pub(crate) fn apart(quick: &[Share], full: &[Share]) -> Option<String> {
    let of = |shares: &[Share], bound: Bound| -> f64 {
        shares.iter().filter(|share| share.bound == bound).map(|share| share.seconds).sum()
    };
    let sum = |shares: &[Share]| shares.iter().map(|share| share.seconds).sum::<f64>();
    let change = sum(full) / sum(quick) - 1.0;
    if !change.is_finite() || change.abs() <= 0.01 {
        return None;
    }
    let moved = |bound: Bound| (of(full, bound) - of(quick, bound)).abs();
    let most = Bound::ALL.into_iter().max_by(|&a, &b| moved(a).total_cmp(&moved(b)))?;
    Some(format!(
        "the whole compiler's program is estimated {:+.1} % off the quick compilation's, most of it by {}: the whole compiler counts static \
         cycles of the code it generates, and these price matmuls and kernels",
        100.0 * change,
        most.name()
    ))
}

/// Instructions an estimate lists.
const LISTED_OPS: usize = 200;
/// Sources an estimate lists.
const LISTED_SOURCES: usize = 40;

impl Estimate {
    /// Estimates a step of a compiled program. `devices` are the device numbers of the partitions in the order of the slice; empty
    /// where partition `n` runs on device `n`.
    pub fn of(module: &HloModule, slice: &Slice, devices: &[u64], workload: &Workload) -> Estimate {
        let executions = module.executions();
        let machine = Machine::of(slice).calibrated(&workload.rates);
        let simulation = simulate(module, &executions, &machine, devices);
        Estimate::from_simulation(module, slice, &machine, &simulation, workload)
    }

    fn from_simulation(
        module: &HloModule,
        slice: &Slice,
        machine: &Machine,
        simulation: &Simulation,
        workload: &Workload,
    ) -> Estimate {
        let seconds = simulation.seconds;
        let mut by_bound: BTreeMap<Bound, f64> = BTreeMap::new();
        for op in &simulation.ops {
            *by_bound.entry(op.bound).or_default() += op.total_s();
        }
        let mut shares: Vec<Share> =
            by_bound.iter().map(|(&bound, &s)| Share { bound, seconds: s, share: s / seconds.max(1e-30) }).collect();
        shares.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let waited = |lane: Bound| by_bound.get(&lane).copied().unwrap_or(0.0);
        let lanes = [Bound::Ici, Bound::Dcn, Bound::Host];
        let transfers: Vec<TransferTime> = lanes
            .into_iter()
            .filter_map(|lane| {
                let seconds = *simulation.transfers.get(&lane)?;
                Some(TransferTime { lane, seconds, exposed_s: waited(lane) })
            })
            .collect();
        let flops: f64 = simulation.ops.iter().map(|op| op.flops * op.executions).sum();
        let devices = f64::from(slice.devices());
        Estimate {
            slice: slice.to_string(),
            devices: u64::from(slice.devices()),
            step: StepTime { seconds, low_s: seconds * RANGE.0, high_s: seconds * RANGE.1 },
            shares,
            transfers,
            flops,
            hfu: flops / seconds.max(1e-30) / machine.bf16_flops,
            mfu: workload.model_flops_per_step.map(|model| model / devices / seconds.max(1e-30) / machine.bf16_flops),
            tokens_per_s: workload.tokens_per_step.map(|tokens| tokens / seconds.max(1e-30)),
            ops: lines(module, &simulation.ops),
            sources: sources(module, &simulation.ops),
            notes: simulation.notes.clone(),
        }
    }
}

/// The range of an estimate: measured over predicted time of the published runs, from one in ten to nine in ten of them. A test holds
/// that eight in ten are inside.
pub(crate) const RANGE: (f64, f64) = (0.90, 1.08);

fn lines(module: &HloModule, ops: &[OpCost]) -> Vec<OpLine> {
    let mut ops: Vec<&OpCost> = ops.iter().collect();
    ops.sort_by(|a, b| b.total_s().total_cmp(&a.total_s()));
    let line = |op: &&OpCost| {
        let instruction = module.instruction(op.instruction);
        OpLine {
            name: instruction.name().to_string(),
            opcode: instruction.opcode().name().to_string(),
            shape: instruction.shape().to_string(),
            source: instruction.metadata().map_or_else(String::new, |metadata| metadata.op_name.clone()),
            executions: op.executions,
            seconds: op.total_s(),
            bound: op.bound,
            flops: op.flops * op.executions,
            hbm_bytes: op.hbm_bytes * op.executions,
        }
    };
    ops.iter().take(LISTED_OPS).map(line).collect()
}

/// Time by the part of the source name that says what it is, without the transformations around it.
fn sources(module: &HloModule, ops: &[OpCost]) -> Vec<(String, f64)> {
    let mut by_source: BTreeMap<String, f64> = BTreeMap::new();
    for op in ops {
        let name = module.instruction(op.instruction).metadata().map_or("", |metadata| metadata.op_name.as_str());
        *by_source.entry(short_source(name)).or_default() += op.total_s();
    }
    let mut list: Vec<(String, f64)> = by_source.into_iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    list.truncate(LISTED_SOURCES);
    list
}

/// `jit(step)/transpose(jvp())/while/body/closed_call/checkpoint/bse,ef->bsf/dot_general` is `backward: bse,ef->bsf/dot_general`.
pub(crate) fn short_source(name: &str) -> String {
    if name.is_empty() {
        return "unnamed".into();
    }
    let is_frame = |part: &&str| {
        matches!(*part, "while" | "body" | "cond" | "closed_call" | "checkpoint" | "rematted_computation" | "jvp()")
            || part.starts_with("jit(")
            || part.starts_with("transpose(")
            || part.starts_with("jvp(")
            || part.starts_with("shard_map")
            || part.starts_with("vmap(")
    };
    let rest: Vec<&str> = name.split('/').filter(|part| !is_frame(part)).collect();
    let phase = if name.contains("rematted_computation") {
        "again: "
    } else if name.contains("transpose(") {
        "backward: "
    } else {
        ""
    };
    format!("{phase}{}", rest.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(matrix: f64, hbm: f64) -> Vec<Share> {
        [(Bound::Matrix, matrix), (Bound::Hbm, hbm)]
            .map(|(bound, seconds)| Share { bound, seconds, share: seconds / (matrix + hbm) })
            .to_vec()
    }

    #[test]
    fn estimates_that_differ_are_explained() {
        assert_eq!(apart(&shares(1.0, 1.0), &shares(1.01, 1.0)), None);
        assert_eq!(apart(&[], &[]), None);
        let said = apart(&shares(1.0, 1.0), &shares(1.1, 1.5)).expect("30 % are said");
        assert!(said.contains("+30.0 %") && said.contains("device memory"), "{said}");
        let said = apart(&shares(1.0, 1.0), &shares(0.5, 1.0)).expect("25 % are said");
        assert!(said.contains("-25.0 %") && said.contains("matrix units"), "{said}");
    }
}
