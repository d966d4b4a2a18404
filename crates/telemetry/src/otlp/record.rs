//! What is sent: spans and log records as plain values, with bounds, and metrics from families.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::messages::{
    AnyValue, CUMULATIVE, ERROR, GaugePoints, HistogramPoint, HistogramPoints, INTERNAL, KeyValue, LogRecord, Metric,
    MetricData, NumberPoint, OtlpValue, SAMPLED, SAMPLED_LOCAL, Span, Status, SumPoints,
};
use crate::family::{Labels, MetricFamily, MetricKind, SampleValue};

/// Longest text of an attribute or a message; what is more is cut off.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Attributes of a record at most.
const MAX_ATTRIBUTES: usize = 64;

/// What a collector is sent, each under an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpSignal {
    /// Values of metrics.
    Metrics,
    /// Spans.
    Traces,
    /// Log records.
    Logs,
}

impl OtlpSignal {
    /// All, in the order of their numbers.
    pub const ALL: [OtlpSignal; 3] = [OtlpSignal::Metrics, OtlpSignal::Traces, OtlpSignal::Logs];

    /// As it is called in addresses.
    pub fn name(self) -> &'static str {
        match self {
            OtlpSignal::Metrics => "metrics",
            OtlpSignal::Traces => "traces",
            OtlpSignal::Logs => "logs",
        }
    }
}

/// What a trace is known by; shown in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

/// What a span is known by within its trace; shown in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// A new one.
    pub fn new() -> TraceId {
        let mut bytes = [0; 16];
        let (high, low) = bytes.split_at_mut(8);
        high.copy_from_slice(&random().to_be_bytes());
        low.copy_from_slice(&random().to_be_bytes());
        TraceId(bytes)
    }
}

impl SpanId {
    /// A new one.
    pub fn new() -> SpanId {
        SpanId(random().to_be_bytes())
    }
}

impl Default for TraceId {
    fn default() -> TraceId {
        TraceId::new()
    }
}

impl Default for SpanId {
    fn default() -> SpanId {
        SpanId::new()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A number that nobody else has; never 0, which stands for none. Maps are keyed with random numbers of the system: their
/// hash of nothing is one.
fn random() -> u64 {
    RandomState::new().hash_one(()).max(1)
}

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span of it.
    pub span: SpanId,
}

/// Something that took a time and has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// Which one.
    pub context: SpanContext,
    /// The span it is part of.
    pub parent: Option<SpanId>,
    /// One of few names.
    pub name: &'static str,
    /// Nanoseconds since 1970 of its start and end.
    pub time_unix_nanos: (u64, u64),
    /// What is known of it.
    pub attributes: Vec<(String, OtlpValue)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl SpanRecord {
    pub(super) fn into_message(self) -> Span {
        let (start_time_unix_nano, end) = self.time_unix_nanos;
        Span {
            trace_id: self.context.trace.0.to_vec(),
            span_id: self.context.span.0.to_vec(),
            parent_span_id: self.parent.map_or_else(Vec::new, |parent| parent.0.to_vec()),
            name: self.name.to_string(),
            kind: INTERNAL,
            start_time_unix_nano,
            // Clocks may be set back; a span does not end before it starts.
            end_time_unix_nano: end.max(start_time_unix_nano),
            attributes: attributes(self.attributes),
            status: self.error.map(|message| Status { message: cut(message), code: ERROR }),
            flags: SAMPLED_LOCAL,
        }
    }
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq)]
pub struct SaidRecord {
    /// When.
    pub time_unix_nanos: u64,
    /// How much it matters.
    pub level: tracing::Level,
    /// For people.
    pub message: String,
    /// What is known of it.
    pub attributes: Vec<(String, OtlpValue)>,
}

impl SaidRecord {
    pub(super) fn into_message(self, context: Option<SpanContext>) -> LogRecord {
        let severity_number = match self.level {
            tracing::Level::TRACE => 1,
            tracing::Level::DEBUG => 5,
            tracing::Level::INFO => 9,
            tracing::Level::WARN => 13,
            tracing::Level::ERROR => 17,
        };
        LogRecord {
            time_unix_nano: self.time_unix_nanos,
            observed_time_unix_nano: self.time_unix_nanos,
            severity_number,
            severity_text: self.level.as_str().to_string(),
            body: Some(any(OtlpValue::Text(self.message))),
            attributes: attributes(self.attributes),
            flags: if context.is_some() { SAMPLED } else { 0 },
            trace_id: context.map_or_else(Vec::new, |context| context.trace.0.to_vec()),
            span_id: context.map_or_else(Vec::new, |context| context.span.0.to_vec()),
        }
    }
}

/// Nanoseconds since 1970.
pub fn unix_nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The metrics of families as they are at a time, counted since the start.
pub(super) fn metrics(families: Vec<MetricFamily>, start_unix_nanos: u64, time_unix_nanos: u64) -> Vec<Metric> {
    families.into_iter().map(|family| metric(family, start_unix_nanos, time_unix_nanos)).collect()
}

