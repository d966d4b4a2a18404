//! Which device a backend gets: a TPU, else a GPU, else the built-in CPU device, and why.

use std::path::PathBuf;

use compile::with_causes;
use pjrt::discover::{self, Discovery};
use pjrt::{Client, ClientOptions, Plugin};

use super::builtin;
use crate::config::Target;
use crate::distributed::Session;
use crate::error::{Error, NotAvailable};
use crate::host::{Variable, tpu_chips};

/// The device that was chosen, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What was asked for.
    pub wanted: Target,
    /// The plugin's library; `None` for the built-in CPU device.
    pub plugin: Option<PathBuf>,
    /// What was looked at before, and why it was passed over.
    pub passed_over: Vec<(Target, String)>,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.plugin {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("the built-in CPU device")?,
        }
        match (&self.wanted, self.passed_over.as_slice()) {
            (Target::Auto, []) => f.write_str(", the first that was found"),
            (Target::Auto, passed_over) => {
                let reasons: Vec<String> = passed_over.iter().map(|(what, why)| format!("{what}: {why}")).collect();
                write!(f, ", because {}", reasons.join("; "))
            }
            (wanted, _) => write!(f, ", as `{wanted}` was asked for"),
        }
    }
}

/// Where to look for devices.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Root of the file system whose `/dev` and `/sys` tell which devices are there.
    pub root: PathBuf,
    /// Where plugins are.
    pub discovery: Discovery,
    /// Options for every client that is made.
    pub client: ClientOptions,
    /// The processes that devices are shared with.
    pub session: Option<Session>,
}

impl Surroundings {
    /// This machine.
    pub fn host() -> Surroundings {
        let discovery = Discovery::from_environment();
        Surroundings { root: "/".into(), discovery, client: ClientOptions::default(), session: None }
    }
}

/// Makes a client of the device that is wanted.
pub(crate) fn choose(wanted: &Target, cpu_devices: usize, around: &Surroundings) -> Result<(Client, Choice), Error> {
    let order = match wanted {
        Target::Auto => vec![Target::Tpu, Target::Cuda, Target::Cpu],
        other => vec![other.clone()],
    };
    let mut passed_over = Vec::new();
    for target in order {
        match open(&target, cpu_devices, around) {
            Ok((client, plugin)) => return Ok((client, Choice { wanted: wanted.clone(), plugin, passed_over })),
            Err(why) => passed_over.push((target, why)),
        }
    }
    let tried = passed_over.into_iter().map(|(target, why)| (target.to_string(), why)).collect();
    Err(Error::NotAvailable(NotAvailable { wanted: wanted.to_string(), tried }))
}

/// Makes a client of one kind of device; the error says why there is none.
fn open(target: &Target, cpu_devices: usize, around: &Surroundings) -> Result<(Client, Option<PathBuf>), String> {
    let plugin_path = match target {
        Target::Cpu | Target::Auto => None,
        Target::Tpu => {
            if tpu_chips(&around.root) == 0 {
                return Err("there is no TPU in this machine".into());
            }
            Some(find(around, "libtpu", "`tpu setup` installs it")?)
        }
        Target::Cuda => {
            if !around.root.join("dev/nvidia0").exists() && !around.root.join("dev/nvidiactl").exists() {
                return Err("there is no NVIDIA GPU in this machine".into());
            }
            Some(find(around, "cuda", "JAX's package `jax-cuda13-pjrt` has one")?)
        }
        Target::Plugin(path) => Some(path.clone()),
    };
    let plugin = match &plugin_path {
        None => builtin::plugin(),
        Some(path) => Plugin::load(path),
    };
    let mut options = match &plugin_path {
        None if cpu_devices > 1 => around.client.clone().option("cpu_device_count", cpu_devices as i64),
        _ => around.client.clone(),
    };
    if let Some(session) = &around.session {
        options = session.client_options(options);
        // libtpu knows its place from the environment, and refuses options it does not know.
        if *target == Target::Tpu {
            let is_missing = |needed: &&Variable| std::env::var_os(needed.name).is_none();
            let missing: Vec<&Variable> = session.config().tpu_environment.iter().filter(is_missing).collect();
            if !missing.is_empty() {
                let lines: Vec<String> =
                    missing.iter().map(|needed| format!("{}={}", needed.name, needed.value)).collect();
                return Err(format!("libtpu needs in its environment: {}", lines.join(" ")));
            }
        } else {
            let config = session.config();
            options = options.option("node_id", config.process_id as i64).option("num_nodes", config.processes as i64);
        }
        if let (None, Some(address)) = (&plugin_path, session.local_address()) {
            options = options.option("node_address", address.to_string());
        }
        let secret = session.link_secret();
        if plugin_path.is_none() && secret.is_set() {
            options = options.option("link_secret", secret.to_hexadecimal());
        }
    }
    let client = plugin.and_then(|plugin| plugin.client(&options)).map_err(|error| with_causes(&error))?;
    match client.addressable_devices() {
        Ok(devices) if devices.is_empty() => Err("the plugin has no devices in this process".into()),
        Ok(_) => Ok((client, plugin_path)),
        Err(error) => Err(with_causes(&error)),
    }
}

fn find(around: &Surroundings, name: &str, remedy: &str) -> Result<PathBuf, String> {
    let search = discover::plugins(&around.discovery);
    let found = search.found.into_iter().find(|found| found.name.contains(name));
    found.map(|found| found.path).ok_or_else(|| format!("no plugin `{name}` was found; {remedy}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn empty_machine() -> (tempfile::TempDir, Surroundings) {
        let root = tempfile::tempdir().unwrap();
        let discovery = Discovery { explicit: None, variables: Default::default(), python_timeout: None };
        let around =
            Surroundings { root: root.path().into(), discovery, client: ClientOptions::default(), session: None };
        (root, around)
    }

    #[test]
    fn without_accelerators_the_cpu_device_is_taken_and_the_reason_said() {
        let (_root, around) = empty_machine();
        let (client, choice) = choose(&Target::Auto, 1, &around).unwrap();
        assert_eq!(client.platform_name().unwrap(), "cpu");
        assert_eq!(choice.plugin, None);
        assert!(choice.to_string().contains("there is no TPU"), "{choice}");
        assert!(choice.to_string().contains("there is no NVIDIA GPU"), "{choice}");
    }

    #[test]
    fn a_device_that_was_asked_for_and_is_not_there_is_an_error() {
        let (root, around) = empty_machine();
        let Err(Error::NotAvailable(error)) = choose(&Target::Tpu, 1, &around) else { panic!("there is no TPU") };
        assert_eq!(error.tried.len(), 1);
        // A TPU on the bus, but no plugin.
        let slot = root.path().join("sys/bus/pci/devices/0000:00:04.0");
        fs::create_dir_all(&slot).unwrap();
        for (file, text) in [("vendor", "0x1ae0"), ("device", "0x0063"), ("subsystem_device", "0x0000")] {
            fs::write(slot.join(file), text).unwrap();
        }
        let Err(Error::NotAvailable(error)) = choose(&Target::Tpu, 1, &around) else { panic!("there is no plugin") };
        assert!(error.to_string().contains("tpu setup"), "{error}");
        let missing = Target::Plugin(root.path().join("none.so"));
        assert!(matches!(choose(&missing, 1, &around), Err(Error::NotAvailable(_))));
    }
}
