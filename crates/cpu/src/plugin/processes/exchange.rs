//! Arrays of several processes for one launch: each sends the parts that others lack, and gets those it lacks.
//!
//! Every process then runs the whole program, as one process does, and keeps the results of its own devices.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use channel::Channel;
use pjrt_sys::{PJRT_Error_Code_CANCELLED, PJRT_Error_Code_RESOURCE_EXHAUSTED, PJRT_Error_Code_UNAVAILABLE};

use super::{Processes, link};
use crate::engine::{Compiled, PortType};
use crate::memory::Array;
use crate::plugin::call::Failure;
use crate::plugin::client::Client;

/// How long the store is asked which process is gone, after a connection failed.
const NAMING_TRIES: usize = 20;
const NAMING_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a program's fingerprint.
const FINGERPRINT_BYTES: usize = 64;
const HEADER_BYTES: usize = 8 + FINGERPRINT_BYTES + 8;

/// Connections to the other processes and how often each was used.
pub(super) struct State {
    links: Vec<Option<Channel>>,
    exchanges: Vec<u64>,
    /// After a failure nobody knows what the others have seen: nothing goes on.
    failed: Option<Failure>,
}

impl State {
    pub(super) fn new(links: Vec<Option<Channel>>) -> State {
        State { exchanges: vec![0; links.len()], links, failed: None }
    }

    pub(super) fn close(&mut self) {
        for link in self.links.iter_mut().filter_map(Option::take) {
            link.close();
        }
    }
}

/// The devices of a program that are in several processes.
pub(in crate::plugin) struct Group {
    client: Arc<Client>,
    /// By `[replica][partition]`.
    devices: Vec<usize>,
    /// Those of this process, as places in `devices`.
    local: Vec<usize>,
}

/// A part of an argument that goes over the network: sent by the first process that has it.
struct Sent {
    argument: usize,
    part: usize,
    from: usize,
    /// A device of the sender that has it.
    device: usize,
    bytes: usize,
}

impl Group {
    /// `None` where all devices are of this process.
    pub(in crate::plugin) fn new(client: &Arc<Client>, devices: &[usize], local: &[usize]) -> Option<Group> {
        let is_spread = client.processes.is_some() && local.len() < devices.len();
        is_spread.then(|| Group { client: client.clone(), devices: devices.to_vec(), local: local.to_vec() })
    }

