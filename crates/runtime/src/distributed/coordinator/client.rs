//! A process's side: requests, and a thread that gives signs of life and hears who is gone.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use channel::{Channel, HandshakeError, Secret, Wait};
use pjrt::{Code, KeyValueError, KeyValueStore};

use super::needs_secret;
use super::server::Server;
use crate::distributed::config::MultiHostConfig;
use crate::distributed::wire::{self, Answer, MAX_KEY_BYTES, MAX_VALUE_BYTES, Request, Role, VERSION};
use crate::distributed::{Gone, Member, exists};
use crate::error::Error;

/// How often a thread that waits looks whether a process is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Connections kept for the next requests.
const IDLE_CONNECTIONS: usize = 8;

/// A process that is connected to the coordinator.
#[derive(Debug)]
pub struct Connected {
    shared: Arc<Shared>,
    /// Dropped to end the thread at once; a message asks it to say goodbye.
    leaving: Mutex<Option<mpsc::Sender<()>>>,
    beating: Mutex<Option<JoinHandle<()>>>,
    local_address: Option<IpAddr>,
    /// Process 0 has the coordinator; it ends after everything else.
    server: Option<Server>,
}

#[derive(Debug)]
struct Shared {
    address: String,
    process: usize,
    processes: usize,
    secret: Secret,
    /// Empty until the coordinator has told it.
    run_id: OnceLock<String>,
    heartbeat_timeout: Duration,
    idle: Mutex<Vec<Channel>>,
    gone: Mutex<Option<Gone>>,
    /// When the last sign of life that was answered was sent: the coordinator has heard it later than this.
    heard: Mutex<Instant>,
    left: AtomicBool,
}

impl Connected {
    /// Connects a process to the coordinator at `address`, waiting for it to appear; `server` is the coordinator itself where
    /// this process runs it.
    pub fn connect(address: &str, config: &MultiHostConfig, server: Option<Server>) -> Result<Connected, Error> {
        let shared = Arc::new(Shared {
            address: address.to_string(),
            process: config.process_id,
            processes: config.processes,
            secret: config.secret.clone(),
            run_id: OnceLock::new(),
            heartbeat_timeout: config.heartbeat_timeout,
            idle: Mutex::default(),
            gone: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            left: AtomicBool::new(false),
        });
        let deadline = Instant::now() + config.join_timeout;
        let wanted = config.run_id.as_deref().unwrap_or_default();
        let (control, run_id) = loop {
            let seconds = config.join_timeout.as_secs_f64();
            *lock(&shared.heard) = Instant::now();
            match shared.open(Role::Control, wanted) {
                Ok(opened) => break opened,
                Err(Opening::Refused(why)) => {
                    return Err(Error::Distributed(format!("the coordinator at {address} refused: {why}")));
                }
                Err(Opening::Over) if Instant::now() >= deadline => {
                    return Err(Error::Distributed(format!(
                        "the run before still has not ended after {seconds:.0} s: its process 0 is at {address}"
                    )));
                }
                Err(Opening::Io(error)) if Instant::now() >= deadline => {
                    return Err(Error::Distributed(format!(
                        "no coordinator at {address} after {seconds:.0} s ({error}): is process 0 running, and does the \
                         network let its port through?"
                    )));
                }
                Err(_) => std::thread::sleep(RETRY_PAUSE),
            }
        };
        // Set once, here.
        let _ = shared.run_id.set(run_id);
        let local_address = control.stream().local_addr().ok().map(|address| address.ip());
        let (leaving, ask) = mpsc::channel();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("tpubridge-heartbeat".into());
        let beating = thread.spawn(move || theirs.beat(&control, &ask));
        let beating = beating.map_err(|error| Error::Distributed(format!("starting a thread: {error}")))?;
        Ok(Connected {
            shared,
            leaving: Mutex::new(Some(leaving)),
            beating: Mutex::new(Some(beating)),
            local_address,
            server,
        })
    }
}

/// Why a connection did not come about.
enum Opening {
    Io(io::Error),
    Refused(String),
    /// The run that is served there is over.
    Over,
}

