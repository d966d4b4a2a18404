//! What a profiling session records of the device: launches, steps of programs and the threads that work on them.
//!
//! A profiler is one of the process, as PJRT has it: at most one session is on. While none is, all of this costs one relaxed
//! load for each step and for each job of the thread pool. Buffers are bounded: what does not fit is counted and dropped.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Events of each kind that a session keeps.
pub(crate) const MAX_EVENTS: usize = 1 << 20;

/// Programs of which a session keeps a description.
const MAX_PROGRAMS: usize = 1 << 12;

/// Steps that a run gathers before it takes the lock.
const BATCH: usize = 256;

/// Number of the session that is on; 0 for none.
static SESSION: AtomicU64 = AtomicU64::new(0);

/// Numbers of sessions so far.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

static CURRENT: Mutex<Option<Arc<Recording>>> = Mutex::new(None);

/// What is known of a program that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProgramDescription {
    /// The module's name.
    pub(crate) name: String,
    /// Tells programs apart.
    pub(crate) id: u64,
    /// By the number of a step.
    pub(crate) steps: Vec<StepDescription>,
}

/// What is known of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepDescription {
    /// As in `fusion.12`.
    pub(crate) name: String,
    /// The kernel that does it.
    pub(crate) kernel: String,
    /// As in `loop fusion`.
    pub(crate) category: String,
    /// Ops of the program that it computes, as in `add.7`.
    pub(crate) ops: Vec<String>,
    /// Scopes and op as the framework named them, of the op that stands for the step.
    pub(crate) scope: String,
    /// File and line of that op.
    pub(crate) source: String,
    pub(crate) flops: f64,
    pub(crate) bytes: u64,
}

/// A span of time, in nanoseconds since the session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
}

/// One execution of a program on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) device: u32,
    /// Place in [`Recorded::programs`].
    pub(crate) program: u32,
    /// Tells launches apart.
    pub(crate) number: u32,
    pub(crate) span: Span,
}

/// One execution of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepRun {
    pub(crate) device: u32,
    pub(crate) program: u32,
    pub(crate) launch: u32,
    pub(crate) step: u32,
    pub(crate) span: Span,
}

/// What a thread of the host did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadWork {
    /// Place in [`Recorded::threads`].
    pub(crate) thread: u32,
    pub(crate) what: Doing,
    pub(crate) span: Span,
}

/// What a thread of the host is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Its share of a step.
    Step(Tag),
    /// A launch was asked for.
    Execute { launch: u32 },
    /// Bytes are copied to a device.
    CopyIn { bytes: u64 },
    /// Bytes are copied from a device.
    CopyOut { bytes: u64 },
}

/// The step that a job of the thread pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) program: u32,
    pub(crate) launch: u32,
    pub(crate) step: u32,
}

/// All that a session recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) programs: Vec<Arc<ProgramDescription>>,
    pub(crate) launches: Vec<Launch>,
    pub(crate) steps: Vec<StepRun>,
    pub(crate) work: Vec<ThreadWork>,
    /// Names of threads.
    pub(crate) threads: Vec<(u32, String)>,
    /// Events that did not fit.
    pub(crate) dropped: u64,
    /// Whether it was taken.
    pub(crate) is_closed: bool,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Recording {
    number: u64,
    began: Instant,
    /// Nanoseconds since 1970.
    pub(crate) began_unix_ns: u64,
    max_events: usize,
    launches: AtomicU32,
    recorded: Mutex<Recorded>,
}

