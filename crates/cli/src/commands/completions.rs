//! `tpu completions SHELL`: a completion script on standard output.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::{Answer, Failure};
use crate::output::Output;

pub(crate) fn run(args: &CompletionsArgs, output: &Output) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tpu", &mut script);
    output.text(&String::from_utf8_lossy(&script))?;
    Ok(Answer::Yes)
}
