//! How many processes, which of them this is, and where the store is: from arguments, our variables, JAX's, and those of
//! Cloud TPU and GKE; on a Cloud TPU virtual machine from its metadata server.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use channel::Secret;

use super::etcd_config::EtcdConfig;
use super::{metadata, tpu};
use crate::error::Error;
use crate::host::{Variable, tpu_chips};

/// The coordinator's port where nobody names one: that of JAX on Cloud TPU.
pub const DEFAULT_PORT: u16 = 8476;

/// Processes at most.
pub(super) const MAX_PROCESSES: usize = 4096;
const DEFAULT_HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(8);
const DEFAULT_JOIN_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) const PROCESSES: &str = "TPUBRIDGE_PROCESSES";
pub(super) const PROCESS_ID: &str = "TPUBRIDGE_PROCESS_ID";
pub(super) const COORDINATOR: &str = "TPUBRIDGE_COORDINATOR";
const HOST_ADDRESS: &str = "TPUBRIDGE_HOST_ADDRESS";
pub(super) const LISTEN_ADDRESS: &str = "TPUBRIDGE_LISTEN_ADDRESS";
pub(super) const RUN_ID: &str = "TPUBRIDGE_RUN_ID";
const MAX_RUN_ID_CHARS: usize = 64;
const HEARTBEAT_TIMEOUT: &str = "TPUBRIDGE_HEARTBEAT_TIMEOUT_SECONDS";
const JOIN_TIMEOUT: &str = "TPUBRIDGE_JOIN_TIMEOUT_SECONDS";

/// Where processes find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coordinator {
    /// Ours, which process 0 serves at this host and port.
    Own(String),
    /// An etcd server or cluster.
    Etcd(EtcdConfig),
}

/// What arguments say; what they leave out comes from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Number of processes.
    pub processes: Option<usize>,
    /// Which of them this is, from 0.
    pub process_id: Option<usize>,
    /// `HOST:PORT` of process 0, or `etcds://HOST:PORT,…/JOB`; `etcd://` for a server of the same machine.
    pub coordinator: Option<String>,
}

/// Several processes, and which of them this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiHostConfig {
    /// Number of processes, more than one.
    pub processes: usize,
    /// Which of them this is, from 0.
    pub process_id: usize,
    /// Where they find each other.
    pub coordinator: Coordinator,
    /// Where the others reach this process; `None` for the address it has towards the coordinator.
    pub host_address: Option<IpAddr>,
    /// Where process 0 serves the coordinator; `None` for the coordinator's own address, which then is one of this machine.
    pub listen_address: Option<IpAddr>,
    /// What all processes share, so that nobody else can be taken for one of them. Without it they stay on one machine.
    pub secret: Secret,
    /// Which run of the program this is, where its launcher says it: a process of another run is refused. Else process 0 draws one.
    pub run_id: Option<String>,
    /// Silence after which a process counts as gone. One that is killed is noticed at once.
    pub heartbeat_timeout: Duration,
    /// How long to wait for all processes.
    pub join_timeout: Duration,
    /// What libtpu needs to know of this process's place and neither the environment nor the metadata server tells it: empty on
    /// Cloud TPU and GKE as they are set up.
    pub tpu_environment: Vec<Variable>,
}

/// The hosts of the slice that this machine belongs to, by worker: from the environment, else from the metadata server where
/// one can be expected. Empty where this is no machine of a slice. Hosts of other slices are not known.
pub fn slice_hosts() -> Result<Vec<String>, Error> {
    let environment = |variable: &str| std::env::var(variable).ok();
    slice_hosts_of(&environment, || tpu_chips(Path::new("/")))
}

fn slice_hosts_of(
    environment: &impl Fn(&str) -> Option<String>,
    chips: impl FnOnce() -> usize,
) -> Result<Vec<String>, Error> {
    let said = match metadata::is_wanted(environment, chips) {
        true => metadata::read(&metadata::address(environment))?,
        false => metadata::Said::new(),
    };
    let names = environment(tpu::HOSTNAMES).or_else(|| said.get(tpu::HOSTNAMES).cloned()).unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.take(MAX_PROCESSES).map(ToString::to_string).collect())
}

