//! What a process tells of itself while it runs: metrics, the texts that Prometheus and OpenMetrics read, an HTTP endpoint,
//! goodput; OpenTelemetry's protocol ([`otlp`]) and gRPC ([`grpc`]).
//!
//! Telemetry never stops or slows what it watches: a metric costs an atomic addition, whoever reads is served by threads of
//! its own, and their number, requests and times are bounded.
//!
//! ```
//! use telemetry::{Registry, TextFormat};
//!
//! let registry = Registry::new();
//! let steps = registry.counter("tpubridge_training_steps_total", "Steps done.", &[]);
//! steps.add(3.0);
//! let text = telemetry::to_text(&registry.gather(), TextFormat::Prometheus);
//! assert!(text.ends_with("tpubridge_training_steps_total 3\n"), "{text}");
//! ```

mod family;
mod goodput;
pub mod grpc;
mod http;
pub mod otlp;
mod parse;
mod process;
mod registry;
pub mod runtime_metrics;
mod text;

pub use family::{HistogramBuckets, Labels, MetricFamily, MetricKind, Sample, SampleValue, metric_name};
pub use goodput::{Attempt, GOODPUT_VERSION, Goodput, GoodputFile, GoodputHistory, Spent, now_seconds};
pub use http::{HttpAnswer, HttpRequest, HttpServer, ServeError};
pub use parse::from_text;
pub use process::{
    Announced, AnnouncedProfiler, ProcessPresence, ProcessStatus, STATUS_VERSION, TRAINING_RECORD_FILE,
    TRAINING_RECORD_VERSION, ThreadStatus, TrainPhase, TrainingRecord, host_name, process_state,
};
pub use registry::{Counter, Gauge, Histogram, MAX_SERIES, Registry};
pub use text::{TextFormat, to_text};
