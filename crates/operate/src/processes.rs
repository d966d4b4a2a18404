//! The processes of a run: where they answer, what they say, and who is late.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use telemetry::{ProcessPresence, ProcessStatus, Registry, STATUS_VERSION, host_name, process_state};

use crate::ask::{self, AskError};

/// Processes that are asked at most.
const MAX_PROCESSES: usize = 4096;

/// A process that can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessTarget {
    /// Its number, where it is known before it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// Its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its id there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Where it answers; `None` if it was started without `--metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Where it answers requests for profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiler: Option<String>,
}

impl ProcessTarget {
    /// By an address alone, as `host:9464`.
    pub fn at(address: &str) -> ProcessTarget {
        ProcessTarget {
            process: None,
            host: None,
            pid: None,
            address: Some(address.trim().to_string()),
            profiler: None,
        }
    }

    /// The processes of a run's folder, by their numbers.
    pub fn all(run: &Path) -> std::io::Result<Vec<ProcessTarget>> {
        let of = |presence: ProcessPresence| {
            let address = presence.metrics.map(|address| reachable(&address, &presence.host));
            let profiler = presence.profiler.map(|address| reachable(&address, &presence.host));
            ProcessTarget {
                process: Some(presence.process),
                host: Some(presence.host),
                pid: Some(presence.pid),
                address,
                profiler,
            }
        };
        Ok(ProcessPresence::all(run)?.into_iter().take(MAX_PROCESSES).map(of).collect())
    }

    /// How people name it.
    pub fn name(&self) -> String {
        match (self.process, &self.address) {
            (Some(process), _) => format!("process {process}"),
            (None, Some(address)) => address.clone(),
            (None, None) => "a process".to_string(),
        }
    }

    /// The state of the process as the kernel says, if it is one of this machine.
    pub(crate) fn local_state(&self) -> Option<LocalState> {
        let pid = self.pid.filter(|_| self.host.as_ref().is_some_and(|host| *host == host_name()))?;
        Some(process_state(pid).map_or(LocalState::Gone, LocalState::Is))
    }

    /// What it says of itself.
    pub(crate) fn status(&self, patience: Duration) -> Result<ProcessStatus, AskError> {
        let address =
            self.address.as_ref().ok_or_else(|| AskError::Unknown("it was started without --metrics".into()))?;
        let body = ask::get(address, "/status", patience)?;
        let status: ProcessStatus =
            serde_json::from_str(&body).map_err(|error| AskError::Wrong(format!("its status: {error}")))?;
        match status.version == STATUS_VERSION {
            true => Ok(status),
            false => Err(AskError::Wrong(format!("its status has version {}", status.version))),
        }
    }
}

/// What the kernel says of a process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalState {
    Gone,
    Is(char),
}

/// An address of all interfaces is that of the machine.
fn reachable(address: &str, host: &str) -> String {
    let Some((ip, port)) = address.rsplit_once(':') else { return address.to_string() };
    match ip {
        "0.0.0.0" | "[::]" if host == host_name() => format!("127.0.0.1:{port}"),
        "0.0.0.0" | "[::]" => format!("{host}:{port}"),
        _ => address.to_string(),
    }
}

/// All processes asked at the same moment.
pub(crate) type Round = Vec<Option<(Instant, ProcessStatus)>>;

/// Asks all once.
pub(crate) fn ask_round(targets: &[ProcessTarget], patience: Duration) -> Round {
    ask::all(targets, |target| target.status(patience).ok().map(|status| (Instant::now(), status)))
}

/// Steps that must be seen before somebody is late: of fewer, chance makes one the last.
const MIN_STEPS: usize = 4;

