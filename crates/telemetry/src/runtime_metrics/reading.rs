//! What a service said, read as far as it makes sense: older and newer libtpu, parts that are no messages, hostile sizes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;
use prost::bytes::Bytes;
use serde::Serialize;

use super::messages::{
    Attr, AttrValue, Attribute, BucketBounds, BucketOptions, CounterValue, GaugeValue, ListSupportedMetricsResponse,
    Measure, Metric, MetricResponse, SupportedMetric,
};
use crate::family::HistogramBuckets;

/// Metrics of one service at most.
pub(super) const MAX_METRICS: usize = 256;
/// Series of one metric at most: a host has 8 chips, and buffers of some dozens of sizes.
const MAX_SERIES: usize = 2048;
/// Labels of a series, and characters of a name or value, at most.
const MAX_LABELS: usize = 16;
const MAX_TEXT: usize = 512;
/// Buckets of a distribution at most.
const MAX_BUCKETS: usize = 1024;

/// Names under which a device is told.
const DEVICE_KEYS: [&str; 4] = ["device_ordinal", "device-id", "device_id", "device"];

/// A metric with all its series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricReading {
    /// As the service names it: `tpu.runtime.hbm.memory.usage.bytes`.
    pub name: String,
    /// What the service says of it; often nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Values, as a rule one for each device.
    pub series: Vec<Series>,
    /// Series that could not be read, or were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The device, where the value is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// What else tells it from others: the size of a buffer, the kind of a core.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// When it was measured, by the clock of the host.
    #[serde(skip)]
    pub time: Option<SystemTime>,
    /// The value.
    pub value: MetricValue,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MetricValue {
    /// A whole number.
    Integer(i64),
    /// A number; `null` in JSON where it is not finite.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// How values are distributed.
    Distribution(Distribution),
}

impl MetricValue {
    /// As a number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            MetricValue::Integer(value) => Some(*value as f64),
            MetricValue::Number(value) => Some(*value),
            MetricValue::Flag(value) => Some(f64::from(u8::from(*value))),
            MetricValue::Text(_) | MetricValue::Distribution(_) => None,
        }
    }
}

/// How values are distributed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The median, where the service gave buckets or quantiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// What 9 of 10 values are below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// What 99 of 100 values are below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Counts by bounds, where the service gave them.
    #[serde(skip)]
    pub buckets: Option<HistogramBuckets>,
}

/// A metric that a service says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMetric {
    /// Its name.
    pub name: String,
    /// Its unit; empty where the service does not say.
    pub unit: String,
}

/// The names that a service lists, each once, and how many could not be read or were too many.
pub(super) fn listed(answer: &[u8]) -> Result<(Vec<ListedMetric>, usize), prost::DecodeError> {
    let list = ListSupportedMetricsResponse::decode(answer)?.supported_metric;
    let mut metrics: Vec<ListedMetric> = Vec::new();
    let mut unreadable = list.len().saturating_sub(MAX_METRICS);
    for entry in list.into_iter().take(MAX_METRICS) {
        match SupportedMetric::decode(entry) {
            Ok(SupportedMetric { metric_name, unit, .. }) if is_name(&metric_name) => {
                if !metrics.iter().any(|known| known.name == metric_name) {
                    metrics.push(ListedMetric { name: metric_name, unit: shortened(&unit) });
                }
            }
            _ => unreadable += 1,
        }
    }
    Ok((metrics, unreadable))
}

