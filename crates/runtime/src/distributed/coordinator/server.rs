//! The coordinator's side: keys and values in memory, and which processes are there.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use channel::{Channel, Gate, Secret, Wait};

use super::needs_secret;
use crate::distributed::Gone;
use crate::distributed::config::{LISTEN_ADDRESS, MultiHostConfig};
use crate::distributed::wire::{self, Answer, Request, Role, VERSION};
use crate::error::Error;

/// Bytes that the coordinator holds at most: keys, values, messages under way, connections.
const MAX_HELD_BYTES: usize = 1 << 30;
/// What an entry costs beside its key and value.
const ENTRY_BYTES: usize = 192;
/// What a connection costs at rest: a thread and its buffers.
const CONNECTION_BYTES: usize = 32 << 10;
/// Connections for each process at most.
const CONNECTIONS_EACH: usize = 32;
/// How often a thread that waits looks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the end waits for processes to leave, after all said they are done.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end waits for processes to hear who is gone.
const TELL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the port may still belong to the run before.
const PORT_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A coordinator that runs in threads of this process until it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    gate: Gate,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    heartbeat_timeout: Duration,
    /// Bytes that are held at most.
    most_bytes: usize,
    run_id: String,
}

#[derive(Debug)]
struct State {
    values: HashMap<String, Arc<Vec<u8>>>,
    held_bytes: usize,
    members: Vec<Member>,
    /// The first that is gone.
    gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    stage: Stage,
    connections: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Awaited,
    Present,
    /// It left, or heard who is gone, or cannot hear any more.
    Settled,
}

/// Bytes that are held until this is dropped.
struct Held<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl Held<'_> {
    /// Whether there is room for so many more.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut state = self.shared.lock();
        let held = state.held_bytes.saturating_add(bytes);
        if held > self.shared.most_bytes {
            return false;
        }
        state.held_bytes = held;
        self.bytes += bytes;
        true
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.held_bytes = state.held_bytes.saturating_sub(self.bytes);
    }
}

impl Server {
    /// Starts to serve at `HOST:PORT`, which is an address of this machine, or at the listen address of the configuration.
    pub fn start(at: &str, config: &MultiHostConfig) -> Result<Server, Error> {
        Server::start_bounded(at, config, MAX_HELD_BYTES)
    }

    fn start_bounded(at: &str, config: &MultiHostConfig, most_bytes: usize) -> Result<Server, Error> {
        let cannot = |why: &str| Error::Distributed(format!("the coordinator cannot listen at {at}: {why}"));
        let run_id = match &config.run_id {
            Some(id) => id.clone(),
            None => Secret::fresh_name().map_err(Error::Distributed)?,
        };
        let listener = listen(at, config).map_err(|why| cannot(&why))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                values: HashMap::new(),
                held_bytes: 0,
                members: vec![Member { stage: Stage::Awaited, connections: 0 }; config.processes],
                gone: None,
            }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            heartbeat_timeout: config.heartbeat_timeout,
            most_bytes,
            run_id,
        });
        let theirs = shared.clone();
        let member = move |channel: Channel, hello: Vec<u8>| {
            // What ends a connection was told to its process, or has no one to be told to.
            let _ = theirs.serve(&channel, hello);
        };
        let gate = Gate::open(listener, &config.secret, wire::CONTEXT, member);
        Ok(Server { shared, gate: gate.map_err(|error| cannot(&error.to_string()))? })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.gate.address()
    }

    /// Connections that did not prove that they know the secret, so far.
    pub fn turned_away(&self) -> usize {
        self.gate.turned_away()
    }

    /// Waits until every process has left, or knows who is gone.
    pub(super) fn wait_until_left(&self) {
        self.settle(LEAVE_TIMEOUT);
    }

    /// Waits until every process knows who is gone.
    pub(super) fn wait_until_told(&self) {
        self.settle(TELL_TIMEOUT);
    }

    fn settle(&self, most: Duration) {
        let deadline = Instant::now() + most;
        let mut state = self.shared.lock();
        while state.members.iter().any(|member| member.stage == Stage::Present) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.wait(state, left);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Else the others would take this process for the one that went first.
        self.settle(TELL_TIMEOUT);
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }
}

