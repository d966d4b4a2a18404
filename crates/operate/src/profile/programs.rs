//! Programs whose HLO a profile holds: what it says of their ops, and what is predicted for them.

use super::collect::Collector;
use super::ops::Program;
use chips::{Generation, Slice};
use plan::{Bound, Machine, OpPricer, OpWork, StatedWork, simulate};
use std::collections::HashMap;
use std::io::{Read, Seek};
use xla::{BufferAssignment, HloModule, MemorySpace, Opcode};
use xplane::names::stat;
use xplane::{FarValue, Plane, SpaceReader, StatValue};

/// The HLO of a program in a file.
pub(super) struct Found {
    program: Program,
    place: Place,
}

enum Place {
    Near(Vec<u8>),
    Far(FarValue),
}

/// Programs looked at in one file at most.
const MOST_PROGRAMS: usize = 4096;

impl Found {
    /// All programs of the plane that holds them.
    pub(super) fn all(plane: &Plane) -> Vec<Found> {
        let mut found = Vec::new();
        for (key, metadata) in plane.all_event_metadata() {
            let name_of = |id| plane.stat_name(id);
            let is_hlo = |id| matches!(name_of(id), Some(stat::HLO_PROTO | "hlo_proto"));
            let near = metadata.stats.iter().find_map(|stat| match stat.value {
                StatValue::Bytes(bytes) if is_hlo(stat.metadata_id) => Some(Place::Near(bytes.to_vec())),
                _ => None,
            });
            let far = || metadata.far.iter().find(|far| is_hlo(far.metadata_id)).map(|far| Place::Far(*far));
            let Some(place) = near.or_else(far) else { continue };
            let mut program = Program::of_run(&metadata.name);
            let stated = metadata.stats.iter().find(|stat| name_of(stat.metadata_id) == Some(stat::PROGRAM_ID));
            let stated = stated.and_then(|stat| stat.value.integer()).map(|id| id as u64);
            program.id = stated.or(program.id).or(Some(key as u64));
            found.push(Found { program, place });
            if found.len() == MOST_PROGRAMS {
                break;
            }
        }
        found.sort_by(|a, b| a.program.cmp(&b.program));
        found
    }
}

/// What is known of a program from its HLO.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramFacts {
    pub(super) name: String,
    pub(super) ops: HashMap<String, HloOp>,
    pub(super) predicted: Option<(f64, String)>,
    pub(super) hbm_bytes: Option<u64>,
}

/// What is known of an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct HloOp {
    pub(super) category: String,
    pub(super) scope: String,
    pub(super) source: String,
    /// Seconds of one execution, and what limits it.
    pub(super) predicted: Option<(f64, Bound)>,
    /// What it does, for a price of its own.
    pub(super) work: Option<OpWork>,
    /// Bytes that leave the device in one execution of a collective.
    pub(super) sent_bytes: f64,
}

/// Reads the programs of a file that ran in it.
pub(super) fn read_programs<R: Read + Seek>(
    reader: &mut SpaceReader<R>,
    found: Vec<Found>,
    file: usize,
    collector: &mut Collector,
) {
    for Found { program, place } in found {
        let Some(id) = program.id else { continue };
        if collector.programs.contains_key(&id) || !collector.has_run(file, &program) {
            continue;
        }
        let bytes = match place {
            Place::Near(bytes) => Ok(bytes),
            Place::Far(far) => reader.far_value(&far).map_err(|error| error.to_string()),
        };
        let device_type = collector.device_type(file);
        let facts = bytes.and_then(|bytes| program_facts(&program, &bytes, device_type.as_deref()));
        match facts {
            Ok((facts, notes)) => {
                notes.into_iter().for_each(|note| collector.note(note));
                collector.programs.insert(id, facts);
            }
            Err(error) => collector.note(format!("the HLO of {} cannot be read: {error}", program.shown())),
        }
    }
}

