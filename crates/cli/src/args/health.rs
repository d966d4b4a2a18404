//! Arguments of what looks at a running training: `tpu diagnose`, `tpu hang`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing found, 1 something found, 2 error. It takes a few seconds.")]
pub(crate) struct DiagnoseArgs {
    /// The folder of a run (train.folder), or HOST:PORT of its --metrics. A record of `tpu fit --json` in the folder as fit.json
    /// is the prediction.
    #[arg(value_name = "RUN|HOST:PORT")]
    pub(crate) run: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nobody hangs, 1 the culprit is named, 2 error. It takes a few seconds.")]
pub(crate) struct HangArgs {
    /// The folder of a run (train.folder), whose processes/N.json name its processes.
    #[arg(value_name = "RUN", required_unless_present = "hosts")]
    pub(crate) run: Option<PathBuf>,
    /// The processes by the addresses of their --metrics, with commas between them, as in a:9464,b:9464.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', conflicts_with = "run")]
    pub(crate) hosts: Vec<String>,
    /// Seconds between the two questions to each process: what moves in that time is slow, and does not hang.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) apart: f64,
    /// Seconds that a process may take to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) patience: f64,
}
