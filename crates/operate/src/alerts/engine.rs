//! The states of alerts: a snapshot of metrics in, what begins to fire or ends out. Time is given, so that tests simulate it.

use std::collections::BTreeMap;

use telemetry::{Labels, MetricFamily, MetricKind, Sample, SampleValue};

use super::condition::{AlertReference, Condition};
use super::config::{AlertRule, Severity};
use super::event::{AlertEvent, AlertState, EVENT_VERSION};
use super::history::History;

/// Series that one rule looks at.
const MAX_SERIES: usize = 1000;

/// The time that rates and means are of where the rule does not say.
const RATE_SECONDS: f64 = 300.0;

/// The time that medians are of where the rule does not say.
const MEDIAN_SECONDS: f64 = 6.0 * 3600.0;

/// The histogram whose median is a step.
const STEP_SECONDS: &str = "tpubridge_training_step_seconds";

/// Rules, and what became of each of their series.
#[derive(Debug)]
pub struct AlertEngine {
    rules: Vec<Tracked>,
}

#[derive(Debug)]
struct Tracked {
    rule: AlertRule,
    /// By metric and labels.
    series: BTreeMap<(String, Labels), Series>,
}

#[derive(Debug)]
struct Series {
    /// Sums of a counter, or sums and counts of a histogram.
    sums: History<(f64, f64)>,
    values: History<f64>,
    state: State,
    seen: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Quiet,
    Pending { since: f64 },
    Firing { since: f64 },
}

/// What a rule says of a series.
struct Judged {
    holds: bool,
    value: Option<f64>,
    bound: Option<f64>,
}

impl AlertEngine {
    /// An engine with these rules, all quiet.
    pub fn new(rules: Vec<AlertRule>) -> AlertEngine {
        AlertEngine { rules: rules.into_iter().map(|rule| Tracked { rule, series: BTreeMap::new() }).collect() }
    }

    /// Looks at the metrics of now, in seconds since 1970; what begins to fire, and what ends.
    pub fn evaluate(&mut self, families: &[MetricFamily], now: f64) -> Vec<AlertEvent> {
        let mut events = Vec::new();
        for tracked in &mut self.rules {
            tracked.evaluate(families, now, &mut events);
        }
        events
    }

    /// Each rule with its severity, and how many of its series fire.
    pub fn firing(&self) -> impl Iterator<Item = (&str, Severity, usize)> {
        self.rules.iter().map(|tracked| {
            let is_firing = |series: &&Series| matches!(series.state, State::Firing { .. });
            let count = tracked.series.values().filter(is_firing).count();
            (tracked.rule.name.as_str(), tracked.rule.severity, count)
        })
    }
}

impl Tracked {
    fn evaluate(&mut self, families: &[MetricFamily], now: f64, events: &mut Vec<AlertEvent>) {
        let Tracked { rule, series } = self;
        let mut is_there = false;
        for family in rule.metric.families(families) {
            for sample in family.samples.iter().filter(|sample| rule.metric.matches(sample)) {
                is_there = true;
                let key = (family.name.clone(), sample.labels.clone());
                if series.len() >= MAX_SERIES && !series.contains_key(&key) {
                    continue;
                }
                let known = series.entry(key.clone()).or_insert_with(|| Series::new(rule));
                known.seen = now;
                let judged = known.judge(rule, family.kind, sample, families, now);
                events.extend(known.turn(rule, &key, &judged, now));
            }
        }
        if rule.when == Condition::IsAbsent {
            let key = (rule.metric.name.clone(), rule.metric.labels.clone());
            let known = series.entry(key.clone()).or_insert_with(|| Series::new(rule));
            known.seen = now;
            let judged = Judged { holds: !is_there, value: None, bound: None };
            events.extend(known.turn(rule, &key, &judged, now));
        }
        // A series that is gone no longer holds.
        let gone = Judged { holds: false, value: None, bound: None };
        series.retain(|key, known| {
            if known.seen < now {
                events.extend(known.turn(rule, key, &gone, now));
            }
            known.seen >= now
        });
    }
}

impl Series {
    fn new(rule: &AlertRule) -> Series {
        let is_median = matches!(&rule.when, Condition::Compares { reference: AlertReference::Median, .. });
        let over = rule.over_seconds();
        let rate_seconds = over.filter(|_| !is_median).unwrap_or(RATE_SECONDS);
        let median_seconds = over.unwrap_or(MEDIAN_SECONDS);
        Series {
            sums: History::new(rate_seconds),
            values: History::new(median_seconds),
            state: State::Quiet,
            seen: 0.0,
        }
    }

