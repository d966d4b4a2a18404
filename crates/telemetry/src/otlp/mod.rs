//! OpenTelemetry's protocol (OTLP over HTTP): metrics, spans and log records, sent to a collector by a thread of its own.
//!
//! Who has something to send puts it into a bounded queue and never waits. A collector that is slow, gone or busy is asked
//! again, later each time; what it does not take, and what finds the queue full, is dropped and counted
//! (`tpubridge_otlp_dropped_total`). How a request travels is not known here: see [`OtlpTransport`].

mod exporter;
mod messages;
mod record;
mod settings;

pub use exporter::{Otlp, OtlpExporter, OtlpReply, OtlpRequest, OtlpRetry, OtlpTransport};
pub use messages::OtlpValue;
pub use record::{OtlpSignal, SaidRecord, SpanContext, SpanId, SpanRecord, TraceId, unix_nanos};
pub use settings::{OtlpSettings, OtlpSettingsError};