fn program_facts(
    program: &Program,
    bytes: &[u8],
    device_type: Option<&str>,
) -> Result<(ProgramFacts, Vec<String>), String> {
    let said = |error: xla::Error| error.to_string();
    let module = HloModule::from_any(bytes).map_err(said)?;
    let assignment = BufferAssignment::from_hlo_proto(bytes).ok().flatten();
    let hbm_bytes = assignment.map(|assignment| assignment.summary(MemorySpace::HBM).total_bytes());
    let mut facts = ProgramFacts { name: module.name().into(), hbm_bytes, ..ProgramFacts::default() };
    for (id, instruction) in module.instructions() {
        if module.computation(instruction.computation()).is_fusion() {
            continue;
        }
        let source = module.source(id).map(|place| format!("{}:{}", place.file, place.line)).unwrap_or_default();
        let op = HloOp {
            category: category(&module, id),
            scope: instruction.metadata().map(|metadata| metadata.op_name.clone()).unwrap_or_default(),
            source,
            ..HloOp::default()
        };
        facts.ops.insert(instruction.name().into(), op);
    }
    let executions = module.executions();
    for collective in module.collectives(&executions) {
        let name = module.instruction(collective.instruction).name();
        facts.ops.entry(name.into()).or_default().sent_bytes = collective.sent_bytes as f64;
    }
    let mut notes = Vec::new();
    let Some(generation) = device_type.and_then(generation) else { return Ok((facts, notes)) };
    let devices = module.num_replicas().max(1).saturating_mul(module.num_partitions().max(1));
    let Some(slice) = slice_with(generation, devices) else {
        notes.push(format!("{} runs on {devices} devices, which no {generation} slice has", program.shown()));
        return Ok((facts, notes));
    };
    let machine = Machine::of(&slice);
    let pricer = OpPricer::new(&module, &executions, &machine);
    for (id, instruction) in module.instructions() {
        if let Some(op) = facts.ops.get_mut(instruction.name()) {
            op.work = pricer.work(id, StatedWork::default());
        }
    }
    let simulation = simulate(&module, &executions, &machine, &[]);
    let mut sums: HashMap<&str, (f64, f64, Bound)> = HashMap::new();
    for cost in &simulation.ops {
        let sum = sums.entry(module.instruction(cost.instruction).name()).or_insert((0.0, 0.0, cost.bound));
        sum.0 += cost.total_s();
        sum.1 += cost.executions;
    }
    for (name, (seconds, executions, bound)) in sums {
        if executions > 0.0 {
            facts.ops.entry(name.into()).or_default().predicted = Some((seconds / executions, bound));
        }
    }
    facts.predicted = Some((simulation.seconds, slice.to_string()));
    notes.extend(simulation.notes.into_iter().take(5).map(|note| format!("prediction of {}: {note}", program.shown())));
    Ok((facts, notes))
}

/// The category of an op as profilers name it, for profiles that do not.
fn category(module: &HloModule, id: xla::InstructionId) -> String {
    let instruction = module.instruction(id);
    if *instruction.opcode() != Opcode::Fusion {
        return instruction.opcode().name().to_string();
    }
    let kind = instruction.attributes().fusion_kind.trim_start_matches('k').to_lowercase();
    if kind.is_empty() { "fusion".into() } else { format!("{kind} fusion") }
}

/// The generation of chip that a profile names: `TPU v6 Lite`, `TPU v5p`.
pub(super) fn generation(device_type: &str) -> Option<Generation> {
    let plain = |text: &str| text.to_lowercase().replace([' ', '-', '_'], "");
    let wanted = plain(device_type);
    Generation::ALL.into_iter().find(|generation| {
        let names = [generation.device_kind(), generation.name(), generation.display_name()];
        names.iter().any(|name| plain(name) == wanted) || wanted == plain(&format!("tpu {}", generation.name()))
    })
}

/// The smallest slice that has so many devices.
fn slice_with(generation: Generation, devices: u64) -> Option<Slice> {
    Slice::defaults(generation).into_iter().find(|slice| u64::from(slice.devices()) >= devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_known_by_what_profiles_call_them() {
        for (name, generation_name) in [
            ("TPU v6 Lite", Some("v6e")),
            ("TPU v5 Lite", Some("v5e")),
            ("TPU v5", Some("v5p")),
            ("TPU v5p", Some("v5p")),
            ("TPU v4", Some("v4")),
            ("TPU7x", Some("tpu7x")),
            ("Nvidia", None),
            ("CPU", None),
        ] {
            assert_eq!(generation(name).map(|generation| generation.name()), generation_name, "{name}");
        }
    }

    #[test]
    fn a_slice_has_the_devices_asked_for() {
        assert_eq!(slice_with(Generation::V6e, 8).unwrap().devices(), 8);
        assert_eq!(slice_with(Generation::V6e, 3).unwrap().devices(), 4);
        assert!(slice_with(Generation::V6e, 1 << 30).is_none());
    }
}
