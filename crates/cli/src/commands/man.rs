//! `tpu man [FOLDER]`: man pages for the command and each of its commands.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::{self, Answer, Failure};

pub(crate) fn run(args: &ManArgs) -> Result<Answer, Failure> {
    match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|e| failure::file("cannot create", folder, e))?;
            clap_mangen::generate_to(Cli::command(), folder)
                .map_err(|e| failure::file("cannot write to", folder, e))?;
        }
        None => clap_mangen::Man::new(Cli::command())
            .render(&mut std::io::stdout())
            .map_err(|e| Failure::new(format!("standard output: {e}")))?,
    }
    Ok(Answer::Yes)
}
