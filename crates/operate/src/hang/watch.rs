//! A training that watches itself: without progress for too long, all processes are asked, and a report is written.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use telemetry::ProcessStatus;

use super::{HangOptions, HangReport, examine};
use crate::alerts::{HangAction, HangConfig};
use crate::monitor::MonitorTarget;
use crate::processes::ProcessTarget;

/// Whoever hears of a hang, and where its report is.
pub type HearHang = dyn Fn(&HangReport, Option<&PathBuf>) + Send;

/// What a training says of itself.
pub struct HangWatched {
    /// The folder of the run, where processes are found and reports go; `None` if there is none on this machine.
    pub folder: Option<PathBuf>,
    /// The process itself.
    pub own: ProcessTarget,
    /// The hosts of its TPUs; none where it has other devices.
    pub hosts: Box<dyn Fn() -> Vec<MonitorTarget> + Send>,
    /// Where it is.
    pub status: Box<dyn Fn() -> ProcessStatus + Send>,
    /// The median seconds of a step, once there were some.
    pub median_step_seconds: Box<dyn Fn() -> Option<f64> + Send>,
    /// Hears of a hang, and where its report is.
    pub hear: Box<HearHang>,
}

/// A thread that watches until this is dropped.
#[derive(Debug)]
pub struct HangWatch {
    _end: SyncSender<()>,
}

impl HangWatch {
    /// Begins to watch; `None` where that is switched off.
    pub fn start(config: &HangConfig, watched: HangWatched) -> Option<HangWatch> {
        if config.action == HangAction::Off {
            return None;
        }
        let (steps, at_least) = (config.steps, config.at_least_seconds());
        let every = Duration::from_secs_f64((at_least / 10.0).clamp(0.1, 10.0));
        let (end, asked) = sync_channel::<()>(0);
        let watch = move || {
            let mut is_told = false;
            while let Err(RecvTimeoutError::Timeout) = asked.recv_timeout(every) {
                let is_stuck = is_stuck(&(watched.status)(), (watched.median_step_seconds)(), steps, at_least);
                if is_stuck && !is_told {
                    watched.tell();
                }
                is_told = is_stuck;
            }
        };
        let started = std::thread::Builder::new().name("hang watch".into()).spawn(watch);
        started.inspect_err(|error| tracing::warn!(%error, "nobody looks for hangs; the training goes on")).ok()?;
        Some(HangWatch { _end: end })
    }
}

/// Whether there was no progress for too long. Before the first steps nobody knows how long is too long.
fn is_stuck(status: &ProcessStatus, median_step_seconds: Option<f64>, steps: f64, at_least: f64) -> bool {
    let idle_seconds = status.step_age_seconds.min(status.phase_seconds);
    median_step_seconds.is_some_and(|median| idle_seconds > at_least.max(steps * median))
}

impl HangWatched {
    fn tell(&self) {
        let targets = self.folder.as_ref().and_then(|folder| ProcessTarget::all(folder).ok());
        let targets = targets.filter(|targets| !targets.is_empty()).unwrap_or_else(|| vec![self.own.clone()]);
        let report = examine(&targets, &(self.hosts)(), &HangOptions::default());
        let written = self.folder.as_ref().and_then(|folder| {
            let written = report.write(folder, self.own.process.unwrap_or_default());
            written.inspect_err(|error| tracing::warn!(%error, "the report of a hang cannot be written")).ok()
        });
        (self.hear)(&report, written.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tests::status;

    #[test]
    fn too_long_depends_on_the_steps() {
        let check = |age: f64, median: Option<f64>, expected: bool| {
            assert_eq!(is_stuck(&status(0, 5, age), median, 20.0, 60.0), expected, "{age} {median:?}");
        };
        check(61.0, Some(1.0), true);
        check(59.0, Some(1.0), false);
        check(100.0, Some(10.0), false);
        check(201.0, Some(10.0), true);
        check(1e9, None, false);
        // A save that goes on for long is progress as long as its phase is young.
        let mut saves = status(0, 5, 1000.0);
        saves.phase_seconds = 5.0;
        assert!(!is_stuck(&saves, Some(1.0), 20.0, 60.0));
    }
}
