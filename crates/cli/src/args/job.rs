//! Arguments of `tpu job`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    pub(crate) command: JobCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Get slices, run the job to its end, delete them; start it again anywhere, it goes on where it was.
    #[command(
        after_help = "Exit codes: 0 the job is done, 1 its program said no, 2 error or given up, 75 stopped with its state saved, or \
                      this supervisor was stopped and the job goes on without one."
    )]
    Run {
        /// The job file.
        file: PathBuf,
        /// Print the requests that would be made, and make none.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show how a job is, again and again until it is over.
    Watch {
        /// The job file.
        file: PathBuf,
        /// Seconds between two looks.
        #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        every: u64,
    },
    /// Ask a job to save, stop and delete its slices; its supervisor does so.
    Stop {
        /// The job file.
        file: PathBuf,
    },
    /// Show how a job is: slices, attempts, restarts, cost.
    Status {
        /// The job file.
        file: PathBuf,
    },
}
