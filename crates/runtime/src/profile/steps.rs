//! One profile of what the plugin and the host recorded, with the steps of a training on the devices.
//!
//! A plugin knows launches, not steps. A launch was asked for on the host within a step: so the line "Steps" of a device says
//! where each step began there. A step lasts until the next one begins, as TPUs count it; the last one until its last launch ends.
//! Requests for launches go to the line of the thread that made them, inside its step: readers tie devices to steps by them.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use xplane::names::{CUSTOM_PLANE, MODULES_LINE, STEPS_LINE, TPU_PLANE, stat};
use xplane::{XEvent, XEventData, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata, XStatValue};

use super::Profile;
use super::host::{HostEvents, HostStep};

/// Number of the line of steps, as TPUs have it.
const STEPS: i64 = 1;

/// Name of the event on the host that asks for a launch.
const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";

/// Bytes of a plugin's profile up to which it is read. What is larger is kept as it is.
const MAX_READ_BYTES: usize = 1 << 30;

/// Puts together what the plugin and the host recorded.
pub(super) fn merged(recorded: Vec<u8>, host: HostEvents) -> Profile {
    let host_steps = host.steps();
    let steps: Vec<u64> = host_steps.iter().map(|step| step.number).collect();
    let mut of_host = host.space();
    of_host.hostnames = vec![super::hostname()];
    let small_enough = Some(&recorded).filter(|bytes| bytes.len() <= MAX_READ_BYTES);
    let bytes = match small_enough.and_then(|bytes| XSpace::decode(bytes.as_slice()).ok()) {
        Some(mut space) => {
            add_steps(&mut space, &host_steps);
            if let Some(host) = of_host.planes.first_mut() {
                move_requests(&mut space, host);
            }
            space.planes.extend(of_host.planes);
            space.warnings.extend(of_host.warnings);
            space.hostnames = of_host.hostnames;
            space.to_bytes()
        }
        // Two messages one after the other are one with the planes of both.
        None => [recorded, of_host.to_bytes()].concat(),
    };
    Profile { bytes, steps }
}

/// A launch on a device, in picoseconds since 1970.
struct Launch {
    start_ps: i128,
    end_ps: i128,
}

fn add_steps(space: &mut XSpace, host_steps: &[HostStep]) {
    let asked = asked_at(space);
    let step_of = |run: u64| {
        let at = asked.get(&run)?;
        let later = host_steps.partition_point(|step| step.start_ns <= *at);
        host_steps[..later].last().filter(|step| *at <= step.end_ns).map(|step| step.number)
    };
    for plane in &mut space.planes {
        let is_marked = plane.lines.iter().any(|line| line.name == STEPS_LINE);
        if !plane.name.starts_with(TPU_PLANE) || is_marked {
            continue;
        }
        let Some(run_id) = stat_key(plane, stat::RUN_ID) else { continue };
        let mut steps: BTreeMap<u64, Launch> = BTreeMap::new();
        let Some(modules) = plane.lines.iter().find(|line| line.name == MODULES_LINE) else { continue };
        let began_ns = modules.timestamp_ns;
        for event in &modules.events {
            let Some(step) = run_of(event, run_id).and_then(step_of) else { continue };
            let start_ps = i128::from(began_ns) * 1000 + i128::from(offset(event));
            let end_ps = start_ps + i128::from(event.duration_ps);
            let launch = steps.entry(step).or_insert(Launch { start_ps, end_ps });
            launch.start_ps = launch.start_ps.min(start_ps);
            launch.end_ps = launch.end_ps.max(end_ps);
        }
        add_line(plane, &steps, began_ns);
    }
}

/// When each launch was asked for on the host, in nanoseconds since 1970.
fn asked_at(space: &XSpace) -> HashMap<u64, i64> {
    let mut asked = HashMap::new();
    for plane in space.planes.iter().filter(|plane| plane.name.starts_with(CUSTOM_PLANE)) {
        let Some(run_id) = stat_key(plane, stat::RUN_ID) else { continue };
        let execute = plane.event_metadata.values().find(|metadata| metadata.name == EXECUTE);
        let Some(execute) = execute.map(|metadata| metadata.id) else { continue };
        for line in &plane.lines {
            for event in line.events.iter().filter(|event| event.metadata_id == execute) {
                if let Some(run) = run_of(event, run_id) {
                    asked.insert(run, line.timestamp_ns.saturating_add(offset(event) / 1000));
                }
            }
        }
    }
    asked
}

