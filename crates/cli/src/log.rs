//! The log on standard error: which events, and in which form.

mod filter;
mod subscriber;

use crate::args::LogFormat;
use crate::failure::Failure;
use filter::Filter;
use subscriber::Lines;

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
    let filter = Filter::parse(&format!("{},{text}", optional.join(","))).map_err(|part| {
        Failure::new(format!("`{part}` is not a level of logging"))
            .hint("--log and $TPUBRIDGE_LOG take error, warn, info, debug, trace, or target=level")
    })?;
    tracing::subscriber::set_global_default(Lines::new(filter, format))
        .map_err(|error| Failure::new(format!("the log cannot start: {error}")))?;
    Ok(())
}
