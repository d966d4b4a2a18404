//! A snapshot as metrics that Prometheus reads: of all hosts, with what libtpu tells under names made from its own.

use std::collections::{BTreeMap, HashSet};

use telemetry::runtime_metrics::{DeviceSample, MetricReading, MetricValue, device_families};
use telemetry::{Labels, MetricFamily, MetricKind, Sample, SampleValue, metric_name};

use super::snapshot::{HostState, HostsSnapshot};

/// Series in all at most: what is more is left out.
const MAX_SAMPLES: usize = 100_000;

/// What a snapshot tells, by name.
pub fn families(snapshot: &HostsSnapshot) -> Vec<MetricFamily> {
    let mut up = MetricFamily::new("tpubridge_monitor_host_up", "Whether the host answered.", MetricKind::Gauge);
    let mut took =
        MetricFamily::new("tpubridge_monitor_answer_seconds", "How long its answer took.", MetricKind::Gauge);
    let clock = "Seconds by which its clock is ahead, where more than the age of its values.";
    let mut ahead = MetricFamily::new("tpubridge_monitor_clock_ahead_seconds", clock, MetricKind::Gauge);
    let mut lost = MetricFamily::new(
        "tpubridge_monitor_failed_metrics",
        "Metrics that it lists and did not tell.",
        MetricKind::Gauge,
    );
    let mut devices: Vec<(Labels, DeviceSample)> = Vec::new();
    let mut told: BTreeMap<String, Told> = BTreeMap::new();
    let mut left = MAX_SAMPLES;
    for host in &snapshot.hosts {
        let labels = || vec![("host".to_string(), host.host.clone())];
        up.push(labels(), f64::from(u8::from(host.state == HostState::Up)));
        if let Some(seconds) = host.answer_seconds {
            took.push(labels(), seconds);
        }
        if let Some(seconds) = host.clock_ahead_seconds {
            ahead.push(labels(), seconds);
        }
        if host.state == HostState::Up {
            lost.push(labels(), host.failed.len() as f64);
        }
        devices.extend(host.devices.iter().map(|device| (labels(), device.sample.clone())));
        for metric in &host.metrics {
            add(&mut told, metric, &host.host, &mut left);
        }
    }
    let mut families = vec![up, took, ahead, lost];
    families.extend(device_families(&devices));
    // Our own runtime may tell of its devices under the same names.
    told.retain(|name, _| !families.iter().any(|family| family.name == *name));
    families.extend(told.into_values().map(|told| told.family));
    families
}

/// A family, and the labels it has: two series with the same ones would make the text invalid.
struct Told {
    family: MetricFamily,
    labels: HashSet<Labels>,
}

/// Adds what a host told of a metric. What our own runtime tells has its name already.
fn add(families: &mut BTreeMap<String, Told>, metric: &MetricReading, host: &str, left: &mut usize) {
    let is_own = metric.name.starts_with("tpubridge_");
    let name = if is_own { metric_name(&metric.name) } else { format!("libtpu_{}", metric_name(&metric.name)) };
    let kind_of = |value: &MetricValue| match value {
        MetricValue::Distribution(distribution) if distribution.buckets.is_some() => Some(MetricKind::Histogram),
        MetricValue::Integer(_) | MetricValue::Number(_) | MetricValue::Flag(_) => Some(MetricKind::Gauge),
        MetricValue::Text(text) => located(text).map(|_| MetricKind::Gauge),
        MetricValue::Distribution(_) => None,
    };
    for series in &metric.series {
        let Some(kind) = kind_of(&series.value) else { continue };
        if *left == 0 {
            return;
        }
        *left -= 1;
        let help = match metric.description.is_empty() {
            true => format!("As libtpu's metric service tells {}.", metric.name),
            false => metric.description.clone(),
        };
        let told = families
            .entry(name.clone())
            .or_insert_with(|| Told { family: MetricFamily::new(&name, help, kind), labels: HashSet::new() });
        if told.family.kind != kind {
            continue;
        }
        let mut labels: Labels = vec![("host".to_string(), host.to_string())];
        labels.extend(series.device.map(|device| ("device".to_string(), device.to_string())));
        for (key, value) in &series.labels {
            let key = metric_name(key);
            if !labels.iter().any(|(known, _)| *known == key) {
                labels.push((key, value.clone()));
            }
        }
        let place = match &series.value {
            MetricValue::Text(text) => located(text),
            _ => None,
        };
        labels.extend(place.map(|(place, _)| ("location".to_string(), place.to_string())));
        let value = match &series.value {
            MetricValue::Text(_) => place.map(|(_, value)| SampleValue::Number(value)),
            MetricValue::Distribution(distribution) => distribution.buckets.clone().map(SampleValue::Buckets),
            value => value.as_f64().map(SampleValue::Number),
        };
        if let Some(value) = value
            && told.labels.insert(labels.clone())
        {
            told.family.samples.push(Sample { labels, value });
        }
    }
}

/// A number with where it is of, as libtpu's SDK tells of links and chips: `tray1.chip3.ici0.int: 10`, `1-4`.
pub fn located(text: &str) -> Option<(&str, f64)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_chip = || text.split_once('-').filter(|(chip, value)| is_number(chip) && is_number(value));
    let (place, value) = text.rsplit_once(": ").or_else(of_chip)?;
    let value: f64 = value.trim().parse().ok().filter(|value: &f64| value.is_finite())?;
    (!place.is_empty()).then_some((place, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_place() {
        assert_eq!(located("tray1.chip3.ici0.int: 10"), Some(("tray1.chip3.ici0.int", 10.0)));
        assert_eq!(located("3-4"), Some(("3", 4.0)));
        for other in ["", ": 1", "a text of the future", "-", "1-", "-3", "a: b", "x-1", "1-2-3", "a: NaN"] {
            assert_eq!(located(other), None, "{other}");
        }
    }
}
