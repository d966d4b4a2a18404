//! Where what is logged goes: standard error in one form, and a collector if there is one.

use std::io::Write as _;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use telemetry::otlp::{Otlp, unix_nanos};

use super::entry::Entry;
use crate::args::LogFormat;

static FORMAT: OnceLock<LogFormat> = OnceLock::new();
static COLLECTOR: RwLock<Option<Otlp>> = RwLock::new(None);

/// Chooses the form, once.
pub(super) fn start(format: LogFormat) {
    let _ = FORMAT.set(format);
}

pub(super) fn format() -> LogFormat {
    FORMAT.get().copied().unwrap_or(LogFormat::Human)
}

pub(super) fn set_collector(otlp: Option<Otlp>) {
    *COLLECTOR.write().unwrap_or_else(PoisonError::into_inner) = otlp;
}

/// Writes a line, and sends it.
pub(super) fn write(entry: &Entry<'_>) {
    let now = SystemTime::now();
    let context = send(entry, now).and_then(|otlp| otlp.context());
    let time = trust::utc(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let line = match format() {
        LogFormat::Human => entry.human(&time),
        LogFormat::Json => entry.json(&time),
        LogFormat::Cloud => entry.cloud(&time, context, project().as_deref()),
    };
    // Nobody can be told that the log cannot be written.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Sends a record to the collector, if there is one.
pub(super) fn send(entry: &Entry<'_>, now: SystemTime) -> Option<Otlp> {
    let otlp = COLLECTOR.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    otlp.log(entry.said(unix_nanos(now)));
    Some(otlp)
}

/// Google's project, which is part of the name of a trace there.
fn project() -> Option<String> {
    std::env::var("GOOGLE_CLOUD_PROJECT").ok().filter(|project| !project.is_empty())
}