/// Listens where the configuration says; never on more than that.
fn listen(at: &str, config: &MultiHostConfig) -> Result<TcpListener, String> {
    let mut addresses: Vec<SocketAddr> = at.to_socket_addrs().map_err(|error| error.to_string())?.collect();
    if let (Some(ip), Some(first)) = (config.listen_address, addresses.first()) {
        addresses = vec![SocketAddr::new(ip, first.port())];
    }
    if let Some(address) = addresses.iter().find(|address| !config.secret.allows(address.ip())) {
        return Err(needs_secret(*address));
    }
    let deadline = Instant::now() + PORT_TIMEOUT.min(config.join_timeout);
    loop {
        match TcpListener::bind(&addresses[..]) {
            Ok(listener) => {
                if addresses.iter().any(|address| address.ip().is_unspecified()) {
                    tracing::warn!(
                        port = addresses[0].port(),
                        "the coordinator listens on all addresses of this machine"
                    );
                }
                return Ok(listener);
            }
            // The run before may be about to end.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(RETRY_PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(format!(
                    "it is not an address of this machine; {LISTEN_ADDRESS} says at which of them process 0 listens"
                ));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, most.min(LOOK_EVERY)).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends an answer to a process that takes it.
    fn send(&self, channel: &Channel, answer: &Answer) -> io::Result<()> {
        let (head, value) = answer.write();
        channel.send(&[&head, value], &mut Wait::Until(Instant::now() + self.heartbeat_timeout))
    }

    /// Serves a connection whose process knows the secret.
    fn serve(&self, channel: &Channel, hello: Vec<u8>) -> io::Result<()> {
        let Some(Request::Hello { version, process, processes, role, run }) = Request::read(hello) else {
            return self.send(channel, &Answer::Refused("a first message this version does not know".into()));
        };
        let process = process as usize;
        let mut held = Held { shared: self, bytes: 0 };
        if !held.grow(CONNECTION_BYTES) {
            return self.send(channel, &Answer::Refused("the coordinator has no memory for more connections".into()));
        }
        if let Err(answer) = self.welcome(version, process, processes as usize, role, &run) {
            return self.send(channel, &answer);
        }
        let served = self.send(channel, &Answer::Done(Arc::new(self.run_id.clone().into_bytes())));
        let served = served.and_then(|()| channel.set_pace(LOOK_EVERY)).and_then(|()| match role {
            Role::Control => {
                self.watch(channel, process);
                Ok(())
            }
            Role::Requests => self.answer_all(channel),
        });
        if let Some(member) = self.lock().members.get_mut(process) {
            member.connections -= 1;
        }
        served
    }

    fn welcome(&self, version: u32, process: usize, processes: usize, role: Role, run: &str) -> Result<(), Answer> {
        let refused = |why: String| Err(Answer::Refused(why));
        if version != VERSION {
            let why = format!("process {process} speaks version {version}, the coordinator {VERSION}: use one build");
            return refused(why);
        }
        if !run.is_empty() && run != self.run_id {
            let (ours, id) = (&self.run_id, wire::shown(run));
            return refused(format!(
                "process {process} belongs to run {id}, and this is run {ours}: it is of an earlier run and must end"
            ));
        }
        let mut state = self.lock();
        let (expected, is_over) = (state.members.len(), state.gone.is_some());
        if processes != expected {
            return refused(format!("process {process} was told of {processes} processes, process 0 of {expected}"));
        }
        let Some(member) = state.members.get_mut(process) else {
            return refused(format!("there is no process {process} of {expected}"));
        };
        match (role, member.stage) {
            (Role::Control, Stage::Awaited) => member.stage = Stage::Present,
            // One of the next run, which came before the last has ended.
            (Role::Control, Stage::Settled) => return Err(Answer::Over),
            (Role::Control, Stage::Present) if is_over => return Err(Answer::Over),
            (Role::Control, Stage::Present) => {
                return refused(format!("there is a process {process} already: each needs its own number"));
            }
            (Role::Requests, Stage::Awaited) => return refused(format!("process {process} has not joined")),
            (Role::Requests, _) if run.is_empty() => return refused("a request without a run".into()),
            (Role::Requests, _) if member.connections >= CONNECTIONS_EACH => {
                return refused(format!("process {process} has {CONNECTIONS_EACH} connections already"));
            }
            (Role::Requests, _) => {}
        }
        member.connections += 1;
        Ok(())
    }

    /// Listens for signs of life until the process leaves or is gone.
    fn watch(&self, channel: &Channel, process: usize) {
        let mut heard = Instant::now();
        loop {
            let message = channel.receive(
                wire::MAX_BEAT_BYTES,
                &mut Wait::While(&mut || {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    if heard.elapsed() > self.heartbeat_timeout {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    Ok(())
                }),
            );
            heard = Instant::now();
            let why = match message.map(Request::read) {
                Ok(Some(Request::Beat)) => {
                    let gone = self.lock().gone.clone();
                    let answer = gone.as_ref().map_or(Answer::Done(Arc::default()), told);
                    match self.send(channel, &answer) {
                        Ok(()) => {
                            if gone.is_some() {
                                self.settled(process);
                            }
                            continue;
                        }
                        Err(error) => format!("it does not take answers: {error}"),
                    }
                }
                Ok(Some(Request::Bye)) => {
                    self.settled(process);
                    let _ = self.send(channel, &Answer::Done(Arc::default()));
                    return;
                }
                Ok(_) => "it says what this version does not know".to_string(),
                Err(_) if self.stop.load(Ordering::Relaxed) => return,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    format!("nothing was heard from it for {:.1} s", self.heartbeat_timeout.as_secs_f64())
                }
                Err(_) => {
                    "its connection ended before its work did (it was killed, or ended with an error)".to_string()
                }
            };
            self.lock().gone.get_or_insert(Gone { process, why });
            return self.settled(process);
        }
    }

    fn settled(&self, process: usize) {
        if let Some(member) = self.lock().members.get_mut(process) {
            member.stage = Stage::Settled;
        }
        self.changed.notify_all();
    }

    fn answer_all(&self, channel: &Channel) -> io::Result<()> {
        loop {
            let mut held = Held { shared: self, bytes: 0 };
            let mut wait = || match self.stop.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => Ok(()),
            };
            let message = channel
                .receive_counted(wire::MAX_MESSAGE_BYTES, &mut Wait::While(&mut wait), &mut |bytes| held.grow(bytes));
            let answer = match message {
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => self.full(),
                message => match Request::read(message?) {
                    Some(request) => self.answer(request),
                    None => Answer::Refused("a request this version does not know".into()),
                },
            };
            self.send(channel, &answer)?;
        }
    }

    fn full(&self) -> Answer {
        Answer::Refused(format!("the coordinator holds {} bytes at most", self.most_bytes))
    }

    fn answer(&self, request: Request) -> Answer {
        let mut state = self.lock();
        if let Some(gone) = &state.gone {
            return told(gone);
        }
        match request {
            Request::TryGet { key } => match state.values.get(&key) {
                Some(value) => Answer::Done(value.clone()),
                None => Answer::NotFound,
            },
            Request::Put { key, value } => {
                match state.values.get(&key) {
                    // A request that came twice.
                    Some(first) if **first == value => return Answer::Done(Arc::default()),
                    Some(_) => return Answer::Exists,
                    None => {}
                }
                let held = state.held_bytes.saturating_add(key.capacity() + value.capacity() + ENTRY_BYTES);
                if held > self.most_bytes {
                    return self.full();
                }
                state.held_bytes = held;
                state.values.insert(key, Arc::new(value));
                drop(state);
                self.changed.notify_all();
                Answer::Done(Arc::default())
            }
            Request::Get { timeout_ms, key } => {
                // Far enough for any wait, and no overflow.
                let timeout = Duration::from_millis(timeout_ms.min(1 << 40));
                let deadline = Instant::now() + timeout;
                loop {
                    if let Some(gone) = &state.gone {
                        return told(gone);
                    }
                    if let Some(value) = state.values.get(&key) {
                        return Answer::Done(value.clone());
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                        return Answer::TimedOut;
                    }
                    state = self.wait(state, left);
                }
            }
            Request::Hello { .. } | Request::Beat | Request::Bye => {
                Answer::Refused("this connection is for keys and values".into())
            }
        }
    }
}