/// Writes the line of steps.
fn add_line(plane: &mut XPlane, steps: &BTreeMap<u64, Launch>, began_ns: i64) {
    let mut line = XLine { id: STEPS, name: STEPS_LINE.into(), timestamp_ns: began_ns, ..XLine::default() };
    let began_ps = i128::from(began_ns) * 1000;
    let mut following = steps.values().skip(1);
    for (step, launch) in steps {
        let end_ps = following.next().map_or(launch.end_ps, |next| next.start_ps);
        let key = new_event(plane, &step.to_string());
        let small = |picoseconds: i128| i64::try_from(picoseconds).unwrap_or(i64::MAX);
        let start_ps = small(launch.start_ps - began_ps);
        line.events.push(XEvent::at(key, start_ps, small((end_ps - launch.start_ps).max(0))));
    }
    if !line.events.is_empty() {
        plane.lines.insert(0, line);
    }
}

/// Brings the requests for launches that the plugin saw into the steps of the host's threads.
fn move_requests(space: &mut XSpace, host: &mut XPlane) {
    for plane in space.planes.iter_mut().filter(|plane| plane.name.starts_with(CUSTOM_PLANE)) {
        let execute = plane.event_metadata.values().find(|metadata| metadata.name == EXECUTE);
        let Some(execute) = execute.map(|metadata| metadata.id) else { continue };
        let names: HashMap<i64, String> =
            plane.stat_metadata.iter().map(|(id, metadata)| (*id, metadata.name.clone())).collect();
        for line in &mut plane.lines {
            let began_ns = line.timestamp_ns;
            line.events.retain(|event| event.metadata_id != execute || !add_request(host, event, began_ns, &names));
        }
    }
    // A line has its events in the order of their starts, the enclosing ones first.
    for line in &mut host.lines {
        line.events.sort_by_key(|event| (offset(event), std::cmp::Reverse(event.duration_ps)));
    }
}

/// Adds a request to the line that has something around it. The two clocks may differ a little: it stays inside.
fn add_request(host: &mut XPlane, request: &XEvent, began_ns: i64, names: &HashMap<i64, String>) -> bool {
    let is_around = |line: &XLine| {
        let start = offset(request).saturating_add(began_ns.saturating_sub(line.timestamp_ns).saturating_mul(1000));
        let middle = start.saturating_add(request.duration_ps / 2);
        let holds = |event: &&XEvent| offset(event) <= middle && middle <= offset(event) + event.duration_ps;
        let innermost = line.events.iter().filter(holds).min_by_key(|event| event.duration_ps)?;
        let (first, last) = (offset(innermost), offset(innermost) + innermost.duration_ps);
        let end = start.saturating_add(request.duration_ps).min(last);
        let start = start.max(first);
        Some((start, end.saturating_sub(start).max(0)))
    };
    let found = host.lines.iter().enumerate().find_map(|(n, line)| Some((n, is_around(line)?)));
    let Some((line, (start, duration))) = found else { return false };
    let mut event = XEvent::at(new_event(host, EXECUTE), start, duration);
    for stat in &request.stats {
        if let Some(name) = names.get(&stat.metadata_id) {
            let metadata_id = new_stat(host, name);
            event.stats.push(XStat { metadata_id, value: stat.value.clone() });
        }
    }
    host.lines[line].events.push(event);
    true
}

fn new_event(plane: &mut XPlane, name: &str) -> i64 {
    if let Some(known) = plane.event_metadata.values().find(|metadata| metadata.name == name) {
        return known.id;
    }
    let id = plane.event_metadata.keys().last().map_or(1, |last| last + 1);
    plane.event_metadata.insert(id, XEventMetadata { id, name: name.into(), ..XEventMetadata::default() });
    id
}

fn stat_key(plane: &XPlane, name: &str) -> Option<i64> {
    plane.stat_metadata.values().find(|metadata| metadata.name == name).map(|metadata| metadata.id)
}