/// By how many seconds each process ends its steps after the first one does: the median over the steps that were seen; `None` for
/// those that never answered, and where too few steps were seen.
pub(crate) fn lateness<'a>(rounds: impl IntoIterator<Item = &'a Round>) -> Vec<Option<f64>> {
    let mut steps: BTreeMap<u64, Vec<Option<f64>>> = BTreeMap::new();
    let mut processes = 0;
    for round in rounds {
        processes = processes.max(round.len());
        let said = || round.iter().flatten();
        let Some(newest) = said().map(|(_, status)| status.step).max() else { continue };
        let age = |status: &ProcessStatus| Duration::try_from_secs_f64(status.step_age_seconds).unwrap_or_default();
        // When each ended its last step. Nobody's clock is needed but ours.
        let ended = |(at, status): &(Instant, ProcessStatus)| at.checked_sub(age(status)).unwrap_or(*at);
        let Some(first) = said().filter(|(_, status)| status.step == newest).map(ended).min() else { continue };
        let late = steps.entry(newest).or_default();
        late.resize(late.len().max(round.len()), None);
        for (late, answer) in late.iter_mut().zip(round) {
            let Some(answer) = answer else { continue };
            // Of one that has not ended it, what is known grows with each round.
            let end = if answer.1.step == newest { ended(answer) } else { answer.0 };
            let seconds = end.saturating_duration_since(first).as_secs_f64();
            *late = Some(late.unwrap_or(0.0).max(seconds));
        }
    }
    let of_process = |process: usize| {
        let late: Vec<f64> = steps.values().filter_map(|late| *late.get(process)?).collect();
        if late.len() < MIN_STEPS { None } else { median(late) }
    };
    (0..processes).map(of_process).collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Asks the processes of a run again and again, and tells as metrics who answers and who is late.
#[derive(Debug)]
pub struct PeerWatch {
    _end: SyncSender<()>,
}

impl PeerWatch {
    /// Begins; ends when this is dropped.
    pub fn start(run: &Path, registry: &Registry, every: Duration) -> Option<PeerWatch> {
        // Steps may be long: some of each time are kept, so that enough of them are seen.
        const ROUNDS: usize = 9;
        const KEPT: usize = 10 * ROUNDS;
        let (run, registry) = (run.to_path_buf(), registry.clone());
        let (end, asked) = sync_channel::<()>(0);
        let watch = move || {
            let (mut known, mut rounds) = (Vec::new(), VecDeque::new());
            while let Err(RecvTimeoutError::Timeout) = asked.recv_timeout(every) {
                let targets: Vec<ProcessTarget> = ProcessTarget::all(&run).unwrap_or_default();
                let targets: Vec<_> = targets.into_iter().filter(|target| target.address.is_some()).collect();
                if targets.len() < 2 {
                    continue;
                }
                if known != targets {
                    rounds.clear();
                }
                for _ in 0..ROUNDS {
                    rounds.push_back(ask_round(&targets, Duration::from_secs(2)));
                    std::thread::sleep(Duration::from_millis(50));
                }
                rounds.drain(..rounds.len().saturating_sub(KEPT));
                let late = lateness(&rounds);
                for (n, target) in targets.iter().enumerate() {
                    let process = target.process.unwrap_or(n).to_string();
                    let is_up = rounds.iter().rev().take(ROUNDS).any(|round| round.get(n).is_some_and(Option::is_some));
                    let gauge =
                        |name, help, value| registry.gauge(name, help, &[("process", process.as_str())]).set(value);
                    let help = "Whether a process of the run answers, seen from this one.";
                    gauge("tpubridge_training_process_up", help, f64::from(u8::from(is_up)));
                    let help = "Seconds by which a process ends its steps after the first one.";
                    let seconds = late.get(n).copied().flatten().unwrap_or(0.0);
                    gauge("tpubridge_training_process_late_seconds", help, seconds);
                }
                known = targets;
            }
        };
        let started = std::thread::Builder::new().name("peers".into()).spawn(watch);
        started.inspect_err(|error| tracing::warn!(%error, "other processes are not watched")).ok()?;
        Some(PeerWatch { _end: end })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use telemetry::TrainPhase;

    pub(crate) fn status(process: usize, step: u64, step_age_seconds: f64) -> ProcessStatus {
        ProcessStatus {
            version: STATUS_VERSION,
            process,
            host: "h".into(),
            pid: 1,
            phase: TrainPhase::Step,
            phase_seconds: step_age_seconds,
            dispatched: step,
            step,
            step_age_seconds,
            program: "p".into(),
            recompilations: 0,
            recompiled: Vec::new(),
            threads: Vec::new(),
        }
    }

    #[test]
    fn who_is_late_in_most_steps_is_late() {
        let now = Instant::now() + Duration::from_secs(1000);
        let said = |process, step, age| Some((now, status(process, step, age)));
        // Process 1 ends each step 0.6 s after the others, or has not yet; process 2 once.
        let rounds: Vec<Round> = vec![
            vec![said(0, 5, 0.9), said(1, 5, 0.3), said(2, 5, 0.9)],
            vec![said(0, 6, 0.6), said(1, 5, 0.9), said(2, 6, 0.6)],
            vec![said(0, 7, 0.7), said(1, 7, 0.1), said(2, 7, 0.1)],
            vec![said(0, 8, 0.5), None, said(2, 8, 0.5)],
            vec![said(0, 9, 0.7), said(1, 9, 0.1), said(2, 9, 0.7)],
            // Many rounds of one step are one step.
            vec![said(0, 9, 0.8), said(1, 9, 0.2), said(2, 9, 0.1)],
            vec![said(0, 9, 0.9), said(1, 9, 0.3), said(2, 9, 0.2)],
        ];
        assert_eq!(lateness(&rounds[..3]), [None; 3]);
        let late = lateness(&rounds);
        assert!((late[1].unwrap() - 0.6).abs() < 1e-6, "{late:?}");
        assert!(late[0].unwrap() < 1e-6 && late[2].unwrap() < 1e-6, "{late:?}");
        assert_eq!(lateness(&[vec![None]]), [None]);
        assert_eq!(lateness(&Vec::new()), []);
    }

    #[test]
    fn an_address_of_all_interfaces_is_that_of_the_machine() {
        assert_eq!(reachable("10.0.0.1:5", "x"), "10.0.0.1:5");
        assert_eq!(reachable("0.0.0.0:5", "nowhere"), "nowhere:5");
        assert_eq!(reachable("[::]:5", &host_name()), "127.0.0.1:5");
    }
}
