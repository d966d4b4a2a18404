//! The culprit, from what the cores of all hosts say: an error, a launch behind the others, another program, another place in
//! the program, nothing to run; in this order, as libtpu's own digest of hangs goes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use telemetry::runtime_metrics::{CoreState, RuntimeStatus};

use super::hosts::HostAnswer;
use super::judge::{Culprit, HangCause, minority};

/// Places of a host that are told apart in its line.
const PLACES: usize = 4;

/// A core, what it does, and what it did when it was asked first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Core<'a> {
    host: &'a str,
    state: &'a CoreState,
    before: Option<&'a CoreState>,
}

impl Core<'_> {
    /// Whether it was at the same place both times. Of one that was not seen before nobody knows.
    fn is_stuck(&self) -> bool {
        self.before.is_some_and(|before| {
            let place = |core: &CoreState| (core.launch_id, core.program_fingerprint.clone(), core.sequencers.clone());
            place(before) == place(self.state)
        })
    }

    /// Whether it was seen at two places.
    pub(super) fn moves(&self) -> bool {
        self.before.is_some() && !self.is_stuck()
    }

    /// Whether it runs nothing: no program, or a program counter that has not begun. Where a runtime has no counters, as ours,
    /// it says what runs.
    fn is_idle(&self) -> bool {
        let CoreState { program_fingerprint, launch_id, sequencers, .. } = self.state;
        let is_at_zero = !sequencers.is_empty()
            && sequencers.iter().all(|sequencer| sequencer.program_counter == 0 && sequencer.hlo_location.is_none());
        (program_fingerprint.is_none() && launch_id.is_none()) || is_at_zero
    }

    fn counters(&self) -> Vec<i64> {
        self.state.sequencers.iter().map(|sequencer| sequencer.program_counter).collect()
    }

    fn location(&self) -> Option<&str> {
        self.state.sequencers.iter().find_map(|sequencer| sequencer.hlo_location.as_deref())
    }
}

/// Cores of all hosts that answered.
pub(super) fn cores(hosts: &[HostAnswer]) -> Vec<Core<'_>> {
    let of_host = |answer| {
        let HostAnswer { host, first, last, .. }: &HostAnswer = answer;
        let before = first.as_ref().map_or(&[][..], |status| status.cores.as_slice());
        let cores = last.as_ref().map_or(&[][..], |status| status.cores.as_slice());
        cores.iter().map(move |state| Core {
            host,
            state,
            before: before.iter().find(|known| known.core == state.core),
        })
    };
    hosts.iter().flat_map(of_host).collect()
}

