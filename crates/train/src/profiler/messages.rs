//! Messages of JAX's profiler service (`tensorflow.ProfilerService`), as far as they are read or written here.

use prost::Message;

/// A profile, for a time or a number of steps.
pub(super) const PROFILE: &str = "/tensorflow.ProfilerService/Profile";
/// Ends a profile early.
pub(super) const TERMINATE: &str = "/tensorflow.ProfilerService/Terminate";
/// How the training goes.
pub(super) const MONITOR: &str = "/tensorflow.ProfilerService/Monitor";

/// The tool whose data is the profile itself.
pub(super) const XPLANE_TOOL: &str = "xplane.pb";

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileRequest {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    #[prost(message, optional, tag = "4")]
    pub(super) opts: Option<ProfileOptions>,
    #[prost(string, tag = "6")]
    pub(super) session_id: String,
    /// The profile is wanted in the answer, not in a folder.
    #[prost(bool, tag = "9")]
    pub(super) emit_xspace: bool,
    /// Steps instead of a time. Our own field, which others do not know and pass over.
    #[prost(uint64, tag = "20001")]
    pub(super) steps: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileOptions {
    /// Nanoseconds since 1970.
    #[prost(uint64, tag = "8")]
    pub(super) start_timestamp_ns: u64,
    #[prost(uint64, tag = "9")]
    pub(super) duration_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileResponse {
    #[prost(message, repeated, tag = "6")]
    pub(super) tool_data: Vec<ProfileToolData>,
    #[prost(bool, tag = "7")]
    pub(super) empty_trace: bool,
    /// An encoded `XSpace`.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(super) xspace: Option<Vec<u8>>,
    /// The steps in the profile. Our own field: it tells that the other side knows steps.
    #[prost(message, optional, tag = "20001")]
    pub(super) steps: Option<ProfiledSteps>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfiledSteps {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) numbers: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileToolData {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TerminateRequest {
    #[prost(string, tag = "1")]
    pub(super) session_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResponse {
    #[prost(string, tag = "1")]
    pub(super) data: String,
}
