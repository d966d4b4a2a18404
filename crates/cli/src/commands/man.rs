//! `tpu man [FOLDER]`: man pages for the command and each of its commands.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::{self, Answer, Failure};
use crate::output::Output;

pub(crate) fn run(args: &ManArgs, output: &Output) -> Result<Answer, Failure> {
    match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|e| failure::file("cannot create", folder, e))?;
            clap_mangen::generate_to(Cli::command(), folder)
                .map_err(|e| failure::file("cannot write to", folder, e))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::new)?;
            output.text(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Answer::Yes)
}
