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
    /// The folder of a run (train.folder), whose processes/N.json name its processes. Where it trains on TPUs, the hosts of this
    /// slice are asked too.
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// The processes by the addresses of their --metrics, with commas between them, as in a:9464,b:9464.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', conflicts_with = "run")]
    pub(crate) metrics: Vec<String>,
    /// Hosts of TPUs to ask for what their cores do, whatever program uses them, as in t-0,t-1:8431; default: the hosts of this
    /// slice, else this machine.
    #[arg(long, value_name = "HOSTS", conflicts_with = "selector")]
    pub(crate) hosts: Option<String>,
    /// The same for pods, by their labels, as in jobset.sigs.k8s.io/jobset-name=train; kubectl lists them.
    #[arg(long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    /// Namespace of the pods; default: that of kubectl's configuration.
    #[arg(long, value_name = "NAME", requires = "selector")]
    pub(crate) namespace: Option<String>,
    /// Seconds between the two questions to each: what moves in that time is slow, and does not hang.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) apart: f64,
    /// Seconds that each may take to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub(crate) patience: f64,
}
