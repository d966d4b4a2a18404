//! etcd as the store, through its JSON gateway: plain HTTP requests, so that no gRPC stack is needed beside the HTTP client that
//! object stores use already.
//!
//! Every key hangs on a lease of its process, which a thread keeps alive: what a process wrote goes when it goes. Process 0
//! starts a *run* under a fresh name and confirms each process that joins it, so that what an earlier run of the same job left
//! behind is never taken for this one. Requests go unencrypted and without a password: etcd has to be inside the network of the
//! job.

mod gateway;

use std::collections::HashSet;
use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pjrt::{Code, KeyValueError, KeyValueStore};

use self::gateway::Gateway;
use super::config::MultiHostConfig;
use super::{Gone, Member};
use crate::error::Error;

/// How often a key that is waited for is looked up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Seconds a process's word that it is done outlives it: the others must read it.
const DONE_SECONDS: u64 = 60;
/// What etcd takes in one request, less what surrounds a value.
const MAX_VALUE_BYTES: usize = 1 << 20;
const MAX_KEY_BYTES: usize = 4 << 10;

/// A process whose store is etcd.
#[derive(Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
    leaving: Mutex<Option<mpsc::Sender<()>>>,
    beating: Mutex<Option<JoinHandle<()>>>,
    local_address: Option<IpAddr>,
}

#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    /// What all keys of the run begin with.
    run: String,
    process: usize,
    processes: usize,
    lease: i64,
    done_lease: i64,
    timeout: Duration,
    gone: Mutex<Option<Gone>>,
}

impl Etcd {
    /// Joins the run of a job, waiting until process 0 has confirmed it.
    pub fn join(address: &str, job: &str, config: &MultiHostConfig) -> Result<Etcd, Error> {
        let gateway = Gateway::open(address)?;
        let deadline = Instant::now() + config.join_timeout;
        let connected = TcpStream::connect(address).and_then(|stream| stream.local_addr());
        let local_address = connected.ok().map(|address| address.ip());
        let seconds = config.heartbeat_timeout.as_secs().max(2);
        let lease = loop {
            match gateway.grant(seconds) {
                Ok(lease) => break lease,
                Err(error) if Instant::now() >= deadline => {
                    return Err(Error::Distributed(format!("no etcd at {address}: {}", error.message)));
                }
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        };
        let (leaving, ask) = mpsc::channel();
        let name = fresh_name();
        let joining = Joining { gateway: &gateway, job, config, lease, name: &name, deadline };
        let run = joining.run()?;
        let shared = Arc::new(Shared {
            done_lease: gateway.grant(DONE_SECONDS)?,
            gateway,
            run,
            process: config.process_id,
            processes: config.processes,
            lease,
            timeout: config.heartbeat_timeout,
            gone: Mutex::default(),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("tpubridge-heartbeat".into());
        let beating = thread.spawn(move || theirs.beat(&ask));
        let beating = beating.map_err(|error| Error::Distributed(format!("starting a thread: {error}")))?;
        Ok(Etcd { shared, leaving: Mutex::new(Some(leaving)), beating: Mutex::new(Some(beating)), local_address })
    }
}

/// A name nobody had before.
fn fresh_name() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", since.as_nanos(), hasher.finish())
}

/// What a process said of one that is gone.
fn read_gone(said: &[u8]) -> Gone {
    let said = String::from_utf8_lossy(said);
    let (process, why) = said.split_once(' ').unwrap_or((&said, ""));
    Gone { process: process.parse().unwrap_or_default(), why: why.into() }
}

/// A process on its way into a run.
struct Joining<'a> {
    gateway: &'a Gateway,
    job: &'a str,
    config: &'a MultiHostConfig,
    lease: i64,
    name: &'a str,
    deadline: Instant,
}

impl Joining<'_> {
    /// The prefix of the run's keys.
    fn run(&self) -> Result<String, Error> {
        match self.config.process_id {
            0 => self.lead(),
            _ => self.follow(),
        }
    }

    fn run_key(&self) -> String {
        format!("/tpubridge/{}/run", self.job)
    }

    fn prefix(&self, run: &str) -> String {
        format!("/tpubridge/{}/runs/{run}/", self.job)
    }

    /// Starts a run as soon as the one before has ended, and confirms whoever joins it.
    fn lead(&self) -> Result<String, Error> {
        while !self.gateway.create(&self.run_key(), self.name.as_bytes(), self.lease)? {
            self.wait("an earlier run of this job to end: another process 0 may still be there")?;
        }
        let prefix = self.prefix(self.name);
        self.gateway.put(&format!("{prefix}member/0"), self.name.as_bytes(), self.lease)?;
        for process in 1..self.config.processes {
            loop {
                if let Some(name) = self.gateway.get(&format!("{prefix}member/{process}"))? {
                    self.gateway.put(&format!("{prefix}confirmed/{process}"), &name, self.lease)?;
                    break;
                }
                self.wait(&format!("process {process}"))?;
            }
        }
        self.gateway.put(&format!("{prefix}complete"), b"1", self.lease)?;
        Ok(prefix)
    }