fn told(gone: &Gone) -> Answer {
    Answer::Gone { process: u32::try_from(gone.process).unwrap_or(u32::MAX), why: gone.why.clone() }
}

#[cfg(test)]
mod tests {
    use pjrt::KeyValueStore;

    use super::*;
    use crate::distributed::coordinator::Connected;

    #[test]
    fn what_is_held_is_bounded_with_what_holding_it_costs() {
        let config = MultiHostConfig::new(2, 0, "127.0.0.1:0").unwrap();
        // One connection for signs of life, one for requests, and a little.
        let bound = 2 * CONNECTION_BYTES + (64 << 10);
        let server = Server::start_bounded("127.0.0.1:0", &config, bound).unwrap();
        let process = Connected::connect(&server.address().to_string(), &config, None).unwrap();
        // Empty values cost too.
        let stored = (0..10_000).take_while(|n| process.put(&format!("k{n}"), b"").is_ok()).count();
        assert!((1..bound / ENTRY_BYTES).contains(&stored), "{stored}");
        let error = process.put("one more", b"").unwrap_err();
        assert!(error.message.contains("at most"), "{error}");
        // What was refused is not held, and what is there can be read.
        assert_eq!(process.get("k0", Duration::ZERO).unwrap(), b"");
        let error = process.put("large", &vec![0; 1 << 20]).unwrap_err();
        assert!(error.message.contains("at most"), "{error}");
        assert!(server.shared.lock().held_bytes <= bound);
    }
}
