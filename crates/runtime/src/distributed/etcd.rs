//! etcd as the store, through its JSON gateway: HTTP requests, so that no gRPC stack is needed beside the HTTP client that
//! object stores use already.
//!
//! Every key hangs on a lease of its process, which a thread keeps alive: what a process wrote goes when it goes. Process 0
//! starts a *run* under a fresh name and confirms each process that joins it, so that what an earlier run of the same job left
//! behind is never taken for this one.
//!
//! `etcds://` encrypts, checks the server's certificate, and may have one of its own; a password is changed for a token. Without
//! encryption only a server on the loopback interface is used. Errors of the network and of single members are tried again, at
//! all members in turn, until the deadline of the whole operation. A process whose lease may have run out is no member any more:
//! [`Session::still_member`](super::Session::still_member) says so without asking anybody.

mod gateway;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use channel::Secret;
use pjrt::{Code, KeyValueError, KeyValueStore};

use self::gateway::{Gateway, Patience};
use super::config::MultiHostConfig;
use super::etcd_config::EtcdConfig;
use super::wire::shown;
use super::{Gone, Member, exists};
use crate::error::Error;

/// How often a key that is waited for is looked up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Seconds of a lease at least: etcd counts in whole ones.
const MIN_LEASE_SECONDS: u64 = 2;
/// Seconds a process's last word outlives it, that it is done or that another is gone: the others must read it. Its lease is
/// granted when it is said, because nobody keeps that alive.
const LAST_WORD_SECONDS: u64 = 60;
/// What etcd takes in one request, less what surrounds a value.
const MAX_VALUE_BYTES: usize = 1 << 20;
const MAX_KEY_BYTES: usize = 4 << 10;

/// A process whose store is etcd.
#[derive(Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
    leaving: Mutex<Option<mpsc::Sender<()>>>,
    beating: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    local_address: Option<IpAddr>,
    /// The run's own name.
    run: String,
    /// What all keys of the run begin with.
    prefix: String,
    process: usize,
    processes: usize,
    lease: i64,
    /// Silence after which the lease may have run out.
    timeout: Duration,
    /// When the last request to keep the lease alive that was answered was sent.
    heard: Mutex<Instant>,
    gone: Mutex<Option<Gone>>,
}

impl Etcd {
    /// Joins the run of a job, waiting until process 0 has confirmed it.
    pub fn join(etcd: &EtcdConfig, config: &MultiHostConfig) -> Result<Etcd, Error> {
        let gateway = Gateway::open(etcd)?;
        let deadline = Instant::now() + config.join_timeout;
        let seconds = config.heartbeat_timeout.as_secs().max(MIN_LEASE_SECONDS);
        let mut heard = Instant::now();
        let lease = gateway.grant(seconds, &Patience::until(deadline));
        let lease = lease.map_err(|error| Error::Distributed(format!("no etcd: {}", error.message)))?;
        let (leaving, ask) = mpsc::channel();
        let drawn = Secret::fresh_name().map_err(Error::Distributed)?;
        let name = match (&config.run_id, config.process_id) {
            (Some(id), 0) => id.clone(),
            _ => drawn,
        };
        let joining = Joining { gateway: &gateway, job: &etcd.job, config, lease, name: &name, deadline };
        let run = joining.run(&mut heard)?;
        let shared = Arc::new(Shared {
            local_address: gateway.local_address(),
            gateway,
            prefix: joining_prefix(&etcd.job, &run),
            run,
            process: config.process_id,
            processes: config.processes,
            lease,
            heard: Mutex::new(heard),
            // What was asked for, not what was given: the shorter is the safer.
            timeout: Duration::from_secs(seconds).min(config.heartbeat_timeout.max(Duration::from_secs(1))),
            gone: Mutex::default(),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("tpubridge-heartbeat".into());
        let beating = thread.spawn(move || theirs.beat(&ask));
        let beating = beating.map_err(|error| Error::Distributed(format!("starting a thread: {error}")))?;
        Ok(Etcd { shared, leaving: Mutex::new(Some(leaving)), beating: Mutex::new(Some(beating)) })
    }
}

fn joining_prefix(job: &str, run: &str) -> String {
    format!("/tpubridge/{job}/runs/{run}/")
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
    /// The name of the run.
    fn run(&self, heard: &mut Instant) -> Result<String, Error> {
        match self.config.process_id {
            0 => self.lead(heard),
            _ => self.follow(heard),
        }
    }

    fn patience(&self) -> Patience<'static> {
        Patience::until(self.deadline)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.gateway.get(key, &self.patience())?)
    }