    /// Runs a program with the arguments of this process's devices; gives their results. A failure ends the
    /// connections, so that no other process waits for us.
    pub(in crate::plugin) fn run(
        &self,
        fingerprint: &str,
        compiled: &Compiled,
        arguments: Result<Vec<Vec<Array>>, Failure>,
        run: impl FnOnce(Vec<Vec<Array>>) -> Result<Vec<Vec<Array>>, Failure>,
    ) -> Result<Vec<Vec<Array>>, Failure> {
        let Some(processes) = &self.client.processes else {
            return Err(Failure::internal("a program of several processes in a client of one"));
        };
        let mut state = processes.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let ran = arguments
            .and_then(|arguments| self.gather(processes, &mut state, fingerprint, compiled, arguments))
            .and_then(run);
        match ran {
            Ok(results) => {
                let mut results: Vec<Option<Vec<Array>>> = results.into_iter().map(Some).collect();
                let mut take = |place: &usize| results.get_mut(*place).and_then(Option::take);
                let mine = self.local.iter().map(&mut take).collect::<Option<Vec<_>>>();
                mine.ok_or_else(|| Failure::internal("a device without results"))
            }
            Err(failure) => {
                state.close();
                state.failed = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// The arguments of all devices, from those of this process's.
    fn gather(
        &self,
        processes: &Processes,
        state: &mut State,
        fingerprint: &str,
        compiled: &Compiled,
        arguments: Vec<Vec<Array>>,
    ) -> Result<Vec<Vec<Array>>, Failure> {
        let owners: Vec<usize> = self.devices.iter().map(|&device| processes.of_device(device)).collect();
        let mut others: Vec<usize> = owners.iter().copied().filter(|&owner| owner != processes.node).collect();
        others.sort_unstable();
        others.dedup();
        let plan = plan(compiled, &owners, others.len() + 1)?;
        let place = |device: usize| self.local.iter().position(|&local| local == device);
        let mine = plan.iter().filter(|sent| sent.from == processes.node).map(|sent| {
            let array = place(sent.device).and_then(|n| arguments.get(n)?.get(sent.argument));
            let array = array.ok_or_else(|| Failure::internal("a part that is not here"))?;
            let bytes = array.bytes();
            match bytes.len() == sent.bytes {
                true => Ok(bytes),
                false => Err(Failure::internal("a part of another size than the program says")),
            }
        });
        let mine = mine.collect::<Result<Vec<Cow<'_, [u8]>>, Failure>>()?;
        let mine: Vec<&[u8]> = mine.iter().map(|bytes| &**bytes).collect();
        let expected = |from: usize| plan.iter().filter(|sent| sent.from == from).map(|sent| sent.bytes).sum();
        let expected: Vec<(usize, usize)> = others.iter().map(|&from| (from, expected(from))).collect();
        let received = all_gather(processes, state, fingerprint, &mine, &expected)?;
        // What is known of each argument, by part.
        let mut known: Vec<HashMap<usize, Array>> = vec![HashMap::new(); compiled.arguments().len()];
        for (list, &device) in arguments.iter().zip(&self.local) {
            for (argument, array) in list.iter().enumerate() {
                known[argument].entry(compiled.part_of(argument, device)).or_insert_with(|| array.clone());
            }
        }
        for ((from, _), bytes) in expected.iter().zip(&received) {
            let mut rest = &bytes[..];
            for sent in plan.iter().filter(|sent| sent.from == *from) {
                let (part, after) = rest.split_at(sent.bytes);
                rest = after;
                let array = compiled.argument_from_bytes(sent.argument, part)?;
                known[sent.argument].entry(sent.part).or_insert(array);
            }
        }
        let of_device = |device: usize| {
            let of_argument = |(argument, parts): (usize, &HashMap<usize, Array>)| {
                parts.get(&compiled.part_of(argument, device)).cloned()
            };
            known.iter().enumerate().map(of_argument).collect::<Option<Vec<Array>>>()
        };
        let lists = (0..self.devices.len()).map(of_device).collect::<Option<Vec<_>>>();
        lists.ok_or_else(|| Failure::internal("a part that no process sent"))
    }
}

/// What is sent, the same in every process: parts that not every process has.
fn plan(compiled: &Compiled, owners: &[usize], num_processes: usize) -> Result<Vec<Sent>, Failure> {
    let mut plan = Vec::new();
    for (argument, port) in compiled.arguments().iter().enumerate() {
        // By part: the first device that has it, and the processes that do.
        let mut holders: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (device, &owner) in owners.iter().enumerate() {
            let part = compiled.part_of(argument, device);
            match holders.iter_mut().find(|(have, ..)| *have == part) {
                Some((_, _, by)) if by.contains(&owner) => {}
                Some((_, _, by)) => by.push(owner),
                None => holders.push((part, device, vec![owner])),
            }
        }
        for (part, device, by) in holders.into_iter().filter(|(_, _, by)| by.len() < num_processes) {
            let bytes = match port {
                PortType::Array(..) => port.host_bytes(),
                PortType::Token => Some(0),
            };
            let bytes = bytes.ok_or_else(|| {
                Failure::unimplemented(format!(
                    "argument {argument} of several processes with a size only the run tells"
                ))
            })?;
            plan.push(Sent { argument, part, from: by[0], device, bytes });
        }
    }
    Ok(plan)
}

/// Sends `mine` to each of the others, and gets from each as many bytes as expected.
fn all_gather(
    processes: &Processes,
    state: &mut State,
    fingerprint: &str,
    mine: &[&[u8]],
    expected: &[(usize, usize)],
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut name = [0; FINGERPRINT_BYTES];
    name.iter_mut().zip(fingerprint.bytes()).for_each(|(to, from)| *to = from);
    let stop = AtomicBool::new(false);
    let look = || match stop.load(Ordering::Relaxed) {
        true => Err(link::given_up()),
        false => processes.store.check(),
    };
    let length: usize = mine.iter().map(|part| part.len()).sum();
    let mut failures = Vec::new();
    let mut received = Vec::with_capacity(expected.len());
    let State { links, exchanges, .. } = state;
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(expected.len());
        for &(peer, bytes) in expected {
            let Some(link) = links.get(peer).and_then(Option::as_ref) else {
                failures.push((peer, Failure::new(PJRT_Error_Code_UNAVAILABLE, "there is no connection to it")));
                continue;
            };
            let number = exchanges[peer];
            let (look, stop) = (&look, &stop);
            let send = move || {
                let mut header = Vec::with_capacity(HEADER_BYTES);
                header.extend(number.to_le_bytes());
                header.extend(name);
                header.extend((length as u64).to_le_bytes());
                link::write(link, &[&header], look)?;
                link::write(link, mine, look)
            };
            let receive = move || {
                let mut header = [0; HEADER_BYTES];
                link::read(link, &mut header, look)?;
                let mut wanted = Vec::with_capacity(HEADER_BYTES);
                wanted.extend(number.to_le_bytes());
                wanted.extend(name);
                wanted.extend((bytes as u64).to_le_bytes());
                if header[..] != wanted[..] {
                    return Err(Failure::invalid(
                        "it runs another program: all processes must launch the same programs in the same order",
                    ));
                }
                let mut arrays = Vec::new();
                if arrays.try_reserve_exact(bytes).is_err() {
                    let message = format!("no memory for the {bytes} bytes it sends");
                    return Err(Failure::new(PJRT_Error_Code_RESOURCE_EXHAUSTED, message));
                }
                arrays.resize(bytes, 0);
                link::read(link, &mut arrays, look)?;
                Ok(arrays)
            };
            let stopping = move |failure: Failure| {
                stop.store(true, Ordering::Relaxed);
                failure
            };
            let sender = scope.spawn(move || send().map_err(stopping));
            let receiver = scope.spawn(move || receive().map_err(stopping));
            threads.push((peer, sender, receiver));
        }
        if !failures.is_empty() {
            stop.store(true, Ordering::Relaxed);
        }
        for (peer, sender, receiver) in threads {
            let panicked = || Failure::internal("a thread of the exchange panicked");
            if let Err(failure) = sender.join().unwrap_or_else(|_| Err(panicked())) {
                failures.push((peer, failure));
            }
            match receiver.join().unwrap_or_else(|_| Err(panicked())) {
                Ok(arrays) => received.push(arrays),
                Err(failure) => failures.push((peer, failure)),
            }
        }
    });
    // What stopped the others says more than that they were stopped.
    failures.sort_by_key(|(_, failure)| failure.code == PJRT_Error_Code_CANCELLED);
    if let Some((peer, failure)) = failures.into_iter().next() {
        return Err(explained(processes, peer, failure));
    }
    for (peer, _) in expected {
        exchanges[*peer] += 1;
    }
    Ok(received)
}

/// A failed exchange. The store knows best which process went first: those that noticed end their connections too.
fn explained(processes: &Processes, peer: usize, failure: Failure) -> Failure {
    let lost = failure.code == PJRT_Error_Code_UNAVAILABLE;
    for _ in 0..if lost { NAMING_TRIES } else { 1 } {
        if let Err(said) = processes.store.check() {
            return Failure::new(said.code, format!("exchanging arrays: {}", said.message));
        }
        std::thread::sleep(NAMING_PAUSE);
    }
    Failure::new(failure.code, format!("exchanging arrays with process {peer}: {}", failure.message))
}
