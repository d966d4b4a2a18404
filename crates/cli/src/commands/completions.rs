//! `tpu completions SHELL`: a completion script on standard output.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::{Answer, Failure};

pub(crate) fn run(args: &CompletionsArgs) -> Result<Answer, Failure> {
    clap_complete::generate(args.shell, &mut Cli::command(), "tpu", &mut std::io::stdout());
    Ok(Answer::Yes)
}
