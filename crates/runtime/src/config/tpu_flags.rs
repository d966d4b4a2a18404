//! What a configuration means to the TPU compiler: effort levels, and flags that libtpu 0.0.51 takes.
//!
//! Every flag here was given to libtpu for every generation, and seen to change a compiled program; the tests of
//! `tpu compile --set` hold both. A wish the compiler cannot follow is refused with the reason.

use std::collections::BTreeMap;

use chips::{Generation, Overrides, Slice};
use compile::flags::HBM_LIMIT_MIB;
use compile::{CacheUse, CompileRequest};
use pjrt::{CompileOptions, Effort, OptionOverride};

use super::{Config, ConfigError, MemoryOptimization, Setting, Switch};

/// A flag and its value.
type Flag = (&'static str, &'static str);

/// The compiler's own bound is 10 MiB: no value is large enough to be rematerialized.
const REMATERIALIZATION_OFF: Flag = ("xla_tpu_rematerialization_min_size_in_bytes", "9223372036854775807");

/// The other algorithms give up on programs that are far too large; this one works at the peak until it fits.
const REMATERIALIZATION_ON: Flag = ("xla_tpu_rematerialization_algo", "PEAK_PRIORITY");

/// Memory first: values are rematerialized once half of the memory is taken, not only when it runs out.
const REMATERIALIZE_EARLY: Flag = ("xla_jf_rematerialization_percent_shared_memory_limit", "50");

const ASYNC_ON: &[Flag] = &[
    ("xla_enable_async_all_gather", "true"),
    ("xla_enable_async_collective_permute", "true"),
    ("xla_tpu_enable_async_all_to_all", "true"),
];

/// All-gathers that are continued inside of matmuls. libtpu refuses it on every other generation.
const ASYNC_ON_V5E: &[Flag] = &[
    ("xla_tpu_enable_async_collective_fusion", "true"),
    ("xla_tpu_enable_async_collective_fusion_fuse_all_gather", "true"),
];

const ASYNC_OFF: &[Flag] = &[
    ("xla_enable_async_all_gather", "false"),
    ("xla_enable_async_collective_permute", "false"),
    ("xla_tpu_enable_async_all_to_all", "false"),
    ("xla_tpu_enable_async_collective_fusion", "false"),
];

const LATENCY_HIDING: &str = "xla_tpu_enable_latency_hiding_scheduler";

/// Matmuls split into steps, with the pieces of the other operand passed around meanwhile.
const COLLECTIVE_MATMUL: [&str; 2] =
    ["xla_tpu_all_gather_collective_matmul_mode", "xla_tpu_reduce_scatter_collective_matmul_mode"];

/// What a configuration means to the TPU compiler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TpuOptions {
    /// Effort spent on run time; `None` is the compiler's default.
    pub optimization_level: Option<Effort>,
    /// Effort spent on fitting into memory; `None` is the compiler's default.
    pub memory_fitting_level: Option<Effort>,
    /// Flags, by name.
    pub flags: BTreeMap<String, String>,
}

impl TpuOptions {
    /// As the options of a compilation.
    pub fn compile_options(&self) -> CompileOptions {
        let overrides = self.flags.iter().map(|(name, value)| (name.clone(), OptionOverride::String(value.clone())));
        CompileOptions {
            optimization_level: self.optimization_level,
            memory_fitting_level: self.memory_fitting_level,
            overrides: overrides.collect(),
            ..CompileOptions::default()
        }
    }
}

