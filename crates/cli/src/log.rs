//! The log on standard error: which events, and in which form; and what a long command says of its progress.

mod entry;
mod filter;
mod output;
mod subscriber;

use std::fmt;
use std::time::SystemTime;

use serde_json::Value;
use telemetry::otlp::Otlp;
use tracing::Level;

use crate::args::LogFormat;
use entry::{Entry, Fields};
use filter::Filter;
use subscriber::Lines;

/// Variable that says what is logged.
const VARIABLE: &str = "TPUBRIDGE_LOG";

/// What is logged unless something else is asked for.
const DEFAULT: &str = "warn";

/// What the lines of the command itself are logged as.
const TARGET: &str = "tpu";

/// Starts the log. Events that an option of the configuration turns on are always let through: without the option there
/// are none.
pub(crate) fn start(asked: Option<&str>, format: LogFormat) -> Result<(), LogRefused> {
    output::start(format);
    let from_environment = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let text = asked.map(str::to_string).or(from_environment).unwrap_or_else(|| DEFAULT.to_string());
    let optional = [runtime::log::PLACEMENT, runtime::log::COMPILES].map(|target| format!("{target}=info"));
    let filter = Filter::parse(&format!("{},{text}", optional.join(","))).map_err(LogRefused::NoLevel)?;
    tracing::subscriber::set_global_default(Lines::new(filter))
        .map_err(|error| LogRefused::Other(error.to_string()))?;
    Ok(())
}

/// Why there is no log.
#[derive(Debug)]
pub(crate) enum LogRefused {
    /// A part of what was asked for is no level.
    NoLevel(String),
    /// What the library says.
    Other(String),
}

impl fmt::Display for LogRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogRefused::NoLevel(part) => write!(f, "`{part}` is not a level of logging"),
            LogRefused::Other(why) => write!(f, "the log cannot start: {why}"),
        }
    }
}

impl std::error::Error for LogRefused {}

/// Whether people read standard error, and no program does.
pub(crate) fn is_human() -> bool {
    output::format() == LogFormat::Human
}

/// Sends what is logged to a collector too, until it is dropped.
pub(crate) fn send_to(otlp: &Otlp) -> SentLog {
    output::set_collector(Some(otlp.clone()));
    SentLog(())
}

/// While it lives the log is sent.
pub(crate) struct SentLog(());

impl Drop for SentLog {
    fn drop(&mut self) {
        output::set_collector(None);
    }
}

/// Says a line that is not part of the log's levels, as progress: as it is for people, as a record for programs.
pub(crate) fn say(line: &str) {
    say_with(line, &[]);
}

/// The same with what is known about it. `warning: ` and `error: ` at the beginning are the level of the record.
pub(crate) fn say_with(line: &str, known: &[(String, Value)]) {
    if is_human() {
        eprintln!("{line}");
        send(line, known);
    } else {
        record(line, known, output::write);
    }
}

/// Sends a line that people see in another form.
pub(crate) fn send(line: &str, known: &[(String, Value)]) {
    record(line, known, |entry| drop(output::send(entry, SystemTime::now())));
}

fn record(line: &str, known: &[(String, Value)], write: impl FnOnce(&Entry<'_>)) {
    let (level, message) = match (line.strip_prefix("error: "), line.strip_prefix("warning: ")) {
        (Some(rest), _) => (Level::ERROR, rest),
        (_, Some(rest)) => (Level::WARN, rest),
        _ => (Level::INFO, line),
    };
    let mut fields = Fields::message(message);
    for (name, value) in known {
        fields.put(name, value.to_string(), value.clone());
    }
    write(&Entry { level, target: TARGET, place: None, spans: Vec::new(), fields: &fields });
}
