//! Metrics as text: Prometheus' format 0.0.4 and OpenMetrics 1.0.

use std::fmt::Write as _;

use crate::family::{Labels, MetricFamily, MetricKind, SampleValue};

/// A text format that scrapers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format that an `Accept` header asks for.
    pub fn accepted(accept: Option<&str>) -> TextFormat {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }

    /// As a `Content-Type` header names it.
    pub fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Units that names end in, which OpenMetrics names apart.
const UNITS: &[&str] = &["seconds", "bytes", "ratio", "celsius", "watts"];

/// Families as text. A family without series is left out.
pub fn to_text(families: &[MetricFamily], format: TextFormat) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let base = family.name.strip_suffix("_total").filter(|_| family.kind == MetricKind::Counter);
        // OpenMetrics names a family without `_total`, and its samples with it.
        let (name, sample_name) = match (format, base) {
            (TextFormat::OpenMetrics, Some(base)) => (base, family.name.as_str()),
            (TextFormat::OpenMetrics, None) if family.kind == MetricKind::Counter => (family.name.as_str(), ""),
            _ => (family.name.as_str(), family.name.as_str()),
        };
        let total = format!("{name}_total");
        let sample_name = if sample_name.is_empty() { total.as_str() } else { sample_name };
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let help = if format == TextFormat::OpenMetrics { help.replace('"', "\\\"") } else { help };
        let _ = writeln!(text, "# HELP {name} {help}");
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if format == TextFormat::OpenMetrics
            && let Some(unit) = UNITS.iter().find(|unit| name.ends_with(&format!("_{unit}")))
        {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        for sample in &family.samples {
            match &sample.value {
                SampleValue::Number(value) => line(&mut text, sample_name, &sample.labels, None, &number(*value)),
                SampleValue::Buckets(buckets) => {
                    let mut below = 0u64;
                    for (n, count) in buckets.counts.iter().enumerate() {
                        below += count;
                        let bound = buckets.bounds.get(n).map_or("+Inf".into(), |bound| bucket_bound(*bound, format));
                        line(&mut text, &format!("{name}_bucket"), &sample.labels, Some(&bound), &below.to_string());
                    }
                    line(&mut text, &format!("{name}_sum"), &sample.labels, None, &number(buckets.sum));
                    line(&mut text, &format!("{name}_count"), &sample.labels, None, &below.to_string());
                }
            }
        }
    }
    if format == TextFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn line(text: &mut String, name: &str, labels: &Labels, bound: Option<&str>, value: &str) {
    text.push_str(name);
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut separator = '{';
    for (name, value) in labels.chain(bound.map(|bound| ("le", bound))) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{separator}{name}=\"{value}\"");
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value => value.to_string(),
    }
}

/// OpenMetrics writes bounds as floats.
fn bucket_bound(bound: f64, format: TextFormat) -> String {
    let text = number(bound);
    match format == TextFormat::OpenMetrics && !text.contains(['.', 'I', 'N']) {
        true => format!("{text}.0"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    fn registry() -> Registry {
        let registry = Registry::new();
        registry.counter("a_total", "First \\ \"line\"\nsecond.", &[("phase", "a\"b\\c\nd")]).add(2.5);
        registry.gauge("b_ratio", "B.", &[]).set(f64::NAN);
        let histogram = registry.histogram("c_seconds", "C.", &[("process", "0")], &[0.5, 1.0]);
        histogram.observe(0.25);
        histogram.observe(2.0);
        registry
    }

    #[test]
    fn prometheus_text() {
        let expected = r#"# HELP a_total First \\ "line"\nsecond.
# TYPE a_total counter
a_total{phase="a\"b\\c\nd"} 2.5
# HELP b_ratio B.
# TYPE b_ratio gauge
b_ratio NaN
# HELP c_seconds C.
# TYPE c_seconds histogram
c_seconds_bucket{process="0",le="0.5"} 1
c_seconds_bucket{process="0",le="1"} 1
c_seconds_bucket{process="0",le="+Inf"} 2
c_seconds_sum{process="0"} 2.25
c_seconds_count{process="0"} 2
"#;
        assert_eq!(to_text(&registry().gather(), TextFormat::Prometheus), expected);
    }

    #[test]
    fn open_metrics_text() {
        let expected = r#"# HELP a First \\ \"line\"\nsecond.
# TYPE a counter
a_total{phase="a\"b\\c\nd"} 2.5
# HELP b_ratio B.
# TYPE b_ratio gauge
# UNIT b_ratio ratio
b_ratio NaN
# HELP c_seconds C.
# TYPE c_seconds histogram
# UNIT c_seconds seconds
c_seconds_bucket{process="0",le="0.5"} 1
c_seconds_bucket{process="0",le="1.0"} 1
c_seconds_bucket{process="0",le="+Inf"} 2
c_seconds_sum{process="0"} 2.25
c_seconds_count{process="0"} 2
# EOF
"#;
        assert_eq!(to_text(&registry().gather(), TextFormat::OpenMetrics), expected);
    }

    #[test]
    fn a_scraper_says_what_it_reads() {
        assert_eq!(TextFormat::accepted(None), TextFormat::Prometheus);
        let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(TextFormat::accepted(Some(accept)), TextFormat::OpenMetrics);
    }
}
