//! Arguments of what makes, lists, reaches and deletes Cloud TPU slices.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Whose TPUs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProjectArgs {
    /// Google Cloud project; default: $GOOGLE_CLOUD_PROJECT, else that of gcloud's configuration.
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
}

/// A slice that is there.
#[derive(Clone, Debug, Args)]
pub(crate) struct SliceArgs {
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    /// Its zone; default: wherever a slice of that name is.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "The same command again makes no second slice: it waits for the one that is there.\n\
    Exit codes: 0 ready, 1 it was not given or was lost, 2 error, 75 interrupted: the request stays.")]
pub(crate) struct UpArgs {
    /// Its name: lower-case letters, digits and hyphens.
    pub(crate) name: String,
    /// What to ask for, by any name of a slice: v5litepod-16, v5e-16, v6e-8, v5p-32.
    #[arg(long = "type", value_name = "SLICE")]
    pub(crate) slice: String,
    /// Zone, or several with commas between them: the next where one has no room; default: that of gcloud's configuration.
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub(crate) zone: Vec<String>,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    /// Image of the machines; default: the one for the generation.
    #[arg(long, value_name = "VERSION")]
    pub(crate) runtime_version: Option<String>,
    /// Slices that are given together or not at all.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) slices: u32,
    /// Cheaper, and may be taken away.
    #[arg(long, conflicts_with = "reserved")]
    pub(crate) spot: bool,
    /// From a reservation of the project.
    #[arg(long)]
    pub(crate) reserved: bool,
    /// From this reservation.
    #[arg(long, value_name = "NAME", requires = "reserved")]
    pub(crate) reservation: Option<String>,
    /// Now or not at all: a node by itself, without a place in the queue.
    #[arg(long)]
    pub(crate) node: bool,
    /// Give the place in the queue up after this time, as in 6h.
    #[arg(long, value_name = "TIME")]
    pub(crate) valid_for: Option<String>,
    /// Not before this time has passed, as in 12h.
    #[arg(long, value_name = "TIME")]
    pub(crate) valid_after: Option<String>,
    /// Network of the machines.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Subnetwork of the machines.
    #[arg(long, value_name = "SUBNETWORK")]
    pub(crate) subnetwork: Option<String>,
    /// No addresses on the internet.
    #[arg(long)]
    pub(crate) internal_ips: bool,
    /// Account that the machines act as.
    #[arg(long, value_name = "EMAIL")]
    pub(crate) service_account: Option<String>,
    /// Network tag. May be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Label. May be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Metadata of the machines. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<String>,
    /// A script that every machine runs when it starts.
    #[arg(long, value_name = "FILE")]
    pub(crate) startup_script: Option<PathBuf>,
    /// Data disk, read-only: projects/P/zones/Z/disks/D. May be given several times.
    #[arg(long = "disk", value_name = "DISK")]
    pub(crate) disks: Vec<String>,
    /// Public key that may log in as you; default: the project's own keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_key: Option<PathBuf>,
    /// Return when the request is accepted.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print every request that would be made, and make none.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LsWhat {
    /// Slices: in the queue, running, lost.
    Slices,
    /// Zones with TPUs.
    Zones,
    /// Slices that a zone offers.
    Types,
    /// Images that a zone offers.
    Versions,
    /// Limits on what may be asked for.
    Quotas,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 everything was listed, 1 some zones could not be asked, 2 error.")]
pub(crate) struct LsArgs {
    /// What to list.
    #[arg(value_enum, default_value = "slices")]
    pub(crate) what: LsWhat,
    /// Zone; default: all zones, and for types and versions that of gcloud's configuration.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    /// Slices that others made, too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only slices with this label. May be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Print the requests that would be made, and make none.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 gone, 1 some zones could not be asked, 2 error, 75 interrupted.")]
pub(crate) struct DownArgs {
    /// Slices to delete, in any state, with their place in the queue.
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) slice: SliceArgs,
    /// Everything that `tpu` made in the project.
    #[arg(long)]
    pub(crate) all: bool,
    /// Of these only what has this label. May be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE", requires = "all")]
    pub(crate) labels: Vec<String>,
    /// Return when the deletion is accepted.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print the requests that would be made, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How workers are reached.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) slice: SliceArgs,
    /// Log in as this user; default: ssh's own choice.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Private key.
    #[arg(short = 'i', long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// By addresses in the network, not on the internet.
    #[arg(long)]
    pub(crate) internal_ip: bool,
    /// Further option of ssh, as in Port=2222. May be given several times.
    #[arg(short = 'o', long = "ssh-option", value_name = "OPTION")]
    pub(crate) options: Vec<String>,
    /// Print the commands that would be run, and run none.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which workers.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkersArgs {
    /// Every worker of every slice, at the same time.
    #[arg(long, conflicts_with_all = ["worker", "slice_number"])]
    pub(crate) all: bool,
    /// Number of the worker in its slice.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
    /// Number of the slice, where several came together.
    #[arg(long = "slice", value_name = "N", default_value_t = 0)]
    pub(crate) slice_number: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SshArgs {
    /// The slice.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    /// Number of the worker in its slice.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) worker: u32,
    /// Number of the slice, where several came together.
    #[arg(long = "slice", value_name = "N", default_value_t = 0)]
    pub(crate) slice_number: u32,
    /// Command to run instead of a shell.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 every worker's command ended with 0, 1 one did not, 2 error.")]
pub(crate) struct ExecArgs {
    /// The slice.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    #[command(flatten)]
    pub(crate) workers: WorkersArgs,
    /// The command: words as they are, or one line for the worker's shell.
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "From several workers, each has a folder of its own under TO.\n\
    Exit codes: 0 copied, 1 a worker failed, 2 error.")]
pub(crate) struct CpArgs {
    /// A path here, or SLICE:PATH on workers.
    pub(crate) from: String,
    /// A path here, or SLICE:PATH on workers.
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    #[command(flatten)]
    pub(crate) workers: WorkersArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 shown, 1 a worker has no log or was not reached, 2 error.")]
pub(crate) struct LogsArgs {
    /// The slice.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    #[command(flatten)]
    pub(crate) workers: WorkersArgs,
    /// Go on with what comes.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin with this many lines from the end.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub(crate) lines: u32,
    /// The file; default: what the start-up script wrote.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<String>,
}
