//! Matmuls that waste the MXU: sizes that do not fill it, and types that are slower than they need be.

use chips::Generation;
use xla::{HloModule, InstructionId, Opcode, PrimitiveType};

use super::{Advice, AdviceKind, Scene, places};
use crate::estimate::OpLine;
use crate::op_time::Bound;
use crate::work::Work;

/// Matmuls whose summed or column size is not a multiple of the MXU.
pub(super) fn tiles(scene: &Scene<'_>) -> Option<Advice> {
    let edge = scene.machine.mxu_edge;
    let idle = |size: u64| if size == 0 { 0.0 } else { 1.0 - size as f64 / (size.div_ceil(edge) * edge) as f64 };
    let mut found: Vec<(f64, &OpLine)> = Vec::new();
    let mut sizes: Vec<(f64, u64, u64)> = Vec::new();
    for (op, id) in scene.ops().filter(|(op, _)| op.bound == Bound::Matrix) {
        let work = Work::of(scene.module, &scene.users, id);
        let flops = work.flops();
        let mut gain = 0.0;
        // Sizes the compiler wrote as a window count to whichever side needs them.
        let window = window_size(scene.module, id, 0);
        let filled = |size: u64| if size.is_multiple_of(edge) { size } else { size.saturating_mul(window) };
        for matmul in &work.matmuls {
            let used = (1.0 - idle(filled(matmul.contracted))) * (1.0 - idle(filled(matmul.columns)));
            let seconds = op.seconds * matmul.flops / flops.max(1.0) * (1.0 - used);
            if seconds > 0.0 {
                gain += seconds;
                sizes.push((seconds, matmul.contracted, matmul.columns));
            }
        }
        if gain > 0.0 {
            found.push((gain, op));
        }
    }
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    sizes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, contracted, columns) = sizes.first().copied()?;
    let title = format!(
        "{} matmuls leave parts of the {edge}x{edge} MXU idle, such as one that contracts {contracted} into {columns} columns",
        found.len()
    );
    let remedy = format!("make head, feature and shard sizes multiples of {edge}");
    Some(Advice::new(AdviceKind::Tiles, title, remedy, gain).at(places(found)))
}

/// Elements of the largest window of the convolutions in an op: matmuls of several dimensions become windows.
fn window_size(module: &HloModule, id: InstructionId, depth: u32) -> u64 {
    let instruction = module.instruction(id);
    match instruction.opcode() {
        Opcode::Convolution => {
            let sizes = instruction.attributes().window.iter().map(|dim| u64::try_from(dim.size).unwrap_or(1).max(1));
            sizes.fold(1, u64::saturating_mul)
        }
        Opcode::Fusion if depth < MAX_DEPTH => {
            let called = instruction.called_computations().iter();
            let inner = called.flat_map(|&called| module.computation(called).instructions());
            inner.map(|&inner| window_size(module, inner, depth + 1)).max().unwrap_or(1)
        }
        _ => 1,
    }
}

/// Fusions inside fusions that are looked into.
const MAX_DEPTH: u32 = 8;

/// Matmuls that read f32.
pub(super) fn f32_matmuls(scene: &Scene<'_>) -> Option<Advice> {
    let slower = f32_slowdown(scene.machine.generation);
    let mut found: Vec<(f64, &OpLine)> = Vec::new();
    for (op, id) in scene.ops() {
        let work = Work::of(scene.module, &scene.users, id);
        let wide: f64 =
            work.matmuls.iter().filter(|matmul| matmul.element == PrimitiveType::F32).map(|matmul| matmul.flops).sum();
        if wide == 0.0 {
            continue;
        }
        let share = wide / work.flops().max(1.0);
        // What limits an op that reads f32 from memory is the argument's type, which a conversion after reading leaves as it is.
        let gain = match op.bound {
            Bound::Matrix if work.cycles.is_some() => op.seconds * share * (1.0 - 1.0 / slower),
            _ => 0.0,
        };
        found.push((gain.min(op.seconds), op));
    }
    if found.is_empty() {
        return None;
    }
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    let title = format!("{} matmuls read f32; the MXU multiplies bf16", found.len());
    let remedy = "convert operands to bf16 and keep sums in f32";
    Some(Advice::new(AdviceKind::Bf16Matmuls, title, remedy, gain).at(places(found)))
}

/// Cycles of an f32 matmul over those of a bf16 one, as libtpu 0.0.51 prices matmuls of 8192 by 8192 by 8192.
fn f32_slowdown(generation: Generation) -> f64 {
    match generation {
        Generation::V5e => 1.59,
        Generation::V5p => 1.44,
        Generation::V6e => 1.78,
        Generation::Tpu7x => 1.56,
        _ => 1.25,
    }
}
