//! The service: what a process tells of its devices, as libtpu would, so that tools made for libtpu read it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;
use prost::bytes::Bytes;
use regex::RegexBuilder;
use serde::Serialize;

use super::activity::{FINITE_BUCKETS, FIRST_MICROSECONDS, GROWTH};
use super::messages::{
    Attr, AttrValue, Attribute, BucketBounds, BucketOptions, Counter, CounterValue, Distribution, Explicit,
    Exponential, Gauge, GaugeValue, GetTpuRuntimeStatusRequest, KeyValueList, ListSupportedMetricsRequest,
    ListSupportedMetricsResponse, METRIC_TYPE_LIBTPU, Measure, Metric, MetricRequest, MetricResponse, SupportedMetric,
    Timestamp, TpuMetric, metric_kind, value_type,
};
use super::status::RuntimeStatus;
use super::{GET, LIST, STATUS, names};
use crate::family::{HistogramBuckets, MetricFamily, MetricKind, SampleValue};
use crate::grpc::{Answering, GrpcAnswer, GrpcCall, GrpcCode, GrpcStatus, Reply, Service, ready};

/// Memory of a compiled filter at most.
const FILTER_BYTES: usize = 1 << 20;

/// One device of a process at one moment. What is not known is `None`, and its metric is not listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceSample {
    /// Its number on this host, from 0.
    pub device: u32,
    /// Bytes of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hbm_total_bytes: Option<u64>,
    /// Bytes in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hbm_used_bytes: Option<u64>,
    /// Share of the time in which it executes, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duty_cycle: Option<f64>,
    /// Operations over the peak rate, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensorcore_utilization: Option<f64>,
    /// Seconds since it executed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<f64>,
    /// Programs that wait for the one that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_size: Option<u64>,
    /// Execution times in microseconds, in the buckets of [`Activity`](super::Activity).
    #[serde(skip)]
    pub execution_times: Option<HistogramBuckets>,
}

