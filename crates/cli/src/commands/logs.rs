//! `tpu logs`: what workers wrote, from the end, and what comes.

use super::fan_out::{Task, run_all};
use super::slices::reach;
use crate::args::LogsArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;

/// Where Google's agent keeps what start-up scripts print.
const STARTUP: &str = "google-startup-scripts.service";

pub(crate) fn run(args: &LogsArgs, output: &Output) -> Result<Answer, Failure> {
    let reached = reach(&args.name, &args.shell, &args.workers)?;
    let lines = args.lines.to_string();
    let words: Vec<&str> = match &args.file {
        // By name, so that a log that is replaced by the next is followed too.
        Some(file) if args.follow => vec!["tail", "-n", &lines, "-F", "--", file],
        Some(file) => vec!["tail", "-n", &lines, "--", file],
        None if args.follow => vec!["sudo", "-n", "journalctl", "-q", "-u", STARTUP, "-n", &lines, "-f"],
        None => vec!["sudo", "-n", "journalctl", "-q", "-u", STARTUP, "-n", &lines],
    };
    let command: Vec<String> = words.into_iter().map(String::from).collect();
    let tasks = reached.workers.iter().map(|worker| Task {
        mark: worker.mark(reached.slices),
        worker: worker.clone(),
        program: "ssh",
        words: reached.shell.ssh(worker, &command),
    });
    run_all(tasks.collect(), args.shell.dry_run, output)
}
