//! What libtpu reads from the environment when it is loaded.

/// Variables to set for a process that loads libtpu on a machine without TPUs, with the value each needs.
///
/// They must be in place before [`Plugin::load`](crate::Plugin::load), best when the process is started. This crate sets
/// none of them, since a process's environment belongs to its owner.
///
/// - `TPU_SKIP_MDS_QUERY`: without it, initialization waits for the metadata server of Google Compute Engine.
/// - `ALLOW_MULTIPLE_LIBTPU_LOAD`: without it, initialization takes a machine-wide lock that a second process fails on.
/// - `TPU_LOG_DIR`: without it, every process leaves a log file.
/// - `TPU_WORKER_HOSTNAMES`, `TPU_ACCELERATOR_TYPE`: without them, initialization prints warnings. They do not change
///   what is compiled for a topology.
/// - `TPU_MIN_LOG_LEVEL`, `TPU_STDERR_LOG_LEVEL`: without them, information goes to stderr. 3 lets only fatal errors
///   through.
pub fn libtpu_environment() -> Vec<(&'static str, String)> {
    [
        ("TPU_SKIP_MDS_QUERY", "1"),
        ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
        ("TPU_LOG_DIR", "disabled"),
        ("TPU_WORKER_HOSTNAMES", "localhost"),
        ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
        ("TPU_MIN_LOG_LEVEL", "3"),
        ("TPU_STDERR_LOG_LEVEL", "3"),
    ]
    .map(|(name, value)| (name, value.to_string()))
    .into()
}
