//! `tpu ssh`: a shell on a worker, by the system's own ssh.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::fan_out::line_of;
use super::slices::reach;
use crate::args::{SshArgs, WorkersArgs};
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) fn run(args: &SshArgs, output: &Output) -> Result<Answer, Failure> {
    let which = WorkersArgs { all: false, worker: args.worker, slice_number: args.slice_number };
    let reached = reach(&args.name, &args.shell, &which)?;
    let words = reached.shell.ssh(&reached.workers[0], &args.command);
    if args.shell.dry_run {
        output.text(&format!("{}\n", line_of("ssh", &words)))?;
        return Ok(Answer::Yes);
    }
    // In the place of this process: the terminal, signals and the exit code are ssh's.
    let error = Command::new("ssh").args(words).exec();
    Err(Failure::new(format!("ssh: {error}")).hint("install OpenSSH's client"))
}