impl Config {
    /// What this means to the compiler for a generation of TPUs, with so many devices in a slice. Flags that were given
    /// by name win over those of other options.
    pub fn tpu_options(&self, generation: Generation, devices_per_slice: u32) -> Result<TpuOptions, ConfigError> {
        self.check_megacore(generation)?;
        if self.rematerialization == Switch::On && self.memory_optimization == MemoryOptimization::None {
            let reason = "with `memory_optimization = none` the compiler rematerializes nothing";
            return Err(unsupported("rematerialization", &self.rematerialization, reason));
        }
        let mut flags: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |(name, value): Flag| drop(flags.insert(name.into(), value.into()));
        match self.rematerialization {
            Switch::Off => set(REMATERIALIZATION_OFF),
            Switch::On => set(REMATERIALIZATION_ON),
            Switch::Auto => {}
        }
        if self.memory_optimization == MemoryOptimization::Aggressive && self.rematerialization != Switch::Off {
            set(REMATERIALIZATION_ON);
            set(REMATERIALIZE_EARLY);
        }
        match self.async_collectives {
            Switch::On => {
                ASYNC_ON.iter().copied().for_each(&mut set);
                if generation == Generation::V5e {
                    ASYNC_ON_V5E.iter().copied().for_each(&mut set);
                }
            }
            Switch::Off => ASYNC_OFF.iter().copied().for_each(&mut set),
            Switch::Auto => {}
        }
        match self.latency_hiding {
            Switch::On => set((LATENCY_HIDING, "true")),
            Switch::Off => set((LATENCY_HIDING, "false")),
            Switch::Auto => {}
        }
        match self.collective_matmul {
            Switch::On => COLLECTIVE_MATMUL.iter().for_each(|name| set((name, "POST_SPMD"))),
            Switch::Off => COLLECTIVE_MATMUL.iter().for_each(|name| set((name, "NONE"))),
            Switch::Auto => {}
        }
        let overrides = self.chip_overrides();
        if overrides.get(generation, chips::Quantity::Memory).is_some() {
            let bytes = generation.spec().with(&overrides).usable_hbm_bytes_per_device(devices_per_slice);
            flags.insert(HBM_LIMIT_MIB.into(), (bytes >> 20).max(1).to_string());
        }
        flags.extend(self.xla_flags.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        Ok(TpuOptions {
            optimization_level: self.xla_optimization_level,
            memory_fitting_level: self.memory_fitting_level(),
            flags,
        })
    }

    /// What to compile for [`slice`](Config::slice), with every choice of this configuration.
    pub fn compile_request(&self) -> Result<CompileRequest, ConfigError> {
        let slice: Slice = self.slice.ok_or(ConfigError::Missing { name: "slice" })?;
        let options = self.tpu_options(slice.generation(), slice.devices_per_slice())?;
        Ok(CompileRequest {
            optimization_level: options.optimization_level,
            memory_fitting_level: options.memory_fitting_level,
            flags: options.flags,
            cache: if self.enable_cache { CacheUse::ReadWrite } else { CacheUse::Off },
            ..CompileRequest::new(slice)
        })
    }

    /// What any compiler is asked for: effort levels are XLA's, on every platform.
    pub(crate) fn any_compile_options(&self) -> CompileOptions {
        CompileOptions {
            optimization_level: self.xla_optimization_level,
            memory_fitting_level: self.memory_fitting_level(),
            ..CompileOptions::default()
        }
    }

    /// Options that were set and that only the TPU compiler can follow.
    pub(crate) fn tpu_only(&self) -> Vec<&'static str> {
        let switches = [
            ("rematerialization", self.rematerialization),
            ("async_collectives", self.async_collectives),
            ("latency_hiding", self.latency_hiding),
            ("collective_matmul", self.collective_matmul),
            ("megacore", self.megacore),
        ];
        let mut names: Vec<&'static str> =
            switches.iter().filter(|(_, switch)| *switch != Switch::Auto).map(|(name, _)| *name).collect();
        if self.memory_optimization != MemoryOptimization::Normal {
            names.push("memory_optimization");
        }
        if !self.xla_flags.is_empty() {
            names.push("xla_flags");
        }
        names
    }

    /// Figures of chips that the user knows better than the table.
    pub fn chip_overrides(&self) -> Overrides {
        let mut overrides = Overrides::new();
        for (key, given) in [("v6e_memory_gb", self.v6e_memory_gb), ("tpu7x_memory_gb", self.v7_memory_gb)] {
            if let Some(gib) = given {
                // Both keys exist and an amount of memory is a number above 0: nothing to refuse.
                let _ = overrides.set(key, &gib.show());
            }
        }
        overrides
    }

    fn memory_fitting_level(&self) -> Option<Effort> {
        match self.memory_optimization {
            MemoryOptimization::None => Some(Effort::O0),
            MemoryOptimization::Normal => None,
            MemoryOptimization::Aggressive => Some(Effort::O3),
        }
    }

    /// No flag chooses whether two cores are one device: the generation does, and how its slices are built.
    fn check_megacore(&self, generation: Generation) -> Result<(), ConfigError> {
        let (is_on, reason) = match generation {
            Generation::V2 | Generation::V3 | Generation::Tpu7x => (false, "each core of this generation is a device"),
            Generation::V5e | Generation::V6e => (false, "a chip of this generation has one core"),
            Generation::V4 => (true, "slices of v4 are built with the two cores of a chip as one device"),
            Generation::V5p => (true, "v5p has no other way to use its cores"),
        };
        match (self.megacore, is_on) {
            (Switch::Auto, _) | (Switch::On, true) | (Switch::Off, false) => Ok(()),
            _ => Err(unsupported("megacore", &self.megacore, &format!("{generation}: {reason}"))),
        }
    }
}

fn unsupported(name: &'static str, value: &impl Setting, reason: &str) -> ConfigError {
    ConfigError::Unsupported { name, value: value.show(), reason: reason.to_string() }
}
