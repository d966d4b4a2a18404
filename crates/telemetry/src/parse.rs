//! Prometheus' text read back into metrics: what another process told. What cannot be read is left out.

use std::collections::BTreeMap;

use crate::family::{HistogramBuckets, Labels, MetricFamily, MetricKind, Sample, SampleValue};

/// Series that are read of one text.
const MAX_SAMPLES: usize = 100_000;

/// Counts of one series of a histogram, as its lines say: bounds with what is below them, the sum.
#[derive(Default)]
struct Cumulated {
    below: Vec<(f64, u64)>,
    sum: f64,
}

/// The families of a text, by name. Lines that are no samples are left out.
pub fn from_text(text: &str) -> Vec<MetricFamily> {
    let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
    let mut histograms: BTreeMap<(String, Labels), Cumulated> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, MetricKind> = BTreeMap::new();
    for line in text.lines().take(MAX_SAMPLES) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { continue };
            let kind = match kind.trim() {
                "counter" => MetricKind::Counter,
                "histogram" => MetricKind::Histogram,
                _ => MetricKind::Gauge,
            };
            kinds.insert(name, kind);
            continue;
        }
        let Some((name, mut labels, value)) = sample(line) else { continue };
        let part = ["_bucket", "_sum", "_count"].iter().find_map(|end| Some((name.strip_suffix(end)?, *end)));
        if let Some((base, part)) = part.filter(|(base, _)| kinds.get(base) == Some(&MetricKind::Histogram)) {
            let bound = labels.iter().position(|(label, _)| label == "le").map(|n| labels.remove(n).1);
            let known = histograms.entry((base.to_string(), labels)).or_default();
            match (part, bound.and_then(|bound| number(&bound))) {
                ("_sum", _) => known.sum = value,
                ("_bucket", Some(bound)) if value >= 0.0 => known.below.push((bound, value as u64)),
                _ => {}
            }
            continue;
        }
        let kind = kinds.get(name).copied().unwrap_or(MetricKind::Gauge);
        let family = families.entry(name.to_string()).or_insert_with(|| MetricFamily::new(name, "", kind));
        family.push(labels, value);
    }
    for ((name, labels), cumulated) in histograms {
        let family = families.entry(name.clone()).or_insert_with(|| MetricFamily::new(name, "", MetricKind::Histogram));
        family.samples.push(Sample { labels, value: SampleValue::Buckets(cumulated.buckets()) });
    }
    families.into_values().collect()
}

impl Cumulated {
    fn buckets(mut self) -> HistogramBuckets {
        self.below.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut before = 0;
        let mut buckets = HistogramBuckets { bounds: Vec::new(), counts: Vec::new(), sum: self.sum };
        for (bound, below) in self.below {
            if bound.is_finite() {
                buckets.bounds.push(bound);
            }
            buckets.counts.push(below.saturating_sub(before));
            before = before.max(below);
        }
        // There is one bucket more than bounds.
        buckets.counts.resize(buckets.bounds.len() + 1, 0);
        buckets
    }
}

/// Name, labels and value of a line.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = number(rest.split_ascii_whitespace().next()?)?;
    (!name.is_empty()).then_some((name, labels, value))
}

/// Labels up to `}`, and what follows.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        rest = loop {
            match chars.next()? {
                (at, '"') => break after.get(at + 1..)?,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.trim().to_string(), value));
    }
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, TextFormat, to_text};

    #[test]
    fn what_is_written_is_read() {
        let registry = Registry::new();
        registry.counter("a_total", "A.", &[("phase", "a\"b\\c\nd"), ("x", "")]).add(2.5);
        registry.gauge("b_ratio", "B.", &[]).set(-0.5);
        registry.gauge("c", "C.", &[]).set(f64::INFINITY);
        let histogram = registry.histogram("d_seconds", "D.", &[("process", "0")], &[0.5, 1.0]);
        [0.25, 0.75, 0.75, 2.0].iter().for_each(|value| histogram.observe(*value));
        let without_help = |mut family: MetricFamily| {
            family.help.clear();
            family
        };
        let written: Vec<MetricFamily> = registry.gather().into_iter().map(without_help).collect();
        assert_eq!(from_text(&to_text(&written, TextFormat::Prometheus)), written);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let text = "a 1\nb{\nc{x=\"\n{} 2\nd x\n# TYPE e histogram\ne_bucket 1\ne_bucket{le=\"x\"} 1\ne_sum NaN\nf{x=\"1\"} 2 123\n \n";
        let names: Vec<String> = from_text(text).into_iter().map(|family| family.name).collect();
        assert_eq!(names, ["a", "e", "f"]);
        assert!(from_text(&"x".repeat(10_000)).is_empty());
    }
}
