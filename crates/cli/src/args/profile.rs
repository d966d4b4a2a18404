//! Options of `tpu profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Say what a profile measured: time by op, category, source line and scope, steps, waits, collectives, roofline,
    /// and the prediction beside it. Reads XSpace files (*.xplane.pb) of JAX, PyTorch/XLA or ours, and Chrome traces.
    Report(ProfileReportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProfileReportArgs {
    /// A profile (*.xplane.pb, *.trace.json.gz), or a folder whose newest recording is read with all its hosts.
    pub(crate) path: PathBuf,
    /// Rows of each table.
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) top: usize,
    /// Also write the report as an HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write all events as a Chrome trace, which Perfetto opens.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}