/// What a process tells when it is asked. Answers must not block: all callers share a thread.
pub trait RuntimeSource: Send + Sync + 'static {
    /// The devices of this process.
    fn devices(&self) -> Vec<DeviceSample>;

    /// What their cores do. With `hlo`, where in the program they are.
    fn status(&self, hlo: bool) -> RuntimeStatus;

    /// Seconds since the process began to use its devices.
    fn uptime_seconds(&self) -> f64;

    /// Other metrics of the process, as those of its training. They are served under their own names.
    fn families(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

/// The service of a process.
pub struct RuntimeMetricService {
    source: Arc<dyn RuntimeSource>,
}

/// What a metric is a value of.
enum Of {
    /// The device, as a number.
    Device(u32),
    /// The device and kind of core, as a list.
    Core(u32),
    /// Labels.
    Labels(Vec<(String, String)>),
}

/// A metric with its values.
struct Served {
    name: String,
    description: String,
    unit: &'static str,
    kind: i32,
    value_type: i32,
    values: Vec<(Of, Measure)>,
}

impl RuntimeMetricService {
    /// Serves what a source tells.
    pub fn new(source: Arc<dyn RuntimeSource>) -> RuntimeMetricService {
        RuntimeMetricService { source }
    }

    fn answer(&self, call: &GrpcCall) -> Result<Vec<u8>, GrpcStatus> {
        match call.method.as_str() {
            GET => self.get(&decode::<MetricRequest>(call)?.metric_name),
            LIST => self.list(&decode::<ListSupportedMetricsRequest>(call)?.filter),
            STATUS => {
                let hlo = decode::<GetTpuRuntimeStatusRequest>(call)?.include_hlo_info;
                Ok(self.source.status(hlo).write())
            }
            method => Err(GrpcStatus::unimplemented(method)),
        }
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, GrpcStatus> {
        let unknown = || GrpcStatus::new(GrpcCode::NotFound, format!("there is no metric `{name}` here"));
        let metric = self.served().into_iter().find(|metric| metric.name == name).ok_or_else(unknown)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(since.subsec_nanos()).unwrap_or_default(),
        };
        let metrics = metric.values.into_iter().map(|(of, measure)| {
            let metric = Metric { attribute: Some(attribute(of)), timestamp: Some(timestamp), measure: Some(measure) };
            Bytes::from(metric.encode_to_vec())
        });
        let metric = TpuMetric {
            name: Bytes::from(metric.name),
            description: Bytes::from(metric.description),
            metrics: metrics.collect(),
        };
        Ok(MetricResponse { metric: Some(metric), metric_type: METRIC_TYPE_LIBTPU }.encode_to_vec())
    }

    fn list(&self, filter: &str) -> Result<Vec<u8>, GrpcStatus> {
        let wrong =
            |error| GrpcStatus::new(GrpcCode::InvalidArgument, format!("the filter is no regular expression: {error}"));
        let filter =
            RegexBuilder::new(filter).size_limit(FILTER_BYTES).dfa_size_limit(FILTER_BYTES).build().map_err(wrong)?;
        let metrics = self.served().into_iter().filter(|metric| filter.is_match(&metric.name)).map(|metric| {
            let listed = SupportedMetric {
                metric_name: metric.name,
                unit: metric.unit.to_string(),
                metric_kind: metric.kind,
                value_type: metric.value_type,
            };
            Bytes::from(listed.encode_to_vec())
        });
        Ok(ListSupportedMetricsResponse { supported_metric: metrics.collect() }.encode_to_vec())
    }

    /// The metrics that have a value, in the order of the list.
    fn served(&self) -> Vec<Served> {
        let devices = self.source.devices();
        let mut served: Vec<Served> = Vec::new();
        let mut add = |name: &str, description: &str, unit, kind, value_type, values: Vec<(Of, Measure)>| {
            if !values.is_empty() {
                let (name, description) = (name.to_string(), description.to_string());
                served.push(Served { name, description, unit, kind, value_type, values });
            }
        };
        let int = |value: u64| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            Measure::Gauge(Gauge { value: Some(GaugeValue::Int(value)) })
        };
        let of_devices = |value: &dyn Fn(&DeviceSample) -> Option<Measure>| -> Vec<(Of, Measure)> {
            devices.iter().filter_map(|device| Some((Of::Device(device.device), value(device)?))).collect()
        };
        let of_cores = |value: &dyn Fn(&DeviceSample) -> Option<Measure>| -> Vec<(Of, Measure)> {
            devices.iter().filter_map(|device| Some((Of::Core(device.device), value(device)?))).collect()
        };
        let (gauge, whole, number) = (metric_kind::GAUGE, value_type::INT64, value_type::DOUBLE);
        let values = of_devices(&|device| device.hbm_total_bytes.map(int));
        add(names::HBM_TOTAL, "Memory of the device.", "By", gauge, whole, values);
        let values = of_devices(&|device| device.hbm_used_bytes.map(int));
        add(names::HBM_USAGE, "Memory in use.", "By", gauge, whole, values);
        let values = of_devices(&|device| device.duty_cycle.map(|share| double(share * 100.0)));
        add(
            names::DUTY_CYCLE,
            "Share of the last ten seconds in which the device executed.",
            "%",
            gauge,
            number,
            values,
        );
        let values = of_devices(&|device| device.tensorcore_utilization.map(|share| double(share * 100.0)));
        let description = "Operations of the executed programs over the peak rate.";
        add(names::TENSORCORE_UTILIZATION, description, "%", gauge, number, values);
        let values = of_devices(&|device| device.idle_seconds.map(double));
        add(names::IDLE_DURATION, "Seconds since the device executed last.", "s", gauge, number, values);
        let values = of_cores(&|device| device.queue_size.map(int));
        add(names::HLO_QUEUE, "Programs that wait for the one that runs.", "1", gauge, whole, values);
        let values = of_cores(&|device| device.execution_times.as_ref().map(execution_times));
        let (kind, value) = (metric_kind::DISTRIBUTION, value_type::DISTRIBUTION);
        add(names::HLO_TIMING, "Execution times of programs.", "us", kind, value, values);
        let uptime = vec![(Of::Labels(Vec::new()), double(self.source.uptime_seconds()))];
        add(names::UPTIME, "Seconds since the runtime started.", "s", gauge, number, uptime);
        for family in self.source.families() {
            let (kind, value) = match family.kind {
                MetricKind::Counter => (metric_kind::COUNTER, value_type::DOUBLE),
                MetricKind::Gauge => (metric_kind::GAUGE, value_type::DOUBLE),
                MetricKind::Histogram => (metric_kind::DISTRIBUTION, value_type::DISTRIBUTION),
            };
            let values = family.samples.into_iter().map(|sample| {
                let measure = match (family.kind, sample.value) {
                    (_, SampleValue::Buckets(buckets)) => explicit(buckets),
                    (MetricKind::Counter, SampleValue::Number(value)) => {
                        Measure::Counter(Counter { value: Some(CounterValue::Double(value)) })
                    }
                    (_, SampleValue::Number(value)) => double(value),
                };
                (Of::Labels(sample.labels), measure)
            });
            add(&family.name, &family.help, "", kind, value, values.collect());
        }
        served
    }
}

