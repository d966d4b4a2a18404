//! A provider with slices that come, go and lie; workers with processes; a store. Time is virtual, in seconds.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use fleet::provider::{ProvidedSlice, ProviderError, SliceId, SliceRequest, SliceState, Worker};
use fleet::supervisor::{JobAttempt, StopHow, WorkerSeen};

/// Steps between two checkpoints.
const SAVE_EVERY: u64 = 10;

/// An abandoned request is filled so much later.
const LATE_S: u64 = 4_200;
/// Requests after this time are not late: a job that goes on for [`LATE_S`] longer sees all that are.
const LATE_UNTIL: u64 = 1_200;
/// A slice that no process uses, while the job runs in another zone, is gone after so many looks of a supervisor.
const MOST_UNUSED: u64 = 60;

/// A small generator: the same numbers for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }
}

/// What happens to a slice or a worker at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    PreemptedWithNotice,
    PreemptedSilently,
    Vanished,
    DeadWorker,
    CutOff,
    Hang,
    Crash,
}

#[derive(Clone, Debug)]
struct Process {
    attempt: u32,
    /// Runs from then on.
    from: u64,
    exit: Option<i32>,
    /// Asked to stop then.
    told: Option<u64>,
}

#[derive(Clone, Debug)]
struct Machine {
    worker: Worker,
    is_reachable: bool,
    is_alive: bool,
    fence: u64,
    process: Option<Process>,
}

#[derive(Clone, Debug)]
struct Slice {
    request: SliceRequest,
    created: u64,
    /// Capacity comes then, if there is any.
    filled_at: u64,
    ready_at: Option<u64>,
    lost: Option<u64>,
    failed: Option<&'static str>,
    deleted_at: Option<u64>,
    /// Looks of supervisors while it was ready for nobody.
    unused: u64,
    machines: Vec<Machine>,
}

impl Slice {
    /// Whether its request is on its way, and nothing that is asked reaches it.
    fn is_on_its_way(&self) -> bool {
        self.filled_at >= self.created + LATE_S && self.ready_at.is_none()
    }

    /// Whether a process lives on it.
    fn is_used(&self) -> bool {
        let lives = |process: &Process| process.exit.is_none();
        self.machines.iter().any(|machine| machine.is_alive && machine.process.as_ref().is_some_and(lives))
    }
}

