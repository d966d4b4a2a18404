//! Finding the plugin a command works with, and starting the process that loads it.

use std::path::{Path, PathBuf};

use compile::worker::WorkerCommand;
use cpu::CpuIsa;
use pjrt::discover::{Discovery, Search, first, plugins};
use runtime::config::{Config, Mode, configure_environment};

use crate::failure::Failure;

/// Everything that looks like a plugin, best first.
pub(crate) fn search(explicit: Option<&Path>) -> Search {
    plugins(&Discovery { explicit: explicit.map(Path::to_path_buf), ..Discovery::from_environment() })
}

/// The TPU compiler's library.
pub(crate) fn tpu(explicit: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(explicit) = explicit {
        return match search(Some(explicit)).rejected.iter().find(|r| r.path == explicit) {
            Some(rejected) => Err(Failure::new(format!("{} is not a plugin: {}", explicit.display(), rejected.why))
                .hint("--plugin takes the path of a PJRT plugin's shared library, such as libtpu.so")),
            None => Ok(explicit.to_path_buf()),
        };
    }
    first(&Discovery::from_environment(), "libtpu").map(|found| found.path).ok_or_else(|| {
        Failure::new("the TPU compiler (libtpu) is not installed")
            .hint("`tpu setup` gets it; `tpu info` shows where it was looked for")
    })
}

/// Starts this program again as the compiler's process.
pub(crate) fn launch() -> Result<WorkerCommand, Failure> {
    WorkerCommand::this_program(["compile-worker"])
        .map_err(|e| Failure::new(format!("cannot find this program's own file: {e}")))
}

/// The tier of instruction sets that the environment holds the built-in CPU device to.
pub(crate) fn forced_isa() -> Result<Option<CpuIsa>, Failure> {
    let asked = std::env::var("TPUBRIDGE_CPU_ISA").ok();
    let isa: Result<Option<CpuIsa>, cpu::Error> = asked.map(|name| name.parse()).transpose();
    isa.map_err(|error| Failure::new(format!("TPUBRIDGE_CPU_ISA: {error}")))
}

/// Environment a plugin's process needs, beside what is set already.
pub(crate) fn environment(plugin: &str) -> Vec<(String, String)> {
    if plugin != "libtpu" {
        return Vec::new();
    }
    let variables = configure_environment(&Config::new(Mode::Inference)).into_iter();
    variables.map(|variable| (variable.name.to_string(), variable.value)).collect()
}