impl Service for RuntimeMetricService {
    fn call(&self, call: GrpcCall) -> Answering {
        let answer: GrpcAnswer = self.answer(&call).map(Reply::One);
        ready(answer)
    }
}

fn decode<M: Message + Default>(call: &GrpcCall) -> Result<M, GrpcStatus> {
    let wrong = |error| {
        GrpcStatus::new(GrpcCode::InvalidArgument, format!("the request of {} is damaged: {error}", call.method))
    };
    M::decode(call.message.as_slice()).map_err(wrong)
}

fn double(value: f64) -> Measure {
    Measure::Gauge(Gauge { value: Some(GaugeValue::Double(value)) })
}

fn attribute(of: Of) -> Attribute {
    let named = |key: &str, attr: Attr| Attribute { key: key.to_string(), value: Some(AttrValue { attr: Some(attr) }) };
    match of {
        Of::Device(device) => named("device-id", Attr::Int(i64::from(device))),
        Of::Core(device) => {
            let attributes = vec![
                named("device_ordinal", Attr::Text(device.to_string())),
                named("core_type", Attr::Text("tensorcore".into())),
            ];
            named("device", Attr::List(KeyValueList { attributes }))
        }
        Of::Labels(labels) => {
            let attributes = labels.into_iter().map(|(name, value)| named(&name, Attr::Text(value))).collect();
            named("labels", Attr::List(KeyValueList { attributes }))
        }
    }
}

/// Times in the buckets of [`Activity`](super::Activity), which are exponential.
fn execution_times(buckets: &HistogramBuckets) -> Measure {
    let bounds =
        Exponential { num_finite_buckets: FINITE_BUCKETS as i32, growth_factor: GROWTH, scale: FIRST_MICROSECONDS };
    distribution(buckets, BucketBounds::Exponential(bounds))
}

fn explicit(buckets: HistogramBuckets) -> Measure {
    distribution(&buckets, BucketBounds::Explicit(Explicit { bounds: buckets.bounds.clone() }))
}

fn distribution(buckets: &HistogramBuckets, bounds: BucketBounds) -> Measure {
    let count = buckets.count();
    Measure::Distribution(Distribution {
        count: i64::try_from(count).unwrap_or(i64::MAX),
        mean: if count == 0 { 0.0 } else { buckets.sum / count as f64 },
        bucket_options: Some(BucketOptions { bounds: Some(bounds) }),
        bucket_counts: buckets.counts.iter().map(|count| i64::try_from(*count).unwrap_or(i64::MAX)).collect(),
        ..Distribution::default()
    })
}
