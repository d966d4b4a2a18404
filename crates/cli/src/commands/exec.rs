//! `tpu exec`: a command on one worker or on all, their lines told apart, one exit code.

use super::fan_out::{Task, run_all};
use super::slices::reach;
use crate::args::ExecArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) fn run(args: &ExecArgs, output: &Output) -> Result<Answer, Failure> {
    let reached = reach(&args.name, &args.shell, &args.workers)?;
    let tasks = reached.workers.iter().map(|worker| Task {
        mark: worker.mark(reached.slices),
        worker: worker.clone(),
        program: "ssh",
        words: reached.shell.ssh(worker, &args.command),
    });
    run_all(tasks.collect(), args.shell.dry_run, output)
}
