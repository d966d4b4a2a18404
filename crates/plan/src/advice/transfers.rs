//! Transfers that the core waits for: collectives over chip links and the network, copies to and from the host.

use xla::InstructionId;

use super::{Advice, AdviceKind, PLACES, Scene, places};
use crate::estimate::OpLine;
use crate::op_time::Bound;

/// Collectives that nothing hides.
pub(super) fn collectives(scene: &Scene<'_>) -> Option<Advice> {
    let mut found: Vec<(f64, &OpLine, InstructionId)> = scene
        .ops()
        .filter(|(op, _)| matches!(op.bound, Bound::Ici | Bound::Dcn))
        .map(|(op, id)| (op.seconds, op, id))
        .collect();
    let gain: f64 = found.iter().map(|(gain, ..)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let executions = scene.module.executions();
    let all = scene.module.collectives(&executions);
    let groups = |id: InstructionId| {
        // A wait names the operation that started the transfer; a fusion holds it inside.
        let instruction = scene.module.instruction(id);
        let start = instruction.operands().first().copied();
        let collective = all.iter().find(|collective| {
            let home = scene.module.instruction(collective.instruction).computation();
            collective.instruction == id
                || Some(collective.instruction) == start
                || instruction.called_computations().contains(&home)
        });
        collective.map_or_else(String::new, |collective| {
            format!(
                ", {} over groups of {}, {} MiB",
                collective.kind,
                collective.group_size,
                collective.payload_bytes >> 20
            )
        })
    };
    let places = found.iter().take(PLACES).map(|(seconds, op, id)| {
        let source = if op.source.is_empty() { String::new() } else { format!(" ({})", op.source) };
        format!("{} {:.3} ms{}{source}", op.name, seconds * 1e3, groups(*id))
    });
    let over_network: f64 = found.iter().filter(|(_, op, _)| op.bound == Bound::Dcn).map(|(gain, ..)| gain).sum();
    let title = format!("the core waits for {} collectives", found.len());
    let remedy = if over_network > gain / 2.0 {
        "keep what is exchanged between slices to gradients once a step, or make the batch larger"
    } else {
        "shard over fewer chips or another axis, make the batch larger, or let the compiler hide them (`async_collectives`, `collective_matmul` in the configuration)"
    };
    Some(Advice::new(AdviceKind::Collectives, title, remedy, gain).at(places.collect()))
}

/// Copies to and from the host that nothing hides.
pub(super) fn host(scene: &Scene<'_>) -> Option<Advice> {
    let found: Vec<(f64, &OpLine)> =
        scene.ops().filter(|(op, _)| op.bound == Bound::Host).map(|(op, _)| (op.seconds, op)).collect();
    let gain: f64 = found.iter().map(|(gain, _)| gain).sum();
    if !scene.is_worth(gain) {
        return None;
    }
    let title = format!("the core waits for {} copies to or from the host", found.len());
    let remedy =
        "offload less, keep the layout of what is offloaded the same in both directions, or compute it again instead";
    Some(Advice::new(AdviceKind::HostTransfers, title, remedy, gain).at(places(found)))
}
