//! What devices execute: how much of the time, how long, what waits, counted as programs are launched and end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::family::HistogramBuckets;

/// The duty cycle is over this time.
const WINDOW: Duration = Duration::from_secs(10);
const SLOTS: usize = 40;
const SLOT: Duration = Duration::from_millis(250);

/// Launches of a device that are known at the same time; of more, the oldest are taken to have ended.
const MAX_IN_FLIGHT: usize = 256;

/// Executions from which the rate of operations is taken.
const RECENT: usize = 16;

/// Buckets of execution times: from 1 microsecond, each larger by the fourth root of two, to about 18 minutes.
pub(super) const FIRST_MICROSECONDS: f64 = 1.0;
pub(super) const GROWTH: f64 = 1.189_207_115_002_721;
pub(super) const FINITE_BUCKETS: usize = 120;

/// A program as its launches name it.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchedProgram {
    /// Its name.
    pub name: String,
    /// Equal for equal programs, in hexadecimal digits.
    pub fingerprint: String,
    /// Operations that one device does in a run, where they are known.
    pub flops: Option<f64>,
}

/// A launch that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlight {
    /// Number of the launch, from 1: the same in all processes that launch the same programs in the same order.
    pub launch: i64,
    /// What was launched.
    pub program: Arc<LaunchedProgram>,
    launched: Instant,
}

/// What the devices of a process execute; clones are the same.
#[derive(Clone, Debug)]
pub struct Activity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    launches: AtomicI64,
    devices: Vec<Mutex<Device>>,
}

#[derive(Debug)]
struct Device {
    /// In the order of their launch. The first runs, the others wait.
    in_flight: VecDeque<InFlight>,
    /// When the last one ended.
    idle_since: Instant,
    busy: Busy,
    /// Operations and seconds of the last executions.
    recent: VecDeque<(f64, f64)>,
    /// Execution times in microseconds: how many in each bucket, and all together.
    times: Vec<u64>,
    microseconds: f64,
    /// The newest failure of a launch.
    error: Option<String>,
}

/// What one device does, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceActivity {
    /// The share of the last ten seconds in which it executed, 0 to 1.
    pub duty_cycle: f64,
    /// Seconds since it executed last; 0 while it does.
    pub idle_seconds: f64,
    /// Operations per second of its last programs while they executed, where they are known.
    pub flops_per_second: Option<f64>,
    /// The launch that runs, and those that wait for it to end.
    pub in_flight: Vec<InFlight>,
    /// The newest launch that failed.
    pub error: Option<String>,
    /// Execution times in microseconds.
    pub times: HistogramBuckets,
}

impl DeviceActivity {
    /// Launches that wait for the one that runs.
    pub fn queue_size(&self) -> usize {
        self.in_flight.len().saturating_sub(1)
    }
}

impl Activity {
    /// Of so many devices.
    pub fn new(devices: usize) -> Activity {
        Activity::from(devices, Instant::now())
    }

    fn from(devices: usize, started: Instant) -> Activity {
        let device = || {
            Mutex::new(Device {
                in_flight: VecDeque::new(),
                idle_since: started,
                busy: Busy::default(),
                recent: VecDeque::new(),
                times: vec![0; FINITE_BUCKETS + 2],
                microseconds: 0.0,
                error: None,
            })
        };
        let devices = (0..devices).map(|_| device()).collect();
        Activity { shared: Arc::new(Shared { started, launches: AtomicI64::new(0), devices }) }
    }

    /// Seconds since it was made.
    pub fn uptime_seconds(&self) -> f64 {
        self.shared.started.elapsed().as_secs_f64()
    }

    /// A program is launched on some devices, by their places; gives the number of the launch.
    pub fn launched(&self, devices: impl Iterator<Item = usize>, program: &Arc<LaunchedProgram>) -> i64 {
        let launch = self.shared.launches.fetch_add(1, Ordering::Relaxed) + 1;
        let launched = Instant::now();
        for device in devices {
            self.launched_at(device, InFlight { launch, program: program.clone(), launched });
        }
        launch
    }

    fn launched_at(&self, device: usize, launch: InFlight) {
        let Some(mut device) = self.device(device) else { return };
        if device.in_flight.len() >= MAX_IN_FLIGHT {
            device.in_flight.pop_front();
        }
        device.in_flight.push_back(launch);
    }

    /// A launch has ended on a device, well or with an error.
    pub fn ended(&self, device: usize, launch: i64, error: Option<String>) {
        self.ended_at(device, launch, error, Instant::now());
    }

