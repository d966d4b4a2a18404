//! The options: each is said once, here.

use std::path::PathBuf;

use compile::optimize::{ComputePrecision, GradientCheckpointing, Level};
use pjrt::Effort;

use super::setting::Setting;
use super::values::{Fraction, Gibibytes, MemoryOptimization, Mode, Seconds, Switch, Target};
use super::xla_flags::XlaFlags;

/// An option, for those who set it by name.
pub struct OptionInfo {
    /// Its name in files; on the command line with dashes, in the environment as `TPUBRIDGE_NAME`.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Sets it from text; the error says what is taken instead.
    pub read: fn(&mut Config, &str) -> Result<(), String>,
    /// Its value as text.
    pub show: fn(&Config) -> String,
}

impl std::fmt::Debug for OptionInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptionInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr;)*) => {
        /// The configuration of a backend. [`Config::new`] gives the defaults of a mode; setters change one option each.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Config {
            /// What the process is for.
            pub mode: Mode,
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Config {
            /// The defaults of a mode.
            pub fn new(mode: Mode) -> Config {
                Config { mode, $($name: { let default: fn(Mode) -> $type = $default; default(mode) },)* }
            }

            $($(#[doc = $doc])+ #[must_use] pub fn $name(mut self, value: $type) -> Config { self.$name = value; self })*
        }

        /// Every option but the mode, in the order in which they are shown.
        pub static OPTIONS: &[OptionInfo] = &[
            $(OptionInfo {
                name: stringify!($name),
                doc: concat!($($doc),+),
                read: |config, text| { config.$name = <$type as Setting>::read(text)?; Ok(()) },
                show: |config| config.$name.show(),
            },)*
        ];
    };
}

fn seconds(value: f64) -> Seconds {
    Seconds::new(value).unwrap_or_else(|| unreachable!("defaults are lengths of time"))
}

fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap_or_else(|| unreachable!("defaults are fractions"))
}

options! {
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    device: Target = |_| Target::Auto;
    /// Devices the built-in CPU device pretends to have, for programs of several devices.
    cpu_devices: usize = |_| 1;
    /// Slice that programs are compiled for where no TPU is present, such as v5e-16.
    slice: Option<chips::Slice> = |_| None;
    /// Share of device memory that may be allocated.
    memory_fraction: Fraction = |_| fraction(0.9);
    /// Type models compute in: bf16, f32 or mixed.
    precision: ComputePrecision = |mode| match mode {
        Mode::Inference => ComputePrecision::Bf16,
        Mode::Training => ComputePrecision::Mixed,
        Mode::Development => ComputePrecision::F32,
    };
    /// Whether compiled programs and prepared models are kept.
    enable_cache: bool = |_| true;
    /// Compiled programs kept in memory; the least recently used leaves first.
    cache_max_size: usize = |mode| if mode == Mode::Inference { 200 } else { 100 };
    /// Folder where compiled programs are kept for the next process; none keeps them in memory only.
    executables_dir: Option<PathBuf> = |_| None;
    /// Seconds a compilation may take.
    compilation_timeout_seconds: Seconds = |_| seconds(300.0);
    /// How far programs are rewritten before they are compiled: none, conservative, balanced, aggressive.
    optimization: Level = |mode| match mode {
        Mode::Development => Level::None,
        Mode::Inference | Mode::Training => Level::Balanced,
    };
    /// Effort of the compiler on run time, 0 to 3; none is its own default.
    xla_optimization_level: Option<Effort> = |mode| match mode {
        Mode::Development => Some(Effort::O0),
        Mode::Training => Some(Effort::O2),
        Mode::Inference => None,
    };
    /// How hard the compiler tries to save memory: none, normal or aggressive.
    memory_optimization: MemoryOptimization = |_| MemoryOptimization::Normal;
    /// Activations that the backward pass computes again instead of keeping them: auto, none, activations or layers.
    gradient_checkpointing: GradientCheckpointing = |_| GradientCheckpointing::Auto;
    /// Whether the compiler may recompute values instead of keeping them.
    rematerialization: Switch = |_| Switch::Auto;
    /// Collectives that run beside arithmetic.
    async_collectives: Switch = |_| Switch::Auto;
    /// A schedule that hides the latency of collectives and copies.
    latency_hiding: Switch = |_| Switch::Auto;
    /// Matmuls that overlap with the collectives around them.
    collective_matmul: Switch = |_| Switch::Auto;
    /// Two cores of a chip as one device, on generations that can choose.
    megacore: Switch = |_| Switch::Auto;
    /// Flags of the TPU compiler, as in `xla_tpu_scoped_vmem_limit_kib=65536`; they win over the options above.
    xla_flags: XlaFlags = |_| XlaFlags::default();
    /// Seconds for which allocations stay in the history.
    allocation_history_retention_seconds: Seconds = |_| seconds(3600.0);
    /// HBM of a v6e chip in GiB, where yours differs from the table.
    v6e_memory_gb: Option<Gibibytes> = |_| None;
    /// HBM of a TPU7x chip in GiB, where yours differs from the table.
    v7_memory_gb: Option<Gibibytes> = |_| None;
    /// Whether what would be a warning is an error.
    strict_validation: bool = |mode| mode == Mode::Development;
    /// Seconds between two readings of a memory monitor.
    monitoring_interval_seconds: Seconds = |_| seconds(1.0);
    /// Seconds a memory monitor reads.
    monitoring_duration_seconds: Seconds = |_| seconds(60.0);
    /// Whether executions are profiled.
    profiling: bool = |_| false;
    /// Folder of profiles.
    profile_dir: PathBuf = |_| PathBuf::from("profiles");
    /// Whether the device of every array and program is logged.
    log_device_placement: bool = |_| false;
    /// Whether every compilation is logged with its reason.
    log_compiles: bool = |mode| mode == Mode::Development;
    /// Whether results are searched for NaN, and the op that made the first one is named.
    debug_nans: bool = |_| false;
    /// Whether results are searched for infinities.
    debug_infs: bool = |_| false;
    /// Whether programs run op by op on the CPU device instead of compiled.
    interpret: bool = |_| false;
}
