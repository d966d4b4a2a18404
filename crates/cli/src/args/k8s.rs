//! Arguments of `tpu k8s`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Exit codes: 0 done, 1 the job is not there or has failed, 2 error.")]
pub(crate) struct K8sArgs {
    #[command(subcommand)]
    pub(crate) command: Option<K8sCommand>,
    /// The job file, whose manifests are printed as YAML.
    #[arg(value_name = "JOB.toml", required = true)]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum K8sCommand {
    /// Create the job and what it needs; a job that is there already must be the same.
    Apply(K8sJobArgs),
    /// Show the state of the job, its restarts and its pods.
    Status(K8sJobArgs),
    /// Print what the pods of the job say, each line with its pod.
    Logs {
        #[command(flatten)]
        job: K8sJobArgs,
        /// Go on until all pods have ended.
        #[arg(long, short)]
        follow: bool,
        /// Lines of each pod to begin with.
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        tail: u32,
    },
    /// Delete the job and everything made for it; pods get their grace period.
    Delete(K8sJobArgs),
}

#[derive(Debug, Args)]
pub(crate) struct K8sJobArgs {
    /// The job file.
    #[arg(value_name = "JOB.toml")]
    pub(crate) file: PathBuf,
    /// The context of kubectl's configuration; default: the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}
