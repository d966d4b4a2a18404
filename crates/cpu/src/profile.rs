//! What was recorded as an XSpace, in the form that XProf, TensorBoard and `tpu profile` read of a device.
//!
//! Each device has a plane with the lines "XLA Modules" (launches) and "XLA Ops" (steps, nested where a loop runs others). Its
//! name is that of a TPU, because readers analyse ops on planes of TPUs and GPUs only; what it is, `device_type_string` says.
//! Threads have a plane of their own, so that it is not taken for the one that the host's profiler writes.

use std::collections::{BTreeMap, BTreeSet};

use xplane::names::{CUSTOM_PLANE, MODULES_LINE, OPS_LINE, TPU_PLANE, stat};
use xplane::{PlaneBuilder, SpaceBuilder, XEvent, XStatValue};

use crate::recorder::{Doing, Launch, ProgramDescription, Recorded, Span, StepRun};

/// Numbers of lines, as TPUs have them.
const MODULES: i64 = 2;
const OPS: i64 = 3;

/// Tells readers that a launch on the host and a run on a device belong together.
const LAUNCH_CONTEXT: u64 = 12;

/// What the devices are, for readers.
const DEVICE_TYPE: &str = "tpubridge CPU";

/// Keys of steps and launches among the events of a plane: those of names are below.
const STEP_KEYS: i64 = 1 << 40;

/// Keys of the steps of one program.
const STEPS_PER_PROGRAM: i64 = 1 << 24;

/// The profile of a session that began then.
pub(crate) fn space(mut recorded: Recorded, began_unix_ns: u64) -> xplane::XSpace {
    let mut space = SpaceBuilder::new();
    let began = i64::try_from(began_unix_ns).unwrap_or(0);
    if recorded.dropped > 0 {
        space.warning(format!("the buffers were full: {} events were dropped", recorded.dropped));
    }
    add_unfinished(&mut recorded);
    // A line has its events in the order of their starts, the enclosing ones first.
    let order = |span: &Span| (span.start_ns, std::cmp::Reverse(span.duration_ns));
    recorded.launches.sort_by_key(|launch| order(&launch.span));
    recorded.steps.sort_by_key(|run| order(&run.span));
    recorded.work.sort_by_key(|work| order(&work.span));
    let devices: BTreeSet<u32> = recorded.launches.iter().map(|launch| launch.device).collect();
    for number in devices {
        device(&mut space, number).fact(stat::DEVICE_TYPE, XStatValue::Str(DEVICE_TYPE.into()));
    }
    for launch in &recorded.launches {
        let Some(program) = recorded.programs.get(launch.program as usize) else { continue };
        add_launch(device(&mut space, launch.device), launch, program, began);
    }
    let mut described = BTreeSet::new();
    for run in &recorded.steps {
        let Some(program) = recorded.programs.get(run.program as usize) else { continue };
        let plane = device(&mut space, run.device);
        let key = STEP_KEYS + i64::from(run.program) * STEPS_PER_PROGRAM + i64::from(run.step);
        if described.insert((run.device, run.program)) {
            describe(plane, run.program, program);
        }
        let run_id = plane.stat(stat::RUN_ID, XStatValue::Uint64(run.launch.into()));
        plane.line(OPS, OPS_LINE, began).events.push(event(key, run.span).with(run_id));
    }
    add_threads(&mut space, &recorded, began);
    space.finish()
}

fn event(key: i64, span: Span) -> XEvent {
    let picoseconds = |nanos: u64| i64::try_from(nanos.saturating_mul(1000)).unwrap_or(i64::MAX);
    XEvent::at(key, picoseconds(span.start_ns), picoseconds(span.duration_ns))
}

fn device(space: &mut SpaceBuilder, number: u32) -> &mut PlaneBuilder {
    space.plane(&format!("{TPU_PLANE}{number}"))
}

/// Launches that were under way when the session ended are known by their steps only.
fn add_unfinished(recorded: &mut Recorded) {
    let finished: BTreeSet<(u32, u32)> =
        recorded.launches.iter().map(|launch| (launch.device, launch.number)).collect();
    let mut unfinished: BTreeMap<(u32, u32), Launch> = BTreeMap::new();
    for &StepRun { device, program, launch, span, .. } in &recorded.steps {
        if finished.contains(&(device, launch)) {
            continue;
        }
        let known = unfinished.entry((device, launch)).or_insert(Launch { device, program, number: launch, span });
        let end = (known.span.start_ns + known.span.duration_ns).max(span.start_ns + span.duration_ns);
        known.span.start_ns = known.span.start_ns.min(span.start_ns);
        known.span.duration_ns = end - known.span.start_ns;
    }
    recorded.launches.extend(unfinished.into_values());
}

fn add_launch(plane: &mut PlaneBuilder, launch: &Launch, program: &ProgramDescription, began: i64) {
    let key = plane.event(&format!("{}({})", program.name, program.id));
    let number = u64::from(launch.number);
    let stats = [
        plane.stat(stat::RUN_ID, XStatValue::Uint64(number)),
        plane.stat(stat::PROGRAM_ID, XStatValue::Uint64(program.id)),
        plane.stat("_ct", XStatValue::Uint64(LAUNCH_CONTEXT)),
        plane.stat("_c", XStatValue::Uint64(number)),
    ];
    let event = stats.into_iter().fold(event(key, launch.span), XEvent::with);
    plane.line(MODULES, MODULES_LINE, began).events.push(event);
}

