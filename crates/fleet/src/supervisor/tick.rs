//! One turn of the supervisor: observe, decide, write, act.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::decide::{Action, Seen, StopHow, WorkerSeen, ZoneLook, decide};
use super::journal::{JobOwner, Journal, LEASE_MS, Records};
use super::state::{AttemptPhase, JobAttempt, JobState, StopCause, Unit};
use crate::job::JobFile;
use crate::provider::{PaidTime, ProvidedSlice, Provider, ProviderError, SliceId};

/// The journal is renewed at least so often.
const RENEW_MS: u64 = LEASE_MS / 3;
/// Nothing is begun when the lease ends so soon: the answer may take as long.
const MARGIN_MS: u64 = 5_000;
/// Between two looks while something is about to change.
const BUSY_MS: u64 = 500;
/// Between two looks while nothing is, and more of it for each worker that is looked at.
const CALM_MS: u64 = 1_000;
const CALM_WORKER_MS: u64 = 50;
/// The longest such time.
const CALMEST_MS: u64 = 5_000;
/// Between two questions to a bucket while everything runs.
const STORE_MS: u64 = 5_000;
/// For so long the provider is asked what it has recorded of a slice that is gone.
const BILL_MS: u64 = 600_000;
/// A zone with slices that are there, come or go is looked at so often at most.
const ZONE_MS: u64 = 900;
/// One where all of them wait in the queue.
const WAITING_ZONE_MS: u64 = 2_000;
/// One where they have waited for [`LONG_WAIT_MS`].
const LONG_WAITING_ZONE_MS: u64 = 10_000;
const LONG_WAIT_MS: u64 = 600_000;
/// One where nothing is wanted: a request that was given up may still be filled there.
const QUIET_ZONE_MS: u64 = 30_000;

/// The machines of an attempt: what the supervisor asks of them.
pub trait JobWorkers {
    /// What every worker does, in the order of the places. From then on workers refuse to start anything for a supervisor of
    /// an earlier epoch.
    fn look(&self, epoch: u64, attempt: &JobAttempt) -> Vec<WorkerSeen>;

    /// Prepares the workers and starts the processes. It does not wait for them. A worker that still has a process of
    /// another attempt refuses.
    fn start(&self, epoch: u64, attempt: &JobAttempt);

    /// Stops the processes of an attempt. It does not wait for them.
    fn stop(&self, epoch: u64, attempt: &JobAttempt, how: StopHow);

    /// The step of the newest checkpoint.
    fn newest_step(&self) -> Option<u64>;

    /// Whether somebody asked the job to stop.
    fn is_stopped(&self) -> bool;
}

/// Why a supervisor ends before its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorError {
    /// Another one has taken the job over.
    Replaced {
        /// Who.
        by: String,
    },
    /// The journal is of another job.
    OtherJob {
        /// The name in the journal.
        found: String,
    },
    /// The journal cannot be read or written.
    Journal(String),
}

impl fmt::Display for SupervisorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaced { by } => write!(f, "another supervisor has taken the job over: {by}"),
            Self::OtherJob { found } => write!(f, "the folder is that of another job, {found}"),
            Self::Journal(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for SupervisorError {}

/// What a turn came to.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// The next turn is due after so many milliseconds.
    pub wait_ms: u64,
    /// For people.
    pub says: Vec<String>,
    /// The job is over and nothing of it is left.
    pub is_over: bool,
    /// Who holds the job, where it is not this one.
    pub held_by: Option<String>,
}

/// A supervisor of one job.
pub struct Supervisor<'a, R: Records> {
    job: &'a JobFile,
    provider: &'a dyn Provider,
    workers: &'a dyn JobWorkers,
    records: R,
    clock: &'a dyn Fn() -> u64,
    me: JobOwner,
    run: String,
    held: Option<Held<R::Version>>,
    /// The update of another's journal, and since when it is unchanged.
    waiting: Option<(u64, u64)>,
    /// What was last seen of zones, and when.
    views: BTreeMap<String, ZoneView>,
    refused: Vec<(SliceId, ProviderError)>,
    /// When the store was last asked for checkpoints and a wish to stop.
    asked_store_ms: u64,
    /// A start that was decided and not done.
    has_missed_start: bool,
    /// A start that another supervisor began.
    has_inherited_start: bool,
}

/// What was last seen of a zone.
struct ZoneView {
    at_ms: u64,
    slices: Vec<ProvidedSlice>,
    /// Something was asked of it since.
    is_stale: bool,
}