    fn create(&self, key: &str, value: &[u8]) -> Result<bool, Error> {
        Ok(self.gateway.create(key, value, self.lease, &self.patience())?)
    }

    fn run_key(&self) -> String {
        format!("/tpubridge/{}/run", self.job)
    }

    /// Starts a run as soon as the one before has ended, and confirms whoever joins it.
    fn lead(&self, heard: &mut Instant) -> Result<String, Error> {
        while !self.create(&self.run_key(), self.name.as_bytes())? {
            self.wait("an earlier run of this job to end: another process 0 may still be there", heard)?;
        }
        let prefix = joining_prefix(self.job, self.name);
        if !self.create(&format!("{prefix}member/0"), self.name.as_bytes())? {
            let message = format!("there was a run {} of this job already: each needs its own", self.name);
            return Err(Error::Distributed(message));
        }
        for process in 1..self.config.processes {
            loop {
                if let Some(name) = self.get(&format!("{prefix}member/{process}"))? {
                    self.create(&format!("{prefix}confirmed/{process}"), &name)?;
                    break;
                }
                self.wait(&format!("process {process}"), heard)?;
            }
        }
        self.create(&format!("{prefix}complete"), b"1")?;
        Ok(self.name.to_string())
    }

    /// Joins the run of the day; one whose process 0 does not confirm is of the past, and another will follow.
    fn follow(&self, heard: &mut Instant) -> Result<String, Error> {
        let process = self.config.process_id;
        loop {
            let Some(run) = self.get(&self.run_key())? else {
                self.wait("process 0", heard)?;
                continue;
            };
            let run = String::from_utf8_lossy(&run).into_owned();
            if let Some(wanted) = self.config.run_id.as_ref().filter(|wanted| **wanted != run) {
                self.wait(&format!("run {wanted} to begin: the run of this job is {}", shown(&run)), heard)?;
                continue;
            }
            let prefix = joining_prefix(self.job, &run);
            let refused = !self.create(&format!("{prefix}member/{process}"), self.name.as_bytes())?;
            let confirmed = self.get(&format!("{prefix}confirmed/{process}"))?;
            // From here on, a process that is not there is gone.
            if confirmed.as_deref() == Some(self.name.as_bytes()) && self.get(&format!("{prefix}complete"))?.is_some() {
                return Ok(run);
            }
            let what = match refused {
                true => "the process of the same number to end: each needs its own",
                false => "all processes to join",
            };
            self.wait(what, heard)?;
        }
    }

    /// A pause, unless time is up. The lease is kept alive meanwhile.
    fn wait(&self, what: &str, heard: &mut Instant) -> Result<(), Error> {
        if Instant::now() >= self.deadline {
            let seconds = self.config.join_timeout.as_secs_f64();
            return Err(Error::Distributed(format!("waited {seconds:.0} s in vain for {what}")));
        }
        let sent = Instant::now();
        if !self.gateway.keep_alive(self.lease, &self.patience())? {
            let message = "its lease at etcd ran out while it joined: it was cut off for too long";
            return Err(Error::Distributed(message.into()));
        }
        *heard = sent;
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }
}

impl Shared {
    /// Keeps the lease alive and looks for processes whose keys are gone.
    fn beat(&self, ask: &mpsc::Receiver<()>) {
        let pause = (self.timeout / 6).min(Duration::from_secs(1));
        loop {
            match ask.recv_timeout(pause) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    // What fails here ends with the lease.
                    let _ = self.gateway.revoke(self.lease, &Patience::until(Instant::now() + pause));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            match self.look() {
                Ok(()) => {}
                Err(error) if self.heard().elapsed() >= self.timeout => {
                    let why = format!("etcd does not answer it: {}", error.message);
                    return self.note(Gone { process: self.process, why });
                }
                Err(_) => {}
            }
        }
    }

