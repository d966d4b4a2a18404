//! The `[alerts]` table: rules, what is done when one fires, and what is done about a training that hangs.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::condition::{Condition, duration};
use super::selector::MetricSelector;

/// Rules that every training has.
const BUILTIN: &str = include_str!("builtin.toml");

/// Rules at most: of a hostile file, say.
const MAX_RULES: usize = 1000;

/// The `[alerts]` table of a training file, or a file of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlertsConfig {
    /// Whether the built-in rules count.
    pub builtin: bool,
    /// Built-in rules that do not.
    pub off: Vec<String>,
    /// How often rules are looked at.
    every: Seconds,
    /// What is done when a rule fires or ends that does not say so itself.
    pub actions: Vec<AlertAction>,
    /// Seconds of a step as predicted.
    pub predicted_step_seconds: Option<f64>,
    /// The record of `tpu fit --json` of the exported step, which says them too.
    pub prediction: Option<PathBuf>,
    /// What is done about a training that makes no progress.
    pub hang: HangConfig,
    /// Rules of one's own. One with the name of a built-in rule takes its place.
    alert: Vec<AlertRule>,
}

impl Default for AlertsConfig {
    fn default() -> AlertsConfig {
        AlertsConfig {
            builtin: true,
            off: Vec::new(),
            every: Seconds(5.0),
            actions: vec![AlertAction::Log],
            predicted_step_seconds: None,
            prediction: None,
            hang: HangConfig::default(),
            alert: Vec::new(),
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// What it is known by.
    pub name: String,
    /// The series it is about.
    pub metric: MetricSelector,
    /// When it holds. A counter counts by what it grows a second, a histogram by the mean of what was added.
    pub when: Condition,
    /// How long it must hold before it fires.
    #[serde(default, rename = "for")]
    hold: Seconds,
    /// The time that medians, rates and means are of.
    #[serde(default)]
    over: Option<Seconds>,
    /// How bad it is.
    #[serde(default)]
    pub severity: Severity,
    /// Who looks at it.
    #[serde(default)]
    pub scope: AlertScope,
    /// What is done; `None` for what the table says.
    #[serde(default)]
    pub actions: Option<Vec<AlertAction>>,
    /// What it means.
    #[serde(default)]
    pub summary: String,
    /// What to do about it.
    #[serde(default)]
    pub remedy: String,
}

impl AlertRule {
    /// Seconds that it must hold before it fires.
    pub fn hold_seconds(&self) -> f64 {
        self.hold.0
    }

    /// Seconds that medians, rates and means are of, if the rule says so.
    pub(super) fn over_seconds(&self) -> Option<f64> {
        self.over.map(|over| over.0)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Somebody should look.
    #[default]
    Warning,
    /// Work is being lost.
    Critical,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// Which processes of a training look at a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertScope {
    /// The first: what it sees is true of the run.
    #[default]
    Run,
    /// Each of them: it is about their own devices.
    Process,
}

/// What is done when an alert begins to fire, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum AlertAction {
    /// A line on standard error.
    Log,
    /// The event is posted as JSON.
    Webhook(String),
    /// A program is started with the event as JSON on its standard input.
    Command(Vec<String>),
    /// The training saves and stops with exit code 75, when it begins to fire.
    StopAndSave,
}

impl TryFrom<toml::Value> for AlertAction {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<AlertAction, String> {
        const KNOWN: &str = "`log`, `stop_and_save`, `{ webhook = \"URL\" }` and `{ command = [\"PROGRAM\", …] }`";
        let unknown = |what: &dyn fmt::Display| format!("{what} is no action: there are {KNOWN}");
        match &value {
            toml::Value::String(word) if word == "log" => Ok(AlertAction::Log),
            toml::Value::String(word) if word == "stop_and_save" => Ok(AlertAction::StopAndSave),
            toml::Value::Table(table) if table.len() == 1 => match (table.get("webhook"), table.get("command")) {
                (Some(toml::Value::String(url)), _) => {
                    let is_plain = url.chars().all(|c| c.is_ascii_graphic());
                    match is_plain && (url.starts_with("http://") || url.starts_with("https://")) {
                        true => Ok(AlertAction::Webhook(url.clone())),
                        false => Err("a webhook is an address that begins with http:// or https://".into()),
                    }
                }
                (_, Some(toml::Value::Array(words))) if !words.is_empty() => {
                    let words = words.iter().map(|word| word.as_str().map(str::to_string));
                    let words: Option<Vec<String>> = words.collect();
                    words.map(AlertAction::Command).ok_or_else(|| "a command is a list of strings".into())
                }
                (_, Some(_)) => Err("a command is a list of strings, the program first".into()),
                _ => Err(unknown(&value)),
            },
            _ => Err(unknown(&value)),
        }
    }
}

/// What is done about a training that makes no progress.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HangConfig {
    /// No progress for so many median steps …
    pub steps: f64,
    /// … and for this long.
    at_least: Seconds,
    /// What is done then.
    pub action: HangAction,
}

impl Default for HangConfig {
    fn default() -> HangConfig {
        HangConfig { steps: 20.0, at_least: Seconds(600.0), action: HangAction::Report }
    }
}

impl HangConfig {
    /// Seconds without progress that are at least needed.
    pub fn at_least_seconds(&self) -> f64 {
        self.at_least.0
    }
}

/// What is done about a training that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HangAction {
    /// Nothing.
    Off,
    /// All processes are asked, and a report is written.
    Report,
    /// The same, and the process ends: it is started again by whoever started it, and goes on from the newest checkpoint.
    Stop,
}