struct Held<V> {
    journal: Journal,
    version: V,
    renewed_ms: u64,
}

impl<'a, R: Records> Supervisor<'a, R> {
    /// A supervisor that does nothing yet. `run` names the job's run if this is its first supervisor; `clock` tells
    /// milliseconds since 1970.
    pub fn new(
        job: &'a JobFile,
        provider: &'a dyn Provider,
        workers: &'a dyn JobWorkers,
        records: R,
        clock: &'a dyn Fn() -> u64,
        me: JobOwner,
        run: &str,
    ) -> Self {
        Supervisor {
            job,
            provider,
            workers,
            records,
            clock,
            me,
            run: run.to_string(),
            held: None,
            waiting: None,
            views: BTreeMap::new(),
            refused: Vec::new(),
            asked_store_ms: 0,
            has_missed_start: false,
            has_inherited_start: false,
        }
    }

    /// What is known, as far as this supervisor holds the job.
    pub fn state(&self) -> Option<&JobState> {
        self.held.as_ref().map(|held| &held.journal.state)
    }

    /// One turn.
    pub fn tick(&mut self) -> Result<Tick, SupervisorError> {
        if self.held.is_none() {
            let tick = self.take()?;
            if self.held.is_none() {
                return Ok(tick);
            }
        }
        let before = match &self.held {
            Some(held) => held.journal.state.clone(),
            None => return Ok(Tick::default()),
        };
        let mut state = before.clone();
        let epoch = self.epoch();
        if self.has_missed_start {
            state.stop(StopCause::Capacity, "the supervisor was too slow to start it", (self.clock)());
        }
        let seen = self.observe(&mut state, epoch);
        self.has_missed_start = false;
        if std::mem::take(&mut self.has_inherited_start) {
            // Workers that do not run yet cannot be started any more: the secret is gone with the one who began.
            let runs = |worker: &WorkerSeen| matches!(worker, WorkerSeen::Running { .. } | WorkerSeen::Exited { .. });
            if seen.workers.is_empty() || !seen.workers.iter().all(runs) {
                state.stop(StopCause::Capacity, "its supervisor was replaced while it started", (self.clock)());
            }
        }
        let now_ms = (self.clock)();
        let mut decision = decide(self.job, &mut state, &seen, now_ms);
        for action in &mut decision.actions {
            if let Action::Start(attempt) = action {
                attempt.epoch = epoch;
            }
        }
        if let Some(attempt) = &mut state.attempt
            && attempt.epoch == 0
        {
            attempt.epoch = epoch;
        }
        let is_over = state.is_over;
        let places = state.attempt.as_ref().map_or(0, |attempt| attempt.places.len() as u64);
        let is_due = self.held.as_ref().is_none_or(|held| now_ms >= held.renewed_ms + RENEW_MS);
        if state != before || is_due {
            self.write(state)?;
        }
        self.act(&decision.actions);
        let calm_ms = (CALM_MS + places * CALM_WORKER_MS).min(CALMEST_MS);
        let wait_ms = if decision.is_busy { BUSY_MS } else { calm_ms };
        Ok(Tick { wait_ms, says: decision.says, is_over, held_by: None })
    }

