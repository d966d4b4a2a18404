//! What the processes of runs say of themselves, asked all at once.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use telemetry::{MetricFamily, ProcessStatus, SampleValue, from_text};

use crate::ask;
use crate::processes::{LocalState, ProcessTarget};

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A process of a run, as it was seen last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ProcessState {
    process: Option<usize>,
    host: Option<String>,
    pid: Option<u32>,
    address: Option<String>,
    /// Whether it answers, or at least runs on this machine.
    is_alive: bool,
    /// What is wrong, or why nothing is known.
    problem: Option<String>,
    phase: Option<&'static str>,
    phase_seconds: Option<f64>,
    step: Option<u64>,
    step_age_seconds: Option<f64>,
    recompilations: Option<u64>,
    hbm_used_bytes: Option<f64>,
    hbm_limit_bytes: Option<f64>,
}

impl ProcessState {
    pub(super) fn is_alive(&self) -> bool {
        self.is_alive
    }
}

/// The processes that a run's folder names.
pub(super) fn targets(run: &Path) -> Vec<ProcessTarget> {
    ProcessTarget::all(run).unwrap_or_default()
}

/// Asks them.
pub(super) fn look(targets: &[ProcessTarget]) -> Vec<ProcessState> {
    ask::all(targets, look_at)
}

fn look_at(target: &ProcessTarget) -> ProcessState {
    let local = target.local_state();
    let mut state = ProcessState {
        process: target.process,
        host: target.host.clone(),
        pid: target.pid,
        address: target.address.clone(),
        is_alive: matches!(local, Some(LocalState::Is(_))),
        ..ProcessState::default()
    };
    state.problem = match local {
        Some(LocalState::Gone) => Some("it has ended without a word".into()),
        Some(LocalState::Is('T')) => Some("it is stopped by a signal".into()),
        _ => None,
    };
    let Some(address) = &target.address else {
        state.problem.get_or_insert_with(|| "it was started without --metrics".into());
        return state;
    };
    if local == Some(LocalState::Gone) {
        return state;
    }
    match target.status(PATIENCE) {
        Ok(status) => {
            state.hear(&status);
            let families = ask::get(address, "/metrics", PATIENCE).map(|text| from_text(&text)).unwrap_or_default();
            state.hbm_used_bytes = sum(&families, "tpubridge_device_hbm_used_bytes");
            state.hbm_limit_bytes = sum(&families, "tpubridge_device_hbm_limit_bytes");
        }
        Err(error) => {
            state.problem.get_or_insert_with(|| error.to_string());
        }
    }
    state
}

impl ProcessState {
    fn hear(&mut self, status: &ProcessStatus) {
        let known = |seconds: f64| Some(seconds).filter(|seconds| seconds.is_finite());
        self.is_alive = true;
        self.process.get_or_insert(status.process);
        self.phase = Some(status.phase.name());
        self.phase_seconds = known(status.phase_seconds);
        self.step = Some(status.step);
        self.step_age_seconds = known(status.step_age_seconds);
        self.recompilations = Some(status.recompilations);
    }
}

/// The sum over all devices of a process.
fn sum(families: &[MetricFamily], name: &str) -> Option<f64> {
    let family = families.iter().find(|family| family.name == name)?;
    let values = family.samples.iter().filter_map(|sample| match sample.value {
        SampleValue::Number(value) => Some(value),
        SampleValue::Buckets(_) => None,
    });
    Some(values.sum::<f64>()).filter(|sum| sum.is_finite() && !family.samples.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::{HttpAnswer, HttpServer};

    #[test]
    fn processes_answer_or_the_reason_is_told() {
        let status = crate::processes::tests::status(3, 40, 0.5);
        let server = HttpServer::start("127.0.0.1:0", move |request| match request.path.as_str() {
            "/status" => HttpAnswer::json(&serde_json::to_value(&status).unwrap_or_default()),
            _ => HttpAnswer::new("text/plain", "tpubridge_device_hbm_used_bytes{device=\"0\"} 5\n"),
        })
        .unwrap();
        let own = ProcessTarget {
            process: Some(1),
            host: Some(telemetry::host_name()),
            pid: Some(std::process::id()),
            address: None,
            profiler: None,
        };
        let gone = ProcessTarget { pid: Some(u32::MAX), address: Some("127.0.0.1:1".into()), ..own.clone() };
        let seen = look(&[ProcessTarget::at(&server.address().to_string()), own, gone]);
        assert_eq!((seen[0].process, seen[0].step, seen[0].phase), (Some(3), Some(40), Some("step")));
        assert_eq!((seen[0].hbm_used_bytes, seen[0].hbm_limit_bytes), (Some(5.0), None));
        assert!(seen[0].is_alive && seen[1].is_alive && !seen[2].is_alive);
        assert_eq!(seen[1].problem.as_deref(), Some("it was started without --metrics"));
        assert_eq!(seen[2].problem.as_deref(), Some("it has ended without a word"));
    }
}
