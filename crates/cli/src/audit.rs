//! Lines of the user's audit log: what a command did to files that others rely on.

use serde_json::Value;
use trust::{AuditEvent, AuditLog, AuditOutcome};

/// Details of a line.
pub(crate) type Details = Vec<(&'static str, Value)>;

/// Writes how something went that was done to `target`, and gives it back. That it cannot be written is a warning.
pub(crate) fn audited<T, E: std::error::Error>(
    event: AuditEvent,
    target: impl ToString,
    result: Result<T, E>,
    details: impl FnOnce(&T) -> Details,
) -> Result<T, E> {
    let outcome = match &result {
        Ok(_) => AuditOutcome::Done,
        Err(error) => AuditOutcome::Failed(compile::with_causes(error)),
    };
    let details = result.as_ref().map(details).unwrap_or_default();
    note(&AuditLog::of_user(|name| std::env::var(name).ok()), event, &target.to_string(), &outcome, details);
    result
}

/// Writes a line, or warns.
pub(crate) fn note(log: &AuditLog, event: AuditEvent, target: &str, outcome: &AuditOutcome, details: Details) {
    if let (Err(error), Some(path)) = (log.write(event, target, outcome, details), log.path()) {
        eprintln!("warning: the audit log {} cannot be written: {error}", path.display());
    }
}