/// What may go wrong by chance: one in so many calls, 0 never.
#[derive(Clone, Debug, Default)]
pub(super) struct Chances {
    pub(super) lost_before: u64,
    pub(super) lost_after: u64,
    pub(super) busy: u64,
    pub(super) failed_request: u64,
    pub(super) late: u64,
    /// Whether nobody is shown a late request before it is filled.
    pub(super) hides_late: bool,
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) random: Random,
    pub(super) chances: Chances,
    pub(super) workers_per_slice: u32,
    /// Zones without stock, and until when.
    pub(super) without_stock: BTreeMap<String, u64>,
    /// Units a zone allows at a time.
    pub(super) quota: usize,
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) steps: u64,
    pub(super) met: BTreeMap<&'static str, u64>,
    slices: BTreeMap<String, Slice>,
    /// What is paid: by name, from and until.
    pub(super) record: BTreeMap<String, Vec<(u64, Option<u64>)>>,
    /// The newest checkpoint.
    pub(super) saved: Option<u64>,
    /// JobAttempt, its step, when it hung.
    step: (u32, u64, Option<u64>),
    /// The step that the attempt began from.
    begun: u64,
    pub(super) journal: Option<(Vec<u8>, u64)>,
    pub(super) is_stopped: bool,
    made: u32,
    pub(super) broken: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        World {
            now: 1_000,
            random: Random(seed),
            chances: Chances::default(),
            workers_per_slice: 2,
            without_stock: BTreeMap::new(),
            quota: usize::MAX,
            faults: Vec::new(),
            steps: 0,
            met: BTreeMap::new(),
            slices: BTreeMap::new(),
            record: BTreeMap::new(),
            saved: None,
            step: (0, 0, None),
            begun: 0,
            journal: None,
            is_stopped: false,
            made: 0,
            broken: None,
        }
    }

    pub(super) fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn time(&self, s: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(s)
    }

    /// What an unlucky call says, before or after its effect.
    pub(super) fn luck(&mut self) -> (Option<ProviderError>, Option<ProviderError>) {
        if self.random.one_in(self.chances.busy) {
            self.meet("too many requests");
            let retry_after = self.random.one_in(2).then_some(3);
            return (Some(ProviderError::Transient { what: "429".into(), retry_after }), None);
        }
        if self.random.one_in(self.chances.lost_before) {
            self.meet("answer lost before the effect");
            return (Some(ProviderError::Unknown("lost".into())), None);
        }
        if self.random.one_in(self.chances.lost_after) {
            self.meet("answer lost after the effect");
            return (None, Some(ProviderError::Unknown("lost".into())));
        }
        (None, None)
    }

    pub(super) fn create(&mut self, request: &SliceRequest) -> Result<(), ProviderError> {
        let name = &request.id.name;
        if let Some(slice) = self.slices.get(name) {
            return if slice.request.labels == request.labels {
                Ok(())
            } else {
                Err(ProviderError::Taken(name.clone()))
            };
        }
        if self.without_stock.get(&request.id.zone).is_some_and(|until| self.now < *until) {
            self.meet("no stock");
            return Err(ProviderError::NoCapacity("stock".into()));
        }
        if self.slices.values().filter(|slice| slice.request.id.zone == request.id.zone).count() >= self.quota {
            self.meet("quota");
            return Err(ProviderError::Quota("TPUS".into()));
        }
        let mut filled_at = self.now + 5 + self.random.below(40);
        if self.now <= LATE_UNTIL && self.random.one_in(self.chances.late) {
            filled_at = self.now + LATE_S;
        }
        let is_late = filled_at >= self.now + LATE_S;
        let fails = !is_late && self.random.one_in(self.chances.failed_request);
        let failed = fails.then_some("internal error");
        if failed.is_some() {
            self.meet("failed request");
        }
        let slice = Slice {
            request: request.clone(),
            created: self.now,
            filled_at,
            ready_at: None,
            lost: None,
            failed,
            deleted_at: None,
            unused: 0,
            machines: Vec::new(),
        };
        self.slices.insert(name.clone(), slice);
        Ok(())
    }

    fn state(&self, slice: &Slice) -> SliceState {
        if slice.deleted_at.is_some() {
            return SliceState::Deleting;
        }
        if let Some(why) = slice.failed.filter(|_| self.now >= slice.created + 5) {
            return SliceState::Failed { why: why.into() };
        }
        match (slice.lost, slice.ready_at) {
            (Some(_), _) => SliceState::Lost,
            (None, None) => SliceState::Waiting,
            (None, Some(ready_at)) if self.now < ready_at => SliceState::Creating,
            (None, Some(_)) => SliceState::Ready,
        }
    }

    fn shown(&self, slice: &Slice) -> ProvidedSlice {
        let state = self.state(slice);
        ProvidedSlice {
            id: slice.request.id.clone(),
            workers: match state {
                SliceState::Ready => slice.machines.iter().map(|machine| machine.worker.clone()).collect(),
                _ => Vec::new(),
            },
            state,
            labels: slice.request.labels.clone(),
            created: Some(self.time(slice.created)),
            detail: "simulated".into(),
        }
    }

    pub(super) fn list(&self, zone: &str, labels: &BTreeMap<String, String>) -> Vec<ProvidedSlice> {
        let has = |slice: &&Slice| {
            slice.request.id.zone == zone
                && !self.is_hidden(slice)
                && labels.iter().all(|(key, value)| slice.request.labels.get(key) == Some(value))
        };
        self.slices.values().filter(has).map(|slice| self.shown(slice)).collect()
    }

    pub(super) fn get(&self, id: &SliceId) -> Option<ProvidedSlice> {
        self.slices.get(&id.name).filter(|slice| !self.is_hidden(slice)).map(|slice| self.shown(slice))
    }

    fn is_hidden(&self, slice: &Slice) -> bool {
        self.chances.hides_late && slice.is_on_its_way()
    }

    pub(super) fn delete(&mut self, id: &SliceId) {
        let takes = 2 + self.random.below(10);
        let now = self.now;
        // A request that is late is deleted by nobody before it is filled, whatever the answer says.
        if let Some(slice) = self.slices.get_mut(&id.name).filter(|slice| !slice.is_on_its_way()) {
            slice.deleted_at.get_or_insert(now + takes);
        }
    }

    pub(super) fn paid(&self, id: &SliceId) -> Vec<(SystemTime, Option<SystemTime>)> {
        let times = self.record.get(&id.name).into_iter().flatten();
        times.map(|(from, until)| (self.time(*from), until.map(|until| self.time(until)))).collect()
    }

    fn machine(&mut self, place: &fleet::supervisor::Place) -> Option<&mut Machine> {
        let slice = self.slices.get_mut(&place.unit)?;
        slice.machines.iter_mut().find(|machine| machine.worker.internal == place.internal)
    }

    pub(super) fn look(&mut self, epoch: u64, attempt: &JobAttempt) -> Vec<WorkerSeen> {
        let (now, hung) = (self.now, self.step.2);
        let mut seen = Vec::new();
        for place in &attempt.places {
            let Some(machine) = self.machine(place).filter(|machine| machine.is_reachable && machine.is_alive) else {
                seen.push(WorkerSeen::Unreachable);
                continue;
            };
            machine.fence = machine.fence.max(epoch);
            seen.push(match &machine.process {
                None => WorkerSeen::Idle,
                Some(process) if process.exit.is_some() => {
                    WorkerSeen::Exited { attempt: process.attempt, code: process.exit.unwrap_or_default() }
                }
                Some(process) if now < process.from => WorkerSeen::Preparing,
                Some(process) => WorkerSeen::Running {
                    attempt: process.attempt,
                    silent_s: hung.map_or(0, |since| now.saturating_sub(since)),
                },
            });
        }
        seen
    }

    pub(super) fn start(&mut self, epoch: u64, attempt: &JobAttempt) {
        let mut places: Vec<_> = attempt.places.iter().map(|place| &place.internal).collect();
        places.sort();
        places.dedup();
        if places.len() != attempt.places.len() {
            self.broken = Some("two processes on one machine".into());
        }
        let newest = self.saved.unwrap_or(0);
        let mut has_begun = false;
        for place in &attempt.places {
            let from = self.now + 2 + self.random.below(6);
            let Some(machine) = self.machine(place) else { continue };
            let is_busy = machine.process.as_ref().is_some_and(|process| process.exit.is_none());
            if machine.is_reachable && machine.is_alive && machine.fence <= epoch && !is_busy {
                machine.fence = epoch;
                machine.process = Some(Process { attempt: attempt.number, from, exit: None, told: None });
                has_begun = true;
            }
        }
        if has_begun && attempt.from_step.unwrap_or(0) != newest {
            let (number, from) = (attempt.number, attempt.from_step);
            self.broken = Some(format!("attempt {number} begins after step {from:?}, and the newest is {newest}"));
        }
    }

    /// A supervisor has looked at everything: what nobody uses while the job runs elsewhere does not stay for long.
    pub(super) fn supervised(&mut self) {
        let now = self.now;
        let used = self.slices.values().filter(|slice| slice.is_used());
        let zones: Vec<String> = used.map(|slice| slice.request.id.zone.clone()).collect();
        for (name, slice) in &mut self.slices {
            let is_there = slice.ready_at.is_some_and(|at| now >= at) && slice.deleted_at.is_none();
            let runs_elsewhere = zones.iter().any(|zone| *zone != slice.request.id.zone);
            slice.unused = if is_there && !slice.is_used() && runs_elsewhere { slice.unused + 1 } else { 0 };
            if slice.unused > MOST_UNUSED {
                self.broken = Some(format!("{name} is paid for and not used since long at {now}"));
            }
        }
    }

    pub(super) fn stop(&mut self, epoch: u64, attempt: &JobAttempt, how: StopHow) {
        let now = self.now;
        for place in &attempt.places {
            let Some(machine) = self.machine(place) else { continue };
            if !machine.is_reachable || !machine.is_alive || machine.fence > epoch {
                continue;
            }
            let process =
                machine.process.as_mut().filter(|process| process.attempt == attempt.number && process.exit.is_none());
            if let Some(process) = process {
                match how {
                    StopHow::Ask => drop(process.told.get_or_insert(now)),
                    StopHow::Kill => process.exit = Some(137),
                }
            }
        }
    }

    /// One second goes by.
    pub(super) fn advance(&mut self) {
        self.now += 1;
        self.move_slices();
        while self.faults.first().is_some_and(|(at, _)| self.now >= *at) {
            let (_, fault) = self.faults.remove(0);
            if !self.strike(fault) {
                // Nothing to strike yet.
                self.faults.push((self.now + 7, fault));
                self.faults.sort_by_key(|(at, _)| *at);
            }
        }
        self.move_processes();
    }

    fn move_slices(&mut self) {
        let now = self.now;
        let mut gone = Vec::new();
        let mut late = 0;
        for (name, slice) in &mut self.slices {
            let times = self.record.entry(name.clone()).or_default();
            let is_paid = times.last().is_some_and(|(_, until)| until.is_none());
            if slice.deleted_at.is_some_and(|at| now >= at) {
                if is_paid && let Some(last) = times.last_mut() {
                    last.1 = Some(now);
                }
                gone.push(name.clone());
                continue;
            }
            let is_open = slice.deleted_at.is_none() && slice.failed.is_none();
            if is_open && slice.ready_at.is_none() && now >= slice.filled_at {
                late += u64::from(now >= slice.created + LATE_S);
                times.push((now, None));
                slice.ready_at = Some(now + 3 + self.random.below(10));
                for group in 0..slice.request.slices {
                    for number in 0..self.workers_per_slice {
                        self.made += 1;
                        let [a, b] = (self.made as u16).to_be_bytes();
                        let internal = IpAddr::V4(Ipv4Addr::new(10, 0, a, b));
                        let worker = Worker { slice: group, number, internal, external: None };
                        slice.machines.push(Machine {
                            worker,
                            is_reachable: true,
                            is_alive: true,
                            fence: 0,
                            process: None,
                        });
                    }
                }
            }
            // The notice is over.
            if slice.lost.is_some_and(|at| now >= at + 30) {
                slice.machines.iter_mut().for_each(|machine| machine.is_alive = false);
            }
        }
        for name in gone {
            self.slices.remove(&name);
        }
        let what = if self.chances.hides_late { "unseen, filled 70 minutes later" } else { "filled 70 minutes later" };
        for _ in 0..late {
            self.meet(what);
        }
    }

    /// Whether a fault found something to strike.
    fn strike(&mut self, fault: Fault) -> bool {
        let now = self.now;
        let attempt = self.step.0;
        let has_saved = self.saved.is_some_and(|step| step > self.begun);
        let is_used = |slice: &Slice| {
            let runs =
                |machine: &Machine| machine.process.as_ref().is_some_and(|p| p.attempt == attempt && p.exit.is_none());
            slice.lost.is_none()
                && slice.deleted_at.is_none()
                && slice.machines.iter().any(|m| m.is_alive && m.is_reachable && runs(m))
        };
        let names: Vec<String> =
            self.slices.iter().filter(|(_, slice)| is_used(slice)).map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return false;
        }
        let at = self.random.below(names.len() as u64) as usize;
        let which = self.random.next() as usize;
        let Some(slice) = self.slices.get_mut(&names[at]) else { return false };
        let machine = which % slice.machines.len().max(1);
        match fault {
            Fault::PreemptedWithNotice => {
                slice.lost = Some(now);
                for process in slice.machines.iter_mut().filter_map(|machine| machine.process.as_mut()) {
                    process.told.get_or_insert(now);
                }
                self.meet("preempted with notice");
            }
            Fault::PreemptedSilently => {
                // It says READY for ever.
                slice.machines.iter_mut().for_each(|machine| machine.is_alive = false);
                self.meet("preempted without a word");
            }
            Fault::Vanished => {
                slice.machines.iter_mut().for_each(|machine| machine.is_alive = false);
                slice.deleted_at = Some(now);
                self.meet("preempted, vanished");
            }
            Fault::DeadWorker => {
                slice.machines[machine].is_alive = false;
                self.meet("dead worker");
            }
            Fault::CutOff => {
                // Its process goes on: only the end of the machine ends it.
                slice.machines[machine].is_reachable = false;
                self.meet("worker cut off");
            }
            Fault::Hang if has_saved => {
                self.step.2 = Some(now);
                self.meet("hang");
            }
            Fault::Crash if has_saved => {
                let Some(process) = slice.machines[machine].process.as_mut().filter(|p| p.exit.is_none()) else {
                    return false;
                };
                process.exit = Some(if which.is_multiple_of(2) { 139 } else { 2 });
                self.meet("crash");
            }
            Fault::Hang | Fault::Crash => return false,
        }
        true
    }

    fn move_processes(&mut self) {
        let now = self.now;
        let mut attempts = BTreeMap::<u32, Vec<(bool, Option<u64>)>>::new();
        let mut expected = BTreeMap::<u32, usize>::new();
        for machine in self.slices.values().flat_map(|slice| &slice.machines) {
            if let Some(process) = &machine.process {
                *expected.entry(process.attempt).or_default() += 1;
                if machine.is_alive && process.exit.is_none() {
                    attempts
                        .entry(process.attempt)
                        .or_default()
                        .push((now >= process.from && machine.is_reachable, process.told));
                }
            }
        }
        if attempts.len() > 1 {
            self.broken = Some(format!("two copies live at {now}: attempts {:?}", attempts.keys().collect::<Vec<_>>()));
        }
        let Some((&attempt, processes)) = attempts.iter().next() else { return };
        if self.step.0 != attempt {
            self.begun = self.saved.unwrap_or(0);
            self.step = (attempt, self.begun, None);
        }
        let is_whole = processes.len() == expected[&attempt] && processes.iter().all(|(is_up, _)| *is_up);
        let is_asked = processes.iter().filter_map(|(_, told)| *told).min();
        let has_lost = processes.len() < expected[&attempt];
        let mut exit = None;
        if is_whole && self.step.2.is_none() {
            // What was finished before and nobody saw is finished.
            self.step.1 = (self.step.1 + 1).min(self.steps);
            let is_done = self.step.1 >= self.steps;
            let is_saved = is_asked.is_some_and(|told| now >= told + 2);
            if is_done || is_saved || self.step.1.is_multiple_of(SAVE_EVERY) {
                self.save(attempt);
            }
            exit = if is_done { Some(0) } else { is_saved.then_some(75) };
        } else if has_lost && self.random.one_in(5) {
            // The others notice that one is gone.
            exit = Some(2);
        } else if self.step.2.is_none() && is_asked.is_some_and(|told| now >= told + 10) {
            exit = Some(2);
        }
        if let Some(code) = exit {
            for machine in self.slices.values_mut().flat_map(|slice| &mut slice.machines) {
                if let Some(process) = machine.process.as_mut().filter(|p| p.attempt == attempt && p.exit.is_none())
                    && machine.is_alive
                    && machine.is_reachable
                {
                    process.exit = Some(code);
                }
            }
        }
    }

    fn save(&mut self, attempt: u32) {
        let (newest, step) = (self.saved.unwrap_or(0), self.step.1);
        if step < newest {
            self.broken = Some(format!("attempt {attempt} saved step {step} over step {newest}"));
        }
        self.saved = Some(step.max(newest));
    }

    /// Slices that are there.
    pub(super) fn left(&self) -> Vec<String> {
        self.slices.keys().cloned().collect()
    }

    /// Processes that live.
    pub(super) fn has_processes(&self) -> bool {
        let machines = self.slices.values().flat_map(|slice| &slice.machines);
        machines.filter(|machine| machine.is_alive).any(|m| m.process.as_ref().is_some_and(|p| p.exit.is_none()))
    }
}
