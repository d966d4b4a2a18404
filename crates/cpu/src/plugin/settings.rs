//! What a new client or topology is asked to be: options first, then the environment, then the defaults.

use std::net::IpAddr;

use channel::Secret;

use super::call::Failure;
use super::named::Named;
use crate::engine::PartitionRuns;
use crate::error::Error;
use crate::kernels::isa::CpuIsa;

/// Name of the platform where nobody says another. JAX has lowerings for the platforms it knows by name: under this one
/// it gives programs linear algebra, donation and zero-copy exchange with NumPy, under a name of our own it does not.
const DEFAULT_PLATFORM: &str = "cpu";

/// Devices a client may have at most.
const MAX_DEVICES: i64 = 1024;
/// Threads a client may have at most.
const MAX_THREADS: i64 = 1024;

/// Processes a client may have at most.
const MAX_PROCESSES: i64 = 4096;

/// Which of several processes this is. These are options only: an environment is often the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Option `node_id`.
    pub(super) id: usize,
    /// Option `num_nodes`.
    pub(super) count: usize,
    /// Option `node_address`: where the others reach this process; `None` for the same machine.
    pub(super) address: Option<IpAddr>,
}

/// A new client's or topology's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Option `platform_name`, variable `TPUBRIDGE_CPU_PLATFORM_NAME`.
    pub(super) platform_name: String,
    /// Option `cpu_device_count`, variable `TPUBRIDGE_CPU_DEVICE_COUNT`.
    pub(super) num_devices: usize,
    /// Option `memory_limit_bytes`, variable `TPUBRIDGE_CPU_MEMORY_LIMIT_BYTES`: for each device.
    pub(super) limit_bytes: Option<u64>,
    /// Option `threads`, variable `TPUBRIDGE_CPU_THREADS`: for all devices together; `None` for one per core.
    pub(super) threads: Option<usize>,
    /// Option `isa`, variable `TPUBRIDGE_CPU_ISA`: the tier of instruction sets; `None` for the highest of this CPU.
    pub(super) isa: Option<CpuIsa>,
    /// Option `partitions`, variable `TPUBRIDGE_CPU_PARTITIONS`: `together` or `apart`.
    pub(super) partitions: PartitionRuns,
    /// Option `link_secret`, in hexadecimal digits; else the secret of the environment ([`Secret::from_environment`]).
    pub(super) link_secret: Secret,
    node_id: Option<usize>,
    num_nodes: Option<usize>,
    node_address: Option<IpAddr>,
}

impl Settings {
    /// Reads options; what they leave out is looked up in the environment.
    pub(super) fn read(options: Vec<(String, Named)>) -> Result<Settings, Failure> {
        Settings::resolve(options, |variable| std::env::var(variable).ok())
    }

    fn resolve(
        options: Vec<(String, Named)>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for option in ["platform_name", "cpu_device_count", "memory_limit_bytes", "threads", "isa", "partitions"] {
            // The options' own prefix is part of the variable's once.
            let variable = format!("TPUBRIDGE_CPU_{}", option.trim_start_matches("cpu_").to_uppercase());
            let Some(text) = environment(&variable) else { continue };
            settings.set(option, Named::Text(text)).map_err(|value| refuse(&variable, value))?;
        }
        let is_given = |(name, _): &(String, Named)| name == "link_secret";
        // Read only where it is needed, so that a bad file is no matter of a single process.
        if options.iter().any(|(name, _)| name == "num_nodes") && !options.iter().any(is_given) {
            settings.link_secret = Secret::from_environment(&environment).map_err(Failure::invalid)?;
        }
        for (name, value) in options {
            settings.set(&name, value).map_err(|value| refuse(&name, value))?;
        }
        Ok(settings)
    }

    /// Which process this is; `None` where there is one.
    pub(super) fn node(&self) -> Result<Option<Node>, Failure> {
        match (self.node_id, self.num_nodes) {
            (None | Some(0), None | Some(1)) => Ok(None),
            (Some(id), Some(count)) if id < count => Ok(Some(Node { id, count, address: self.node_address })),
            (id, count) => Err(Failure::invalid(format!(
                "node_id {id:?} of num_nodes {count:?}: give both, and the id below the number"
            ))),
        }
    }