/// Says what the steps of a program are.
fn describe(plane: &mut PlaneBuilder, number: u32, program: &ProgramDescription) {
    for (step, what) in program.steps.iter().enumerate() {
        let mut stats = vec![
            plane.shared_text(stat::HLO_CATEGORY, &what.category),
            plane.stat(stat::PROGRAM_ID, XStatValue::Uint64(program.id)),
            plane.stat("symbol_id", XStatValue::Uint64(step as u64 + 1)),
            plane.stat(stat::FLOPS, XStatValue::Uint64(what.flops as u64)),
            plane.stat("model_flops", XStatValue::Uint64(what.flops as u64)),
            plane.stat(stat::BYTES_ACCESSED, XStatValue::Uint64(what.bytes)),
            plane.stat("raw_bytes_accessed", XStatValue::Uint64(what.bytes)),
            plane.stat("kernel", XStatValue::Str(what.kernel.clone())),
        ];
        if !what.scope.is_empty() {
            // As readers expect it: the name, a colon, and a type that need not be there.
            stats.push(plane.stat(stat::TF_OP, XStatValue::Str(format!("{}:", what.scope))));
        }
        if !what.source.is_empty() {
            stats.push(plane.stat(stat::SOURCE, XStatValue::Str(what.source.clone())));
        }
        let metadata = plane.metadata(STEP_KEYS + i64::from(number) * STEPS_PER_PROGRAM + step as i64);
        metadata.name = format!("%{} = {}({})", what.name, what.kernel, what.ops.join(", "));
        metadata.display_name = what.name.clone();
        metadata.stats = stats;
    }
}

fn add_threads(space: &mut SpaceBuilder, recorded: &Recorded, began: i64) {
    if recorded.work.is_empty() {
        return;
    }
    let plane = space.plane(&format!("{CUSTOM_PLANE}{DEVICE_TYPE} threads"));
    for work in &recorded.work {
        let key = match work.what {
            Doing::Step(tag) => {
                let program = recorded.programs.get(tag.program as usize);
                let step = program.and_then(|program| program.steps.get(tag.step as usize));
                plane.event(step.map_or("step", |step| &step.name))
            }
            Doing::Execute { .. } => plane.event("PJRT_LoadedExecutable_Execute"),
            Doing::CopyIn { .. } => plane.event("TransferToDevice"),
            Doing::CopyOut { .. } => plane.event("TransferFromDevice"),
        };
        let stats = match work.what {
            Doing::Step(tag) => vec![plane.stat(stat::RUN_ID, XStatValue::Uint64(tag.launch.into()))],
            Doing::Execute { launch } => vec![
                plane.stat(stat::RUN_ID, XStatValue::Uint64(launch.into())),
                plane.stat("_pt", XStatValue::Uint64(LAUNCH_CONTEXT)),
                plane.stat("_p", XStatValue::Uint64(launch.into())),
            ],
            Doing::CopyIn { bytes } | Doing::CopyOut { bytes } => {
                vec![plane.stat("size", XStatValue::Uint64(bytes))]
            }
        };
        let name = recorded.threads.iter().find(|(thread, _)| *thread == work.thread);
        let name = name.map(|(_, name)| name.as_str()).filter(|name| !name.is_empty());
        let event = stats.into_iter().fold(event(key, work.span), XEvent::with);
        plane.line(work.thread.into(), name.unwrap_or("thread"), began).events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::recorder::{StepDescription, Tag, ThreadWork};

    fn span(start_ns: u64, duration_ns: u64) -> Span {
        Span { start_ns, duration_ns }
    }

    #[test]
    fn launches_steps_and_threads_have_their_lines() {
        let step = |name: &str| StepDescription {
            name: name.into(),
            kernel: "loop<add>".into(),
            category: "loop fusion".into(),
            ops: vec!["add.1".into()],
            scope: "layer/add".into(),
            source: "model.rs:7".into(),
            flops: 8.0,
            bytes: 96,
        };
        let steps = vec![step("while.0"), step("fusion.1")];
        let program = Arc::new(ProgramDescription { name: "train_step".into(), id: 5, steps });
        let run = |launch, step, span| StepRun { device: 1, program: 0, launch, step, span };
        let tag = Tag { program: 0, launch: 1, step: 1 };
        let recorded = Recorded {
            programs: vec![program],
            launches: vec![Launch { device: 1, program: 0, number: 1, span: span(100, 50) }],
            // The loop ends after what it runs; the second launch does not end.
            steps: vec![run(1, 1, span(105, 10)), run(1, 0, span(101, 40)), run(2, 1, span(170, 5))],
            work: vec![ThreadWork { thread: 9, what: Doing::Step(tag), span: span(106, 4) }],
            threads: vec![(9, "cpu-1".into())],
            dropped: 3,
            is_closed: false,
        };
        let space = space(recorded, 1_000_000);
        assert_eq!(space.warnings, ["the buffers were full: 3 events were dropped"]);
        assert_eq!(
            space.planes.iter().map(|plane| plane.name.as_str()).collect::<Vec<_>>(),
            ["/device:TPU:1", "/device:CUSTOM:tpubridge CPU threads"]
        );
        let plane = &space.planes[0];
        let lines: Vec<(&str, Vec<(String, i64)>)> = plane
            .lines
            .iter()
            .map(|line| {
                let name = |event: &XEvent| plane.event_metadata[&event.metadata_id].name.clone();
                (line.name.as_str(), line.events.iter().map(|event| (name(event), event.duration_ps)).collect())
            })
            .collect();
        let text = |name: &str| format!("%{name} = loop<add>(add.1)");
        assert_eq!(
            lines,
            [
                ("XLA Modules", vec![("train_step(5)".into(), 50_000), ("train_step(5)".into(), 5_000)]),
                ("XLA Ops", vec![(text("while.0"), 40_000), (text("fusion.1"), 10_000), (text("fusion.1"), 5_000)]),
            ]
        );
        assert_eq!(space.planes[1].lines[0].name, "cpu-1");
    }
}