    fn look(&self) -> Result<(), KeyValueError> {
        let sent = Instant::now();
        // A member that does not answer leaves time for another.
        let patience = Patience::until(sent + self.timeout / 2);
        if !self.gateway.keep_alive(self.lease, &patience)? {
            self.note(self.lease_lost());
            return Ok(());
        }
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        // Whoever notices first says so: those that noticed go too, and must not be taken for it.
        let key = format!("{}gone", self.prefix);
        if let Some(said) = self.gateway.get(&key, &patience)? {
            self.note(read_gone(&said));
            return Ok(());
        }
        let present = |what: &str| -> Result<HashSet<usize>, KeyValueError> {
            let prefix = format!("{}{what}/", self.prefix);
            let keys = self.gateway.keys(&prefix, &patience)?;
            Ok(keys.iter().filter_map(|key| key.strip_prefix(&prefix)?.parse().ok()).collect())
        };
        let members = present("member")?;
        let done = present("done")?;
        let gone = (0..self.processes).find(|process| !members.contains(process) && !done.contains(process));
        if let Some(process) = gone {
            let why = "its lease at etcd ended before its work did (it was killed, cut off, or ended with an error)";
            let lease = self.gateway.grant(LAST_WORD_SECONDS, &patience)?;
            self.gateway.create(&key, format!("{process} {why}").as_bytes(), lease, &patience)?;
            if let Some(said) = self.gateway.get(&key, &patience)? {
                self.note(read_gone(&said));
            }
        }
        Ok(())
    }

    fn heard(&self) -> Instant {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease_lost(&self) -> Gone {
        Gone { process: self.process, why: "its lease at etcd ran out: it was cut off for too long".into() }
    }

    fn note(&self, gone: Gone) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(gone);
    }

    fn still_member(&self) -> Result<(), Gone> {
        if let Some(gone) = self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(gone);
        }
        match self.heard().elapsed() < self.timeout {
            true => Ok(()),
            false => Err(Gone {
                process: self.process,
                why: format!("etcd has not answered it for {:.1} s", self.timeout.as_secs_f64()),
            }),
        }
    }

    fn must_be_complete(&self) -> Result<(), KeyValueError> {
        Ok(self.still_member()?)
    }

    /// One request of an operation that may take until then.
    fn act<T>(
        &self,
        deadline: Instant,
        request: impl FnOnce(&Patience<'_>) -> Result<T, KeyValueError>,
    ) -> Result<T, KeyValueError> {
        request(&Patience { deadline, check: &|| self.must_be_complete() })
    }

    fn key(&self, key: &str) -> Result<String, KeyValueError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            let message = format!("a key of {} bytes; 1 to {MAX_KEY_BYTES} are allowed", key.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        Ok(format!("{}{key}", self.prefix))
    }
}

impl KeyValueStore for Etcd {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        let full = self.shared.key(key)?;
        // Far enough for any wait, and no overflow.
        let deadline = Instant::now() + timeout.min(Duration::from_secs(1 << 30));
        loop {
            // A short wait too asks once, for as long as the lease lasts.
            let until = deadline.max(Instant::now() + self.shared.timeout);
            if let Some(value) = self.shared.act(until, |patience| self.shared.gateway.get(&full, patience))? {
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
        let key = self.shared.key(key)?;
        let deadline = Instant::now() + self.shared.timeout;
        self.shared.act(deadline, |patience| self.shared.gateway.get(&key, patience))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        if value.len() > MAX_VALUE_BYTES {
            let message = format!("a value of {} bytes; etcd takes {MAX_VALUE_BYTES}", value.len());
            return Err(KeyValueError::new(Code::InvalidArgument, message));
        }
        let full = self.shared.key(key)?;
        let deadline = Instant::now() + self.shared.timeout;
        let created = self.shared.act(deadline, |patience| {
            let lease = match key.starts_with("done/") {
                true => self.shared.gateway.grant(LAST_WORD_SECONDS, patience)?,
                false => self.shared.lease,
            };
            self.shared.gateway.create(&full, value, lease, patience)
        });
        match created {
            Ok(true) => Ok(()),
            Ok(false) => Err(exists(key)),
            // The lease that the key would hang on is not there.
            Err(error) if error.code == Code::NotFound => {
                self.shared.note(self.shared.lease_lost());
                self.shared.must_be_complete()
            }
            Err(error) => Err(error),
        }
    }
}

impl Member for Etcd {
    fn local_address(&self) -> Option<IpAddr> {
        self.shared.local_address
    }

    fn run_id(&self) -> &str {
        &self.shared.run
    }

    fn still_member(&self) -> Result<(), Gone> {
        self.shared.still_member()
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