impl Recording {
    pub(crate) fn new(max_events: usize) -> Arc<Recording> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Arc::new(Recording {
            number: SESSIONS.fetch_add(1, Ordering::Relaxed) + 1,
            began: Instant::now(),
            began_unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(0),
            max_events,
            launches: AtomicU32::new(0),
            recorded: Mutex::default(),
        })
    }

    /// Turns recording on; false where another session is on.
    pub(crate) fn turn_on(self: &Arc<Self>) -> bool {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_some() {
            return false;
        }
        *current = Some(self.clone());
        SESSION.store(self.number, Ordering::Relaxed);
        true
    }

    /// Turns recording off. What still runs adds what it gathered until [`take`](Self::take).
    pub(crate) fn turn_off(&self) {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.number == self.number) {
            SESSION.store(0, Ordering::Relaxed);
            *current = None;
        }
    }

    /// What was recorded; nothing is added any more.
    pub(crate) fn take(&self) -> Recorded {
        let mut recorded = self.lock();
        let taken = std::mem::take(&mut *recorded);
        recorded.is_closed = true;
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn span(&self, start: Instant, end: Instant) -> Span {
        let nanos = |time: Instant| time.saturating_duration_since(self.began).as_nanos() as u64;
        Span { start_ns: nanos(start), duration_ns: nanos(end).saturating_sub(nanos(start)) }
    }

    /// A number for a launch, never 0.
    fn next_launch(&self) -> u32 {
        self.launches.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    fn program(&self, description: &Arc<ProgramDescription>) -> Option<u32> {
        let mut recorded = self.lock();
        let known = recorded.programs.iter().position(|known| Arc::ptr_eq(known, description));
        let at = known.or_else(|| {
            let has_room = recorded.programs.len() < MAX_PROGRAMS && !recorded.is_closed;
            has_room.then(|| {
                recorded.programs.push(description.clone());
                recorded.programs.len() - 1
            })
        })?;
        u32::try_from(at).ok()
    }

    fn add_steps(&self, steps: &mut Vec<StepRun>) {
        let mut recorded = self.lock();
        if !recorded.is_closed {
            let room = self.max_events.saturating_sub(recorded.steps.len());
            recorded.dropped += steps.len().saturating_sub(room) as u64;
            recorded.steps.extend(steps.drain(..).take(room));
        }
        steps.clear();
    }

    fn add_launch(&self, launch: Launch) {
        let mut recorded = self.lock();
        match recorded.launches.len() < self.max_events {
            _ if recorded.is_closed => {}
            true => recorded.launches.push(launch),
            false => recorded.dropped += 1,
        }
    }

    fn add_work(&self, what: Doing, start: Instant, end: Instant) {
        let span = self.span(start, end);
        let thread = thread_number();
        let mut recorded = self.lock();
        if recorded.is_closed {
            return;
        }
        if recorded.work.len() >= self.max_events {
            recorded.dropped += 1;
            return;
        }
        if !recorded.threads.iter().any(|(known, _)| *known == thread) {
            let name = std::thread::current().name().unwrap_or("").to_string();
            recorded.threads.push((thread, name));
        }
        recorded.work.push(ThreadWork { thread, what, span });
    }
}

/// A number of this thread, which no other has.
fn thread_number() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// The session that is on; 0 for none. This is all that is asked while nothing is recorded.
#[inline]
pub(crate) fn session() -> u64 {
    SESSION.load(Ordering::Relaxed)
}

fn current() -> Option<Arc<Recording>> {
    if session() == 0 {
        return None;
    }
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

thread_local! {
    /// The step that this thread runs, for the jobs it gives to the pool.
    static STEP: Cell<Option<Tag>> = const { Cell::new(None) };
}

/// The step that this thread runs, if it is recorded.
#[inline]
pub(crate) fn tag() -> Option<Tag> {
    if session() == 0 { None } else { STEP.get() }
}

/// Records that this thread did its share of a step since `start`.
pub(crate) fn shared_step(tag: Tag, start: Instant) {
    if let Some(recording) = current() {
        recording.add_work(Doing::Step(tag), start, Instant::now());
    }
}

/// Something that a thread does, recorded when it is dropped; nothing while no session is on.
pub(crate) struct Working {
    recording: Option<Arc<Recording>>,
    what: Doing,
    start: Instant,
}

impl Working {
    /// Asks for a launch. Returns its number too, 0 while nothing is recorded.
    pub(crate) fn execute() -> (Option<Working>, u32) {
        let Some(recording) = current() else { return (None, 0) };
        let launch = recording.next_launch();
        (Some(Working { recording: Some(recording), what: Doing::Execute { launch }, start: Instant::now() }), launch)
    }

    /// Copies bytes.
    pub(crate) fn copies(what: Doing) -> Option<Working> {
        let recording = current()?;
        Some(Working { recording: Some(recording), what, start: Instant::now() })
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(recording) = self.recording.take() {
            recording.add_work(self.what, self.start, Instant::now());
        }
    }
}

/// Where a run is, for whoever records it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    /// `None` for a device of another process, which records it there.
    pub(crate) device: Option<u32>,
    /// As [`Working::execute`] gave it; 0 for a number of its own.
    pub(crate) launch: u32,
}

/// Records the steps of one run, as long as a session is on.
pub(crate) struct RunRecorder<'r> {
    describe: &'r dyn Fn() -> Arc<ProgramDescription>,
    device: u32,
    launch: u32,
    /// The session it records for, or recorded nothing for: 0 for none.
    session: u64,
    /// Whether it follows the sessions of the process.
    follows: bool,
    active: Option<Active>,
}

struct Active {
    recording: Arc<Recording>,
    program: u32,
    launch: u32,
    began: Instant,
    steps: Vec<StepRun>,
}

impl<'r> RunRecorder<'r> {
    /// Records for the session that is on, whichever that is at each step.
    pub(crate) fn new(describe: &'r dyn Fn() -> Arc<ProgramDescription>, site: Site) -> RunRecorder<'r> {
        let Site { device, launch } = site;
        let device_number = device.unwrap_or(0);
        RunRecorder { describe, device: device_number, launch, session: 0, follows: device.is_some(), active: None }
    }

    /// Records for one session only, which need not be that of the process.
    pub(crate) fn into(
        describe: &'r dyn Fn() -> Arc<ProgramDescription>,
        recording: &Arc<Recording>,
    ) -> RunRecorder<'r> {
        let mut recorder = RunRecorder { describe, device: 0, launch: 0, session: 0, follows: false, active: None };
        recorder.begin(recording.clone());
        recorder
    }

