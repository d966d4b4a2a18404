//! What is asked of the compiler's process and what it answers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::CompileMode;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Load the plugin and say what it is.
    Probe {
        plugin: PathBuf,
        /// Whether to ask for devices too: on a machine with an accelerator this takes it.
        devices: bool,
    },
    /// Compile the program that follows as the blob `program`.
    Compile(Box<Compile>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Compile {
    pub(crate) plugin: PathBuf,
    pub(crate) mode: CompileMode,
    pub(crate) topology_name: String,
    pub(crate) chip_config_name: String,
    pub(crate) chips_per_host_bounds: [i64; 3],
    pub(crate) wrap: [i64; 3],
    pub(crate) num_slices: i64,
    pub(crate) replicas: u32,
    pub(crate) partitions: u32,
    /// Device ids, `[replica][partition]`; `None` lets the compiler take the natural order.
    pub(crate) device_ids: Option<Vec<i64>>,
    pub(crate) shardy: bool,
    /// For each argument, whether the compiler may choose its sharding.
    pub(crate) free_arguments: Vec<bool>,
    /// For each result, likewise.
    pub(crate) free_results: Vec<bool>,
    pub(crate) optimization_level: Option<u8>,
    pub(crate) memory_fitting_level: Option<u8>,
    pub(crate) flags: BTreeMap<String, String>,
    /// Address space the child may fill with data; a backstop behind the parent's watch.
    pub(crate) data_limit_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Probed(PluginProbe),
    Compiled(Box<Compiled>),
    Failed(Failure),
}

/// What a plugin says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginProbe {
    /// Version of the PJRT interface, as in `0.116`.
    pub api_version: String,
    /// Platform name, when devices were asked for and found.
    pub platform: Option<String>,
    /// Platform version: the build of the compiler.
    pub platform_version: Option<String>,
    /// Attributes by name.
    pub attributes: BTreeMap<String, String>,
    /// Extensions present.
    pub extensions: Vec<String>,
    /// Devices, when asked for and found.
    pub devices: Vec<ProbedDevice>,
    /// Why there are no devices.
    pub no_devices: Option<String>,
}

/// A device a plugin offers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbedDevice {
    /// Id.
    pub id: i64,
    /// Kind, as in `TPU v5 lite`.
    pub kind: String,
    /// Process it belongs to.
    pub process: i64,
    /// Bytes of memory, if the plugin tells.
    pub memory_bytes: Option<i64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Compiled {
    pub(crate) devices: u64,
    pub(crate) hbm_limit_bytes: Option<i64>,
    pub(crate) platform_version: String,
    pub(crate) compile_seconds: f64,
    pub(crate) memory: Option<MemoryStats>,
    pub(crate) code_bytes: Option<i64>,
    pub(crate) flops: Option<f64>,
    pub(crate) bytes_accessed: Option<f64>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemoryStats {
    pub(crate) code: i64,
    pub(crate) arguments: i64,
    pub(crate) outputs: i64,
    pub(crate) aliased: i64,
    pub(crate) temporaries: i64,
    pub(crate) host_temporaries: i64,
    pub(crate) peak: Option<i64>,
    pub(crate) total_allocation: Option<i64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// The plugin cannot be loaded or does not do what is needed.
    Plugin(String),
    /// The plugin answered a call with an error.
    Status { call: String, code: String, message: String },
    /// The request made no sense.
    Request(String),
}
