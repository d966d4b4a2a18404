//! What Cloud TPU and GKE tell a process of its slice, and of the slices beside it. libtpu reads the same variables.

use super::config::parse_number;
use crate::error::Error;
use crate::host::Variable;

pub(super) const WORKER_ID: &str = "TPU_WORKER_ID";
pub(super) const HOSTNAMES: &str = "TPU_WORKER_HOSTNAMES";
pub(super) const NUM_SLICES: &str = "MEGASCALE_NUM_SLICES";
pub(super) const SLICE_ID: &str = "MEGASCALE_SLICE_ID";
pub(super) const MEGASCALE_COORDINATOR: &str = "MEGASCALE_COORDINATOR_ADDRESS";
/// Set where libtpu, and we, must not ask the metadata server.
pub(super) const SKIP_METADATA: &str = "TPU_SKIP_MDS_QUERY";
/// Set where the user arranges processes and chips by hand.
pub(super) const ADDRESSES: &str = "TPU_PROCESS_ADDRESSES";
/// The port at which the first host leads the network between slices, where nobody names one.
const MEGASCALE_PORT: u16 = 8080;

/// The hosts of the slices a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hosts {
    worker_id: usize,
    /// Of this slice, by worker.
    hostnames: Vec<String>,
    slice_id: usize,
    num_slices: usize,
    /// Host of the first slice that runs the coordinator of the network between slices.
    megascale_coordinator: Option<String>,
}

impl Hosts {
    /// `None` where the environment is not that of a slice.
    pub(super) fn read(environment: &impl Fn(&str) -> Option<String>) -> Result<Option<Hosts>, Error> {
        let number = |variable: &str| environment(variable).map(|text| parse_number(variable, &text)).transpose();
        let needed = |variable: &str, because: &str| {
            Error::Distributed(format!("{variable} is not set, but {because} is: set both, or neither"))
        };
        let num_slices = number(NUM_SLICES)?.unwrap_or(1);
        let slice_id = match (number(SLICE_ID)?, num_slices) {
            (Some(id), slices) if id < slices => id,
            (Some(id), slices) => {
                let message = format!("{SLICE_ID} is {id}, and {NUM_SLICES} is {slices}: slices are numbered from 0");
                return Err(Error::Distributed(message));
            }
            (None, 1) => 0,
            (None, _) => return Err(needed(SLICE_ID, NUM_SLICES)),
        };
        let Some(hostnames) = environment(HOSTNAMES) else {
            return match num_slices {
                1 => Ok(None),
                _ => Err(needed(HOSTNAMES, NUM_SLICES)),
            };
        };
        let hostnames: Vec<String> =
            hostnames.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
        let worker_id = match (number(WORKER_ID)?, hostnames.len()) {
            (Some(id), hosts) if id < hosts => id,
            (Some(id), hosts) => {
                let message = format!("{WORKER_ID} is {id}, but {HOSTNAMES} names {hosts} hosts: number them from 0");
                return Err(Error::Distributed(message));
            }
            (None, 1) => 0,
            (None, _) => return Err(needed(WORKER_ID, HOSTNAMES)),
        };
        let megascale_coordinator = environment(MEGASCALE_COORDINATOR);
        if num_slices > 1 && megascale_coordinator.is_none() {
            return Err(needed(MEGASCALE_COORDINATOR, NUM_SLICES));
        }
        Ok(Some(Hosts { worker_id, hostnames, slice_id, num_slices, megascale_coordinator }))
    }

    /// As many slices as make up these processes, where only the hosts of one slice are known: what the user says of
    /// processes then says how many slices there are. `None` where the numbers do not fit.
    pub(super) fn in_slices_of(&self, processes: usize, process_id: usize) -> Option<Hosts> {
        let hosts = self.hostnames.len();
        // Processes of one host that share its chips are no slices.
        if self.hostnames.iter().any(|name| name == "localhost" || name.starts_with("127.")) {
            return None;
        }
        let fits = self.num_slices == 1 && processes.is_multiple_of(hosts) && process_id % hosts == self.worker_id;
        fits.then(|| Hosts { slice_id: process_id / hosts, num_slices: processes / hosts, ..self.clone() })
    }

    /// Variables that libtpu needs for several slices, or where it must not ask the metadata server, with their values.
    /// `leader` is the host of process 0.
    pub(super) fn variables(&self, leader: Option<&str>) -> Vec<Variable> {
        let mut variables = vec![
            Variable { name: WORKER_ID, value: self.worker_id.to_string(), why: "which host of the slice this is" },
            Variable { name: HOSTNAMES, value: self.hostnames.join(","), why: "the hosts of the slice" },
        ];
        if self.num_slices > 1 {
            let slices = "without it libtpu takes its slice for the only one";
            variables.extend([
                Variable { name: NUM_SLICES, value: self.num_slices.to_string(), why: slices },
                Variable { name: SLICE_ID, value: self.slice_id.to_string(), why: "which slice this is" },
            ]);
            let named = self.megascale_coordinator.clone();
            let address = named.or_else(|| leader.map(|host| format!("{host}:{MEGASCALE_PORT}")));
            variables.extend(address.map(|value| Variable {
                name: MEGASCALE_COORDINATOR,
                value,
                why: "where slices find each other: a host of the first slice",
            }));
        }
        variables
    }

    /// Processes of all slices, one for each host.
    pub(super) fn processes(&self) -> usize {
        self.hostnames.len().saturating_mul(self.num_slices)
    }

    /// The number of this process among all.
    pub(super) fn process_id(&self) -> usize {
        self.slice_id.saturating_mul(self.hostnames.len()).saturating_add(self.worker_id)
    }

    /// The host of process 0: the one that also leads the network between slices, where there are several.
    pub(super) fn coordinator(&self) -> String {
        match &self.megascale_coordinator {
            Some(address) if self.num_slices > 1 => {
                address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_string()
            }
            _ => self.hostnames.first().cloned().unwrap_or_default(),
        }
    }
}
