//! What libtpu reads from the environment when it is loaded, for a configuration and a host.
//!
//! Nothing is set here: a process with threads must not change its environment. `tpu config environment` prints what to
//! export before a process is started, and the processes this crate starts for libtpu get it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Config, Target};
use crate::host::{Variable, tpu_chips};

/// What of a host matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// TPU chips on its PCI bus.
    pub tpu_chips: usize,
    /// Variables that are set already.
    pub environment: BTreeMap<String, String>,
    /// What libtpu must be told of the other hosts, where the process is one of several.
    pub together: Option<Vec<Variable>>,
}

impl Host {
    /// This host alone, with the environment of this process.
    pub fn here() -> Host {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text).collect();
        Host { tpu_chips: tpu_chips(Path::new("/")), environment, together: None }
    }
}

/// Where libtpu keeps the flags of a process.
const INIT_ARGS: &str = "LIBTPU_INIT_ARGS";

/// The barrier before a program starts, which libtpu leaves off.
const LAUNCH_BARRIER: &str = "xla_tpu_use_enhanced_launch_barrier";

/// What a process on this host must find in its environment before it loads libtpu. Variables that are set already are
/// left as they are and out of the list.
pub fn configure_environment(config: &Config) -> Vec<Variable> {
    config.environment_on(&Host::here())
}

impl Config {
    /// As [`configure_environment`], on a host that the caller describes.
    pub fn environment_on(&self, host: &Host) -> Vec<Variable> {
        if matches!(self.device, Target::Cpu | Target::Cuda) {
            return Vec::new();
        }
        let mut wanted = Vec::new();
        let is_quiet = |name: &str| ["TPU_LOG_DIR", "TPU_MIN_LOG_LEVEL", "TPU_STDERR_LOG_LEVEL"].contains(&name);
        for (name, value) in pjrt::libtpu_environment() {
            // With TPUs, libtpu must ask the metadata server for its place in the slice, and hold its lock.
            if host.tpu_chips == 0 || is_quiet(name) {
                wanted.push(Variable { name, value, why: why(name) });
            }
        }
        if host.tpu_chips > 0 {
            wanted.extend(self.part_of_host(host.tpu_chips));
            if let Some(together) = &host.together {
                wanted.extend(together.iter().cloned());
                if host.environment.contains_key("TPU_SKIP_MDS_QUERY") {
                    wanted.extend(self.hosts_of_slice());
                }
            }
        }
        wanted.retain(|variable| !host.environment.contains_key(variable.name));
        if host.tpu_chips > 0 {
            let given = host.environment.get(INIT_ARGS).map_or("", |given| given.trim());
            if !given.contains(LAUNCH_BARRIER) {
                let value = format!("{given} --{LAUNCH_BARRIER}=true").trim().to_string();
                wanted.push(Variable { name: INIT_ARGS, value, why: why(INIT_ARGS) });
            }
        }
        wanted
    }

    /// Variables for a slice of several hosts, where libtpu must not ask the metadata server for its shape.
    fn hosts_of_slice(&self) -> Vec<Variable> {
        let Some(slice) = self.slice.filter(|slice| slice.processes_per_slice() > 1) else { return Vec::new() };
        let (shape, here) = (slice.shape(), slice.chips_per_host_bounds());
        let bounds = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
        let processes = [0, 1, 2].map(|n| shape[n] / here[n].max(1));
        [
            ("TPU_ACCELERATOR_TYPE", slice.accelerator_type(), "the kind and size of the slice"),
            ("TPU_CHIPS_PER_PROCESS_BOUNDS", bounds(here), why("TPU_CHIPS_PER_PROCESS_BOUNDS")),
            ("TPU_PROCESS_BOUNDS", bounds(processes), "how the hosts of the slice are arranged"),
        ]
        .map(|(name, value, why)| Variable { name, value, why })
        .into()
    }

    /// Variables for a slice that is smaller than the host: libtpu takes every chip it sees.
    fn part_of_host(&self, chips_here: usize) -> Vec<Variable> {
        let Some(slice) = self.slice.filter(|slice| slice.num_slices() == 1) else { return Vec::new() };
        let chips = slice.chips() as usize;
        if chips >= chips_here {
            return Vec::new();
        }
        let visible: Vec<String> = (0..chips).map(|chip| chip.to_string()).collect();
        let [x, y, z] = slice.shape();
        [
            ("TPU_VISIBLE_CHIPS", visible.join(",")),
            ("TPU_CHIPS_PER_PROCESS_BOUNDS", format!("{x},{y},{z}")),
            ("TPU_PROCESS_BOUNDS", "1,1,1".to_string()),
        ]
        .map(|(name, value)| Variable { name, value, why: why(name) })
        .into()
    }
}

/// What happens without a variable.
fn why(name: &str) -> &'static str {
    match name {
        "TPU_SKIP_MDS_QUERY" => "without it libtpu waits for a metadata server that only Google's machines have",
        "ALLOW_MULTIPLE_LIBTPU_LOAD" => "without it only one process of the machine can load libtpu",
        "TPU_LOG_DIR" => "without it every process leaves a log file",
        "TPU_WORKER_HOSTNAMES" | "TPU_ACCELERATOR_TYPE" => "without it libtpu warns that it does not know its host",
        "TPU_MIN_LOG_LEVEL" | "TPU_STDERR_LOG_LEVEL" => "without it libtpu's notes mix with standard error",
        "TPU_VISIBLE_CHIPS" => "without it the process takes every chip of the host",
        "TPU_CHIPS_PER_PROCESS_BOUNDS" => "how the chips of the process are arranged",
        "TPU_PROCESS_BOUNDS" => "the process is alone in its slice",
        INIT_ARGS => "the barrier before a program starts on several hosts; libtpu leaves it off, JAX turns it on",
        _ => "libtpu reads it when it is loaded",
    }
}
