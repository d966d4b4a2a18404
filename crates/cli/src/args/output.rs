//! Arguments of all commands: what is printed where, and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON record on standard output instead of tables.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Write the tables to a file too, with --json.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tables: Option<PathBuf>,
    /// Say on standard error what is being done, also where it is no terminal.
    #[arg(long, global = true)]
    pub(crate) progress: bool,
    /// What is logged on standard error: error, warn, info, debug, trace, or target=level, with commas between them;
    /// default: $TPUBRIDGE_LOG, else warn.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// How it is logged.
    #[arg(long, global = true, value_enum, default_value = "human")]
    pub(crate) log_format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
    /// One JSON object a line, with the fields that Google's Cloud Logging reads.
    Cloud,
}
