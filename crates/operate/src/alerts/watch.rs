//! Rules looked at again and again by a thread: events go to the run's folder, the audit log, a metric, and whoever is to be told.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use serde_json::json;
use telemetry::{MetricFamily, Registry, now_seconds};
use trust::{AuditEvent, AuditLog, AuditOutcome};

use super::config::{AlertAction, AlertScope, AlertsConfig, RuleError};
use super::deliver::Deliveries;
use super::engine::AlertEngine;
use super::event::{AlertEvent, AlertState};

/// How many series of a rule fire.
pub const FIRING_METRIC: &str = "tpubridge_alerts_firing";

/// Seconds of a step as predicted.
pub const PREDICTED_STEP_SECONDS: &str = "tpubridge_training_predicted_step_seconds";

/// How long the end of a training waits until all are told.
const FLUSH: Duration = Duration::from_secs(5);

/// Largest record of a prediction that is read.
const MAX_PREDICTION_BYTES: u64 = 64 << 20;

/// Where events go.
pub struct AlertOutlets {
    /// The run, as events name it.
    pub run: String,
    /// The process that looks.
    pub process: usize,
    /// Metrics of the process: those of alerts are added.
    pub registry: Registry,
    /// The file that events are added to.
    pub file: Option<PathBuf>,
    /// The audit log.
    pub audit: Option<AuditLog>,
    /// Saves and stops because of an alert.
    pub stop: Box<dyn Fn(&AlertEvent) + Send>,
    /// Tells people.
    pub log: Box<dyn Fn(&AlertEvent) + Send>,
}

/// A thread that looks at rules until this is dropped.
#[derive(Debug)]
pub struct AlertWatch {
    end: Option<SyncSender<()>>,
    ended: Receiver<()>,
}

impl AlertWatch {
    /// Looks at metrics as they are gathered. `None` where the process has no rules to look at.
    pub fn start(
        config: &AlertsConfig,
        gather: impl Fn() -> Vec<MetricFamily> + Send + 'static,
        outlets: AlertOutlets,
    ) -> Option<AlertWatch> {
        let is_here = |scope: AlertScope| scope == AlertScope::Process || outlets.process == 0;
        let rules: Vec<_> = config.rules().into_iter().filter(|rule| is_here(rule.scope)).collect();
        if rules.is_empty() {
            return None;
        }
        let every = Duration::from_secs_f64(config.every_seconds());
        let (end, asked) = sync_channel::<()>(0);
        let (has_ended, ended) = sync_channel(1);
        let mut work = Work { engine: AlertEngine::new(rules), deliveries: Deliveries::default(), outlets };
        let watch = move || {
            loop {
                let is_last = !matches!(asked.recv_timeout(every), Err(RecvTimeoutError::Timeout));
                work.look(&gather(), now_seconds());
                if is_last {
                    break;
                }
            }
            work.deliveries.flush(FLUSH);
            let _ = has_ended.send(());
        };
        match std::thread::Builder::new().name("alerts".into()).spawn(watch) {
            Ok(_) => Some(AlertWatch { end: Some(end), ended }),
            Err(error) => {
                tracing::warn!(%error, "nobody looks at alerts; the training goes on");
                None
            }
        }
    }
}

impl Drop for AlertWatch {
    fn drop(&mut self) {
        self.end = None;
        // A thread that hangs, in a plugin say, is left behind.
        let _ = self.ended.recv_timeout(FLUSH + Duration::from_secs(1));
    }
}

struct Work {
    engine: AlertEngine,
    deliveries: Deliveries,
    outlets: AlertOutlets,
}

impl Work {
    fn look(&mut self, families: &[MetricFamily], now: f64) {
        let events = self.engine.evaluate(families, now);
        for (alert, severity, count) in self.engine.firing() {
            let labels = [("alert", alert), ("severity", severity.name())];
            self.outlets.registry.gauge(FIRING_METRIC, "Series for which an alert fires.", &labels).set(count as f64);
        }
        for event in events {
            let outlets = &mut self.outlets;
            let event = AlertEvent { run: outlets.run.clone(), process: Some(outlets.process), ..event };
            outlets.keep(&event);
            for action in &event.actions {
                match action {
                    AlertAction::Log => (outlets.log)(&event),
                    AlertAction::StopAndSave if event.state == AlertState::Firing => (outlets.stop)(&event),
                    AlertAction::StopAndSave => {}
                    AlertAction::Webhook(_) | AlertAction::Command(_) => self.deliveries.send(action, &event),
                }
            }
        }
    }
}