/// Values of metrics in a request.
pub(super) fn points(metrics: &[Metric]) -> u64 {
    let points = |metric: &Metric| match &metric.data {
        Some(MetricData::Gauge(gauge)) => gauge.data_points.len(),
        Some(MetricData::Sum(sum)) => sum.data_points.len(),
        Some(MetricData::Histogram(histogram)) => histogram.data_points.len(),
        None => 0,
    };
    metrics.iter().map(points).sum::<usize>() as u64
}

fn metric(family: MetricFamily, start_time_unix_nano: u64, time_unix_nano: u64) -> Metric {
    let MetricFamily { name, help, kind, samples } = family;
    let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
    for sample in samples {
        let attributes = of_labels(sample.labels);
        match sample.value {
            SampleValue::Number(value) => {
                numbers.push(NumberPoint { start_time_unix_nano, time_unix_nano, as_double: Some(value), attributes })
            }
            SampleValue::Buckets(buckets) => histograms.push(HistogramPoint {
                start_time_unix_nano,
                time_unix_nano,
                count: buckets.count(),
                sum: Some(buckets.sum),
                bucket_counts: buckets.counts,
                explicit_bounds: buckets.bounds,
                attributes,
            }),
        }
    }
    let data = match kind {
        MetricKind::Gauge => {
            // A value of now has no start.
            numbers.iter_mut().for_each(|point| point.start_time_unix_nano = 0);
            MetricData::Gauge(GaugePoints { data_points: numbers })
        }
        MetricKind::Counter => {
            let (aggregation_temporality, is_monotonic) = (CUMULATIVE, true);
            MetricData::Sum(SumPoints { data_points: numbers, aggregation_temporality, is_monotonic })
        }
        MetricKind::Histogram => {
            MetricData::Histogram(HistogramPoints { data_points: histograms, aggregation_temporality: CUMULATIVE })
        }
    };
    Metric { unit: unit(&name).to_string(), name, description: help, data: Some(data) }
}

/// The unit that a name of Prometheus ends with, as OpenTelemetry writes it.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

pub(super) fn of_labels(labels: Labels) -> Vec<KeyValue> {
    attributes(labels.into_iter().map(|(name, value)| (name, OtlpValue::Text(value))).collect())
}

fn attributes(known: Vec<(String, OtlpValue)>) -> Vec<KeyValue> {
    let one = |(key, value)| KeyValue { key: cut(key), value: Some(any(value)) };
    known.into_iter().take(MAX_ATTRIBUTES).map(one).collect()
}

fn any(value: OtlpValue) -> AnyValue {
    let value = match value {
        OtlpValue::Text(text) => OtlpValue::Text(cut(text)),
        other => other,
    };
    AnyValue { value: Some(value) }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn ids_are_of_their_own() {
        let ids: std::collections::BTreeSet<String> = (0..1000).map(|_| SpanId::new().to_string()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 16 && *id != "0000000000000000"));
        assert_eq!(TraceId::new().to_string().len(), 32);
    }

    #[test]
    fn metrics_are_of_the_kind_of_their_family() {
        let registry = Registry::new();
        registry.counter("a_seconds_total", "A.", &[("k", "v")]).add(2.0);
        registry.gauge("b_bytes", "B.", &[]).set(0.0);
        let histogram = registry.histogram("c_seconds", "C.", &[], &[1.0, 2.0]);
        [0.5, 1.5, 9.0].iter().for_each(|value| histogram.observe(*value));
        let all = metrics(registry.gather(), 7, 9);
        assert_eq!(points(&all), 3);
        assert_eq!(all.iter().map(|metric| metric.unit.as_str()).collect::<Vec<_>>(), ["s", "By", "s"]);
        let Some(MetricData::Sum(sum)) = &all[0].data else { panic!("{all:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano, point.as_double), (7, 9, Some(2.0)));
        assert_eq!(point.attributes[0].key, "k");
        let Some(MetricData::Gauge(gauge)) = &all[1].data else { panic!("{all:?}") };
        // Nothing, and not "no value".
        assert_eq!((gauge.data_points[0].start_time_unix_nano, gauge.data_points[0].as_double), (0, Some(0.0)));
        let Some(MetricData::Histogram(histogram)) = &all[2].data else { panic!("{all:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, point.bucket_counts.as_slice()), (3, Some(11.0), &[1, 1, 1][..]));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let record = SaidRecord {
            time_unix_nanos: 1,
            level: tracing::Level::WARN,
            message: "ä".repeat(MAX_TEXT_BYTES),
            attributes: (0..1000).map(|n| (n.to_string(), OtlpValue::Int(n))).collect(),
        };
        let message = record.into_message(None);
        let Some(AnyValue { value: Some(OtlpValue::Text(text)) }) = message.body else { panic!() };
        assert_eq!((text.len(), text.chars().all(|c| c == 'ä')), (MAX_TEXT_BYTES, true));
        assert_eq!((message.attributes.len(), message.severity_number), (MAX_ATTRIBUTES, 13));
    }
}
