//! What all hosts told at one moment, as plain data; `--json` prints it.

use serde::Serialize;
use telemetry::runtime_metrics::{CoreState, MetricReading};

use super::devices::DeviceRecord;
use super::run::WatchedRun;

/// Version of the record.
pub const MONITOR_VERSION: u32 = 1;

/// All hosts and runs at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostsSnapshot {
    /// [`MONITOR_VERSION`].
    pub version: u32,
    /// Seconds since 1970, by the clock of this machine.
    pub time_seconds: f64,
    /// Hosts, in the order they were named.
    pub hosts: Vec<HostRecord>,
    /// Runs that were named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<WatchedRun>,
}

impl HostsSnapshot {
    /// Whether every host answered.
    pub fn is_complete(&self) -> bool {
        self.hosts.iter().all(|host| host.state == HostState::Up)
    }
}

/// How a host answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// It answered.
    Up,
    /// The machine is there, but nothing serves metrics: no program uses its chips, or one that serves none.
    NoService,
    /// It did not answer at all.
    Unreachable,
    /// It answered before, and does no more.
    Gone,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRecord {
    /// As it was named.
    pub host: String,
    /// Where its service was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How it answered.
    pub state: HostState,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Seconds since it answered last, where it does no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_seconds: Option<f64>,
    /// Seconds that its answer took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_seconds: Option<f64>,
    /// Seconds by which its clock is ahead of ours, where that is more than the age of its values explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<f64>,
    /// Its devices.
    pub devices: Vec<DeviceRecord>,
    /// TPU chips on its bus, by their PCI addresses with their generation: of this machine only, where nothing serves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chips: Vec<(String, chips::Generation)>,
    /// What its cores do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreState>,
    /// Everything it told, as it told it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricReading>,
    /// Metrics that it lists and did not tell, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<(String, String)>,
}
