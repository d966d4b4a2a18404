//! What libtpu tells of the chips of this machine, for a training that looks at its own metrics: asked seldom, kept meanwhile.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{MetricFamily, TrainingRecord};

use super::collect::HostMonitor;
use super::families::families;
use super::targets::MonitorTarget;

/// libtpu renews most of its metrics once in a while.
const EVERY: Duration = Duration::from_secs(30);
/// How long the service may take: whoever waits looks at alerts, and does not train.
const PATIENCE: Duration = Duration::from_secs(2);

/// The metric service of this machine.
#[derive(Debug)]
pub struct OwnHost {
    target: Option<MonitorTarget>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    monitor: Option<HostMonitor>,
    at: Option<Instant>,
    families: Vec<MetricFamily>,
}

impl Default for OwnHost {
    fn default() -> OwnHost {
        OwnHost::at(MonitorTarget::new("localhost").ok())
    }
}

impl OwnHost {
    /// With its service elsewhere than usual.
    pub fn at(target: Option<MonitorTarget>) -> OwnHost {
        OwnHost { target, told: Mutex::default() }
    }

    /// What libtpu told last, under names that begin with `libtpu_`; nothing where a training has no TPUs.
    pub fn families(&self, training: &TrainingRecord) -> Vec<MetricFamily> {
        let Some(target) = self.target.as_ref().filter(|_| training.platform == "tpu") else { return Vec::new() };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.at.is_none_or(|at| at.elapsed() >= EVERY) {
            if told.monitor.is_none() {
                told.monitor = HostMonitor::new(vec![target.clone()], Vec::new(), PATIENCE).ok();
            }
            let snapshot = told.monitor.as_mut().map(HostMonitor::look);
            told.families = snapshot.map(|snapshot| families(&snapshot)).unwrap_or_default();
            // The training tells what it knows of its devices itself.
            told.families.retain(|family| family.name.starts_with("libtpu_"));
            told.at = Some(Instant::now());
        }
        told.families.clone()
    }
}
