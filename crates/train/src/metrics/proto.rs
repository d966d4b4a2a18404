//! The messages of TensorBoard's event files, as far as they are written here.

/// `tensorflow.Event`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Event {
    #[prost(double, tag = "1")]
    pub(crate) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(crate) step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    pub(crate) what: Option<What>,
}

/// What an event is about.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

/// `tensorflow.SessionLog`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SessionLog {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

impl SessionLog {
    /// Drops events of this step and later ones that an earlier file of the run has.
    pub(crate) const START: i32 = 1;
}

/// `tensorflow.Summary`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(crate) value: Vec<SummaryValue>,
}

/// `tensorflow.Summary.Value`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SummaryValue {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(message, optional, tag = "9")]
    pub(crate) metadata: Option<SummaryMetadata>,
    #[prost(oneof = "Kind", tags = "2, 5, 8")]
    pub(crate) kind: Option<Kind>,
}

/// The value itself.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Kind {
    #[prost(float, tag = "2")]
    Simple(f32),
    #[prost(message, tag = "5")]
    Histogram(HistogramProto),
    #[prost(message, tag = "8")]
    Tensor(TensorProto),
}

/// `tensorflow.HistogramProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HistogramProto {
    #[prost(double, tag = "1")]
    pub(crate) min: f64,
    #[prost(double, tag = "2")]
    pub(crate) max: f64,
    #[prost(double, tag = "3")]
    pub(crate) num: f64,
    #[prost(double, tag = "4")]
    pub(crate) sum: f64,
    #[prost(double, tag = "5")]
    pub(crate) sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub(crate) bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) bucket: Vec<f64>,
}

/// `tensorflow.SummaryMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) plugin_data: Option<PluginData>,
}

/// `tensorflow.SummaryMetadata.PluginData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PluginData {
    #[prost(string, tag = "1")]
    pub(crate) plugin_name: String,
}

/// `tensorflow.TensorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) string_val: Vec<Vec<u8>>,
}

impl TensorProto {
    /// `tensorflow.DataType.DT_STRING`.
    pub(crate) const STRING: i32 = 7;
}

/// `tensorflow.TensorShapeProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dim>,
}

/// `tensorflow.TensorShapeProto.Dim`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}
