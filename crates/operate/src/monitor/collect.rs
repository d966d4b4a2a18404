//! Asking: all hosts at once, each within its time; who answered before and does no more is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt};
use telemetry::grpc::GrpcStatus;
use telemetry::runtime_metrics::{HostMetrics, Patience, read_host};

use super::devices::devices;
use super::run::RunSource;
use super::snapshot::{HostRecord, HostState, HostsSnapshot, MONITOR_VERSION};
use super::targets::MonitorTarget;

/// Hosts asked at the same time.
const AT_ONCE: usize = 64;

/// Values are this old at most where nothing is wrong: libtpu renews some of them once a minute.
const OLD: f64 = 90.0;
/// No value is from the future, but for clocks that differ a little.
const AHEAD: f64 = 2.0;

/// Why nothing can be watched.
#[derive(Debug)]
pub enum MonitorError {
    /// A host that is none.
    Host {
        /// As it was given.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// The hosts of the slice are not known.
    Slice(runtime::Error),
    /// Pods could not be listed.
    Kubectl {
        /// What `kubectl` said.
        why: String,
    },
    /// A run that is none.
    Run {
        /// As it was given.
        run: String,
        /// What is wrong.
        why: String,
    },
    /// The system refused something.
    System {
        /// What was done.
        doing: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MonitorError::Host { host, why } => write!(f, "`{}` cannot be asked: {why}", host.escape_debug()),
            MonitorError::Slice(_) => f.write_str("the hosts of this slice are not known"),
            MonitorError::Kubectl { why } => write!(f, "kubectl lists no pods: {why}"),
            MonitorError::Run { run, why } => write!(f, "`{}` is no run: {why}", run.escape_debug()),
            MonitorError::System { doing, .. } => write!(f, "{doing} failed"),
        }
    }
}

impl std::error::Error for MonitorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MonitorError::Slice(error) => Some(error),
            MonitorError::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl MonitorError {
    /// What to do.
    pub fn remedy(&self) -> &'static str {
        match self {
            MonitorError::Host { .. } => "name hosts as in --hosts t-0,t-1:8431",
            MonitorError::Slice(_) => "name them: --hosts t-0,t-1",
            MonitorError::Kubectl { .. } => {
                "try the same with `kubectl get pods --selector=…`, or name hosts: --hosts a,b"
            }
            MonitorError::Run { .. } => "give the folder of a `tpu train` run, or the address of its --metrics",
            MonitorError::System { .. } => "see what the system says",
        }
    }
}

/// Asks hosts, again and again.
#[derive(Debug)]
pub struct HostMonitor {
    targets: Vec<MonitorTarget>,
    runs: Vec<RunSource>,
    patience: Patience,
    /// When hosts answered last, by address.
    answered: BTreeMap<String, Instant>,
    /// Taken when it ends: a look-up of a name that hangs is not waited for.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for HostMonitor {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl HostMonitor {
    /// Asks these hosts, each for so long at most.
    pub fn new(
        targets: Vec<MonitorTarget>,
        runs: Vec<RunSource>,
        patience: Duration,
    ) -> Result<HostMonitor, MonitorError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| MonitorError::System { doing: "starting a runtime", source })?;
        let patience = Patience::within(patience);
        Ok(HostMonitor { targets, runs, patience, answered: BTreeMap::new(), runtime: Some(runtime) })
    }

    /// Asks all hosts, and reads all runs.
    pub fn look(&mut self) -> HostsSnapshot {
        let answers = self.ask();
        let now = Instant::now();
        let hosts =
            self.targets.iter().zip(answers).map(|(target, answer)| record(target, answer, now, &mut self.answered));
        HostsSnapshot {
            version: MONITOR_VERSION,
            time_seconds: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            hosts: hosts.collect(),
            runs: self.runs.iter().map(RunSource::read).collect(),
        }
    }

    fn ask(&self) -> Vec<Result<HostMetrics, GrpcStatus>> {
        let Some(runtime) = &self.runtime else { return Vec::new() };
        let patience = self.patience;
        let ask = |target: MonitorTarget| async move {
            let unavailable = |why: &str| GrpcStatus::new(telemetry::grpc::GrpcCode::Unavailable, why);
            let Some(address) = target.address else {
                return Err(unavailable(target.note.as_deref().unwrap_or("it has no address")));
            };
            // Its own deadlines leave what was told; this one is for what no deadline of its reaches.
            let answer = tokio::time::timeout(patience.host * 2, read_host(&address, &patience)).await;
            answer.unwrap_or_else(|_| Err(unavailable("no answer in time")))
        };
        let targets = self.targets.clone();
        runtime.block_on(stream::iter(targets).map(ask).buffered(AT_ONCE).collect())
    }
}

fn record(
    target: &MonitorTarget,
    answer: Result<HostMetrics, GrpcStatus>,
    now: Instant,
    answered: &mut BTreeMap<String, Instant>,
) -> HostRecord {
    let mut record = HostRecord {
        host: target.name.clone(),
        address: target.address.clone(),
        state: HostState::Up,
        error: None,
        gone_seconds: None,
        answer_seconds: None,
        clock_ahead_seconds: None,
        devices: Vec::new(),
        chips: Vec::new(),
        cores: Vec::new(),
        metrics: Vec::new(),
        failed: Vec::new(),
    };
    let key = target.address.clone().unwrap_or_default();
    match answer {
        Ok(host) if !host.metrics.is_empty() || host.is_listed || host.status.is_some() => {
            answered.insert(key, now);
            record.devices = devices(&host);
            record.answer_seconds = Some(host.seconds);
            record.clock_ahead_seconds = host.clock_ahead_seconds.filter(|ahead| *ahead > AHEAD || *ahead < -OLD);
            record.cores = host.status.map(|status| status.cores).unwrap_or_default();
            record.metrics = host.metrics;
            record.failed = host.failed;
        }
        silent => {
            let (is_refused, why) = match silent {
                // Something answers there, and knows nothing of metrics.
                Ok(host) => {
                    let why = host.failed.into_iter().next().map(|(_, why)| why);
                    (true, why.unwrap_or_else(|| "what answers there has no metrics".into()))
                }
                Err(status) => (status.message.contains("refused"), status.message),
            };
            let last = answered.get(&key);
            record.gone_seconds = last.map(|last| now.duration_since(*last).as_secs_f64());
            record.state = match (last, is_refused) {
                (Some(_), _) => HostState::Gone,
                (None, true) => HostState::NoService,
                (None, false) => HostState::Unreachable,
            };
            record.error = Some(why);
            if target.is_local() {
                record.chips = runtime::chips_on_bus(Path::new("/"));
            }
        }
    }
    record
}
