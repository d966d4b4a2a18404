//! Messages of libtpu's `tpu.monitoring.runtime.RuntimeMetricService`, by hand.
//!
//! Lists are kept as bytes and read entry by entry: an entry that is no message hides none of the others, and their number
//! is bounded before memory is spent on them. Texts are bytes for the same reason. Fields that are not here are skipped.

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// Which metric is asked for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricRequest {
    #[prost(string, tag = "1")]
    pub(super) metric_name: String,
    #[prost(bool, tag = "2")]
    pub(super) skip_node_aggregation: bool,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) metric: Option<TpuMetric>,
    #[prost(int32, tag = "3")]
    pub(super) metric_type: i32,
}

/// Values of a metric, as a rule one for each device.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TpuMetric {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) description: Bytes,
    /// Each a [`Metric`].
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) metrics: Vec<Bytes>,
}

/// One value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, optional, tag = "1")]
    pub(super) attribute: Option<Attribute>,
    #[prost(message, optional, tag = "2")]
    pub(super) timestamp: Option<Timestamp>,
    #[prost(oneof = "Measure", tags = "3, 4, 5, 6")]
    pub(super) measure: Option<Measure>,
}

/// What was measured.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Measure {
    #[prost(message, tag = "3")]
    Gauge(Gauge),
    #[prost(message, tag = "4")]
    Counter(Counter),
    #[prost(message, tag = "5")]
    Distribution(Distribution),
    #[prost(message, tag = "6")]
    Summary(Summary),
}

/// Seconds since 1970.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// A value of now.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Gauge {
    #[prost(oneof = "GaugeValue", tags = "1, 2, 3, 4")]
    pub(super) value: Option<GaugeValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum GaugeValue {
    #[prost(double, tag = "1")]
    Double(f64),
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Flag(bool),
}

/// A value that only grows.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(oneof = "CounterValue", tags = "1, 2")]
    pub(super) value: Option<CounterValue>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum CounterValue {
    #[prost(double, tag = "1")]
    Double(f64),
    #[prost(uint64, tag = "2")]
    Int(u64),
}

/// How values are distributed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Distribution {
    #[prost(int64, tag = "1")]
    pub(super) count: i64,
    #[prost(double, tag = "2")]
    pub(super) mean: f64,
    #[prost(double, tag = "3")]
    pub(super) min: f64,
    #[prost(double, tag = "4")]
    pub(super) max: f64,
    #[prost(double, tag = "5")]
    pub(super) sum_of_squared_deviation: f64,
    #[prost(message, optional, tag = "6")]
    pub(super) bucket_options: Option<BucketOptions>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) bucket_counts: Vec<i64>,
}

/// Bounds of buckets. A first and a last bucket without an end lie around the finite ones.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BucketOptions {
    #[prost(oneof = "BucketBounds", tags = "2, 3, 4")]
    pub(super) bounds: Option<BucketBounds>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum BucketBounds {
    #[prost(message, tag = "2")]
    Exponential(Exponential),
    #[prost(message, tag = "3")]
    Explicit(Explicit),
    #[prost(message, tag = "4")]
    Linear(Linear),
}

/// Bounds `scale * growth_factor^n`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Exponential {
    #[prost(int32, tag = "1")]
    pub(super) num_finite_buckets: i32,
    #[prost(double, tag = "2")]
    pub(super) growth_factor: f64,
    #[prost(double, tag = "3")]
    pub(super) scale: f64,
}

/// Bounds as given.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Explicit {
    #[prost(double, repeated, tag = "1")]
    pub(super) bounds: Vec<f64>,
}

/// Bounds `offset + width * n`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Linear {
    #[prost(int32, tag = "1")]
    pub(super) num_finite_buckets: i32,
    #[prost(double, tag = "2")]
    pub(super) width: f64,
    #[prost(double, tag = "3")]
    pub(super) offset: f64,
}

/// Quantiles that the other side computed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(uint64, tag = "1")]
    pub(super) sample_count: u64,
    #[prost(double, tag = "2")]
    pub(super) sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    pub(super) quantile: Vec<Quantile>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Quantile {
    #[prost(double, tag = "1")]
    pub(super) quantile: f64,
    #[prost(double, tag = "2")]
    pub(super) value: f64,
}