    /// Joins the run of the day; one whose process 0 does not confirm is of the past, and another will follow.
    fn follow(&self) -> Result<String, Error> {
        let process = self.config.process_id;
        loop {
            let Some(run) = self.gateway.get(&self.run_key())? else {
                self.wait("process 0")?;
                continue;
            };
            let prefix = self.prefix(&String::from_utf8_lossy(&run));
            let member = format!("{prefix}member/{process}");
            let refused = !self.gateway.create(&member, self.name.as_bytes(), self.lease)?
                && self.gateway.get(&member)?.as_deref() != Some(self.name.as_bytes());
            let confirmed = self.gateway.get(&format!("{prefix}confirmed/{process}"))?;
            // From here on, a process that is not there is gone.
            if confirmed.as_deref() == Some(self.name.as_bytes())
                && self.gateway.get(&format!("{prefix}complete"))?.is_some()
            {
                return Ok(prefix);
            }
            self.wait(match refused {
                true => "the process of the same number to end: each needs its own",
                false => "all processes to join",
            })?;
        }
    }

    /// A pause, unless time is up. The lease is kept alive meanwhile.
    fn wait(&self, what: &str) -> Result<(), Error> {
        if Instant::now() >= self.deadline {
            let seconds = self.config.join_timeout.as_secs_f64();
            return Err(Error::Distributed(format!("waited {seconds:.0} s in vain for {what}")));
        }
        self.gateway.keep_alive(self.lease)?;
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }
}

impl Shared {
    /// Keeps the lease alive and looks for processes whose keys are gone.
    fn beat(&self, ask: &mpsc::Receiver<()>) {
        let pause = (self.timeout / 6).min(Duration::from_secs(1));
        let mut answered = Instant::now();
        loop {
            match ask.recv_timeout(pause) {
                Ok(()) => {
                    // What fails here ends with the lease.
                    let _ = self.gateway.revoke(self.lease);
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.gateway.revoke(self.lease);
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            match self.look() {
                Ok(()) => answered = Instant::now(),
                Err(error) if answered.elapsed() > self.timeout => {
                    let why = format!("etcd does not answer it: {}", error.message);
                    return self.note(Gone { process: self.process, why });
                }
                Err(_) => {}
            }
        }
    }

    fn look(&self) -> Result<(), KeyValueError> {
        if !self.gateway.keep_alive(self.lease)? {
            let why = "its lease at etcd ran out: it was cut off for too long".to_string();
            self.note(Gone { process: self.process, why });
            return Ok(());
        }
        // Whoever notices first says so: those that noticed go too, and must not be taken for it.
        let key = format!("{}gone", self.run);
        if let Some(said) = self.gateway.get(&key)? {
            self.note(read_gone(&said));
            return Ok(());
        }
        let present = |what: &str| -> Result<HashSet<usize>, KeyValueError> {
            let prefix = format!("{}{what}/", self.run);
            let keys = self.gateway.keys(&prefix)?;
            Ok(keys.iter().filter_map(|key| key.strip_prefix(&prefix)?.parse().ok()).collect())
        };
        let members = present("member")?;
        let done = present("done")?;
        let gone = (0..self.processes).find(|process| !members.contains(process) && !done.contains(process));
        if let Some(process) = gone {
            let why = "its lease at etcd ended before its work did (it was killed, cut off, or ended with an error)";
            self.gateway.create(&key, format!("{process} {why}").as_bytes(), self.done_lease)?;
            if let Some(said) = self.gateway.get(&key)? {
                self.note(read_gone(&said));
            }
        }
        Ok(())
    }

    fn note(&self, gone: Gone) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(gone);
    }

    fn must_be_complete(&self) -> Result<(), KeyValueError> {
        match self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(gone) => Err(gone.into()),
            None => Ok(()),
        }
    }

    fn key(&self, key: &str) -> Result<String, KeyValueError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let message = format!("a key of {} bytes; 1 to {MAX_KEY_BYTES} are allowed", key.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        Ok(format!("{}{key}", self.run))
    }
}

impl KeyValueStore for Etcd {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(value) = self.try_get(key)? {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                let seconds = timeout.as_secs_f64();
                let message = format!("no process gave `{key}` within {seconds:.1} s");
                return Err(KeyValueError::new(Code::DeadlineExceeded, message));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        self.shared.must_be_complete()?;
        self.shared.gateway.get(&self.shared.key(key)?)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        self.shared.must_be_complete()?;
        if value.len() > MAX_VALUE_BYTES {
            let message = format!("a value of {} bytes; etcd takes {MAX_VALUE_BYTES}", value.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        let lease = if key.starts_with("done/") { self.shared.done_lease } else { self.shared.lease };
        self.shared.gateway.put(&self.shared.key(key)?, value, lease)
    }
}

impl Member for Etcd {
    fn local_address(&self) -> Option<IpAddr> {
        self.local_address
    }

    fn leave(&self) -> Result<(), Error> {
        self.end();
        Ok(())
    }
}

impl Etcd {
    fn end(&self) {
        drop(self.leaving.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.beating.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.end();
    }
}
