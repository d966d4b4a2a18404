//! A monitor: readings of memory at regular times, from a thread of its own.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use compile::CompileError;
use serde::Serialize;

use crate::backend::Backend;
use crate::error::Error;

/// No shorter interval tells more: allocations are remembered one by one elsewhere.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Readings that are kept at most; beyond, every other one is dropped and the interval doubled.
const MAX_READINGS: usize = 1 << 16;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// Seconds since the monitor started.
    pub seconds: f64,
    /// Bytes that arrays of the backend hold.
    pub used_bytes: u64,
    /// Bytes the device says are in use.
    pub device_used_bytes: Option<i64>,
}

/// Readings over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeSeries {
    /// Readings, oldest first.
    pub readings: Vec<Reading>,
}

impl TimeSeries {
    /// The most that was in use at a reading.
    pub fn peak_bytes(&self) -> u64 {
        self.readings.iter().map(|reading| reading.used_bytes).max().unwrap_or(0)
    }
}

/// A running monitor.
#[derive(Debug)]
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<TimeSeries>,
}

impl Backend {
    /// Reads memory at the interval and for the duration of the configuration, beside whatever runs.
    pub fn monitor_memory(&self) -> Result<Monitor, Error> {
        let config = self.config();
        self.monitor(config.monitoring_interval_seconds.get(), config.monitoring_duration_seconds.get())
    }

    /// Reads memory at an interval, for a duration or until it is stopped.
    pub fn monitor(&self, interval: Duration, duration: Duration) -> Result<Monitor, Error> {
        let (stop, stopped) = mpsc::channel();
        let backend = self.clone();
        let work = move || {
            let started = Instant::now();
            let mut series = TimeSeries::default();
            let mut interval = interval.max(SHORTEST_INTERVAL);
            loop {
                series.readings.push(backend.reading(started));
                if series.readings.len() >= MAX_READINGS {
                    let mut is_kept = false;
                    series.readings.retain(|_| {
                        is_kept = !is_kept;
                        is_kept
                    });
                    interval *= 2;
                }
                let left = duration.saturating_sub(started.elapsed());
                if left.is_zero() {
                    return series;
                }
                // A stopped monitor, or one whose owner is gone, takes one last reading.
                match stopped.recv_timeout(interval.min(left)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                        series.readings.push(backend.reading(started));
                        return series;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("tpubridge-monitor".into()).spawn(work);
        let thread =
            thread.map_err(|error| CompileError::io("starting a thread", std::path::Path::new("monitor"), error))?;
        Ok(Monitor { stop, thread })
    }

    fn reading(&self, started: Instant) -> Reading {
        let device = self.first_device_memory();
        Reading {
            seconds: started.elapsed().as_secs_f64(),
            used_bytes: self.memory().used_bytes(),
            device_used_bytes: device.map(|device| device.bytes_in_use),
        }
    }
}

impl Monitor {
    /// Ends the monitor now and gives its readings.
    pub fn stop(self) -> TimeSeries {
        let _ = self.stop.send(());
        self.finish()
    }

    /// Waits for the end of the duration and gives the readings.
    pub fn wait(self) -> TimeSeries {
        // Dropping the sender would end the monitor early.
        let Monitor { stop, thread } = self;
        let series = thread.join().unwrap_or_default();
        drop(stop);
        series
    }

    fn finish(self) -> TimeSeries {
        self.thread.join().unwrap_or_default()
    }
}