impl From<io::Error> for Opening {
    fn from(error: io::Error) -> Opening {
        Opening::Io(error)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// A connection, and the run it belongs to.
    fn open(&self, role: Role, run: &str) -> Result<(Channel, String), Opening> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.address.to_socket_addrs()? {
            if !self.secret.allows(address.ip()) {
                return Err(Opening::Refused(needs_secret(address)));
            }
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return self.greet(stream, role, run),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    fn greet(&self, stream: TcpStream, role: Role, run: &str) -> Result<(Channel, String), Opening> {
        let deadline = Instant::now() + self.heartbeat_timeout.max(CONNECT_TIMEOUT);
        let channel = Channel::connect(stream, &self.secret, wire::CONTEXT, deadline).map_err(|error| match error {
            HandshakeError::Io(error) => Opening::Io(error),
            other => Opening::Refused(other.to_string()),
        })?;
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (process, processes) = (small(self.process), small(self.processes));
        let hello = Request::Hello { version: VERSION, process, processes, role, run: run.into() };
        channel.send(&[&hello.write()], &mut Wait::Until(deadline))?;
        let answer = channel.receive(wire::MAX_MESSAGE_BYTES, &mut Wait::Until(deadline))?;
        match Answer::read(answer) {
            Some(Answer::Done(run)) => {
                channel.set_pace(LOOK_EVERY)?;
                Ok((channel, wire::shown(&String::from_utf8_lossy(&run))))
            }
            Some(Answer::Refused(why)) => Err(Opening::Refused(why)),
            Some(Answer::Over) => Err(Opening::Over),
            _ => Err(Opening::Refused("the coordinator gave an answer this version does not know".into())),
        }
    }

    /// A connection for requests. A network that loses packets is given as long as one that is silent.
    fn open_for_requests(&self) -> Result<Channel, Opening> {
        let deadline = Instant::now() + self.heartbeat_timeout;
        let run = self.run_id.get().map(String::as_str).unwrap_or_default();
        loop {
            match self.open(Role::Requests, run) {
                Ok((channel, _)) => return Ok(channel),
                Err(Opening::Io(error)) if is_slow(&error) && Instant::now() < deadline && self.gone().is_none() => {}
                Err(other) => return Err(other),
            }
        }
    }

    /// Gives signs of life until asked to leave, or until nobody listens any more.
    fn beat(&self, control: &Channel, ask: &mpsc::Receiver<()>) {
        let pause = (self.heartbeat_timeout / 6).min(Duration::from_secs(1));
        loop {
            let request = match ask.recv_timeout(pause) {
                Ok(()) => Request::Bye,
                Err(RecvTimeoutError::Timeout) => Request::Beat,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let sent = Instant::now();
            let mut wait = || match sent.elapsed() > self.heartbeat_timeout {
                true => Err(io::ErrorKind::TimedOut.into()),
                false => Ok(()),
            };
            let mut wait = Wait::While(&mut wait);
            let answer = control.send(&[&request.write()], &mut wait);
            let answer = answer.and_then(|()| control.receive(wire::MAX_MESSAGE_BYTES, &mut wait));
            match answer.map(Answer::read) {
                Ok(Some(Answer::Done(_))) if request == Request::Bye => return,
                Ok(Some(Answer::Done(_))) => *lock(&self.heard) = sent,
                Ok(Some(Answer::Gone { process, why })) => {
                    self.note(Gone { process: process as usize, why });
                }
                Ok(_) => return self.note(coordinator_gone("it says what this version does not know")),
                Err(_) if self.left.load(Ordering::Relaxed) => return,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    let seconds = self.heartbeat_timeout.as_secs_f64();
                    return self.note(coordinator_gone(&format!("nothing was heard from it for {seconds:.1} s")));
                }
                Err(_) => return self.note(coordinator_gone("its connection ended")),
            }
        }
    }

    /// Remembers the first process that is gone.
    fn note(&self, gone: Gone) {
        lock(&self.gone).get_or_insert(gone);
    }

    fn gone(&self) -> Option<Gone> {
        lock(&self.gone).clone()
    }

    /// Sends a request and waits for its answer as long as all processes are there.
    fn ask(&self, request: &Request) -> Result<Answer, KeyValueError> {
        if let Some(gone) = self.gone() {
            return Err(gone.into());
        }
        let kept = lock(&self.idle).pop();
        let channel = match kept {
            Some(channel) => channel,
            None => self.open_for_requests().map_err(|error| self.lost(error))?,
        };
        let mut wait = || match self.gone() {
            Some(_) => Err(io::ErrorKind::ConnectionAborted.into()),
            None => Ok(()),
        };
        let mut wait = Wait::While(&mut wait);
        let answer = channel.send(&[&request.write()], &mut wait);
        let answer = answer.and_then(|()| channel.receive(wire::MAX_MESSAGE_BYTES, &mut wait));
        match Answer::read(answer.map_err(|error| self.lost(error.into()))?) {
            Some(Answer::Gone { process, why }) => {
                self.note(Gone { process: process as usize, why });
                Err(self.gone().map_or_else(|| KeyValueError::new(Code::Unavailable, "gone"), KeyValueError::from))
            }
            Some(Answer::Refused(why)) => Err(KeyValueError::new(Code::FailedPrecondition, why)),
            Some(answer) => {
                let mut idle = lock(&self.idle);
                if idle.len() < IDLE_CONNECTIONS {
                    idle.push(channel);
                }
                Ok(answer)
            }
            None => {
                Err(KeyValueError::new(Code::Internal, "the coordinator gave an answer this version does not know"))
            }
        }
    }

    /// A request that found no coordinator. The thread that beats may know who went first.
    fn lost(&self, error: Opening) -> KeyValueError {
        match error {
            // It is no member any more, and must not act as one.
            Opening::Refused(why) => {
                self.note(Gone { process: self.process, why: format!("the coordinator refused it: {why}") });
                self.gone().map_or_else(|| KeyValueError::new(Code::FailedPrecondition, why), KeyValueError::from)
            }
            Opening::Io(_) | Opening::Over => {
                self.note(coordinator_gone("its connection ended"));
                let gone = self.gone().unwrap_or_else(|| coordinator_gone("its connection ended"));
                gone.into()
            }
        }
    }
}

/// Whether a connection did not come about for want of time rather than of a listener.
fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn coordinator_gone(why: &str) -> Gone {
    Gone { process: 0, why: format!("{why}; it runs the coordinator") }
}

fn check_key(key: &str) -> Result<(), KeyValueError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let message = format!("a key of {} bytes; 1 to {MAX_KEY_BYTES} are allowed", key.len());
        return Err(KeyValueError::new(Code::InvalidArgument, message));
    }
    Ok(())
}

