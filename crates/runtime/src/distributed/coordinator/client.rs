//! A process's side: requests, and a thread that gives signs of life and hears who is gone.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pjrt::{Code, KeyValueError, KeyValueStore};

use super::server::Server;
use crate::distributed::wire::{self, Answer, MAX_KEY_BYTES, MAX_VALUE_BYTES, Request, Role, VERSION};
use crate::distributed::{Gone, Member};
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
    heartbeat_timeout: Duration,
    idle: Mutex<Vec<TcpStream>>,
    gone: Mutex<Option<Gone>>,
    left: AtomicBool,
}

impl Connected {
    /// Connects a process to the coordinator at `address`, waiting for it to appear; `server` is the coordinator itself where
    /// this process runs it.
    pub fn connect(
        address: &str,
        process: usize,
        processes: usize,
        heartbeat_timeout: Duration,
        join_timeout: Duration,
        server: Option<Server>,
    ) -> Result<Connected, Error> {
        let shared = Arc::new(Shared {
            address: address.to_string(),
            process,
            processes,
            heartbeat_timeout,
            idle: Mutex::default(),
            gone: Mutex::default(),
            left: AtomicBool::new(false),
        });
        let deadline = Instant::now() + join_timeout;
        let control = loop {
            match shared.open(Role::Control) {
                Ok(stream) => break stream,
                Err(Opening::Refused(why)) => {
                    return Err(Error::Distributed(format!("the coordinator at {address} refused: {why}")));
                }
                Err(Opening::Io(error)) if Instant::now() >= deadline => {
                    return Err(Error::Distributed(format!(
                        "no coordinator at {address} after {:.0} s ({error}): is process 0 running, and does the network let \
                         its port through?",
                        join_timeout.as_secs_f64()
                    )));
                }
                Err(Opening::Io(_)) => std::thread::sleep(RETRY_PAUSE),
            }
        };
        let local_address = control.local_addr().ok().map(|address| address.ip());
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
}

impl From<io::Error> for Opening {
    fn from(error: io::Error) -> Opening {
        Opening::Io(error)
    }
}

impl Shared {
    fn open(&self, role: Role) -> Result<TcpStream, Opening> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return self.greet(stream, role),
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    fn greet(&self, stream: TcpStream, role: Role) -> Result<TcpStream, Opening> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.heartbeat_timeout))?;
        stream.set_write_timeout(Some(self.heartbeat_timeout))?;
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (process, processes) = (small(self.process), small(self.processes));
        wire::send(&stream, &Request::Hello { version: VERSION, process, processes, role }.write())?;
        let frame = wire::receive_any(&stream, &mut || Err(io::ErrorKind::TimedOut.into()))?;
        match Answer::read(&frame) {
            Some(Answer::Done(_)) => {
                stream.set_read_timeout(Some(LOOK_EVERY))?;
                Ok(stream)
            }
            Some(Answer::Refused(why)) => Err(Opening::Refused(why)),
            _ => Err(Opening::Refused("what listens there is no coordinator of tpubridge".into())),
        }
    }

    /// Gives signs of life until asked to leave, or until nobody listens any more.
    fn beat(&self, control: &TcpStream, ask: &mpsc::Receiver<()>) {
        let pause = (self.heartbeat_timeout / 6).min(Duration::from_secs(1));
        loop {
            let request = match ask.recv_timeout(pause) {
                Ok(()) => Request::Bye,
                Err(RecvTimeoutError::Timeout) => Request::Beat,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let sent = Instant::now();
            let answer = wire::send(control, &request.write()).and_then(|()| {
                wire::receive_any(control, &mut || match sent.elapsed() > self.heartbeat_timeout {
                    true => Err(io::ErrorKind::TimedOut.into()),
                    false => Ok(()),
                })
            });
            match answer.map(|frame| Answer::read(&frame)) {
                Ok(Some(Answer::Done(_))) if request == Request::Bye => return,
                Ok(Some(Answer::Done(_))) => {}
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
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(gone);
    }

    fn gone(&self) -> Option<Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request and waits for its answer as long as all processes are there.
    fn ask(&self, request: &Request) -> Result<Answer, KeyValueError> {
        if let Some(gone) = self.gone() {
            return Err(gone.into());
        }
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stream = match kept {
            Some(stream) => stream,
            None => self.open(Role::Requests).map_err(|error| self.lost(error))?,
        };
        let answer = wire::send(&stream, &request.write()).and_then(|()| {
            wire::receive_any(&stream, &mut || match self.gone() {
                Some(_) => Err(io::ErrorKind::ConnectionAborted.into()),
                None => Ok(()),
            })
        });
        let frame = answer.map_err(|error| self.lost(error.into()))?;
        match Answer::read(&frame) {
            Some(Answer::Gone { process, why }) => {
                self.note(Gone { process: process as usize, why });
                Err(self.gone().map_or_else(|| KeyValueError::new(Code::Unavailable, "gone"), KeyValueError::from))
            }
            Some(Answer::Refused(why)) => Err(KeyValueError::new(Code::FailedPrecondition, why)),
            Some(answer) => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < IDLE_CONNECTIONS {
                    idle.push(stream);
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
            Opening::Refused(why) => KeyValueError::new(Code::FailedPrecondition, why),
            Opening::Io(_) => {
                self.note(coordinator_gone("its connection ended"));
                let gone = self.gone().unwrap_or_else(|| coordinator_gone("its connection ended"));
                gone.into()
            }
        }
    }
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
            Answer::Done(value) => Ok(value),
            _ => Err(KeyValueError::new(
                Code::DeadlineExceeded,
                format!("no process gave `{key}` within {:.1} s", timeout.as_secs_f64()),
            )),
        }
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        check_key(key)?;
        match self.shared.ask(&Request::TryGet { key: key.into() })? {
            Answer::Done(value) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        check_key(key)?;
        if value.len() > MAX_VALUE_BYTES {
            let message = format!("a value of {} bytes; {MAX_VALUE_BYTES} are allowed", value.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        self.shared.ask(&Request::Put { key: key.into(), value: value.to_vec() }).map(|_| ())
    }
}

impl Member for Connected {
    fn local_address(&self) -> Option<IpAddr> {
        self.local_address
    }

    fn abandon(&self) {
        if let (Some(server), Some(_)) = (&self.server, self.shared.gone()) {
            server.wait_until_told();
        }
    }

    fn leave(&self) -> Result<(), Error> {
        self.shared.left.store(true, Ordering::Relaxed);
        if let Some(leaving) = self.leaving.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that has ended has said why.
            let _ = leaving.send(());
            if let Some(thread) = self.beating.lock().unwrap_or_else(PoisonError::into_inner).take() {
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
        drop(self.leaving.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.beating.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}