/// A time as `90s` or `5m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Seconds(f64);

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Seconds, String> {
        duration(&text).map(Seconds)
    }
}

/// Why rules cannot be used: what is wrong, with the line and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl RuleError {
    pub(super) fn new(message: String) -> RuleError {
        RuleError(message)
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl From<toml::de::Error> for RuleError {
    fn from(error: toml::de::Error) -> RuleError {
        RuleError(error.to_string().trim_end().to_string())
    }
}

/// A training file, of which the rest is read by others.
#[derive(Deserialize)]
struct TrainingFile {
    #[serde(default)]
    alerts: AlertsConfig,
}

impl AlertsConfig {
    /// Reads a file of rules.
    pub fn parse(text: &str) -> Result<AlertsConfig, RuleError> {
        toml::from_str::<AlertsConfig>(text)?.checked(text)
    }

    /// Reads the `[alerts]` table of a training file.
    pub fn of_training_file(text: &str) -> Result<AlertsConfig, RuleError> {
        toml::from_str::<TrainingFile>(text)?.alerts.checked(text)
    }

    /// With what another file says: its rules are added, its settings count where it has them.
    #[must_use]
    pub fn with(mut self, other: AlertsConfig) -> AlertsConfig {
        let default = AlertsConfig::default();
        self.builtin &= other.builtin;
        self.off.extend(other.off);
        if other.every != default.every {
            self.every = other.every;
        }
        if other.actions != default.actions {
            self.actions = other.actions;
        }
        self.predicted_step_seconds = other.predicted_step_seconds.or(self.predicted_step_seconds);
        self.prediction = other.prediction.or(self.prediction);
        if other.hang != default.hang {
            self.hang = other.hang;
        }
        self.alert.retain(|rule| !other.alert.iter().any(|newer| newer.name == rule.name));
        self.alert.extend(other.alert);
        self
    }

    /// How often rules are looked at, in seconds.
    pub fn every_seconds(&self) -> f64 {
        self.every.0.max(0.05)
    }

    /// All rules that count, each with its actions.
    pub fn rules(&self) -> Vec<AlertRule> {
        let built_in = builtin().into_iter().filter(|rule| {
            self.builtin && !self.off.contains(&rule.name) && !self.alert.iter().any(|own| own.name == rule.name)
        });
        let with_actions = |mut rule: AlertRule| {
            rule.actions.get_or_insert_with(|| self.actions.clone());
            rule
        };
        built_in.chain(self.alert.iter().cloned()).map(with_actions).collect()
    }

    fn checked(self, text: &str) -> Result<AlertsConfig, RuleError> {
        if self.alert.len() > MAX_RULES {
            return Err(RuleError(format!("{} alerts are more than {MAX_RULES}", self.alert.len())));
        }
        let wrong = |key: &str, value: &str, nth: usize, why: String| {
            let has = |line: &str| line.trim_start().starts_with(key) && line.contains(&format!("\"{value}\""));
            let line = text.lines().enumerate().filter(|(_, line)| has(line)).nth(nth).map(|(n, _)| n + 1);
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            Err(RuleError(format!("{at}{key}: {why}")))
        };
        for (n, rule) in self.alert.iter().enumerate() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if rule.name.is_empty() || !rule.name.chars().all(is_plain) {
                let why = format!("`{}` is no name: use letters, digits, `_`, `-` and `.`", rule.name);
                return wrong("name", &rule.name, 0, why);
            }
            if self.alert.iter().take(n).any(|earlier| earlier.name == rule.name) {
                return wrong("name", &rule.name, 1, format!("there are two alerts `{}`", rule.name));
            }
        }
        let known: Vec<String> = builtin().into_iter().map(|rule| rule.name).collect();
        if let Some(name) = self.off.iter().find(|name| !known.contains(name)) {
            return wrong("off", name, 0, format!("`{name}` is no built-in alert: there are {}", known.join(", ")));
        }
        if self.predicted_step_seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return wrong("predicted_step_seconds", "", 0, "it must be above 0".into());
        }
        Ok(self)
    }
}

