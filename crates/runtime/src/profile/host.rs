//! What the host did while a profile was recorded: steps of a training and their phases, by thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use xplane::names::{HOST_PLANE, stat};
use xplane::{SpaceBuilder, XEvent, XSpace, XStatValue};

/// Name of the event around a step, as in JAX's `StepTraceAnnotation("train", step_num=7)`.
pub(super) const STEP: &str = "train";

/// Events that are kept.
const MAX_EVENTS: usize = 1 << 18;

/// Something the host does.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostEvent {
    name: &'static str,
    step: Option<u64>,
    thread: u32,
    start: Instant,
}

impl HostEvent {
    pub(super) fn now(name: &'static str, step: Option<u64>) -> HostEvent {
        HostEvent { name, step, thread: thread_number(), start: Instant::now() }
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

/// A step as the host saw it, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostStep {
    pub(super) number: u64,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// What was recorded.
#[derive(Debug)]
pub(super) struct HostEvents {
    began: Instant,
    began_unix_ns: i64,
    events: Vec<(HostEvent, Instant)>,
    threads: BTreeMap<u32, String>,
    dropped: u64,
}

impl HostEvents {
    pub(super) fn new() -> HostEvents {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        HostEvents {
            began: Instant::now(),
            began_unix_ns: i64::try_from(since_1970.as_nanos()).unwrap_or(0),
            events: Vec::new(),
            threads: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Adds what ends now. What began before the recording did is left out.
    pub(super) fn add(&mut self, event: HostEvent) {
        if event.start < self.began {
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.dropped += 1;
            return;
        }
        self.threads
            .entry(event.thread)
            .or_insert_with(|| std::thread::current().name().unwrap_or("thread").to_string());
        self.events.push((event, Instant::now()));
    }

    fn nanos(&self, time: Instant) -> i64 {
        i64::try_from(time.saturating_duration_since(self.began).as_nanos()).unwrap_or(i64::MAX)
    }

    /// The steps, in their order.
    pub(super) fn steps(&self) -> Vec<HostStep> {
        let step = |(event, end): &(HostEvent, Instant)| {
            let at = |time: Instant| self.began_unix_ns.saturating_add(self.nanos(time));
            Some(HostStep { number: event.step?, start_ns: at(event.start), end_ns: at(*end) })
        };
        let mut steps: Vec<HostStep> = self.events.iter().filter_map(step).collect();
        steps.sort_by_key(|step| step.start_ns);
        steps
    }

    /// The plane of the host.
    pub(super) fn space(mut self) -> XSpace {
        let mut space = SpaceBuilder::new();
        if self.dropped > 0 {
            space.warning(format!("the buffer of the host was full: {} events were dropped", self.dropped));
        }
        // A line has its events in the order of their starts, the enclosing ones first.
        self.events.sort_by_key(|(event, end)| (event.start, std::cmp::Reverse(*end)));
        let plane = space.plane(HOST_PLANE);
        for (event, end) in &self.events {
            let start = self.nanos(event.start);
            let duration = self.nanos(*end).saturating_sub(start);
            let mut written =
                XEvent::at(plane.event(event.name), start.saturating_mul(1000), duration.saturating_mul(1000));
            if let Some(step) = event.step {
                let number = i64::try_from(step).unwrap_or(i64::MAX);
                // A root: what runs inside belongs to this step.
                written = written
                    .with(plane.stat(stat::STEP_NUM, XStatValue::Int64(number)))
                    .with(plane.stat("_r", XStatValue::Int64(1)));
            }
            let name = self.threads.get(&event.thread).map_or("thread", String::as_str);
            plane.line(event.thread.into(), name, self.began_unix_ns).events.push(written);
        }
        space.finish()
    }
}