/// A value and the name of what gave it.
struct Sourced<T> {
    value: T,
    source: String,
}

impl MultiHostConfig {
    /// `processes` of which this is `process_id`, with a coordinator as [`Given`] has it.
    pub fn new(processes: usize, process_id: usize, coordinator: &str) -> Result<MultiHostConfig, Error> {
        let given =
            Given { processes: Some(processes), process_id: Some(process_id), coordinator: Some(coordinator.into()) };
        let config = MultiHostConfig::resolve(&given, |_| None)?;
        config.ok_or_else(|| Error::Distributed("a single process needs no configuration for several".into()))
    }

    /// Reads what arguments leave out from the environment of this process, and on a machine with TPUs from its metadata
    /// server; `None` where there is one process.
    pub fn from_environment(given: &Given) -> Result<Option<MultiHostConfig>, Error> {
        let environment = |variable: &str| std::env::var(variable).ok();
        let is_all_said = given.process_id.is_some() && given.processes.is_some() && given.coordinator.is_some();
        let chips = || tpu_chips(Path::new("/"));
        if is_all_said && chips() == 0 || !metadata::is_wanted(&environment, chips) {
            return MultiHostConfig::resolve(given, environment);
        }
        MultiHostConfig::from_metadata(given, environment)
    }

    /// As [`resolve`](Self::resolve); what the environment leaves out too is asked of the metadata server that it names
    /// (`GCE_METADATA_HOST`), or of the usual one. The server is not waited for long, and not reached through a proxy.
    pub fn from_metadata(
        given: &Given,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<MultiHostConfig>, Error> {
        let said = metadata::read(&metadata::address(&environment))?;
        MultiHostConfig::resolve(given, |variable| environment(variable).or_else(|| said.get(variable).cloned()))
    }

    /// As [`from_environment`](Self::from_environment), with an environment of the caller's.
    pub fn resolve(
        given: &Given,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<MultiHostConfig>, Error> {
        let environment = |variable: &str| environment(variable).filter(|text| !text.trim().is_empty());
        let tpu = tpu::Hosts::read(&environment)?;
        let number =
            |given: Option<usize>, flag: &str, variables: [&str; 2]| -> Result<Option<Sourced<usize>>, Error> {
                if let Some(value) = given {
                    return Ok(Some(Sourced { value, source: flag.into() }));
                }
                for variable in variables {
                    if let Some(text) = environment(variable) {
                        return Ok(Some(Sourced { value: parse_number(variable, &text)?, source: variable.into() }));
                    }
                }
                Ok(None)
            };
        let processes = number(given.processes, "--processes", [PROCESSES, "JAX_NUM_PROCESSES"])?;
        let id = number(given.process_id, "--process-id", [PROCESS_ID, "JAX_PROCESS_ID"])?;
        let coordinator = given.coordinator.clone().map(|value| Sourced { value, source: "--coordinator".into() });
        let coordinator = coordinator.or_else(|| {
            let of = |variable: &str| environment(variable).map(|value| Sourced { value, source: variable.into() });
            of(COORDINATOR).or_else(|| of("JAX_COORDINATOR_ADDRESS"))
        });
        let is_named = processes.is_some() || id.is_some() || coordinator.is_some();
        let processes = processes.or_else(|| {
            let hosts = tpu.as_ref()?;
            Some(Sourced { value: hosts.processes(), source: tpu::HOSTNAMES.into() })
        });
        let is_id_named = id.is_some();
        let id = id.or_else(|| Some(Sourced { value: tpu.as_ref()?.process_id(), source: tpu::WORKER_ID.into() }));
        let Some(processes) = processes else {
            return match is_named {
                true => Err(missing("the number of processes", "--processes", PROCESSES)),
                false => Ok(None),
            };
        };
        if !(1..=MAX_PROCESSES).contains(&processes.value) {
            let message = format!("{} is {}: give 1 to {MAX_PROCESSES}", processes.source, processes.value);
            return Err(Error::Distributed(message));
        }
        // One process is one process, also on a host of several.
        if processes.value == 1 && (!is_id_named || id.as_ref().is_none_or(|id| id.value == 0)) {
            return Ok(None);
        }
        let id = id.ok_or_else(|| missing("which process this is", "--process-id", PROCESS_ID))?;
        if id.value >= processes.value {
            return Err(Error::Distributed(format!(
                "{} is {}, and {} is {}: processes are numbered from 0 to {}",
                id.source,
                id.value,
                processes.source,
                processes.value,
                processes.value - 1
            )));
        }
        let tpu = match tpu {
            Some(hosts) if hosts.processes() != processes.value && environment(tpu::ADDRESSES).is_none() => {
                hosts.in_slices_of(processes.value, id.value).or(Some(hosts))
            }
            other => other,
        };
        if let Some(hosts) = tpu.as_ref().filter(|hosts| hosts.processes() > 1 && hosts.processes() != processes.value)
        {
            return Err(Error::Distributed(format!(
                "{} says {} processes, but {} names {}: start one process on each host",
                processes.source,
                processes.value,
                tpu::HOSTNAMES,
                hosts.processes()
            )));
        }
        let coordinator = match coordinator {
            Some(Sourced { value, source }) => parse_coordinator(&source, &value, &environment)?,
            None => match tpu.as_ref().map(tpu::Hosts::coordinator) {
                Some(host) => Coordinator::Own(with_port(&host)),
                None => return Err(missing("where the processes meet", "--coordinator", COORDINATOR)),
            },
        };
        let tpu_environment = match &tpu {
            Some(hosts) if hosts.processes() == processes.value => {
                let leader = match &coordinator {
                    Coordinator::Own(address) => address.rsplit_once(':').map(|(host, _)| host),
                    Coordinator::Etcd(_) => None,
                };
                hosts.variables(leader).into_iter().filter(|needed| environment(needed.name).is_none()).collect()
            }
            _ => Vec::new(),
        };
        let address = |variable: &str| -> Result<Option<IpAddr>, Error> {
            let wrong = |text: &str| Error::Distributed(format!("{variable} is `{text}`: give an IP address"));
            environment(variable).map(|text| text.trim().parse().map_err(|_| wrong(&text))).transpose()
        };
        let run_id = environment(RUN_ID).map(|text| text.trim().to_string());
        if let Some(id) = run_id.as_ref().filter(|id| !id.chars().all(is_plain) || id.len() > MAX_RUN_ID_CHARS) {
            return Err(Error::Distributed(format!(
                "{RUN_ID} is `{id}`: give up to {MAX_RUN_ID_CHARS} letters, digits, `-`, `_` and `.`"
            )));
        }
        let seconds = |variable: &str, default: Duration| match environment(variable) {
            None => Ok(default),
            Some(text) => match text.parse::<f64>() {
                Ok(seconds) if (0.1..=86400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
                _ => Err(Error::Distributed(format!("{variable} is `{text}`: give seconds, 0.1 to 86400"))),
            },
        };
        Ok(Some(MultiHostConfig {
            processes: processes.value,
            process_id: id.value,
            coordinator,
            host_address: address(HOST_ADDRESS)?,
            listen_address: address(LISTEN_ADDRESS)?,
            secret: Secret::from_environment(environment).map_err(Error::Distributed)?,
            run_id,
            heartbeat_timeout: seconds(HEARTBEAT_TIMEOUT, DEFAULT_HEARTBEAT_TIMEOUT)?,
            join_timeout: seconds(JOIN_TIMEOUT, DEFAULT_JOIN_TIMEOUT)?,
            tpu_environment,
        }))
    }
}

fn missing(what: &str, flag: &str, variable: &str) -> Error {
    Error::Distributed(format!("{what} is not said: give {flag} or set {variable}"))
}

pub(super) fn parse_number(variable: &str, text: &str) -> Result<usize, Error> {
    text.trim().parse().map_err(|_| Error::Distributed(format!("{variable} is `{text}`: give a number")))
}

fn with_port(host: &str) -> String {
    match host.rsplit_once(':') {
        Some((before, port)) if port.parse::<u16>().is_ok() && !before.contains(':') => host.to_string(),
        _ if host.starts_with('[') && host.contains("]:") => host.to_string(),
        _ if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{DEFAULT_PORT}"),
        _ => format!("{host}:{DEFAULT_PORT}"),
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

fn parse_coordinator(
    source: &str,
    text: &str,
    environment: &impl Fn(&str) -> Option<String>,
) -> Result<Coordinator, Error> {
    let wrong = || {
        let message =
            format!("{source} is `{text}`: give HOST:PORT of process 0, or etcds://HOST:PORT,…/JOB for an etcd server");
        Error::Distributed(message)
    };
    let text = text.trim();
    match text.split_once("://") {
        Some((scheme @ ("etcd" | "etcds"), rest)) => {
            EtcdConfig::read(scheme, rest, environment)?.map(Coordinator::Etcd).ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
        None if text.is_empty() || text.contains(['/', ' ']) => Err(wrong()),
        None => Ok(Coordinator::Own(with_port(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: &Given, environment: &[(&str, &str)]) -> Result<Option<MultiHostConfig>, String> {
        let look = |wanted: &str| environment.iter().find(|(name, _)| *name == wanted).map(|(_, v)| v.to_string());
        MultiHostConfig::resolve(given, look).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(environment: &[(&str, &str)], expected: Option<(usize, usize, &str)>) {
        let config = resolve(&Given::default(), environment).unwrap();
        let expected = expected.map(|(n, id, at)| (n, id, Coordinator::Own(at.to_string())));
        assert_eq!(config.map(|config| (config.processes, config.process_id, config.coordinator)), expected);
    }

    #[test]
    fn environments_of_several_kinds_are_read() {
        check(&[], None);
        check(&[(PROCESSES, "1")], None);
        check(&[(PROCESSES, "4"), (PROCESS_ID, "3"), (COORDINATOR, "a:5")], Some((4, 3, "a:5")));
        let jax = [("JAX_NUM_PROCESSES", "2"), ("JAX_PROCESS_ID", "1"), ("JAX_COORDINATOR_ADDRESS", "h:99")];
        check(&jax, Some((2, 1, "h:99")));
        check(&[("TPU_WORKER_ID", "1"), ("TPU_WORKER_HOSTNAMES", "t-0,t-1")], Some((2, 1, "t-0:8476")));
        check(&[("TPU_WORKER_ID", "0"), ("TPU_WORKER_HOSTNAMES", "localhost")], None);
        check(&[("TPU_WORKER_ID", "1"), ("TPU_WORKER_HOSTNAMES", "a,b"), (PROCESSES, "1")], None);
        let slices = [
            ("TPU_WORKER_ID", "1"),
            ("TPU_WORKER_HOSTNAMES", "t-0,t-1"),
            ("MEGASCALE_NUM_SLICES", "2"),
            ("MEGASCALE_SLICE_ID", "1"),
            ("MEGASCALE_COORDINATOR_ADDRESS", "first:8080"),
        ];
        check(&slices, Some((4, 3, "first:8476")));
        check(&[(PROCESSES, "2"), (PROCESS_ID, "0"), (COORDINATOR, "::1")], Some((2, 0, "[::1]:8476")));
    }

    #[test]
    fn slices_that_the_number_of_processes_tells() {
        let missing = |environment: &[(&str, &str)]| -> Vec<String> {
            let config = resolve(&Given::default(), environment).unwrap().unwrap();
            config.tpu_environment.iter().map(|variable| format!("{}={}", variable.name, variable.value)).collect()
        };
        let hosts = [("TPU_WORKER_HOSTNAMES", "c,d"), ("TPU_WORKER_ID", "1")];
        let by_hand = [(PROCESSES, "4"), (PROCESS_ID, "3"), (COORDINATOR, "a:5")];
        let lines = missing(&[hosts.as_slice(), &by_hand].concat());
        let megascale = ["MEGASCALE_NUM_SLICES=2", "MEGASCALE_SLICE_ID=1", "MEGASCALE_COORDINATOR_ADDRESS=a:8080"]
            .map(String::from);
        assert_eq!(lines, megascale);
        // What is set stays, and one slice needs nothing.
        let set = [("MEGASCALE_COORDINATOR_ADDRESS", "first:9")];
        assert_eq!(missing(&[hosts.as_slice(), &by_hand, &set].concat()), megascale[..2]);
        assert_eq!(missing(&hosts), Vec::<String>::new());
        // Slices of one host each.
        let lines = missing(&[&[("TPU_WORKER_HOSTNAMES", "c")], by_hand.as_slice()].concat());
        assert_eq!(lines, ["TPU_WORKER_ID=0", "MEGASCALE_NUM_SLICES=4", "MEGASCALE_SLICE_ID=3", &megascale[2]]);
        // The place in the slice is not that among all.
        let other = [(PROCESSES, "4"), (PROCESS_ID, "2"), (COORDINATOR, "a:5")];
        let message = resolve(&Given::default(), &[hosts.as_slice(), &other].concat()).unwrap_err();
        assert!(message.contains("TPU_WORKER_HOSTNAMES"), "{message}");
    }

    #[test]
    fn arguments_win() {
        let given = Given { processes: Some(2), process_id: Some(0), coordinator: Some("etcd://e:2379/run-7".into()) };
        let config = resolve(&given, &[(PROCESSES, "8"), (PROCESS_ID, "7"), (COORDINATOR, "x:1")]).unwrap().unwrap();
        assert_eq!((config.processes, config.process_id), (2, 0));
        let Coordinator::Etcd(etcd) = config.coordinator else { panic!("{:?}", config.coordinator) };
        assert_eq!((etcd.endpoints, &*etcd.job), (vec!["e:2379".to_string()], "run-7"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_helps() {
        let refused = |environment: &[(&str, &str)], parts: &[&str]| {
            let message = resolve(&Given::default(), environment).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{message}");
            }
        };
        refused(&[(PROCESSES, "four")], &[PROCESSES, "`four`", "give a number"]);
        refused(&[(PROCESSES, "4")], &["--process-id", PROCESS_ID]);
        refused(&[(PROCESS_ID, "1")], &["--processes", PROCESSES]);
        refused(&[(PROCESSES, "4"), (PROCESS_ID, "1")], &["--coordinator", COORDINATOR]);
        refused(&[(PROCESSES, "4"), (PROCESS_ID, "4"), (COORDINATOR, "a:1")], &[PROCESS_ID, "from 0 to 3"]);
        refused(&[(PROCESSES, "0")], &[PROCESSES, "1 to"]);
        refused(&[(PROCESSES, "2"), (PROCESS_ID, "0"), (COORDINATOR, "http://a")], &[COORDINATOR, "HOST:PORT"]);
        let two = [(PROCESSES, "2"), (PROCESS_ID, "0"), (COORDINATOR, "a:1")];
        let with = |name, value| [two.as_slice(), &[(name, value)]].concat();
        refused(&with(channel::SECRET, "secret"), &[channel::SECRET, "tpu config secret"]);
        refused(&with(RUN_ID, "a b"), &[RUN_ID, "letters"]);
        refused(&with(LISTEN_ADDRESS, "all"), &[LISTEN_ADDRESS, "IP address"]);
        refused(&[("TPU_WORKER_HOSTNAMES", "a,b")], &["TPU_WORKER_ID"]);
        refused(&[("TPU_WORKER_HOSTNAMES", "a,b"), ("TPU_WORKER_ID", "2")], &["TPU_WORKER_ID", "2 hosts"]);
        refused(&[("MEGASCALE_NUM_SLICES", "2")], &["MEGASCALE_SLICE_ID"]);
        let three = [("TPU_WORKER_HOSTNAMES", "a,b"), ("TPU_WORKER_ID", "1"), (PROCESSES, "3")];
        refused(&three, &[PROCESSES, "TPU_WORKER_HOSTNAMES"]);
    }
}