    fn set(&mut self, name: &str, value: Named) -> Result<(), Refused> {
        // The environment, and JAX where options are given in its own, know only text.
        let value = match value {
            Named::Text(text)
                if !["platform_name", "isa", "partitions", "node_address", "link_secret"].contains(&name) =>
            {
                text.parse().map_or_else(|_| Named::Text(text), Named::Int)
            }
            value => value,
        };
        match (name, value) {
            ("platform_name", Named::Text(name)) if !name.is_empty() => self.platform_name = name,
            ("cpu_device_count", Named::Int(n)) if (1..=MAX_DEVICES).contains(&n) => self.num_devices = n as usize,
            ("memory_limit_bytes", Named::Int(n)) if n >= 0 => self.limit_bytes = Some(n as u64),
            ("threads", Named::Int(n)) if (1..=MAX_THREADS).contains(&n) => self.threads = Some(n as usize),
            ("node_id", Named::Int(n)) if (0..MAX_PROCESSES).contains(&n) => self.node_id = Some(n as usize),
            ("num_nodes", Named::Int(n)) if (1..=MAX_PROCESSES).contains(&n) => self.num_nodes = Some(n as usize),
            ("node_address", Named::Text(text)) => match text.parse() {
                Ok(address) => self.node_address = Some(address),
                Err(_) => return Err(Named::Text(text).into()),
            },
            ("isa", Named::Text(text)) => self.isa = Some(text.parse().map_err(Refused::Because)?),
            ("partitions", Named::Text(text)) if text == "together" => self.partitions = PartitionRuns::Together,
            ("partitions", Named::Text(text)) if text == "apart" => self.partitions = PartitionRuns::Apart,
            ("link_secret", Named::Text(text)) => match Secret::from_hexadecimal(&text) {
                Some(secret) => self.link_secret = secret,
                None => return Err(Named::Text("(not shown)".into()).into()),
            },
            (
                "platform_name" | "cpu_device_count" | "memory_limit_bytes" | "threads" | "isa" | "partitions"
                | "node_id" | "num_nodes" | "node_address" | "link_secret",
                value,
            ) => return Err(value.into()),
            // Clients pass options of their own to every plugin.
            _ => {}
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            platform_name: DEFAULT_PLATFORM.into(),
            num_devices: 1,
            limit_bytes: None,
            threads: None,
            isa: None,
            partitions: PartitionRuns::default(),
            link_secret: Secret::none(),
            node_id: None,
            num_nodes: None,
            node_address: None,
        }
    }
}

/// Why a setting is not taken.
enum Refused {
    /// It cannot have this value.
    Value(Named),
    Because(Error),
}

impl From<Named> for Refused {
    fn from(value: Named) -> Refused {
        Refused::Value(value)
    }
}

fn refuse(name: &str, refused: Refused) -> Failure {
    Failure::invalid(match refused {
        Refused::Value(value) => format!("{name} cannot be {value:?}"),
        Refused::Because(error) => format!("{name}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[(&str, Named)], environment: &[(&str, &str)], expected: Option<(&str, usize, Option<u64>)>) {
        let options = options.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let look_up = |wanted: &str| environment.iter().find(|(name, _)| *name == wanted).map(|(_, v)| v.to_string());
        let settings = Settings::resolve(options, look_up).ok();
        let expected = expected.map(|(platform_name, num_devices, limit_bytes)| Settings {
            platform_name: platform_name.into(),
            num_devices,
            limit_bytes,
            ..Settings::default()
        });
        assert_eq!(settings, expected);
    }

    #[test]
    fn options_win_over_the_environment() {
        check(&[], &[], Some(("cpu", 1, None)));
        let environment = [
            ("TPUBRIDGE_CPU_DEVICE_COUNT", "4"),
            ("TPUBRIDGE_CPU_PLATFORM_NAME", "mine"),
            ("TPUBRIDGE_CPU_MEMORY_LIMIT_BYTES", "9"),
        ];
        check(&[], &environment, Some(("mine", 4, Some(9))));
        check(&[("cpu_device_count", Named::Text("3".into()))], &[], Some(("cpu", 3, None)));
        let options = [("cpu_device_count", Named::Int(2)), ("platform_name", Named::Text("other".into()))];
        check(&options, &environment, Some(("other", 2, Some(9))));
        check(&[("unknown", Named::Int(0))], &[], Some(("cpu", 1, None)));
        check(&[("partitions", Named::Text("alone".into()))], &[], None);
    }

    #[test]
    fn processes_are_named_completely() {
        let check = |options: &[(&str, i64)], expected: Result<Option<(usize, usize)>, ()>| {
            let options = options.iter().map(|(name, value)| (name.to_string(), Named::Int(*value))).collect();
            let node = Settings::resolve(options, |_| None).and_then(|settings| settings.node());
            assert_eq!(node.map(|node| node.map(|node| (node.id, node.count))).map_err(drop), expected);
        };
        check(&[], Ok(None));
        check(&[("node_id", 0), ("num_nodes", 1)], Ok(None));
        check(&[("node_id", 3), ("num_nodes", 4)], Ok(Some((3, 4))));
        check(&[("node_id", 4), ("num_nodes", 4)], Err(()));
        check(&[("node_id", 1)], Err(()));
        check(&[("num_nodes", 0)], Err(()));
    }

    #[test]
    fn nonsense_is_refused() {
        check(&[("cpu_device_count", Named::Int(0))], &[], None);
        check(&[("platform_name", Named::Text(String::new()))], &[], None);
        check(&[], &[("TPUBRIDGE_CPU_DEVICE_COUNT", "many")], None);
        check(&[], &[("TPUBRIDGE_CPU_MEMORY_LIMIT_BYTES", "-1")], None);
        let isa = |value: &str| {
            let settings = Settings::resolve(vec![("isa".into(), Named::Text(value.into()))], |_| None);
            settings.map(|settings| settings.isa).map_err(|failure| failure.message)
        };
        assert_eq!(isa("portable"), Ok(Some(CpuIsa::Portable)));
        let refused = isa("fast").unwrap_err();
        assert!(refused.starts_with("isa: `fast` is no instruction set tier; this CPU has portable"), "{refused}");
    }
}
