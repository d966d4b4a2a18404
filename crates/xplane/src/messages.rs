//! The messages of `xplane.proto`, as a writer fills them.
//!
//! They decode too, whole and into memory: right for what this program wrote itself. [`crate::SpaceReader`] is for files.

use prost::Message;
use std::collections::BTreeMap;

/// A profile: planes of one or more hosts.
#[derive(Clone, PartialEq, Message)]
pub struct XSpace {
    /// Devices, the host, and what describes them.
    #[prost(message, repeated, tag = "1")]
    pub planes: Vec<XPlane>,
    /// What went wrong while recording.
    #[prost(string, repeated, tag = "2")]
    pub errors: Vec<String>,
    /// What a reader should know, such as dropped events.
    #[prost(string, repeated, tag = "3")]
    pub warnings: Vec<String>,
    /// Hosts the planes come from.
    #[prost(string, repeated, tag = "4")]
    pub hostnames: Vec<String>,
}

/// Parallel lines of one device or host.
#[derive(Clone, PartialEq, Message)]
pub struct XPlane {
    /// Number of the plane.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Name, such as `/device:TPU:0`.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Lines; those of one id are one timeline.
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<XLine>,
    /// What events have in common, by id.
    #[prost(btree_map = "int64, message", tag = "4")]
    pub event_metadata: BTreeMap<i64, XEventMetadata>,
    /// Names of stats, by id.
    #[prost(btree_map = "int64, message", tag = "5")]
    pub stat_metadata: BTreeMap<i64, XStatMetadata>,
    /// Facts about the plane, such as peak rates.
    #[prost(message, repeated, tag = "6")]
    pub stats: Vec<XStat>,
}

/// A timeline. Events of a line are nested or apart.
#[derive(Clone, PartialEq, Message)]
pub struct XLine {
    /// Number of the line.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Start, nanoseconds since 1970; events count from here.
    #[prost(int64, tag = "3")]
    pub timestamp_ns: i64,
    /// Events.
    #[prost(message, repeated, tag = "4")]
    pub events: Vec<XEvent>,
    /// How long was recorded.
    #[prost(int64, tag = "9")]
    pub duration_ps: i64,
    /// Lines of one display id share a row.
    #[prost(int64, tag = "10")]
    pub display_id: i64,
    /// Name to show.
    #[prost(string, tag = "11")]
    pub display_name: String,
}

/// Something that took time.
#[derive(Clone, PartialEq, Message)]
pub struct XEvent {
    /// Key of [`XPlane::event_metadata`].
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    /// When, or how often.
    #[prost(oneof = "XEventData", tags = "2, 5")]
    pub data: Option<XEventData>,
    /// How long.
    #[prost(int64, tag = "3")]
    pub duration_ps: i64,
    /// What is particular to this event.
    #[prost(message, repeated, tag = "4")]
    pub stats: Vec<XStat>,
}

/// When an event was, or how often.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum XEventData {
    /// Start, from the start of the line.
    #[prost(int64, tag = "2")]
    OffsetPs(i64),
    /// Occurrences, where many are added up into one.
    #[prost(int64, tag = "5")]
    NumOccurrences(i64),
}

/// A named value.
#[derive(Clone, PartialEq, Message)]
pub struct XStat {
    /// Key of [`XPlane::stat_metadata`].
    #[prost(int64, tag = "1")]
    pub metadata_id: i64,
    /// Its value.
    #[prost(oneof = "XStatValue", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub value: Option<XStatValue>,
}

/// Value of a stat.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum XStatValue {
    /// A float.
    #[prost(double, tag = "2")]
    Double(f64),
    /// A natural number.
    #[prost(uint64, tag = "3")]
    Uint64(u64),
    /// An integer.
    #[prost(int64, tag = "4")]
    Int64(i64),
    /// Text.
    #[prost(string, tag = "5")]
    Str(String),
    /// Bytes, such as an encoded `HloProto`.
    #[prost(bytes = "vec", tag = "6")]
    Bytes(Vec<u8>),
    /// Text that is the name of the stat metadata of this id.
    #[prost(uint64, tag = "7")]
    Ref(u64),
    /// Text compressed by gzip.
    #[prost(bytes = "vec", tag = "8")]
    CompressedStr(Vec<u8>),
}

/// What events of one kind have in common.
#[derive(Clone, PartialEq, Message)]
pub struct XEventMetadata {
    /// Its key.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Name; for an XLA op its HLO text or its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// More, in a form the producer knows.
    #[prost(bytes = "vec", tag = "3")]
    pub metadata: Vec<u8>,
    /// Name to show.
    #[prost(string, tag = "4")]
    pub display_name: String,
    /// Values that all such events share.
    #[prost(message, repeated, tag = "5")]
    pub stats: Vec<XStat>,
    /// Keys of events inside such an event.
    #[prost(int64, repeated, tag = "6")]
    pub child_id: Vec<i64>,
}

/// Name of a stat.
#[derive(Clone, PartialEq, Message)]
pub struct XStatMetadata {
    /// Its key.
    #[prost(int64, tag = "1")]
    pub id: i64,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What it means.
    #[prost(string, tag = "3")]
    pub description: String,
}

impl XSpace {
    /// Reads the whole message into memory: only for what this program wrote itself.
    pub fn from_bytes(bytes: &[u8]) -> Result<XSpace, prost::DecodeError> {
        XSpace::decode(bytes)
    }

    /// The encoded message, as `*.xplane.pb` holds it.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

impl XEvent {
    /// An event without stats: key of its metadata, start from the line's start, length.
    pub fn at(metadata_id: i64, offset_ps: i64, duration_ps: i64) -> XEvent {
        XEvent { metadata_id, data: Some(XEventData::OffsetPs(offset_ps)), duration_ps, stats: Vec::new() }
    }

    /// The same event with one more stat.
    pub fn with(mut self, stat: XStat) -> XEvent {
        self.stats.push(stat);
        self
    }
}
