//! Models in files, and what the memory of a backend is used for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use compile::cache::{Cache, PluginParts};
use compile::{PluginFile, Program};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tensor::Literal;
use weights::Checkpoint;

use super::{Backend, LoadedProgram, Parameters};
use crate::compiler::CompilerStats;
use crate::device::Platform;
use crate::error::Error;
use crate::memory::MemoryUse;

/// What the memory of a backend is used for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryStats {
    /// What arrays of this backend hold.
    pub arrays: MemoryUse,
    /// Bytes the device says are in use, by anybody; `None` where it does not say.
    pub device_used_bytes: Option<i64>,
    /// The most the device says was in use.
    pub device_peak_bytes: Option<i64>,
    /// Bytes the device says it has.
    pub device_limit_bytes: Option<i64>,
    /// Prepared models that are kept.
    pub models: usize,
    /// What the compiler did.
    pub compiler: CompilerStats,
}

/// What was loaded beside the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// State of the optimizer by name.
    pub optimizer: BTreeMap<String, Literal>,
    /// What was noted.
    pub notes: BTreeMap<String, String>,
}

impl Backend {
    /// What the memory is used for.
    pub fn memory_stats(&self) -> MemoryStats {
        let device = self.first_device_memory();
        MemoryStats {
            arrays: self.memory().in_use(),
            device_used_bytes: device.map(|device| device.bytes_in_use),
            device_peak_bytes: device.and_then(|device| device.peak_bytes_in_use),
            device_limit_bytes: device.and_then(|device| device.bytes_limit),
            models: self.models().len(),
            compiler: self.compiler().stats(),
        }
    }

    /// Writes a model's parameters, by the names and in the types its program was exported with, with the optimizer's
    /// state and notes. Parameters that are kept in bf16 are written with the precision they have left.
    pub fn save_model(&self, model: &LoadedProgram, extras: Extras, path: &Path) -> Result<(), Error> {
        let parameters = model.read_parameters()?;
        let checkpoint = Checkpoint { parameters, optimizer: extras.optimizer, notes: extras.notes };
        Ok(checkpoint.save(path)?)
    }

    /// Reads parameters and prepares the program with them.
    pub fn load_model(&self, program: &Arc<Program>, path: &Path) -> Result<(LoadedProgram, Extras), Error> {
        let Checkpoint { parameters, optimizer, notes } = Checkpoint::load(path)?;
        let parameters = parameters.into_iter().map(|(name, literal)| (name, Arc::new(literal))).collect();
        let model = self.prepare_program(program, &Parameters::named(parameters))?;
        Ok((model, Extras { optimizer, notes }))
    }
}

impl Backend {
    /// Keeps executables in a cache on disk too, and looks there before compiling. The first cache given stays.
    ///
    /// An entry depends on the program, the plugin's build, the devices and their topology, the compile options, and the variables
    /// a compiler reads. A plugin that cannot write executables compiles as before.
    pub fn keep_executables(&self, cache: Cache) -> Result<(), Error> {
        let version = self.client().platform_version().map_err(Error::device("asking for a version"))?;
        let plugin = match &self.choice().plugin {
            Some(path) => PluginFile::open(path)?.parts,
            None => PluginParts { name: self.platform().to_string(), version: Some(version.clone()), build: version },
        };
        let mut target = self.topology().target();
        // Machine code of another plugin for this CPU; the built-in device keeps programs.
        if *self.platform() == Platform::Cpu && self.choice().plugin.is_some() {
            target.push_str(&format!(", instruction sets {}", instruction_sets(&read_cpu_info())));
        }
        self.compiler().keep_in(cache, plugin, target);
        Ok(())
    }
}

/// What the kernel says of this machine's CPUs; nothing where it does not.
fn read_cpu_info() -> String {
    std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// A digest of what the first CPU can do. Its clock and its number are not part of it.
fn instruction_sets(cpu_info: &str) -> String {
    let names = ["flags", "Features", "vendor_id"];
    let lines = cpu_info.lines().take_while(|line| !line.trim().is_empty());
    let lines = lines.filter(|line| line.split(':').next().is_some_and(|name| names.contains(&name.trim())));
    let mut digest = Sha256::new();
    lines.for_each(|line| digest.update(line.trim()));
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::instruction_sets;

    #[test]
    fn instruction_sets_are_the_flags_of_a_cpu() {
        let info = |mhz: &str, flags: &str| {
            format!("vendor_id\t: A\ncpu MHz\t: {mhz}\nflags\t\t: {flags}\n\nvendor_id\t: B\n")
        };
        assert_eq!(instruction_sets(&info("1", "avx2 bmi2")), instruction_sets(&info("2", "avx2 bmi2")));
        assert_ne!(instruction_sets(&info("1", "avx2 bmi2")), instruction_sets(&info("1", "avx2 bmi2 avx512f")));
    }
}
