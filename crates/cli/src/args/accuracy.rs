//! Arguments of `tpu accuracy`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{CacheFolderArgs, PluginArgs};

/// Who writes the program of a measured run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FrontEnd {
    /// Python and JAX.
    Jax,
    /// This program.
    Rust,
}

#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// Measurements: a JSON file with `rows`, each with its configuration and what was measured. Without it, the page is
    /// written from --results alone.
    #[arg(required_unless_present_any = ["results", "profile"])]
    pub(crate) file: Option<PathBuf>,
    /// Predictions of earlier runs, in JSON: those of this run are added, and the page has all of them.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Rows to compare, by their ids; default: all.
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub(crate) only: Vec<String>,
    /// Interpreter with jax and libtpu, which writes the measured models as programs; default: $TPUBRIDGE_PYTHON, else python3.
    #[arg(long, value_name = "FILE")]
    pub(crate) python: Option<PathBuf>,
    /// Folder to keep the programs in; default: a temporary one.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
    /// Who writes the programs: JAX, as the measured ones were, or our own front end, for the families it has.
    #[arg(long, value_enum, default_value_t = FrontEnd::Jax)]
    pub(crate) front_end: FrontEnd,
    /// Write the page to a file, in Markdown.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// A profile measured on TPUs (XSpace, or a trace with the HLO text of its ops), or a CSV of timed matmuls: each op beside its price,
    /// by class. With --results the errors by class are kept there, for the page.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "out"])]
    pub(crate) profile: Option<PathBuf>,
    /// The slice of --profile; default: as the profile says, which traces do not.
    #[arg(long, value_name = "SLICE", requires = "profile")]
    pub(crate) slice: Option<String>,
    /// Ops of --profile that are shown.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) top: usize,
    /// Choose the fitted constants without each family of models in turn, and say how far off its rows are then. Takes what is in
    /// the compile cache in minutes, and keeps the answer in --results.
    #[arg(long, requires = "file")]
    pub(crate) leave_one_out: bool,
    /// Run the whole compiler instead of its first phase: minutes for each row.
    #[arg(long)]
    pub(crate) full: bool,
    /// Seconds the compiler may take for a row.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) plugin: PluginArgs,
    #[command(flatten)]
    pub(crate) cache: CacheFolderArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Profiles measured on your chips: files, or folders with a file for each host.
    #[arg(required = true)]
    pub(crate) profiles: Vec<PathBuf>,
    /// The slice they were measured on; default: as they say, which traces do not.
    #[arg(long, value_name = "SLICE")]
    pub(crate) slice: Option<String>,
    /// Write the machine file here.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