impl AlertOutlets {
    /// Writes an event to the folder and the log. What cannot be written is a warning, once.
    fn keep(&mut self, event: &AlertEvent) {
        if let Some(path) = &self.file
            && let Err(error) = append(path, event)
        {
            tracing::warn!(path = %path.display(), %error, "alerts cannot be kept; the training goes on");
            self.file = None;
        }
        let kind = match event.state {
            AlertState::Firing => AuditEvent::AlertFiring,
            AlertState::Resolved => AuditEvent::AlertResolved,
        };
        let details = [
            ("alert", json!(event.alert)),
            ("severity", json!(event.severity.name())),
            ("metric", json!(event.metric)),
            ("labels", json!(event.labels)),
            ("process", json!(self.process)),
        ];
        if let Some(audit) = &self.audit
            && let Err(error) = audit.write(kind, &self.run, &AuditOutcome::Done, details)
        {
            tracing::warn!(%error, "the audit log cannot be written; the training goes on");
            self.audit = None;
        }
    }
}

fn append(path: &Path, event: &AlertEvent) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    let line = serde_json::to_string(event).map_err(std::io::Error::other)?;
    // One write, so that the lines of several processes do not mix.
    File::options().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

impl AlertsConfig {
    /// Seconds of a step as predicted: as given, else as the record of `tpu fit --json` says. Paths are relative to `beside`.
    pub fn predicted(&self, beside: &Path) -> Result<Option<f64>, RuleError> {
        let Some(path) = self.prediction.as_ref().filter(|_| self.predicted_step_seconds.is_none()) else {
            return Ok(self.predicted_step_seconds);
        };
        let path = beside.join(path);
        predicted_step_seconds(&path).map(Some).map_err(|why| {
            RuleError::new(format!("prediction: {}: {why}; it is the record of `tpu fit --json`", path.display()))
        })
    }
}

/// Seconds of a step in the record of `tpu fit --json`.
pub(crate) fn predicted_step_seconds(path: &Path) -> Result<f64, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_PREDICTION_BYTES {
        return Err(format!("it has {size} bytes, which is too many"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let record: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let seconds = record.pointer("/estimate/step/seconds").and_then(serde_json::Value::as_f64);
    seconds.filter(|seconds| *seconds > 0.0).ok_or_else(|| "it has no estimate.step.seconds".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn an_alert_is_kept_told_counted_and_stops() {
        let folder = tempfile::tempdir().unwrap();
        let text = "builtin = false\nevery = \"50ms\"\nactions = [\"log\", \"stop_and_save\"]\n\
                    [[alert]]\nname = \"a\"\nmetric = \"g\"\nwhen = \"> 1\"\n";
        let registry = Registry::new();
        let gauge = registry.gauge("g", "G.", &[]);
        let (log, told) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let outlets = AlertOutlets {
            run: "run".into(),
            process: 0,
            registry: registry.clone(),
            file: Some(folder.path().join("run").join("alerts.jsonl")),
            audit: Some(AuditLog::in_folder(folder.path(), |_| None)),
            stop: Box::new(move |_| stopping.store(true, Ordering::Relaxed)),
            log: Box::new(move |event| log.send(event.line()).unwrap()),
        };
        let gathered = registry.clone();
        let watch = AlertWatch::start(&AlertsConfig::parse(text).unwrap(), move || gathered.gather(), outlets);
        gauge.set(2.0);
        let long = Duration::from_secs(60);
        assert_eq!(told.recv_timeout(long).unwrap(), "alert a firing (warning); g is 2, rule: > 1");
        // The last look is at the end.
        gauge.set(0.5);
        drop(watch);
        assert_eq!(told.recv_timeout(long).unwrap(), "alert a resolved (warning); g is 0.5, rule: > 1");
        assert!(stop.load(Ordering::Relaxed));
        let kept = std::fs::read_to_string(folder.path().join("run/alerts.jsonl")).unwrap();
        let states: Vec<serde_json::Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((states[0]["state"].as_str(), states[1]["state"].as_str()), (Some("firing"), Some("resolved")));
        assert_eq!((states[0]["run"].as_str(), states[0]["process"].as_u64()), (Some("run"), Some(0)));
        let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        assert!(audit.contains("\"alert.firing\"") && audit.contains("\"alert.resolved\""), "{audit}");
        let metric = registry.gather().into_iter().find(|family| family.name == FIRING_METRIC).unwrap();
        assert_eq!(metric.samples[0].value, telemetry::SampleValue::Number(0.0));
    }

    #[test]
    fn a_prediction_is_read_from_the_record_of_fit() {
        let folder = tempfile::tempdir().unwrap();
        let config = AlertsConfig::parse("prediction = \"fit.json\"").unwrap();
        let error = config.predicted(folder.path()).unwrap_err().to_string();
        assert!(error.contains("prediction: ") && error.contains("fit.json"), "{error}");
        std::fs::write(folder.path().join("fit.json"), r#"{"version":1,"estimate":{"step":{"seconds":0.25}}}"#)
            .unwrap();
        assert_eq!(config.predicted(folder.path()).unwrap(), Some(0.25));
        std::fs::write(folder.path().join("fit.json"), r#"{"version":1,"estimate":null}"#).unwrap();
        assert!(config.predicted(folder.path()).unwrap_err().to_string().contains("estimate.step.seconds"));
    }
}
