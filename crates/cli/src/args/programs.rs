//! Arguments of what reads and runs programs: `tpu hlo`, `tpu check`, `tpu weights`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CheckpointKeyArgs;

#[derive(Debug, Args)]
pub(crate) struct HloArgs {
    /// StableHLO program, text or bytecode; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Print the canonical text.
    #[arg(long, short)]
    pub(crate) print: bool,
    /// Print ops in the generic form, with --print.
    #[arg(long, requires = "print")]
    pub(crate) generic: bool,
    /// Print locations, with --print.
    #[arg(long, requires = "print")]
    pub(crate) locations: bool,
    /// Convert to a file: text, or bytecode if its name ends in .bc.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Do not verify, only parse.
    #[arg(long)]
    pub(crate) no_verify: bool,
}

/// What runs the programs of `tpu check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckMode {
    /// Compiled for this machine's CPU.
    Compiled,
    /// Op by op, as the specification says: the reference.
    Interpreter,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, text or bytecode, or folders of them; text may be split by `// -----` lines.
    #[arg(required_unless_present = "ops", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// List the ops of PyTorch that archives may have, and run nothing.
    #[arg(long, conflicts_with = "paths")]
    pub(crate) ops: bool,
    /// How the CPU device runs the programs.
    #[arg(long, value_enum, default_value = "compiled")]
    pub(crate) mode: CheckMode,
    /// Run on the first device of a PJRT plugin instead: its library, or a name that `tpu info` lists. Checks are made on
    /// the host, and a plugin that crashes fails one case.
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "mode")]
    pub(crate) plugin: Option<PathBuf>,
    /// Cases known to fail: lines of `path-suffix[::function]  reason`, after `[compiled]`, `[interpreter]` or `[plugin]` if
    /// only so. A listed case that passes is a failure.
    #[arg(long, value_name = "FILE")]
    pub(crate) expected_failures: Option<PathBuf>,
    /// Run only cases whose `path::function` contains this.
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) filter: Option<String>,
    /// Run programs marked RUN-DISABLED too.
    #[arg(long)]
    pub(crate) include_disabled: bool,
    /// Stop at the first failure.
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Programs run at the same time; default: the number of cores, or 1 with --plugin.
    /// Each takes a process of its own there.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Seconds one program may take.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) timeout: f64,
}

#[derive(Debug, Args)]
pub(crate) struct WeightsArgs {
    /// Archive of torch.export (.pt2).
    pub(crate) program: PathBuf,
    /// The file to write, as in model.safetensors.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Folder of a `tpu train` run of this archive: its weights in place of the archive's.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) run: Option<String>,
    /// Step of the checkpoint, with --run; default: the newest.
    #[arg(long, requires = "run")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) keys: CheckpointKeyArgs,
}
