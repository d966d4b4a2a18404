//! The log on standard error: which events, and in which form.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::LogFormat;
use crate::failure::Failure;

/// Variable that says what is logged.
const VARIABLE: &str = "TPUBRIDGE_LOG";

/// What is logged unless something else is asked for.
const DEFAULT: &str = "warn";

/// Starts the log. Events that an option of the configuration turns on are always let through: without the option there
/// are none.
pub(crate) fn start(asked: Option<&str>, format: LogFormat) -> Result<(), Failure> {
    let from_environment = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let text = asked.map(str::to_string).or(from_environment).unwrap_or_else(|| DEFAULT.to_string());
    let optional = [runtime::log::PLACEMENT, runtime::log::COMPILES].map(|target| format!("{target}=info"));
    let filter = EnvFilter::try_new(format!("{},{text}", optional.join(","))).map_err(|error| {
        Failure::new(format!("`{text}` is not a level of logging: {error}"))
            .hint("--log and $TPUBRIDGE_LOG take error, warn, info, debug, trace, or target=level")
    })?;
    // A span is told when it ends, with the time it took.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false);
    match format {
        LogFormat::Human => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}
