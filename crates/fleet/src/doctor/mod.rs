//! Doctor: an ordered list of checks of a machine, each answered with what was found and what to do about it.
//!
//! A check never fails as a function: whatever it finds, including files with odd contents, becomes a line of the
//! [`DoctorReport`]. Loading a plugin can hang or end the process, so the doctor does not do it: the caller passes a probe,
//! which should load the library in a child process. [`probe_file`] is one that only reads the file.

mod compute_metadata;
mod device_nodes;
mod elf;
mod environment;
mod lock_holder;
mod multi_host;
mod pci;
mod plugin;
mod ports;
mod process;
mod report;
mod resources;
mod software;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pjrt::discover::Search;

pub use plugin::{ProbeDepth, ProbeFindings, probe_file};
pub use report::{Check, DoctorReport, Status};

use crate::System;
use crate::managed::Home;

/// Whether checks may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// No connection is made.
    Offline,
    /// The metadata server of Google Compute is asked.
    Online {
        /// Its address.
        metadata_server: SocketAddr,
        /// How long it may take to connect, and then to answer.
        limit: Duration,
    },
}

impl Default for NetworkAccess {
    fn default() -> Self {
        let metadata_server = SocketAddr::from((Ipv4Addr::new(169, 254, 169, 254), 80));
        Self::Online { metadata_server, limit: Duration::from_millis(300) }
    }
}

/// What to examine, and how.
pub struct DoctorOptions<'a> {
    /// The machine.
    pub system: System,
    /// Plugins that were found, in the order they would be used; the first is probed.
    pub plugins: Search,
    /// Looks into a plugin.
    pub probe: &'a dyn Fn(&Path) -> Result<ProbeFindings, String>,
    /// Whether to use the network.
    pub network: NetworkAccess,
    /// The managed folder; `None` for the one the environment names.
    pub home: Option<Home>,
    /// Folder of the compile cache.
    pub cache_dir: Option<PathBuf>,
}

impl DoctorOptions<'_> {
    /// A machine, with the plugins discovery finds on it and a probe that loads nothing.
    pub fn new(system: System) -> Self {
        Self {
            plugins: pjrt::discover::plugins(&system.discovery()),
            system,
            probe: &probe_file,
            network: NetworkAccess::default(),
            home: None,
            cache_dir: None,
        }
    }
}

/// What several checks look at.
struct Context<'a> {
    options: &'a DoctorOptions<'a>,
    system: &'a System,
    tpus: Vec<pci::Tpu>,
}

type Examination = fn(&Context<'_>) -> Vec<Check>;

/// From what every command needs to what only some machines have, so that the first failure is the one to repair first.
const EXAMINATIONS: [Examination; 10] = [
    plugin::examine,
    software::examine,
    environment::examine,
    multi_host::examine,
    lock_holder::examine,
    pci::examine,
    device_nodes::examine,
    compute_metadata::examine,
    ports::examine,
    resources::examine,
];

/// Runs all checks.
pub fn examine(options: &DoctorOptions<'_>) -> DoctorReport {
    let context = Context { options, system: &options.system, tpus: pci::tpus(&options.system) };
    DoctorReport::new(EXAMINATIONS.iter().flat_map(|examination| examination(&context)).collect())
}