    /// Whether the next step is recorded.
    #[inline]
    pub(crate) fn is_on(&mut self) -> bool {
        if self.follows && session() != self.session {
            self.switch();
        }
        self.active.is_some()
    }

    #[cold]
    fn switch(&mut self) {
        self.end();
        match current() {
            Some(recording) => self.begin(recording),
            None => self.session = 0,
        }
    }

    fn begin(&mut self, recording: Arc<Recording>) {
        self.session = recording.number;
        let Some(program) = recording.program(&(self.describe)()) else { return };
        let launch = if self.launch == 0 { recording.next_launch() } else { self.launch };
        let steps = Vec::with_capacity(BATCH);
        self.active = Some(Active { recording, program, launch, began: Instant::now(), steps });
    }

    /// A step begins on this thread; when, if it is recorded.
    #[inline]
    pub(crate) fn enter(&mut self, step: u32) -> Option<Instant> {
        if !self.is_on() {
            return None;
        }
        let &Active { program, launch, .. } = self.active.as_ref()?;
        STEP.set(Some(Tag { program, launch, step }));
        Some(Instant::now())
    }

    /// A step is over.
    pub(crate) fn step(&mut self, step: u32, start: Instant, end: Instant) {
        STEP.set(None);
        let device = self.device;
        let Some(Active { recording, program, launch, steps, .. }) = &mut self.active else { return };
        steps.push(StepRun { device, program: *program, launch: *launch, step, span: recording.span(start, end) });
        if steps.len() >= BATCH {
            recording.add_steps(steps);
        }
    }

    /// The run is over, or its session is.
    fn end(&mut self) {
        STEP.set(None);
        let Some(mut active) = self.active.take() else { return };
        let span = active.recording.span(active.began, Instant::now());
        let Active { program, launch, .. } = active;
        active.recording.add_steps(&mut active.steps);
        active.recording.add_launch(Launch { device: self.device, program, number: launch, span });
    }
}

impl Drop for RunRecorder<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Arc<ProgramDescription> {
        Arc::new(ProgramDescription { name: "test".into(), ..ProgramDescription::default() })
    }

    /// Runs `count` steps of a program. A session that was taken records none of them.
    fn run(recording: &Arc<Recording>, count: u32) {
        let description = described();
        let describe = || description.clone();
        let mut recorder = RunRecorder::into(&describe, recording);
        for step in 0..count {
            if let Some(start) = recorder.enter(step) {
                recorder.step(step, start, Instant::now());
            }
        }
    }

    #[test]
    fn steps_and_launches_are_kept_in_order() {
        let recording = Recording::new(MAX_EVENTS);
        run(&recording, 3 * BATCH as u32 + 1);
        run(&recording, 2);
        let recorded = recording.take();
        assert_eq!((recorded.programs.len(), recorded.launches.len(), recorded.dropped), (2, 2, 0));
        assert_eq!(recorded.launches.iter().map(|launch| launch.number).collect::<Vec<_>>(), [1, 2]);
        let first: Vec<u32> = recorded.steps.iter().filter(|run| run.launch == 1).map(|run| run.step).collect();
        assert_eq!(first, (0..3 * BATCH as u32 + 1).collect::<Vec<_>>());
        for step in &recorded.steps {
            let launch = &recorded.launches[step.launch as usize - 1].span;
            assert!(launch.start_ns <= step.span.start_ns);
            assert!(step.span.start_ns + step.span.duration_ns <= launch.start_ns + launch.duration_ns);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted_and_what_is_late_is_left_out() {
        let recording = Recording::new(10);
        run(&recording, 25);
        for _ in 0..12 {
            recording.add_work(Doing::CopyIn { bytes: 1 }, Instant::now(), Instant::now());
        }
        let recorded = recording.take();
        assert_eq!((recorded.steps.len(), recorded.work.len(), recorded.dropped), (10, 10, 15 + 2));
        run(&recording, 5);
        let late = recording.take();
        assert_eq!((late.steps.len(), late.launches.len(), late.dropped), (0, 0, 0));
    }

    #[test]
    fn one_session_is_on_at_a_time() {
        let (one, other) = (Recording::new(1), Recording::new(1));
        assert_eq!(session(), 0);
        assert!(one.turn_on());
        assert!(!other.turn_on());
        // One that is not on turns nothing off.
        other.turn_off();
        assert_eq!(session(), one.number);
        one.turn_off();
        assert!(other.turn_on());
        other.turn_off();
        assert_eq!((session(), tag()), (0, None));
    }
}
