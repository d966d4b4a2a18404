//! The processes of a client: who they are, which devices they have, and how their arrays come together for a launch.

mod exchange;
mod link;
mod store;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pjrt_sys::{PJRT_Error_Code_DEADLINE_EXCEEDED, PJRT_Error_Code_UNAVAILABLE};

pub(super) use exchange::Group;
pub(super) use store::Store;

use channel::{Channel, SECRET_FILE, Secret};

use super::call::Failure;
use super::settings::{Node, Settings};
use exchange::State;
use link::Listening;

/// How long a process waits for the others to appear. A store that hears of one that is gone ends the wait earlier.
const JOIN_TIMEOUT: Duration = Duration::from_secs(300);
/// Characters of what tells the links of one client from those of others, at most.
const MAX_TOKEN_CHARS: usize = 64;
/// Devices of all processes together at most.
const MAX_DEVICES: usize = 1 << 16;

/// The processes of a client and the connections to them.
pub(super) struct Processes {
    node: usize,
    /// Devices of each process.
    counts: Vec<usize>,
    store: Store,
    state: Mutex<State>,
}

impl Processes {
    /// Tells the others of this process, waits for all of them, and connects to each.
    pub(super) fn join(settings: &Settings, node: &Node, store: Store) -> Result<Processes, Failure> {
        let ip = node.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(PJRT_Error_Code_UNAVAILABLE, format!("process {}: {what} {ip}: {error}", node.id))
        };
        let secret = &settings.link_secret;
        if !secret.allows(ip) {
            return Err(Failure::invalid(format!(
                "{ip} is not on the loopback interface, and there is no secret for links between processes: \
                 `tpu config secret > FILE` makes one, {SECRET_FILE}=FILE gives it to a process"
            )));
        }
        let listener = TcpListener::bind((ip, 0)).map_err(|error| cannot("listening on", &error))?;
        let address = listener.local_addr().map_err(|error| cannot("listening on", &error))?;
        let token = Secret::fresh_name().map_err(Failure::internal)?;
        let listening = Listening::start(listener, secret, &token);
        let listening = listening.map_err(|error| cannot("listening on", &error))?;
        let me = Entry { devices: settings.num_devices, address, token };
        store.put(&key(node.id), me.write().as_bytes())?;
        let deadline = Instant::now() + JOIN_TIMEOUT;
        let mut entries = Vec::with_capacity(node.count);
        for id in 0..node.count {
            let left = deadline.saturating_duration_since(Instant::now());
            let value = store.get(&key(id), left)?;
            let entry = Entry::read(&value).ok_or_else(|| {
                Failure::invalid(format!("process {id} says of itself what this version does not read"))
            })?;
            entries.push(entry);
        }
        let counts: Vec<usize> = entries.iter().map(|entry| entry.devices).collect();
        if counts.iter().sum::<usize>() > MAX_DEVICES {
            return Err(Failure::invalid(format!("the processes have more than {MAX_DEVICES} devices together")));
        }
        let mut links: Vec<Option<Channel>> = (0..node.count).map(|_| None).collect();
        for (id, entry) in entries.iter().enumerate().take(node.id) {
            let connected = link::connect(entry.address, secret, &entry.token, node.id, deadline, &|| store.check());
            links[id] = Some(connected.map_err(|failure| naming(id, entry.address, &failure))?);
        }
        while links.iter().skip(node.id + 1).any(Option::is_none) {
            if Instant::now() > deadline {
                let missing = (node.id + 1..node.count).filter(|&id| links[id].is_none());
                let missing: Vec<String> = missing.map(|id| id.to_string()).collect();
                return Err(Failure::new(
                    PJRT_Error_Code_DEADLINE_EXCEEDED,
                    format!("no connection from process {} to {address}", missing.join(", ")),
                ));
            }
            store.check()?;
            // Strangers are turned away.
            if let Some((id, link)) = listening.next()
                && id > node.id
                && let Some(place @ None) = links.get_mut(id)
            {
                *place = Some(link);
            }
        }
        Ok(Processes { node: node.id, counts, store, state: Mutex::new(State::new(links)) })
    }

    /// The process that runs this.
    pub(super) fn node(&self) -> usize {
        self.node
    }

    /// Devices of each process.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The devices of this process.
    pub(super) fn local(&self) -> Range<usize> {
        let first = self.counts[..self.node].iter().sum();
        first..first + self.counts[self.node]
    }

    /// The process a device belongs to.
    fn of_device(&self, device: usize) -> usize {
        let mut end = 0;
        let holds = |count: &usize| {
            end += count;
            device < end
        };
        self.counts.iter().position(holds).unwrap_or(0)
    }

    /// The client ends: nobody is asked or told anything any more.
    pub(super) fn close(&self) {
        self.store.close();
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).close();
    }
}

fn key(id: usize) -> String {
    format!("cpu/process/{id}")
}

/// A failure that has to do with another process.
fn naming(id: usize, address: SocketAddr, failure: &Failure) -> Failure {
    Failure::new(failure.code, format!("process {id} ({address}): {}", failure.message))
}

/// What a process tells the others.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    devices: usize,
    address: SocketAddr,
    /// What tells the links of this client from those of others, and those of this run from those of others.
    token: String,
}

impl Entry {
    /// One line; the first word is the format's version.
    fn write(&self) -> String {
        format!("2 {} {} {}", self.devices, self.address, self.token)
    }

    fn read(bytes: &[u8]) -> Option<Entry> {
        let text = std::str::from_utf8(bytes).ok()?;
        let [version, devices, address, token] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
        if version != "2" || !(1..=MAX_TOKEN_CHARS).contains(&token.len()) {
            return None;
        }
        let devices = devices.parse().ok().filter(|count| (1..=MAX_DEVICES).contains(count))?;
        Some(Entry { devices, address: address.parse().ok()?, token: token.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_written_and_nonsense_is_not() {
        let entry =
            Entry { devices: 3, address: "10.0.0.7:4100".parse().unwrap(), token: Secret::fresh_name().unwrap() };
        assert_eq!(Entry::read(entry.write().as_bytes()), Some(entry));
        for text in ["", "2 2", "1 3 1.1.1.1:1 00", "2 0 1.1.1.1:1 00", "2 3 1.1.1.1:1 ", "2 é é é"] {
            assert_eq!(Entry::read(text.as_bytes()), None, "{text}");
        }
    }
}
