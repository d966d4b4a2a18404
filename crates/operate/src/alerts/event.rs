//! What is told when an alert begins to fire or ends: one record, as JSON and as a line.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::config::{AlertAction, Severity};

/// The file in the folder of a run to which events are added, one JSON object a line.
pub const ALERTS_FILE: &str = "alerts.jsonl";

/// Version of the record.
pub(super) const EVENT_VERSION: u32 = 1;

/// What has become of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It holds, for as long as its rule asks.
    Firing,
    /// It held, and does not any more.
    Resolved,
}

impl AlertState {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            AlertState::Firing => "firing",
            AlertState::Resolved => "resolved",
        }
    }
}

/// An alert that begins to fire, or ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertEvent {
    pub(super) version: u32,
    /// Seconds since 1970.
    pub time_seconds: f64,
    /// Whether it begins or ends.
    pub state: AlertState,
    /// The rule.
    pub alert: String,
    /// How bad it is.
    pub severity: Severity,
    /// The series' metric.
    pub metric: String,
    /// The series' labels.
    pub labels: BTreeMap<String, String>,
    /// Its value; numbers that are not finite are strings.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The condition.
    pub when: String,
    /// What it was compared with.
    #[serde(serialize_with = "number", skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Since when it holds, in seconds since 1970.
    pub since_seconds: f64,
    /// What it means.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The run it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// The process that tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<usize>,
    /// What is done about it.
    #[serde(skip)]
    pub actions: Vec<AlertAction>,
}

impl AlertEvent {
    /// One line for people.
    pub fn line(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let mut line = format!("alert {} {} ({})", self.alert, self.state.name(), self.severity.name());
        if !self.summary.is_empty() && self.state == AlertState::Firing {
            line.push_str(&format!(": {}", self.summary));
        }
        let value = self.value.map_or_else(|| "no value".to_string(), short);
        line.push_str(&format!("; {}{labels} is {value}, rule: {}", self.metric, self.when));
        if let Some(bound) = self.bound.filter(|_| self.when.contains(" of ") || self.when.starts_with("older")) {
            line.push_str(&format!(" ({})", short(bound)));
        }
        line
    }

    /// As a webhook gets it: the record, and the line as `text`, which chat services show.
    pub fn payload(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("text".into(), self.line().into());
        }
        value
    }
}

/// Four digits are enough for people.
fn short(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || !value.is_finite() => value.to_string(),
        size if (1e-3..1e6).contains(&size) => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        _ => format!("{value:.3e}"),
    }
}

fn number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) if value.is_finite() => serializer.serialize_f64(*value),
        Some(value) if value.is_nan() => serializer.serialize_str("NaN"),
        Some(value) => serializer.serialize_str(if *value > 0.0 { "Infinity" } else { "-Infinity" }),
        None => serializer.serialize_none(),
    }
}
