//! Options of `tpu profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) capture: Option<CaptureArgs>,
    #[command(subcommand)]
    pub(crate) command: Option<ProfileCommand>,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// Folder of a training that was started with --profiler, or HOST:PORT of a profiler: of a training, or of a program with
    /// JAX's profiler server.
    #[arg(value_name = "RUN|HOST:PORT")]
    pub(crate) target: String,
    /// Steps to record; they begin with the next one.
    #[arg(long, value_name = "COUNT", conflicts_with = "seconds")]
    pub(crate) steps: Option<u64>,
    /// Seconds to record, from now on; default: 2.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// Which process of a run, from 0.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) process: usize,
    /// Folder that the profile is written to, below plugins/profile; default: metrics in the folder of the run, else profiles.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
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