/// What a value is of.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttrValue {
    #[prost(oneof = "Attr", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) attr: Option<Attr>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Attr {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayAttrValue),
    #[prost(message, tag = "6")]
    List(KeyValueList),
    #[prost(bytes = "bytes", tag = "7")]
    Bytes(Bytes),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ArrayAttrValue {
    #[prost(message, repeated, tag = "1")]
    pub(super) attrs: Vec<AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<Attribute>,
}

/// Which metrics are asked for: all whose name matches a regular expression.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ListSupportedMetricsRequest {
    #[prost(string, tag = "1")]
    pub(super) filter: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListSupportedMetricsResponse {
    /// Each a [`SupportedMetric`].
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) supported_metric: Vec<Bytes>,
}

/// A metric that is served. All but the name came with libtpu 0.0.51.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SupportedMetric {
    #[prost(string, tag = "1")]
    pub(super) metric_name: String,
    #[prost(string, tag = "2")]
    pub(super) unit: String,
    #[prost(int32, tag = "3")]
    pub(super) metric_kind: i32,
    #[prost(int32, tag = "4")]
    pub(super) value_type: i32,
}

/// `SupportedMetric.metric_kind`.
pub(super) mod metric_kind {
    pub(crate) const GAUGE: i32 = 1;
    pub(crate) const COUNTER: i32 = 2;
    pub(crate) const DISTRIBUTION: i32 = 3;
}

/// `SupportedMetric.value_type`.
pub(super) mod value_type {
    pub(crate) const INT64: i32 = 1;
    pub(crate) const DOUBLE: i32 = 2;
    pub(crate) const DISTRIBUTION: i32 = 5;
}

/// `MetricResponse.metric_type` of what the runtime itself measures.
pub(super) const METRIC_TYPE_LIBTPU: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetTpuRuntimeStatusRequest {
    #[prost(bool, tag = "1")]
    pub(super) include_hlo_info: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetTpuRuntimeStatusResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) host_name: Bytes,
    /// Each a [`CoreStatesEntry`].
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) core_states: Vec<Bytes>,
}

/// An entry of the map from global core ids to states.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CoreStatesEntry {
    #[prost(int32, tag = "1")]
    pub(super) key: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<CurrentCoreStateSummary>,
}

/// `tpu_telemetry.CurrentCoreStateSummary`: what a core does now.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CurrentCoreStateSummary {
    #[prost(message, optional, tag = "1")]
    pub(super) core_id: Option<TpuCoreIdentifier>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sequencer_info: Vec<SequencerInfo>,
    #[prost(bool, optional, tag = "3")]
    pub(super) xdb_server_running: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) program_fingerprint: Option<Bytes>,
    #[prost(int32, optional, tag = "5")]
    pub(super) launch_id: Option<i32>,
    #[prost(message, repeated, tag = "6")]
    pub(super) queued_program_info: Vec<QueuedProgramInfo>,
    #[prost(string, optional, tag = "7")]
    pub(super) error_message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TpuCoreIdentifier {
    #[prost(int32, optional, tag = "1")]
    pub(super) global_core_id: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) chip_id: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub(super) core_on_chip: Option<TpuCoreOnChip>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TpuCoreOnChip {
    #[prost(int32, optional, tag = "1")]
    pub(super) core_type: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) index: Option<i32>,
}

/// `TpuCoreOnChip.core_type` and `SequencerInfo.sequencer_type` of a TensorCore.
pub(super) const TENSOR_CORE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct SequencerInfo {
    #[prost(int32, optional, tag = "1")]
    pub(super) sequencer_type: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) sequencer_index: Option<i32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) pc: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) tag: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub(super) tracemark: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(super) program_id: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub(super) run_id: Option<i64>,
    #[prost(string, optional, tag = "8")]
    pub(super) hlo_location: Option<String>,
    #[prost(string, optional, tag = "9")]
    pub(super) hlo_detailed_info: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueuedProgramInfo {
    #[prost(int64, optional, tag = "1")]
    pub(super) run_id: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) launch_id: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) program_fingerprint: Option<Bytes>,
}