fn new_stat(plane: &mut XPlane, name: &str) -> i64 {
    if let Some(id) = stat_key(plane, name) {
        return id;
    }
    let id = plane.stat_metadata.keys().last().map_or(1, |last| last + 1);
    plane.stat_metadata.insert(id, XStatMetadata { id, name: name.into(), description: String::new() });
    id
}

fn run_of(event: &XEvent, run_id: i64) -> Option<u64> {
    let value = event.stats.iter().find(|stat| stat.metadata_id == run_id)?.value.as_ref()?;
    match value {
        XStatValue::Uint64(run) => Some(*run),
        XStatValue::Int64(run) => u64::try_from(*run).ok(),
        _ => None,
    }
}

fn offset(event: &XEvent) -> i64 {
    match event.data {
        Some(XEventData::OffsetPs(offset)) => offset,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::{HostEvent, STEP};
    use super::*;
    use xplane::SpaceBuilder;

    /// A plugin's profile of two launches, asked for at these times since 1970, and run 10 ns later for 5 ns.
    fn recorded(asked_ns: [i64; 2]) -> Vec<u8> {
        let mut space = SpaceBuilder::new();
        let base = asked_ns[0] - 1000;
        for (n, at) in asked_ns.into_iter().enumerate() {
            let run = XStatValue::Uint64(n as u64 + 1);
            let device = space.plane("/device:TPU:0");
            let event = XEvent::at(device.event("train_step(1)"), (at - base) * 1000 + 10_000, 5_000);
            let event = event.with(device.stat(stat::RUN_ID, run.clone()));
            device.line(2, MODULES_LINE, base).events.push(event);
            let threads = space.plane("/device:CUSTOM:threads");
            let event = XEvent::at(threads.event(EXECUTE), (at - base) * 1000, 0).with(threads.stat(stat::RUN_ID, run));
            threads.line(1, "main", base).events.push(event);
        }
        space.finish().to_bytes()
    }

    #[test]
    fn launches_belong_to_the_steps_that_asked_for_them() {
        let mut host = HostEvents::new();
        for step in [7, 8] {
            let event = HostEvent::now(STEP, Some(step));
            std::thread::sleep(std::time::Duration::from_millis(2));
            host.add(event);
        }
        let steps = host.steps();
        let middle = |step: &HostStep| (step.start_ns + step.end_ns) / 2;
        let asked = [middle(&steps[0]), middle(&steps[1])];
        let profile = merged(recorded(asked), host);
        assert_eq!(profile.steps, [7, 8]);
        let space = XSpace::decode(profile.bytes.as_slice()).unwrap();
        let device = &space.planes[0];
        let line = &device.lines[0];
        let names: Vec<&str> =
            line.events.iter().map(|event| device.event_metadata[&event.metadata_id].name.as_str()).collect();
        assert_eq!((line.name.as_str(), &names[..]), (STEPS_LINE, &["7", "8"][..]));
        // A step lasts until the next begins, the last one until its launch ends.
        let durations: Vec<i64> = line.events.iter().map(|event| event.duration_ps).collect();
        assert_eq!(durations, [(asked[1] - asked[0]) * 1000, 5_000]);
        // The requests are in the steps of the host, and nowhere else.
        assert!(space.planes[1].lines.iter().all(|line| line.events.is_empty()));
        let host = &space.planes[2];
        let requests =
            host.lines[0].events.iter().filter(|event| host.event_metadata[&event.metadata_id].name == EXECUTE);
        assert_eq!(requests.count(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_kept_and_what_is_of_no_step_is_left() {
        let mut host = HostEvents::new();
        host.add(HostEvent::now(STEP, Some(1)));
        let garbage = vec![0xff; 100];
        let profile = merged(garbage.clone(), host);
        assert!(profile.bytes.starts_with(&garbage) && profile.bytes.len() > garbage.len());
        let profile = merged(recorded([1, 2]), HostEvents::new());
        let space = XSpace::decode(profile.bytes.as_slice()).unwrap();
        assert!(space.planes[0].lines.iter().all(|line| line.name != STEPS_LINE));
    }
}
