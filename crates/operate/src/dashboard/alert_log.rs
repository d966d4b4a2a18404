//! The alerts of a run, from its file: which fire, and what was told last.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Events that are kept.
const MAX_EVENTS: usize = 50;
/// Alerts that are followed at the same time.
const MAX_FIRING: usize = 100;
/// Characters of a text that are shown.
const MAX_TEXT: usize = 500;

/// A line of the file, as far as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ToldAlert {
    time_seconds: f64,
    state: String,
    alert: String,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    metric: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    when: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    remedy: String,
    #[serde(default)]
    process: Option<u64>,
}

impl ToldAlert {
    /// Reads a line; `None` where it is none.
    pub(super) fn read(line: &[u8]) -> Option<ToldAlert> {
        let mut told: ToldAlert = serde_json::from_slice(line).ok()?;
        for text in [&mut told.alert, &mut told.severity, &mut told.metric, &mut told.when, &mut told.summary] {
            *text = shortened(text);
        }
        told.remedy = shortened(&told.remedy);
        told.labels = told.labels.iter().take(16).map(|(name, value)| (shortened(name), shortened(value))).collect();
        if !matches!(&told.value, Value::Number(_) | Value::Null) {
            told.value = told.value.as_str().map_or(Value::Null, |text| shortened(text).into());
        }
        Some(told)
    }
}

/// A text that a page can show.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// What is known of the alerts.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct AlertLog {
    /// Those that fire, the oldest first.
    firing: Vec<ToldAlert>,
    /// What was told, the newest first.
    recent: VecDeque<ToldAlert>,
}

impl AlertLog {
    pub(super) fn push(&mut self, told: ToldAlert) {
        let is_same = |known: &ToldAlert| {
            (&known.alert, &known.labels, known.process) == (&told.alert, &told.labels, told.process)
        };
        self.firing.retain(|known| !is_same(known));
        if told.state == "firing" && self.firing.len() < MAX_FIRING {
            self.firing.push(told.clone());
        }
        self.recent.push_front(told);
        self.recent.truncate(MAX_EVENTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_fire_until_they_are_resolved() {
        let mut log = AlertLog::default();
        let mut push = |state: &str, process: u64| {
            let line = format!(
                r#"{{"version":1,"time_seconds":1.5,"state":"{state}","alert":"a","severity":"warning","metric":"m",
                "labels":{{"x":"y"}},"value":"NaN","when":"> 1","process":{process},"more":[]}}"#
            );
            log.push(ToldAlert::read(line.as_bytes()).unwrap());
            (log.firing.len(), log.recent.len())
        };
        assert_eq!(push("firing", 0), (1, 1));
        assert_eq!(push("firing", 0), (1, 2));
        assert_eq!(push("firing", 1), (2, 3));
        assert_eq!(push("resolved", 0), (1, 4));
        for _ in 0..100 {
            push("resolved", 1);
        }
        assert_eq!(push("resolved", 7), (0, MAX_EVENTS));
        for garbage in ["", "{}", "[]", r#"{"time_seconds":"x"}"#, "\u{0}"] {
            assert_eq!(ToldAlert::read(garbage.as_bytes()), None);
        }
    }
}