/// Whether a text can be the name of a metric, and be shown on a terminal.
fn is_name(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A metric as it was answered; `None` where the answer has none.
pub(super) fn metric(name: &str, answer: &[u8]) -> Result<Option<MetricReading>, prost::DecodeError> {
    let Some(metric) = MetricResponse::decode(answer)?.metric else { return Ok(None) };
    let mut reading = MetricReading {
        name: name.to_string(),
        description: lossy(&metric.description),
        series: Vec::new(),
        unreadable: metric.metrics.len().saturating_sub(MAX_SERIES),
    };
    for entry in metric.metrics.into_iter().take(MAX_SERIES) {
        match Metric::decode(entry).ok().and_then(series) {
            Some(series) => reading.series.push(series),
            None => reading.unreadable += 1,
        }
    }
    Ok(Some(reading))
}

fn series(metric: Metric) -> Option<Series> {
    let (device, labels) = metric.attribute.as_ref().map(labels).unwrap_or_default();
    let time = metric.timestamp.and_then(|time| {
        let (seconds, nanos) = (u64::try_from(time.seconds).ok()?, u32::try_from(time.nanos).ok()?);
        UNIX_EPOCH.checked_add(Duration::new(seconds, nanos.min(999_999_999)))
    });
    Some(Series { device, labels, time, value: value(metric.measure?)? })
}

fn value(measure: Measure) -> Option<MetricValue> {
    Some(match measure {
        Measure::Gauge(gauge) => match gauge.value? {
            GaugeValue::Double(value) => MetricValue::Number(value),
            GaugeValue::Int(value) => MetricValue::Integer(value),
            GaugeValue::Text(text) => MetricValue::Text(shortened(&text)),
            GaugeValue::Flag(value) => MetricValue::Flag(value),
        },
        Measure::Counter(counter) => match counter.value? {
            CounterValue::Double(value) => MetricValue::Number(value),
            CounterValue::Int(value) => MetricValue::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
        },
        Measure::Distribution(distribution) => {
            let count = u64::try_from(distribution.count).ok()?;
            let counts = distribution.bucket_counts.iter().map(|count| u64::try_from(*count));
            let counts = counts.collect::<Result<Vec<u64>, _>>().ok()?;
            let buckets = distribution.bucket_options.and_then(|options| buckets(options, counts));
            let buckets = buckets.map(|buckets| HistogramBuckets { sum: distribution.mean * count as f64, ..buckets });
            let quantile = |share| buckets.as_ref().and_then(|buckets| buckets.quantile(share));
            MetricValue::Distribution(Distribution {
                count,
                mean: distribution.mean,
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                buckets,
            })
        }
        Measure::Summary(summary) => {
            let mean = summary.sample_sum / summary.sample_count.max(1) as f64;
            let quantile = |share: f64| {
                summary.quantile.iter().find(|known| (known.quantile - share).abs() < 1e-6).map(|known| known.value)
            };
            MetricValue::Distribution(Distribution {
                count: summary.sample_count,
                mean,
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                buckets: None,
            })
        }
    })
}

/// Buckets with their bounds; `None` where these are not rising numbers. Counts may end early: what is left out is 0.
fn buckets(options: BucketOptions, mut counts: Vec<u64>) -> Option<HistogramBuckets> {
    // The first and the last bucket have no end: there is one bound more than finite buckets.
    let finite = |said: i32| usize::try_from(said).ok().filter(|said| *said > 0).map_or(counts.len(), |said| said + 1);
    let bound: (Box<dyn Fn(usize) -> Option<f64>>, usize) = match options.bounds? {
        BucketBounds::Exponential(of) => {
            let grow = move |n: usize| Some(of.scale * of.growth_factor.powi(i32::try_from(n).ok()?));
            (Box::new(grow), finite(of.num_finite_buckets))
        }
        BucketBounds::Linear(of) => {
            (Box::new(move |n: usize| Some(of.offset + of.width * n as f64)), finite(of.num_finite_buckets))
        }
        BucketBounds::Explicit(of) => {
            let number = of.bounds.len();
            (Box::new(move |n: usize| of.bounds.get(n).copied()), number)
        }
    };
    let (bound, number) = bound;
    // No more bounds than there are counts to tell apart.
    let number = number.min(counts.len()).min(MAX_BUCKETS);
    let bounds = (0..number).map(bound).collect::<Option<Vec<f64>>>()?;
    let is_rising = bounds.windows(2).all(|pair| pair[0] < pair[1]) && bounds.iter().all(|bound| bound.is_finite());
    if !is_rising || bounds.is_empty() {
        return None;
    }
    let beyond: u64 = counts.iter().skip(number).fold(0, |sum, count| sum.saturating_add(*count));
    counts.truncate(number);
    counts.push(beyond);
    Some(HistogramBuckets { bounds, counts, sum: 0.0 })
}

/// The device of a value, and what else tells it from others. Memory and duty cycle have the device as a number, whatever
/// its name is; others have a list with the device as a number (older libtpu) or as a text.
fn labels(attribute: &Attribute) -> (Option<u32>, Vec<(String, String)>) {
    let value = attribute.value.as_ref().and_then(|value| value.attr.as_ref());
    match value {
        Some(Attr::Int(device)) => (u32::try_from(*device).ok(), Vec::new()),
        Some(Attr::List(list)) => {
            let mut device = None;
            let mut labels = Vec::new();
            for attribute in list.attributes.iter().take(MAX_LABELS) {
                let text = attribute.value.as_ref().map(text).unwrap_or_default();
                match DEVICE_KEYS.contains(&attribute.key.as_str()).then(|| text.parse::<u32>().ok()).flatten() {
                    Some(number) => device = Some(number),
                    None => labels.push((shortened(&attribute.key), text)),
                }
            }
            (device, labels)
        }
        Some(_) => {
            let text = attribute.value.as_ref().map(text).unwrap_or_default();
            match DEVICE_KEYS.contains(&attribute.key.as_str()).then(|| text.parse::<u32>().ok()).flatten() {
                Some(number) => (Some(number), Vec::new()),
                None => (None, vec![(shortened(&attribute.key), text)]),
            }
        }
        None => (None, Vec::new()),
    }
}

fn text(value: &AttrValue) -> String {
    match &value.attr {
        Some(Attr::Text(text)) => shortened(text),
        Some(Attr::Flag(value)) => value.to_string(),
        Some(Attr::Int(value)) => value.to_string(),
        Some(Attr::Double(value)) => value.to_string(),
        Some(Attr::Bytes(bytes)) => hex(bytes),
        // Nobody is known to send these as a label.
        Some(Attr::Array(_) | Attr::List(_)) | None => String::new(),
    }
}

/// So much of a text as is kept, without what would steer a terminal.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub(super) fn lossy(bytes: &Bytes) -> String {
    shortened(&String::from_utf8_lossy(bytes.get(..4 * MAX_TEXT).unwrap_or(bytes)))
}