    fn judge(
        &mut self,
        rule: &AlertRule,
        kind: MetricKind,
        sample: &Sample,
        families: &[MetricFamily],
        now: f64,
    ) -> Judged {
        let value = self.value(kind, sample, now);
        let Some(value) = value else { return Judged { holds: false, value, bound: None } };
        let (holds, bound) = match &rule.when {
            Condition::IsNan => (value.is_nan(), None),
            Condition::IsNotFinite => (!value.is_finite(), None),
            Condition::IsAbsent => (false, None),
            Condition::IsOlder { seconds, steps } => {
                let step = (*steps > 0.0).then(|| reference(STEP_SECONDS, &Labels::new(), families));
                let bound = match step {
                    None => Some(*seconds),
                    Some(step) => step.map(|step| seconds.max(steps * step)),
                };
                // 0 is what a time is before it was.
                (bound.is_some_and(|bound| value > 0.0 && now - value > bound), bound)
            }
            Condition::Compares { comparison, factor, reference: of } => {
                let bound = match of {
                    AlertReference::Number => Some(*factor),
                    AlertReference::Median => self.values.median().filter(|median| *median > 0.0).map(|m| m * factor),
                    AlertReference::Metric(name) => {
                        reference(name, &sample.labels, families).map(|value| value * factor)
                    }
                };
                (bound.is_some_and(|bound| comparison.holds(value, bound)), bound)
            }
        };
        // A value is compared with what was before it.
        self.values.push(now, value);
        Judged { holds, value: Some(value), bound }
    }

    /// The number a rule is about: a gauge as it is, a counter by what it grows a second, a histogram by its mean.
    fn value(&mut self, kind: MetricKind, sample: &Sample, now: f64) -> Option<f64> {
        let (sum, count) = match (&sample.value, kind) {
            (SampleValue::Number(value), MetricKind::Counter) => (*value, now),
            (SampleValue::Number(value), _) => return Some(*value),
            (SampleValue::Buckets(buckets), _) => (buckets.sum, buckets.count() as f64),
        };
        // What begins anew, as after a restart, has grown since then.
        if self.sums.oldest().is_some_and(|(_, (before, _))| before > sum) {
            self.sums = History::new(RATE_SECONDS);
        }
        self.sums.push(now, (sum, count));
        let (_, (sum_before, count_before)) = self.sums.oldest()?;
        (count > count_before).then(|| (sum - sum_before) / (count - count_before))
    }

    /// The next state; what is told of it.
    fn turn(&mut self, rule: &AlertRule, key: &(String, Labels), judged: &Judged, now: f64) -> Option<AlertEvent> {
        let before = self.state;
        let since = match before {
            State::Quiet => now,
            State::Pending { since } | State::Firing { since } => since,
        };
        self.state = match (judged.holds, before) {
            (false, _) => State::Quiet,
            (true, State::Firing { .. }) => before,
            // A clock that went back is no time that passed.
            (true, _) if now - since >= rule.hold_seconds() => State::Firing { since },
            (true, _) => State::Pending { since: since.min(now) },
        };
        let state = match (before, self.state) {
            (State::Quiet | State::Pending { .. }, State::Firing { .. }) => AlertState::Firing,
            (State::Firing { .. }, State::Quiet) => AlertState::Resolved,
            _ => return None,
        };
        Some(AlertEvent {
            version: EVENT_VERSION,
            time_seconds: now,
            state,
            alert: rule.name.clone(),
            severity: rule.severity,
            metric: key.0.clone(),
            labels: key.1.iter().cloned().collect(),
            value: judged.value,
            when: rule.when.to_string(),
            bound: judged.bound,
            since_seconds: since,
            summary: rule.summary.clone(),
            remedy: rule.remedy.clone(),
            run: String::new(),
            process: None,
            actions: rule.actions.clone().unwrap_or_default(),
        })
    }
}