    fn ended_at(&self, device: usize, launch: i64, error: Option<String>, now: Instant) {
        let started = self.shared.started;
        let Some(mut device) = self.device(device) else { return };
        let Some(place) = device.in_flight.iter().position(|known| known.launch == launch) else { return };
        let Some(ended) = device.in_flight.remove(place) else { return };
        // It waited for the one before it.
        let began = ended.launched.max(device.idle_since);
        let seconds = now.saturating_duration_since(began).as_secs_f64();
        device.busy.add(began.saturating_duration_since(started), now.saturating_duration_since(started));
        device.idle_since = now;
        if let Some(flops) = ended.program.flops.filter(|_| error.is_none()) {
            if device.recent.len() == RECENT {
                device.recent.pop_front();
            }
            device.recent.push_back((flops, seconds));
        }
        if let Some(error) = error {
            device.error = Some(error);
        }
        if let Some(count) = device.times.get_mut(bucket(seconds * 1e6)) {
            *count += 1;
        }
        device.microseconds += seconds * 1e6;
    }

    /// What a device does, by its place.
    pub fn sample(&self, device: usize) -> Option<DeviceActivity> {
        self.sample_at(device, Instant::now())
    }

    fn sample_at(&self, device: usize, now: Instant) -> Option<DeviceActivity> {
        let started = self.shared.started;
        let device = self.device(device)?;
        // What runs now counts until now.
        let running = device.in_flight.front().map(|first| first.launched.max(device.idle_since));
        let mut busy = device.busy.clone();
        let now_after = now.saturating_duration_since(started);
        if let Some(began) = running {
            busy.add(began.saturating_duration_since(started), now_after);
        }
        let (flops, seconds) = device.recent.iter().fold((0.0, 0.0), |sum, (f, s)| (sum.0 + f, sum.1 + s));
        Some(DeviceActivity {
            duty_cycle: busy.share(now_after),
            idle_seconds: match running {
                Some(_) => 0.0,
                None => now.saturating_duration_since(device.idle_since).as_secs_f64(),
            },
            flops_per_second: (seconds > 0.0).then_some(flops / seconds),
            in_flight: device.in_flight.iter().cloned().collect(),
            error: device.error.clone(),
            times: HistogramBuckets { bounds: bounds(), counts: device.times.clone(), sum: device.microseconds },
        })
    }

    fn device(&self, device: usize) -> Option<MutexGuard<'_, Device>> {
        Some(self.shared.devices.get(device)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Upper bounds of the buckets of execution times.
fn bounds() -> Vec<f64> {
    (0..=FINITE_BUCKETS).map(|n| FIRST_MICROSECONDS * GROWTH.powi(n as i32)).collect()
}

/// The bucket of a time: the first holds what is below the first bound, the last what is above all.
fn bucket(microseconds: f64) -> usize {
    if microseconds < FIRST_MICROSECONDS {
        return 0;
    }
    let bucket = (microseconds / FIRST_MICROSECONDS).ln() / GROWTH.ln();
    (bucket as usize + 1).min(FINITE_BUCKETS + 1)
}

/// Time in which a device executed, slot by slot of the window.
#[derive(Clone, Debug)]
struct Busy {
    slots: [Duration; SLOTS],
    /// Number of the newest slot, from the start.
    newest: u64,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy { slots: [Duration::ZERO; SLOTS], newest: 0 }
    }
}

impl Busy {
    /// The slot of a time, and when that slot ends.
    fn slot(at: Duration) -> (u64, Duration) {
        let number = (at.as_nanos() / SLOT.as_nanos()) as u64;
        let end = SLOT.checked_mul(u32::try_from(number + 1).unwrap_or(u32::MAX)).unwrap_or(Duration::MAX);
        (number, end)
    }

    fn go_to(&mut self, slot: u64) {
        for newer in (self.newest + 1..=slot).rev().take(SLOTS) {
            self.slots[(newer % SLOTS as u64) as usize] = Duration::ZERO;
        }
        self.newest = self.newest.max(slot);
    }

    /// It executed from one time to another, both since the start.
    fn add(&mut self, from: Duration, to: Duration) {
        self.go_to(Busy::slot(to).0);
        let mut from = from.max(to.saturating_sub(WINDOW - SLOT));
        while from < to {
            let (slot, end) = Busy::slot(from);
            let end = end.min(to).max(from + Duration::from_nanos(1));
            // What is older than the window has no slot any more.
            if slot + SLOTS as u64 > self.newest {
                self.slots[(slot % SLOTS as u64) as usize] += end - from;
            }
            from = end;
        }
    }

