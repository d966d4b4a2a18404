//! The coordinator's side: keys and values in memory, and which processes are there.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::distributed::Gone;
use crate::distributed::wire::{self, Answer, Request, Role, VERSION};
use crate::error::Error;

/// Bytes of all keys and values together at most.
const MAX_STORED_BYTES: usize = 1 << 30;
/// Connections for each process at most, and for strangers.
const CONNECTIONS_EACH: usize = 32;
/// How often a thread that waits looks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a new connection has to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end waits for processes to leave, after all said they are done.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end waits for processes to hear who is gone.
const TELL_TIMEOUT: Duration = Duration::from_secs(3);

/// A coordinator that runs in threads of this process until it is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    connections: AtomicUsize,
    heartbeat_timeout: Duration,
}

#[derive(Debug)]
struct State {
    values: HashMap<String, Arc<Vec<u8>>>,
    stored_bytes: usize,
    members: Vec<Member>,
    /// The first that is gone.
    gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Awaited,
    Present,
    /// It left, or heard who is gone, or cannot hear any more.
    Settled,
}

impl Server {
    /// Starts to serve at `HOST:PORT` for so many processes. A host that is not an address of this machine, such as that of a
    /// service in front of it, is served on all of its addresses.
    pub fn start(at: &str, processes: usize, heartbeat_timeout: Duration) -> Result<Server, Error> {
        let cannot = |error: &io::Error| Error::Distributed(format!("the coordinator cannot listen at {at}: {error}"));
        let addresses: Vec<SocketAddr> = at.to_socket_addrs().map_err(|error| cannot(&error))?.collect();
        let listener = TcpListener::bind(&addresses[..]).or_else(|error| match addresses.first() {
            Some(first) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                let all: std::net::IpAddr = match first {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
                };
                TcpListener::bind((all, first.port()))
            }
            _ => Err(error),
        });
        let listener = listener.map_err(|error| cannot(&error))?;
        listener.set_nonblocking(true).map_err(|error| cannot(&error))?;
        let address = listener.local_addr().map_err(|error| cannot(&error))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                values: HashMap::new(),
                stored_bytes: 0,
                members: vec![Member::Awaited; processes],
                gone: None,
            }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            heartbeat_timeout,
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("tpubridge-coordinator".into());
        let accepting = thread.spawn(move || accept(&listener, &theirs)).map_err(|error| cannot(&error))?;
        Ok(Server { shared, address, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        while state.members.contains(&Member::Present) {
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
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let most = (shared.lock().members.len() + 1) * CONNECTIONS_EACH;
        if shared.connections.load(Ordering::Relaxed) >= most {
            continue;
        }
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("tpubridge-coordinator".into());
        let started = thread.spawn(move || {
            // What ends a connection was told to its process, or has no one to be told to.
            let _ = theirs.serve(&stream);
            theirs.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
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

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
        stream.set_write_timeout(Some(self.heartbeat_timeout))?;
        let hello = wire::receive(stream, wire::MAX_HELLO_BYTES, &mut || Err(io::ErrorKind::TimedOut.into()))?;
        let Some(Request::Hello { version, process, processes, role }) = Request::read(&hello) else {
            return wire::send(stream, &Answer::Refused("this is a coordinator of tpubridge".into()).write());
        };
        let process = process as usize;
        if let Err(why) = self.welcome(version, process, processes as usize, role) {
            return wire::send(stream, &Answer::Refused(why).write());
        }
        wire::send(stream, &Answer::Done(Vec::new()).write())?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        match role {
            Role::Control => {
                self.watch(stream, process);
                Ok(())
            }
            Role::Requests => self.answer_all(stream),
        }
    }

    fn welcome(&self, version: u32, process: usize, processes: usize, role: Role) -> Result<(), String> {
        if version != VERSION {
            return Err(format!(
                "process {process} speaks version {version}, the coordinator {VERSION}: use one build"
            ));
        }
        let mut state = self.lock();
        let expected = state.members.len();
        if processes != expected {
            return Err(format!("process {process} was told of {processes} processes, process 0 of {expected}"));
        }
        let Some(member) = state.members.get_mut(process) else {
            return Err(format!("there is no process {process} of {expected}"));
        };
        match (role, *member) {
            (Role::Control, Member::Awaited) => *member = Member::Present,
            (Role::Control, _) => {
                return Err(format!("there is a process {process} already: each needs its own number"));
            }
            (Role::Requests, Member::Awaited) => return Err(format!("process {process} has not joined")),
            (Role::Requests, _) => {}
        }
        Ok(())
    }

    /// Listens for signs of life until the process leaves or is gone.
    fn watch(&self, stream: &TcpStream, process: usize) {
        let mut heard = Instant::now();
        loop {
            let frame = wire::receive(stream, wire::MAX_HELLO_BYTES, &mut || {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                if heard.elapsed() > self.heartbeat_timeout {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Ok(())
            });
            heard = Instant::now();
            let why = match frame.map(|frame| Request::read(&frame)) {
                Ok(Some(Request::Beat)) => {
                    let gone = self.lock().gone.clone();
                    let answer = gone.as_ref().map_or(Answer::Done(Vec::new()), told);
                    match wire::send(stream, &answer.write()) {
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
                    let _ = wire::send(stream, &Answer::Done(Vec::new()).write());
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
            *member = Member::Settled;
        }
        self.changed.notify_all();
    }

    fn answer_all(&self, stream: &TcpStream) -> io::Result<()> {
        loop {
            let frame = wire::receive_any(stream, &mut || match self.stop.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => Ok(()),
            })?;
            let answer = match Request::read(&frame) {
                Some(request) => self.answer(request),
                None => Answer::Refused("a request this version does not know".into()),
            };
            wire::send(stream, &answer.write())?;
        }
    }

    fn answer(&self, request: Request) -> Answer {
        let mut state = self.lock();
        if let Some(gone) = &state.gone {
            return told(gone);
        }
        match request {
            Request::TryGet { key } => match state.values.get(&key) {
                Some(value) => Answer::Done(value.to_vec()),
                None => Answer::NotFound,
            },
            Request::Put { key, value } => {
                let before = state.values.get(&key).map_or(0, |value| key.len() + value.len());
                let bytes = state.stored_bytes - before + key.len() + value.len();
                if bytes > MAX_STORED_BYTES {
                    return Answer::Refused(format!("the coordinator holds {MAX_STORED_BYTES} bytes at most"));
                }
                state.stored_bytes = bytes;
                state.values.insert(key, Arc::new(value));
                drop(state);
                self.changed.notify_all();
                Answer::Done(Vec::new())
            }
            Request::Get { timeout_ms, key } => {
                // Far enough for any wait, and no overflow.
                let timeout = Duration::from_millis(timeout_ms.min(1 << 40));
                let deadline = Instant::now() + timeout;
                loop {
                    if let Some(gone) = &state.gone {
                        return told(gone);
                    }
                    if let Some(value) = state.values.get(&key).cloned() {
                        drop(state);
                        return Answer::Done(value.to_vec());
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