impl KeyValueStore for Connected {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        check_key(key)?;
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        match self.shared.ask(&Request::Get { timeout_ms, key: key.into() })? {
            Answer::Done(value) => Ok(Arc::unwrap_or_clone(value)),
            _ => Err(KeyValueError::new(
                Code::DeadlineExceeded,
                format!("no process gave `{key}` within {:.1} s", timeout.as_secs_f64()),
            )),
        }
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        check_key(key)?;
        match self.shared.ask(&Request::TryGet { key: key.into() })? {
            Answer::Done(value) => Ok(Some(Arc::unwrap_or_clone(value))),
            _ => Ok(None),
        }
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        check_key(key)?;
        if value.len() > MAX_VALUE_BYTES {
            let message = format!("a value of {} bytes; {MAX_VALUE_BYTES} are allowed", value.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        match self.shared.ask(&Request::Put { key: key.into(), value: value.to_vec() })? {
            Answer::Exists => Err(exists(key)),
            _ => Ok(()),
        }
    }
}

impl Member for Connected {
    fn local_address(&self) -> Option<IpAddr> {
        self.local_address
    }

    fn run_id(&self) -> &str {
        self.shared.run_id.get().map(String::as_str).unwrap_or_default()
    }

    fn still_member(&self) -> Result<(), Gone> {
        if let Some(gone) = self.shared.gone() {
            return Err(gone);
        }
        let (heard, timeout) = (*lock(&self.shared.heard), self.shared.heartbeat_timeout);
        match heard.elapsed() < timeout {
            true => Ok(()),
            false => Err(Gone {
                process: self.shared.process,
                why: format!("the coordinator has not answered it for {:.1} s", timeout.as_secs_f64()),
            }),
        }
    }

    fn abandon(&self) {
        if let (Some(server), Some(_)) = (&self.server, self.shared.gone()) {
            server.wait_until_told();
        }
    }

    fn leave(&self) -> Result<(), Error> {
        self.shared.left.store(true, Ordering::Relaxed);
        if let Some(leaving) = lock(&self.leaving).take() {
            // A thread that has ended has said why.
            let _ = leaving.send(());
            if let Some(thread) = lock(&self.beating).take() {
                let _ = thread.join();
            }
        }
        if let Some(server) = &self.server {
            server.wait_until_left();
        }
        Ok(())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // Without a goodbye: the others are told that this process is gone.
        drop(lock(&self.leaving).take());
        if let Some(thread) = lock(&self.beating).take() {
            let _ = thread.join();
        }
    }
}