    /// The share of the window, or of the time since the start where that is shorter.
    fn share(&mut self, now: Duration) -> f64 {
        self.go_to(Busy::slot(now).0);
        // The newest slot has only begun.
        let begun = now.saturating_sub(SLOT.saturating_mul(u32::try_from(self.newest).unwrap_or(u32::MAX)));
        let time = (WINDOW - SLOT + begun).min(now);
        let busy: Duration = self.slots.iter().sum();
        if time.is_zero() { 0.0 } else { (busy.as_secs_f64() / time.as_secs_f64()).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(flops: Option<f64>) -> Arc<LaunchedProgram> {
        Arc::new(LaunchedProgram { name: "step".into(), fingerprint: "ab".into(), flops })
    }

    /// Launches and ends at seconds after the start.
    struct Times {
        activity: Activity,
        started: Instant,
    }

    impl Times {
        fn new() -> Times {
            let started = Instant::now();
            Times { activity: Activity::from(1, started), started }
        }

        fn at(&self, seconds: f64) -> Instant {
            self.started + Duration::from_secs_f64(seconds)
        }

        fn launch(&self, number: i64, seconds: f64) {
            let launched = self.at(seconds);
            self.activity.launched_at(0, InFlight { launch: number, program: program(Some(100.0)), launched });
        }

        fn end(&self, number: i64, seconds: f64) {
            self.activity.ended_at(0, number, None, self.at(seconds));
        }

        fn sample(&self, seconds: f64) -> DeviceActivity {
            self.activity.sample_at(0, self.at(seconds)).unwrap()
        }
    }

    #[track_caller]
    fn near(have: f64, want: f64) {
        assert!((have - want).abs() < 1e-3, "{have}, not {want}");
    }

    #[test]
    fn the_duty_cycle_is_the_share_of_time_in_which_something_runs() {
        let times = Times::new();
        near(times.sample(1.0).duty_cycle, 0.0);
        times.launch(1, 1.0);
        near(times.sample(2.0).duty_cycle, 0.5);
        times.end(1, 3.0);
        near(times.sample(4.0).duty_cycle, 0.5);
        near(times.sample(8.0).duty_cycle, 0.25);
        // Two that overlap run one after the other.
        times.launch(2, 8.0);
        times.launch(3, 8.0);
        assert_eq!(times.sample(8.5).queue_size(), 1);
        times.end(2, 9.0);
        times.end(3, 10.0);
        assert_eq!(times.sample(10.0).queue_size(), 0);
        near(times.sample(10.0).duty_cycle, 4.0 / 9.75);
        // What is older than the window is forgotten.
        near(times.sample(25.0).duty_cycle, 0.0);
        near(times.sample(25.0).idle_seconds, 15.0);
        // A run longer than the window fills it.
        times.launch(4, 30.0);
        near(times.sample(1000.0).duty_cycle, 1.0);
        near(times.sample(1000.0).idle_seconds, 0.0);
        times.end(4, 1000.0);
        assert!(times.sample(1005.0).duty_cycle > 0.4);
        near(times.sample(1_000_000.0).duty_cycle, 0.0);
    }

    #[test]
    fn execution_times_and_rates_leave_out_the_waiting() {
        let times = Times::new();
        for n in 0..100 {
            let begin = n as f64 * 0.01;
            times.launch(n, begin);
            times.end(n, begin + 0.01);
        }
        let sample = times.sample(1.0);
        assert_eq!(sample.times.count(), 100);
        near(sample.times.sum, 1e6);
        let median = sample.times.quantile(0.5).unwrap();
        assert!((8000.0..12000.0).contains(&median), "{median}");
        near(sample.flops_per_second.unwrap(), 100.0 / 0.01);
    }

    #[test]
    fn ends_that_are_not_known_and_failures() {
        let times = Times::new();
        times.end(5, 1.0);
        times.launch(1, 1.0);
        times.activity.ended_at(0, 1, Some("out of memory".into()), times.at(2.0));
        let sample = times.sample(3.0);
        assert_eq!(sample.error.as_deref(), Some("out of memory"));
        assert_eq!(sample.flops_per_second, None);
        // Launches without an end are bounded.
        for n in 0..10 * MAX_IN_FLIGHT as i64 {
            times.launch(10 + n, 3.0);
        }
        assert_eq!(times.sample(4.0).in_flight.len(), MAX_IN_FLIGHT);
        assert_eq!(times.activity.sample(7), None);
        assert_eq!(times.activity.launched([0, 9].into_iter(), &program(None)), 1);
    }

    #[test]
    fn times_fall_into_their_buckets() {
        let bounds = bounds();
        for microseconds in [0.0, 0.5, 1.0, 1.5, 7.0, 1e3, 123_456.0, 1e9] {
            let bucket = bucket(microseconds);
            assert!(bucket == 0 || bounds[bucket - 1] <= microseconds * (1.0 + 1e-12), "{microseconds}");
            assert!(bounds.get(bucket).is_none_or(|bound| microseconds < bound * (1.0 + 1e-12)), "{microseconds}");
        }
        assert_eq!(bucket(f64::MAX), FINITE_BUCKETS + 1);
        assert_eq!(bucket(-1.0), 0);
    }
}