/// Hosts by name, single cores where others of their host are not meant.
fn named(which: &[&Core], all: &[Core]) -> Vec<String> {
    let count = |host: &str, cores: &mut dyn Iterator<Item = &Core>| cores.filter(|core| core.host == host).count();
    let mut names: Vec<String> = Vec::new();
    for core in which {
        let is_whole = count(core.host, &mut which.iter().copied()) == count(core.host, &mut tensor_cores(all));
        let name = if is_whole { core.host.to_string() } else { format!("core {} of {}", core.state.core, core.host) };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// SparseCores have launches of their own.
fn tensor_cores<'a>(cores: &'a [Core]) -> impl Iterator<Item = &'a Core<'a>> {
    cores.iter().filter(|core| core.state.is_tensor_core)
}

/// What the cores of a host do, in a line: places, and how many are there.
pub(super) fn described(status: &RuntimeStatus) -> String {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for core in &status.cores {
        let at = core.sequencers.iter().find_map(|sequencer| sequencer.hlo_location.as_deref()).unwrap_or("nowhere");
        let counter = core.sequencers.first().map_or(0, |sequencer| sequencer.program_counter);
        let place = match (core.launch_id, &core.program_fingerprint) {
            (None, None) => "idle".to_string(),
            (launch, print) => format!(
                "launch {} of {} at {at}:{counter}, {} queued",
                launch.map_or("?".to_string(), |launch| launch.to_string()),
                print.as_deref().unwrap_or("?"),
                core.queued.len()
            ),
        };
        *places.entry(place).or_default() += 1;
    }
    let mut parts: Vec<String> = places.iter().take(PLACES).map(|(at, count)| format!("{count} × {at}")).collect();
    if places.len() > PLACES {
        parts.push(format!("{} places more", places.len() - PLACES));
    }
    if status.unreadable > 0 {
        parts.push(format!("{} cores could not be read", status.unreadable));
    }
    if parts.is_empty() { "tells of no core".to_string() } else { parts.join("; ") }
}

/// Cores that report an error.
pub(super) fn failed(cores: &[Core]) -> Vec<Culprit> {
    let failed = cores.iter().filter_map(|core| {
        let error = core.state.error.as_ref()?;
        Some(Culprit {
            cause: HangCause::CoreError,
            processes: vec![format!("core {} of {}", core.state.core, core.host)],
            why: format!("it reports: {error}"),
            remedy: "keep the message; if the same host reports again, take it out of the slice".into(),
        })
    });
    failed.collect()
}

/// Cores that make no progress in an earlier launch than others, or in another program.
pub(super) fn apart(cores: &[Core]) -> Vec<Culprit> {
    let behind = behind(cores);
    if behind.is_empty() { other_program(cores) } else { behind }
}

/// Launches are counted in 32 bits, and from the start again beyond.
fn launch_order(one: i32, other: i32) -> Ordering {
    one.wrapping_sub(other).cmp(&0)
}

fn behind(cores: &[Core]) -> Vec<Culprit> {
    let launches = || tensor_cores(cores).filter_map(|core| core.state.launch_id);
    let Some((lowest, newest)) =
        launches().min_by(|a, b| launch_order(*a, *b)).zip(launches().max_by(|a, b| launch_order(*a, *b)))
    else {
        return Vec::new();
    };
    let last: Vec<&Core> = tensor_cores(cores).filter(|core| core.state.launch_id == Some(lowest)).collect();
    // What moves is slow, and hosts that are asked one after the other are in different launches.
    if lowest == newest || !last.iter().all(|core| core.is_stuck()) {
        return Vec::new();
    }
    let (cause, what) = match last.iter().all(|core| core.is_idle() || core.state.queued.is_empty()) {
        true => (HangCause::WaitsForData, "and nothing is queued behind it: its host brings no more"),
        false => (HangCause::Behind, "with more queued behind it"),
    };
    let place = last.iter().find_map(|core| core.location()).map_or(String::new(), |at| format!(" at {at}"));
    vec![Culprit {
        cause,
        processes: named(&last, cores),
        why: format!("it stays in launch {lowest}{place}, others are in {newest}, {what}"),
        remedy: "look at that host: its input pipeline, its load, its chips".into(),
    }]
}

fn other_program(cores: &[Core]) -> Vec<Culprit> {
    // Programs of one launch are one program; those of different launches may differ.
    let mut launches: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    tensor_cores(cores).for_each(|core| *launches.entry(core.state.launch_id).or_default() += 1);
    let Some(common) = launches.into_iter().max_by_key(|(_, count)| *count).map(|(launch, _)| launch) else {
        return Vec::new();
    };
    let mut programs: BTreeMap<&str, Vec<&Core>> = BTreeMap::new();
    for core in tensor_cores(cores).filter(|core| core.state.launch_id == common && core.is_stuck()) {
        if let Some(print) = core.state.program_fingerprint.as_deref() {
            programs.entry(print).or_default().push(core);
        }
    }
    if programs.len() < 2 {
        return Vec::new();
    }
    // Whoever has the program of others in its queue is in an earlier one.
    let waits_for_other = |(print, cores): &(&&str, &Vec<&Core>)| {
        let is_other = |queued: &str| queued != **print && programs.contains_key(queued);
        cores.iter().any(|core| core.state.queued.iter().any(|queued| is_other(&queued.program_fingerprint)))
    };
    let earlier: Vec<_> = programs.iter().filter(waits_for_other).collect();
    if let [(print, stuck)] = &earlier[..] {
        return vec![Culprit {
            cause: HangCause::Behind,
            processes: named(stuck, cores),
            why: format!("it is still in program {print}; the one that others run waits in its queue"),
            remedy: "look at that host: its log, its load, its chips".into(),
        }];
    }
    let of_core = programs.iter().flat_map(|(print, cores)| cores.iter().map(|core| (*print, *core)));
    let others = minority(of_core).into_iter().map(|(print, others)| Culprit {
        cause: HangCause::OtherProgram,
        processes: named(&others, cores),
        why: format!("it runs program {print}, most run another in the same launch"),
        remedy: "start all hosts with the same program, libtpu and flags".into(),
    });
    others.collect()
}

/// All are in the same launch, and none moves: those at another place than most, or with nothing to run.
pub(super) fn stuck(cores: &[Core]) -> Option<Culprit> {
    let all: Vec<&Core> = tensor_cores(cores).collect();
    if all.is_empty() || !all.iter().all(|core| core.is_stuck()) {
        return None;
    }
    let starved = |which: &[&Core], why: &str| Culprit {
        cause: HangCause::WaitsForData,
        processes: named(which, cores),
        why: why.into(),
        remedy: "look at its input pipeline: what its host reads from, and its log".into(),
    };
    let idle: Vec<&Core> = all.iter().copied().filter(|core| core.is_idle()).collect();
    if idle.len() == all.len() {
        return Some(starved(&idle, "no core has a program to run: the hosts bring none"));
    }
    if !idle.is_empty() {
        return Some(starved(&idle, "it has no program to run, and the others wait for it"));
    }
    // The few against the many.
    let mut places: BTreeMap<Vec<i64>, Vec<&Core>> = BTreeMap::new();
    all.iter().for_each(|core| places.entry(core.counters()).or_default().push(core));
    let most = places.values().map(Vec::len).max().unwrap_or_default();
    let is_minority = |group: &&Vec<&Core>| group.len() < most && most * 2 > all.len();
    let few: Vec<&Core> = places.values().filter(is_minority).flatten().copied().collect();
    let unfed = |group: &[&Core]| group.iter().all(|core| core.state.queued.is_empty());
    let unfed_all = all.iter().filter(|core| core.state.queued.is_empty()).count();
    let are_few_unfed = unfed(&few) && unfed_all < all.len();
    if !few.is_empty() && !are_few_unfed {
        let at = few.iter().find_map(|core| core.location()).unwrap_or("an unknown operation");
        let counters: Vec<String> = few.iter().flat_map(|core| core.counters()).map(|pc| pc.to_string()).collect();
        return Some(Culprit {
            cause: HangCause::OtherPlace,
            processes: named(&few, cores),
            why: format!(
                "it is at {at} (program counter {}), {most} of {} cores are elsewhere in the same program",
                counters.first().map_or("unknown", String::as_str),
                all.len()
            ),
            remedy: "start again; a host that is named three times has a bad chip: take it out of the slice".into(),
        });
    }
    let hungry: Vec<&Core> = all.iter().copied().filter(|core| core.state.queued.is_empty()).collect();
    if !hungry.is_empty() && hungry.len() * 2 < all.len() {
        return Some(starved(&hungry, "nothing is queued behind its program, and others have more to run"));
    }
    let first = all.first()?;
    let at = first.location().map_or(String::new(), |at| format!(" at {at}"));
    let launch = first.state.launch_id.map_or(String::new(), |launch| format!(" of launch {launch}"));
    Some(Culprit {
        cause: HangCause::LinkOrDevice,
        processes: named(&all, cores),
        why: format!("all {} cores stay at the same place{at}{launch}", all.len()),
        remedy: "where a step takes longer than the time between the questions, ask with a larger --apart; else a link between \
                 chips or hosts is broken: `tpu monitor` shows its health, `tpu doctor` looks at each host"
            .into(),
    })
}