/// The rules that every training has.
fn builtin() -> Vec<AlertRule> {
    // A test reads them: they are part of the program.
    toml::from_str::<AlertsConfig>(BUILTIN).map(|config| config.alert).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_are_rules_and_can_be_switched_off() {
        let built_in = toml::from_str::<AlertsConfig>(BUILTIN).unwrap().checked(BUILTIN).unwrap().alert;
        assert!(built_in.len() > 10);
        assert!(built_in.iter().all(|rule| !rule.summary.is_empty() && !rule.remedy.is_empty()));
        let names = |text: &str| AlertsConfig::parse(text).unwrap().rules().into_iter().map(|rule| rule.name);
        assert_eq!(names("").count(), built_in.len());
        assert_eq!(names("builtin = false").count(), 0);
        assert!(!names("off = [\"data_bound\"]").any(|name| name == "data_bound"));
        let own = "[[alert]]\nname = \"data_bound\"\nmetric = \"m\"\nwhen = \"> 1\"\n";
        assert_eq!(names(own).filter(|name| name == "data_bound").count(), 1);
    }

    #[test]
    fn a_training_file_and_a_file_of_its_own_are_added() {
        let training = "[model]\nx = 1\n[alerts]\nevery = \"1s\"\nactions = [\"log\", \"stop_and_save\"]\n\
                        [alerts.hang]\naction = \"stop\"\nat_least = \"30s\"\n\
                        [[alerts.alert]]\nname = \"a\"\nmetric = \"m\"\nwhen = \"> 1\"\n";
        let other = "[[alert]]\nname = \"a\"\nmetric = \"m\"\nwhen = \"> 2\"\nfor = \"2m\"\nactions = [\n\
                     { webhook = \"https://example.com/x\" }, { command = [\"mail\", \"-s\", \"x\"] }]\n";
        let config = AlertsConfig::of_training_file(training).unwrap().with(AlertsConfig::parse(other).unwrap());
        assert_eq!((config.every_seconds(), config.hang.at_least_seconds()), (1.0, 30.0));
        assert_eq!(config.hang.action, HangAction::Stop);
        let rules = config.rules();
        let own: Vec<&AlertRule> = rules.iter().filter(|rule| rule.name == "a").collect();
        assert_eq!((own.len(), own[0].hold_seconds(), own[0].actions.as_ref().unwrap().len()), (1, 120.0, 2));
        assert_eq!(rules[0].actions.as_ref().unwrap(), &[AlertAction::Log, AlertAction::StopAndSave]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_key() {
        let rule = "[[alert]]\nname = \"a\"\nmetric = \"m\"\n";
        let check = |text: &str, parts: &[&str]| {
            let error = AlertsConfig::parse(text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}\n{error}");
        };
        check(&format!("{rule}when = \"above 1\"\n"), &["line 4", "when", "`above 1` is no condition"]);
        check(rule, &["line 1", "missing field `when`"]);
        check(
            "[[alert]]\nname = \"a\"\nmetric = \"{}\"\nwhen = \"> 1\"\n",
            &["line 3", "metric", "no name of a metric"],
        );
        check(&format!("{rule}when = \"> 1\"\nfor = \"soon\"\n"), &["line 5", "for", "`soon` is no time"]);
        check(&format!("{rule}when = \"> 1\"\nseverity = \"bad\"\n"), &["line 5", "severity", "`critical`"]);
        check(&format!("{rule}when = \"> 1\"\nactions = [\"shout\"]\n"), &["line 5", "actions", "is no action"]);
        check(&format!("{rule}when = \"> 1\"\nactions = [{{ webhook = \"ftp://x\" }}]\n"), &["line 5", "http://"]);
        check(&format!("{rule}when = \"> 1\"\nactions = [{{ command = [] }}]\n"), &["line 5", "the program first"]);
        check(&format!("{rule}when = \"> 1\"\nwho = \"me\"\n"), &["line 5", "unknown field `who`"]);
        check("off = [\"data_bond\"]\n", &["line 1", "off", "`data_bond`", "data_bound"]);
        check(&format!("{rule}when = \"> 1\"\n{rule}when = \"> 1\"\n"), &["line 6", "name", "two alerts `a`"]);
        check("every = 5\n", &["line 1", "every"]);
        check("[[alert]\n", &["line 1"]);
        check("predicted_step_seconds = -1.0\n", &["predicted_step_seconds", "above 0"]);
    }
}