/// The value of another metric: of the series with the same labels, else of the only one. Of a histogram the median.
fn reference(name: &str, labels: &Labels, families: &[MetricFamily]) -> Option<f64> {
    let family = families.iter().find(|family| family.name == name)?;
    let same = family.samples.iter().find(|sample| sample.labels == *labels);
    let sample = same.or_else(|| family.samples.first().filter(|_| family.samples.len() == 1))?;
    match &sample.value {
        SampleValue::Number(value) => Some(*value).filter(|value| value.is_finite()),
        SampleValue::Buckets(buckets) => buckets.quantile(0.5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::AlertsConfig;
    use telemetry::Registry;

    fn engine(text: &str) -> AlertEngine {
        AlertEngine::new(AlertsConfig::parse(&format!("builtin = false\n{text}")).unwrap().rules())
    }

    fn rule(metric: &str, when: &str, more: &str) -> AlertEngine {
        engine(&format!("[[alert]]\nname = \"a\"\nmetric = '{metric}'\nwhen = \"{when}\"\n{more}\n"))
    }

    /// What is told as `time:state` over times and values of a gauge.
    fn told(engine: &mut AlertEngine, values: &[(f64, f64)]) -> String {
        let registry = Registry::new();
        let gauge = registry.gauge("g", "G.", &[]);
        let mut told = Vec::new();
        for (now, value) in values {
            gauge.set(*value);
            let events = engine.evaluate(&registry.gather(), *now);
            told.extend(events.iter().map(|event| format!("{now}:{}", event.state.name())));
        }
        told.join(" ")
    }

    #[test]
    fn pending_fires_once_and_resolves() {
        let mut held = rule("g", "> 1", "for = \"10s\"");
        let values = [(0.0, 0.0), (5.0, 2.0), (10.0, 2.0), (14.0, 2.0), (15.0, 2.0), (20.0, 3.0), (25.0, 1.0)];
        assert_eq!(told(&mut held, &values), "15:firing 25:resolved");
        // What does not hold for long enough begins anew; without `for` it fires at once.
        let values = [(0.0, 2.0), (9.0, 2.0), (9.5, 0.0), (11.0, 2.0), (20.0, 2.0), (21.0, 2.0)];
        assert_eq!(told(&mut rule("g", "> 1", "for = \"10s\""), &values), "21:firing");
        assert_eq!(told(&mut rule("g", "> 1", ""), &[(0.0, 2.0), (1.0, 2.0), (2.0, 0.0)]), "0:firing 2:resolved");
        // A clock that goes back ends nothing and begins nothing.
        assert_eq!(
            told(&mut rule("g", "> 1", "for = \"10s\""), &[(100.0, 2.0), (0.0, 2.0), (9.0, 2.0), (10.0, 2.0)]),
            "10:firing"
        );
    }

    #[test]
    fn numbers_that_are_not_finite() {
        assert_eq!(
            told(&mut rule("g", "is NaN", ""), &[(0.0, 1.0), (1.0, f64::INFINITY), (2.0, f64::NAN)]),
            "2:firing"
        );
        assert_eq!(told(&mut rule("g", "is not finite", ""), &[(0.0, 1.0), (1.0, f64::INFINITY)]), "1:firing");
        assert_eq!(told(&mut rule("g", "> 1", ""), &[(0.0, f64::NAN)]), "");
    }

    #[test]
    fn a_part_of_the_own_median() {
        let mut values: Vec<(f64, f64)> = (0..10).map(|n| (f64::from(n) * 10.0, 100.0)).collect();
        values.extend([(100.0, 79.0), (110.0, 81.0)]);
        let mut low = rule("g", "< 80% of median", "over = \"10m\"");
        assert_eq!(told(&mut low, &values), "100:firing 110:resolved");
        // Too few values say nothing.
        assert_eq!(told(&mut rule("g", "< 80% of median", ""), &[(0.0, 100.0), (60.0, 1.0)]), "");
    }

    #[test]
    fn counters_by_their_rate_and_histograms_by_their_mean() {
        let registry = Registry::new();
        let counter = registry.counter("wait_seconds_total", "W.", &[]);
        let histogram = registry.histogram("step_seconds", "S.", &[], &[1.0, 10.0]);
        let mut rates = engine(
            "[[alert]]\nname = \"rate\"\nmetric = \"wait_seconds_total\"\nwhen = \"> 0.5\"\nover = \"10s\"\n\
             [[alert]]\nname = \"mean\"\nmetric = \"step_seconds\"\nwhen = \"> 2\"\nover = \"10s\"\n",
        );
        let mut told = Vec::new();
        for second in 0..60 {
            let is_slow = (20..40).contains(&second);
            counter.add(if is_slow { 0.9 } else { 0.1 });
            histogram.observe(if is_slow { 3.0 } else { 1.0 });
            for event in rates.evaluate(&registry.gather(), f64::from(second)) {
                told.push(format!("{} {} {second}", event.alert, event.state.name()));
            }
        }
        assert_eq!(told, ["rate firing 25", "mean firing 25", "rate resolved 45", "mean resolved 45"]);
    }

    #[test]
    fn another_metric_times_and_labels() {
        let registry = Registry::new();
        for device in ["0", "1"] {
            registry.gauge("used_bytes", "U.", &[("device", device)]).set(if device == "1" { 99.0 } else { 1.0 });
            registry.gauge("limit_bytes", "L.", &[("device", device)]).set(100.0);
        }
        let events = rule("used_bytes", "> 0.97 of limit_bytes", "").evaluate(&registry.gather(), 0.0);
        assert_eq!((events.len(), events[0].labels["device"].as_str(), events[0].bound), (1, "1", Some(97.0)));
        assert!(rule("used_bytes{device=\"0\"}", "> 50", "").evaluate(&registry.gather(), 0.0).is_empty());

        registry.gauge("ended_timestamp_seconds", "E.", &[]).set(1000.0);
        let mut old = rule("ended_timestamp_seconds", "older than 20 steps and 60s", "");
        // Nobody knows how long a step takes yet.
        assert!(old.evaluate(&registry.gather(), 9000.0).is_empty());
        let steps = registry.histogram(STEP_SECONDS, "S.", &[], &[1.0, 4.0, 8.0]);
        steps.observe(4.0);
        steps.observe(4.0);
        assert!(old.evaluate(&registry.gather(), 1050.0).is_empty());
        assert_eq!(old.evaluate(&registry.gather(), 1081.0).len(), 1);
        registry.gauge("never_timestamp_seconds", "N.", &[]).set(0.0);
        assert!(rule("never_timestamp_seconds", "older than 1s", "").evaluate(&registry.gather(), 1e9).is_empty());
    }

    #[test]
    fn series_that_come_and_go() {
        let registry = Registry::new();
        let mut absent = rule("g", "is absent", "");
        assert_eq!(absent.evaluate(&registry.gather(), 0.0)[0].state, AlertState::Firing);
        registry.gauge("g", "G.", &[]).set(5.0);
        assert_eq!(absent.evaluate(&registry.gather(), 1.0)[0].state, AlertState::Resolved);
        let mut above = rule("g", "> 1", "");
        assert_eq!(above.evaluate(&registry.gather(), 0.0).len(), 1);
        assert_eq!(above.firing().next().unwrap(), ("a", Severity::Warning, 1));
        registry.remove("g");
        assert_eq!(above.evaluate(&registry.gather(), 1.0)[0].state, AlertState::Resolved);
        assert_eq!(above.firing().next().unwrap().2, 0);
    }

    #[test]
    fn built_in_rules_are_quiet_in_a_healthy_training_and_loud_in_a_sick_one() {
        let registry = Registry::new();
        let loss = registry.gauge("tpubridge_training_loss", "L.", &[]);
        let tokens = registry.gauge("tpubridge_training_tokens_per_second", "T.", &[]);
        let ended = registry.gauge("tpubridge_training_step_timestamp_seconds", "E.", &[]);
        let saved = registry.gauge("tpubridge_training_checkpoint_timestamp_seconds", "C.", &[]);
        let steps = registry.histogram(STEP_SECONDS, "S.", &[], &[0.5, 1.0, 2.0]);
        let wait = registry.counter("tpubridge_training_data_wait_seconds_total", "W.", &[]);
        let predicted = registry.gauge("tpubridge_training_predicted_step_seconds", "P.", &[]);
        let mut engine = AlertEngine::new(AlertsConfig::default().rules());
        predicted.set(0.95);
        let mut told = Vec::new();
        let mut now = 1e9;
        let mut live = |engine: &mut AlertEngine, seconds: u64, is_sick: bool| {
            for _ in 0..seconds {
                now += 1.0;
                loss.set(if is_sick { 9.0 } else { 3.0 });
                tokens.set(if is_sick { 500.0 } else { 1000.0 });
                if !is_sick {
                    ended.set(now);
                    saved.set(now);
                }
                steps.observe(if is_sick { 2.0 } else { 1.0 });
                wait.add(if is_sick { 0.6 } else { 0.01 });
                told.extend(
                    engine.evaluate(&registry.gather(), now).into_iter().map(|event| (event.alert, event.state)),
                );
            }
            std::mem::take(&mut told)
        };
        assert_eq!(live(&mut engine, 3600, false), []);
        let mut fired: Vec<String> = live(&mut engine, 800, true).into_iter().map(|(alert, _)| alert).collect();
        fired.sort();
        let expected = ["data_bound", "loss_spike", "no_step", "slower_than_predicted", "throughput_low"];
        assert_eq!(fired, expected);
        let mut resolved: Vec<String> = live(&mut engine, 900, false)
            .into_iter()
            .filter(|(_, state)| *state == AlertState::Resolved)
            .map(|(alert, _)| alert)
            .collect();
        resolved.sort();
        assert_eq!(resolved, expected);
    }
}