/// Bytes as two digits each, of which so many are kept as a fingerprint may have.
pub(super) fn hex(bytes: &Bytes) -> String {
    bytes.iter().take(MAX_TEXT / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::messages::{self, Explicit, Exponential, KeyValueList, Linear};
    use super::*;

    fn exponential(finite: i32, counts: &[u64]) -> Option<HistogramBuckets> {
        let bounds =
            BucketBounds::Exponential(Exponential { num_finite_buckets: finite, growth_factor: 2.0, scale: 1.0 });
        buckets(BucketOptions { bounds: Some(bounds) }, counts.to_vec())
    }

    #[test]
    fn buckets_of_every_form() {
        // Below 1, 1 to 2, 2 to 4, and above.
        let all = exponential(2, &[1, 2, 3, 4]).unwrap();
        assert_eq!((all.bounds, all.counts), (vec![1.0, 2.0, 4.0], vec![1, 2, 3, 4]));
        // Counts that end early.
        let short = exponential(20, &[0, 2]).unwrap();
        assert_eq!((short.bounds, short.counts), (vec![1.0, 2.0], vec![0, 2, 0]));
        // More counts than buckets: what is left over lies above.
        let long = exponential(1, &[1, 1, 1, 1]).unwrap();
        assert_eq!((long.bounds, long.counts), (vec![1.0, 2.0], vec![1, 1, 2]));
        assert_eq!(exponential(2, &[]), None);
        let of = |bounds| buckets(BucketOptions { bounds: Some(bounds) }, vec![1; 3]);
        let linear = of(BucketBounds::Linear(Linear { num_finite_buckets: 1, width: 5.0, offset: 10.0 })).unwrap();
        assert_eq!((linear.bounds, linear.counts), (vec![10.0, 15.0], vec![1, 1, 1]));
        let explicit = of(BucketBounds::Explicit(Explicit { bounds: vec![1.0, 3.0] })).unwrap();
        assert_eq!((explicit.bounds, explicit.counts), (vec![1.0, 3.0], vec![1, 1, 1]));
        // Bounds that do not rise, or are no numbers.
        assert_eq!(of(BucketBounds::Explicit(Explicit { bounds: vec![3.0, 1.0] })), None);
        for (growth_factor, scale) in [(1.0, 1.0), (f64::NAN, 1.0), (2.0, 0.0), (f64::INFINITY, 1.0), (-1.0, 1.0)] {
            let bounds = BucketBounds::Exponential(Exponential { num_finite_buckets: i32::MAX, growth_factor, scale });
            assert_eq!(of(bounds), None, "{growth_factor} {scale}");
        }
        // A number of buckets without end costs nothing.
        assert_eq!(exponential(i32::MAX, &[1, 2]).unwrap().bounds.len(), 2);
        assert_eq!(exponential(-5, &[1, 2]).unwrap().bounds.len(), 2);
    }

    #[test]
    fn devices_are_found_in_every_form() {
        let of =
            |key: &str, attr: Attr| labels(&Attribute { key: key.into(), value: Some(AttrValue { attr: Some(attr) }) });
        let list = |pairs: &[(&str, Attr)]| {
            let attributes = pairs.iter().map(|(key, attr)| Attribute {
                key: key.to_string(),
                value: Some(AttrValue { attr: Some(attr.clone()) }),
            });
            Attr::List(KeyValueList { attributes: attributes.collect() })
        };
        let core = ("core_type".to_string(), "tensorcore".to_string());
        assert_eq!(of("device-id", Attr::Int(3)), (Some(3), vec![]));
        assert_eq!(of("anything", Attr::Int(3)), (Some(3), vec![]));
        assert_eq!(of("device-id", Attr::Text("3".into())), (Some(3), vec![]));
        assert_eq!(of("", Attr::Int(-1)), (None, vec![]));
        let newer = list(&[("device_ordinal", Attr::Text("7".into())), ("core_type", Attr::Text("tensorcore".into()))]);
        assert_eq!(of("", newer), (Some(7), vec![core.clone()]));
        let older = list(&[("core_type", Attr::Text("tensorcore".into())), ("device_ordinal", Attr::Int(7))]);
        assert_eq!(of("", older), (Some(7), vec![core]));
        let buffer = ("buffer-size".to_string(), "8MB+ ".to_string());
        assert_eq!(of("", list(&[("buffer-size", Attr::Text("8MB+\n".into()))])), (None, vec![buffer]));
        let many = vec![("k", Attr::Flag(true)); 100];
        assert_eq!(of("", list(&many)).1.len(), MAX_LABELS);
    }

    fn response(metrics: Vec<Bytes>) -> Vec<u8> {
        let metric = messages::TpuMetric { metrics, ..Default::default() };
        MetricResponse { metric: Some(metric), ..Default::default() }.encode_to_vec()
    }

    #[test]
    fn one_bad_series_hides_no_other() {
        let good = Metric {
            measure: Some(Measure::Gauge(messages::Gauge { value: Some(GaugeValue::Int(5)) })),
            ..Default::default()
        };
        let good = Bytes::from(good.encode_to_vec());
        let answer = response(vec![good.clone(), Bytes::from_static(b"\xff\xff\xff"), Bytes::new(), good]);
        let reading = metric("m", &answer).unwrap().unwrap();
        assert_eq!((reading.series.len(), reading.unreadable), (2, 2));
        assert_eq!(reading.series[1].value, MetricValue::Integer(5));
        assert_eq!(metric("m", b"").unwrap(), None);
        assert!(metric("m", b"\x0a\xff").is_err());
    }

    #[test]
    fn numbers_of_series_and_names_are_bounded() {
        let many = metric("m", &response(vec![Bytes::new(); 100_000])).unwrap().unwrap();
        assert_eq!((many.series.len(), many.unreadable), (0, 100_000));
        let entry = |name: &str| {
            let listed = SupportedMetric { metric_name: name.into(), ..Default::default() };
            Bytes::from(listed.encode_to_vec())
        };
        let mut names: Vec<Bytes> = ["a", "b", "a", "", "c\x1b[2J", "d e"].iter().map(|name| entry(name)).collect();
        names.push(entry(&"x".repeat(10_000)));
        names.push(Bytes::from_static(b"\xff"));
        let list = ListSupportedMetricsResponse { supported_metric: names }.encode_to_vec();
        let (metrics, unreadable) = listed(&list).unwrap();
        assert_eq!(metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(unreadable, 5);
        let names = (0..1000).map(|n| entry(&n.to_string())).collect();
        let list = ListSupportedMetricsResponse { supported_metric: names }.encode_to_vec();
        assert_eq!(listed(&list).unwrap().0.len(), MAX_METRICS);
    }

    #[test]
    fn deep_attributes_are_refused() {
        let mut value = AttrValue { attr: Some(Attr::Int(1)) };
        for _ in 0..1000 {
            value = AttrValue { attr: Some(Attr::Array(messages::ArrayAttrValue { attrs: vec![value] })) };
        }
        let deep = Metric { attribute: Some(Attribute { key: "k".into(), value: Some(value) }), ..Default::default() };
        let answer = response(vec![Bytes::from(deep.encode_to_vec())]);
        assert_eq!(metric("m", &answer).unwrap().unwrap().unreadable, 1);
    }
}