    /// Lets go of the job, so that another supervisor need not wait.
    pub fn release(&mut self) -> Result<(), SupervisorError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let mut journal = held.journal;
        journal.update += 1;
        journal.owner = None;
        match journal.swap(&self.records, Some(&held.version)) {
            Ok(_) => Ok(()),
            Err(error) => Err(SupervisorError::Journal(error)),
        }
    }

    fn epoch(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.journal.epoch)
    }

    /// Takes the job, if nobody holds it.
    fn take(&mut self) -> Result<Tick, SupervisorError> {
        let now_ms = (self.clock)();
        let found = Journal::read(&self.records).map_err(SupervisorError::Journal)?;
        let (journal, expected) = match found {
            None => {
                let state = JobState::new(self.job, &self.run, now_ms);
                (Journal::new(self.me.clone(), state), None)
            }
            Some((journal, version)) => {
                if journal.state.job != self.job.name {
                    return Err(SupervisorError::OtherJob { found: journal.state.job });
                }
                if journal.state.is_over {
                    return Ok(Tick { is_over: true, ..Tick::default() });
                }
                // One of this machine that has ended holds nothing; of others only their silence tells.
                let is_there = |owner: &&JobOwner| **owner != self.me && !owner.has_ended_here();
                if let Some(owner) = journal.owner.as_ref().filter(is_there) {
                    let since_ms = match self.waiting {
                        Some((update, since_ms)) if update == journal.update => since_ms,
                        _ => now_ms,
                    };
                    self.waiting = Some((journal.update, since_ms));
                    if now_ms < since_ms + LEASE_MS {
                        let held_by = Some(owner.to_string());
                        return Ok(Tick { wait_ms: BUSY_MS, held_by, ..Tick::default() });
                    }
                }
                let mut journal = journal;
                journal.update += 1;
                journal.epoch += 1;
                journal.owner = Some(self.me.clone());
                let attempt = journal.state.attempt.as_ref();
                self.has_inherited_start = attempt.is_some_and(|attempt| attempt.phase == AttemptPhase::Starting);
                (journal, Some(version))
            }
        };
        match journal.swap(&self.records, expected.as_ref()).map_err(SupervisorError::Journal)? {
            Some(version) => {
                self.waiting = None;
                self.held = Some(Held { journal, version, renewed_ms: now_ms });
            }
            None => self.waiting = None,
        }
        Ok(Tick { wait_ms: BUSY_MS, ..Tick::default() })
    }

    fn observe(&mut self, state: &mut JobState, epoch: u64) -> Seen {
        let mut seen = Seen { refused: std::mem::take(&mut self.refused), ..Seen::default() };
        let labels = state.labels();
        for zone in &self.job.slices.zones {
            let now_ms = (self.clock)();
            let view = self.views.get(zone);
            if let Some(view) =
                view.filter(|view| !view.is_stale && now_ms < view.at_ms + zone_pace(state, zone, now_ms))
            {
                // Nothing new is known, and what was seen is likely still so.
                seen.slices.extend(view.slices.iter().cloned());
                continue;
            }
            let before_ms = view.map(|view| view.at_ms);
            let Ok(mut slices) = self.provider.list(zone, &labels) else { continue };
            // A list may lag: what is not in it is asked for by name.
            let is_listed = |slices: &[ProvidedSlice], name: &str| slices.iter().any(|slice| slice.id.name == name);
            let missing = state.units.iter().filter(|unit| {
                let is_known = unit.gone_ms.is_none() && unit.is_seen;
                unit.zone == *zone && is_known && !is_listed(&slices, &unit.name)
            });
            let mut is_complete = true;
            let mut found = Vec::new();
            for unit in missing {
                match self.provider.get(&unit.id()) {
                    Ok(slice) => found.extend(slice),
                    Err(_) => is_complete = false,
                }
            }
            slices.extend(found);
            seen.slices.extend(slices.iter().cloned());
            if is_complete {
                seen.zones.insert(zone.clone());
                seen.looks.insert(zone.clone(), ZoneLook { before_ms, at_ms: now_ms });
                self.views.insert(zone.clone(), ZoneView { at_ms: now_ms, slices, is_stale: false });
            }
        }
        // What was paid is asked for when a unit is given and when it is gone.
        for unit in &mut state.units {
            let is_gone = unit.gone_ms.is_some() && !unit.is_billed;
            let is_new = unit.given_ms.is_some() && !unit.is_given_asked && unit.gone_ms.is_none();
            if !is_gone && !is_new {
                continue;
            }
            match self.provider.paid(&unit.id()) {
                Ok(times) => {
                    unit.paid = times.iter().map(paid_ms).collect();
                    unit.is_given_asked = true;
                    let is_closed = unit.paid.iter().all(|(_, until)| until.is_some());
                    unit.is_billed = unit.gone_ms.is_some() && is_closed;
                }
                // A record that cannot be read keeps no job from its end: what was seen counts.
                Err(error) => {
                    let is_refused = matches!(error, ProviderError::Denied(_) | ProviderError::Invalid(_));
                    let now_ms = (self.clock)();
                    let is_late = |gone_ms: u64| is_refused || now_ms >= gone_ms + BILL_MS;
                    unit.is_billed = unit.gone_ms.is_some_and(is_late);
                    unit.is_given_asked |= is_refused;
                }
            }
        }
        if let Some(attempt) = &state.attempt {
            seen.workers = self.workers.look(epoch, attempt);
        }
        // A bucket is paid for by the question: it is asked less often while everything runs.
        let now_ms = (self.clock)();
        let is_running = |worker: &WorkerSeen| matches!(worker, WorkerSeen::Running { .. });
        let is_calm = state.attempt.as_ref().is_some_and(|attempt| attempt.phase == AttemptPhase::Running)
            && seen.workers.iter().all(is_running)
            && self.job.folder.contains("://");
        if !is_calm || now_ms >= self.asked_store_ms + STORE_MS {
            self.asked_store_ms = now_ms;
            seen.step = self.workers.newest_step();
            seen.is_stopped = self.workers.is_stopped();
        }
        seen
    }

    fn write(&mut self, state: JobState) -> Result<(), SupervisorError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let now_ms = (self.clock)();
        let mut next = held.journal.clone();
        next.update += 1;
        next.state = state;
        if next.state.is_over {
            next.owner = None;
        }
        match next.swap(&self.records, Some(&held.version)) {
            Ok(Some(version)) => {
                self.held = Some(Held { journal: next, version, renewed_ms: now_ms });
                Ok(())
            }
            Ok(None) => Err(self.replaced()),
            Err(error) => {
                // It may have been written nevertheless, so that this one knows nothing: it begins anew.
                self.held = None;
                Err(SupervisorError::Journal(error))
            }
        }
    }

    /// Another supervisor has the job: what this one asked for at the last moment must not be left behind.
    fn replaced(&mut self) -> SupervisorError {
        self.held = None;
        let by = match Journal::read(&self.records) {
            Ok(Some((journal, _))) => {
                self.leave_nothing(&journal);
                journal.owner.map_or_else(|| "it has ended since".into(), |owner| owner.to_string())
            }
            _ => "the journal cannot be read".into(),
        };
        SupervisorError::Replaced { by }
    }

    fn leave_nothing(&self, journal: &Journal) {
        let labels = journal.state.labels();
        for zone in &self.job.slices.zones {
            for slice in self.provider.list(zone, &labels).unwrap_or_default() {
                let is_wanted = journal.state.units.iter().any(|unit| unit.name == slice.id.name && unit.is_wanted());
                if !is_wanted {
                    let _ = self.provider.delete(&slice.id);
                }
            }
        }
    }

    fn act(&mut self, actions: &[Action]) {
        let (Some(renewed_ms), epoch) = (self.held.as_ref().map(|held| held.renewed_ms), self.epoch()) else { return };
        for action in actions {
            // Another supervisor may have taken over meanwhile.
            let is_safe = (self.clock)() + MARGIN_MS < renewed_ms + LEASE_MS;
            let zone = match action {
                Action::Create(request) => Some(&request.id.zone),
                Action::Delete(id) => Some(&id.zone),
                Action::Start(_) | Action::Stop(..) => None,
            };
            if let Some(view) = zone.and_then(|zone| self.views.get_mut(zone)) {
                view.is_stale = true;
            }
            match action {
                Action::Start(_) if !is_safe => self.has_missed_start = true,
                _ if !is_safe => {}
                Action::Create(request) => {
                    if let Err(error) = self.provider.create(request) {
                        self.refused.push((request.id.clone(), error));
                    }
                }
                // It is repeated until the slice is gone, so that its answer does not matter.
                Action::Delete(id) => {
                    let _ = self.provider.delete(id);
                }
                Action::Start(attempt) => self.workers.start(epoch, attempt),
                Action::Stop(attempt, how) => self.workers.stop(epoch, attempt, *how),
            }
        }
    }
}

/// How often a zone is looked at.
fn zone_pace(state: &JobState, zone: &str, now_ms: u64) -> u64 {
    if state.ending.is_some() && state.attempt.is_none() {
        // All zones at once, so that nothing is left anywhere.
        return 0;
    }
    let there = || state.units.iter().filter(|unit| unit.zone == zone && unit.gone_ms.is_none());
    let waits = |unit: &Unit| unit.is_wanted() && unit.is_seen && unit.given_ms.is_none();
    if there().next().is_none() {
        return QUIET_ZONE_MS;
    }
    match there().all(waits) {
        false => ZONE_MS,
        true if there().all(|unit| now_ms >= unit.asked_ms + LONG_WAIT_MS) => LONG_WAITING_ZONE_MS,
        true => WAITING_ZONE_MS,
    }
}

fn paid_ms(time: &PaidTime) -> (Option<u64>, Option<u64>) {
    (time.from.map(ms), time.until.map(ms))
}

fn ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
