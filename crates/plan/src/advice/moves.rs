//! Time spent on moving values without computing: changed layouts, and elementwise operations that meet in device memory.

use xla::{HloModule, InstructionId, MemorySpace, Opcode};

use super::{Advice, AdviceKind, Scene, places};
use crate::estimate::OpLine;
use crate::op_time::Bound;

/// Copies and transposes that only change a layout.
pub(super) fn layouts(scene: &Scene<'_>) -> Option<Advice> {
    let found: Vec<(f64, &OpLine)> =
        scene.ops().filter(|(_, id)| changes_layout(scene.module, *id)).map(|(op, _)| (op.seconds, op)).collect();
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    let title = format!("{} copies only change the layout of a value", found.len());
    let remedy = "let the producer write what the consumer reads: another order of dimensions in the einsum, or a weight stored transposed";
    Some(Advice::new(AdviceKind::Layouts, title, remedy, gain).at(places(found)))
}

fn changes_layout(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let order = |id: InstructionId| module.instruction(id).shape().layout().map(|layout| layout.minor_to_major.clone());
    match instruction.opcode() {
        Opcode::Transpose => true,
        Opcode::Copy => instruction.operands().first().is_some_and(|&operand| order(operand) != order(id)),
        Opcode::Fusion => {
            let Some(&called) = instruction.called_computations().first() else { return false };
            let inner = module.computation(called).instructions();
            let moves = |opcode: &Opcode| matches!(opcode, Opcode::Copy | Opcode::Transpose);
            let free = |opcode: &Opcode| matches!(opcode, Opcode::Parameter | Opcode::Bitcast | Opcode::Reshape);
            let opcodes = || inner.iter().map(|&inner| module.instruction(inner).opcode());
            opcodes().any(moves) && opcodes().all(|opcode| moves(opcode) || free(opcode))
        }
        _ => false,
    }
}

/// Elementwise operations one of which writes to device memory what only the next one reads.
pub(super) fn unfused(scene: &Scene<'_>) -> Option<Advice> {
    let rate = scene.machine.hbm_bytes_per_s * scene.machine.reach.hbm;
    let mut found: Vec<(f64, &OpLine)> = Vec::new();
    for (op, id) in scene.ops().filter(|(op, _)| op.bound == Bound::Hbm || op.bound == Bound::Vector) {
        if !is_elementwise(scene.module, id) {
            continue;
        }
        let shape = scene.module.instruction(id).shape();
        let [reader] = scene.users.of(id) else { continue };
        if shape.is_tuple() || shape.memory_space() != MemorySpace::HBM || !is_elementwise(scene.module, *reader) {
            continue;
        }
        // Written once and read once for nothing.
        let gain = 2.0 * shape.padded_byte_size() as f64 / rate * op.executions;
        found.push((gain.min(op.seconds), op));
    }
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    let title =
        format!("{} elementwise operations pass their result through device memory to another one", found.len());
    let remedy =
        "remove what keeps them apart: an optimization barrier, a sharding constraint or a custom call between them";
    Some(Advice::new(AdviceKind::Fusion, title, remedy, gain).at(places(found)))
}

fn is_elementwise(module: &HloModule, id: InstructionId) -> bool {
    let instruction = module.instruction(id);
    let simple = |opcode: &Opcode| opcode.is_elementwise() && !is_rare(opcode);
    let free = |opcode: &Opcode| {
        matches!(opcode, Opcode::Parameter | Opcode::Constant | Opcode::Broadcast | Opcode::Bitcast | Opcode::Tuple)
    };
    match instruction.opcode() {
        Opcode::Fusion => {
            let Some(&called) = instruction.called_computations().first() else { return false };
            let opcodes =
                || module.computation(called).instructions().iter().map(|&inner| module.instruction(inner).opcode());
            opcodes().any(simple) && opcodes().all(|opcode| simple(opcode) || free(opcode))
        }
        opcode => simple(opcode),
    }
}

/// Elementwise operations that the advice leaves alone: they are seldom what keeps two others apart.
fn is_rare(opcode: &Opcode) -> bool {
    use Opcode::*;
    let is_of_bits = matches!(
        opcode,
        And | BitcastConvert
            | Clz
            | Mulhi
            | Not
            | Or
            | PopulationCount
            | ReducePrecision
            | ShiftLeft
            | ShiftRightArithmetic
            | ShiftRightLogical
            | StochasticConvert
            | Xor
    );
    let is_rounding = matches!(opcode, Ceil | Floor | IsFinite | Remainder | RoundNearestAfz | RoundNearestEven | Sign);
    let is_of_angles = matches!(opcode, Acos | Acosh | Asin | Asinh | Atan2 | Atanh | Cos | Cosh | Sin | Sinh | Tan);
    is_of_bits || is_rounding || is_of_angles || matches!(opcode, Cbrt | Complex | Erf | Expm1 | Imag | Log1p | Real)
}
