//! What a profile says of a program: for each step the ops it computes, their scopes and source lines, and what it costs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hlo::{Func, OpId, OpKind};

use super::{ProfiledStep, Program, Step, Work};
use crate::footprint::{Footprint, Written};
use crate::recorder::{ProgramDescription, Recorded, StepDescription};

/// Ops that a step names.
const NAMED_OPS: usize = 64;

/// A number for a program that no other of this process has.
pub(crate) fn program_id() -> u64 {
    static PROGRAMS: AtomicU64 = AtomicU64::new(1);
    PROGRAMS.fetch_add(1, Ordering::Relaxed)
}

impl Program {
    /// What a profile says of it.
    pub(crate) fn describe(&self) -> Arc<ProgramDescription> {
        let describe = || {
            let mut steps = Vec::new();
            if let Some(func) = self.module.func(&self.entry) {
                described(func, &self.steps, &mut steps);
            }
            let name = self.module.name.as_deref().unwrap_or("main").to_string();
            Arc::new(ProgramDescription { name, id: program_id(), steps })
        };
        self.description.get_or_init(describe).clone()
    }

    /// What each kernel took in what was recorded.
    pub(crate) fn profiled(&self, recorded: &Recorded) -> Vec<ProfiledStep> {
        let mut times: BTreeMap<u32, ProfiledStep> = BTreeMap::new();
        let mut pending = vec![&self.steps[..]];
        while let Some(steps) = pending.pop() {
            for step in steps {
                pending.extend(step.blocks());
                if let Work::Kernel(kernel) = &step.work {
                    times.insert(step.id, ProfiledStep { name: kernel.name(), count: 0, total: Default::default() });
                }
            }
        }
        for run in &recorded.steps {
            if let Some(time) = times.get_mut(&run.step) {
                time.count += 1;
                time.total += std::time::Duration::from_nanos(run.span.duration_ns);
            }
        }
        times.into_values().filter(|time| time.count > 0).collect()
    }
}

/// Adds what is known of steps, in the order of their numbers.
fn described(func: &Func, steps: &[Step], into: &mut Vec<StepDescription>) {
    for step in steps {
        into.push(description(func, step));
        for block in step.blocks() {
            described(func, block, into);
        }
    }
}

fn description(func: &Func, step: &Step) -> StepDescription {
    let (kernel, footprint) = match &step.work {
        Work::Kernel(kernel) => (kernel.name(), kernel.footprint()),
        Work::While(_) => ("while".into(), None),
        Work::Case(_) => ("conditional".into(), None),
    };
    let is_control = !matches!(step.work, Work::Kernel(_));
    let category = match &step.work {
        Work::Kernel(_) => category(func, &kernel, &step.ops),
        _ => kernel.clone(),
    };
    let flops = |id: OpId| if is_control { 0.0 } else { hlo::cost::op_flops(func, func.op(id)) };
    // What only brings data into place computes nothing of the op it is for.
    let computes = !matches!(category.as_str(), "copy" | "data formatting");
    // Of several ops the costliest stands for all; of equal ones the last, which is nearest to the result.
    let costliest = step.ops.iter().copied().max_by(|&one, &other| flops(one).total_cmp(&flops(other)));
    let loc = costliest.and_then(|id| func.op(id).loc.as_deref());
    let source = loc.and_then(|loc| loc.file_position()).map(|(file, line, _)| format!("{file}:{line}"));
    let base = if category.ends_with("fusion") { "fusion" } else { category.as_str() };
    let name = |&id: &OpId| format!("{}.{}", opcode(func, id), id.0);
    StepDescription {
        name: format!("{}.{}", base.replace(' ', "-"), step.id),
        ops: step.ops.iter().take(NAMED_OPS).map(name).collect(),
        scope: loc.and_then(|loc| loc.name()).unwrap_or_default().to_string(),
        source: source.unwrap_or_default(),
        flops: if computes { step.ops.iter().map(|&id| flops(id)).sum() } else { 0.0 },
        bytes: footprint.as_ref().map_or(0, touched),
        category,
        kernel,
    }
}

fn touched(footprint: &Footprint) -> u64 {
    let writes = footprint.writes.iter().copied().map(Written::bytes);
    footprint.reads.iter().copied().chain(writes).fold(0, |sum, bytes| sum.saturating_add(bytes as u64))
}

/// The name of an op as HLO has it.
fn opcode(func: &Func, id: OpId) -> String {
    let op = func.op(id);
    let name = op.name.as_str();
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    match op.kind() {
        Some(OpKind::DotGeneral) => "dot".into(),
        Some(OpKind::If | OpKind::Case) => "conditional".into(),
        _ => name.replace('_', "-"),
    }
}

/// The kind of work of a kernel, in XLA's words.
fn category(func: &Func, kernel: &str, ops: &[OpId]) -> String {
    let is_product =
        |id: &OpId| matches!(func.op(*id).kind(), Some(OpKind::DotGeneral | OpKind::Dot | OpKind::Convolution));
    match ops {
        _ if kernel.starts_with("copy") => "copy".into(),
        _ if kernel.starts_with("pack ") => "data formatting".into(),
        [] => "custom-call".into(),
        [one] => opcode(func, *one),
        _ if ops.iter().any(is_product) => "output fusion".into(),
        _ => "loop fusion".into(),
    }
}
