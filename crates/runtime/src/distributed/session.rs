//! A process's part in a program of several: it joins, shares a store with the others, and leaves when all are done.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use channel::Secret;
use pjrt::{ClientOptions, Code, KeyValueError, KeyValueStore};

use super::Member;
use super::config::{Coordinator, MultiHostConfig};
use super::coordinator::{Connected, Server};
use super::etcd::Etcd;
use crate::error::Error;

/// How long the end waits for processes that are slower. One that is gone ends the wait at once.
const FINISH_TIMEOUT: Duration = Duration::from_secs(600);

/// A process's part in a program of several. Dropped without [`finish`](Self::finish), the others hear that it is gone.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    config: MultiHostConfig,
    store: Arc<dyn Member>,
    /// Clients made so far: each has keys of its own.
    clients: AtomicUsize,
    /// Questions of [`Session::must_agree`] so far.
    agreements: AtomicUsize,
    /// Questions of [`Session::found_by_first`] so far.
    findings: AtomicUsize,
    /// Pieces of work begun so far.
    works: AtomicUsize,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts the coordinator where this is process 0 and there is no other store, connects, and waits for all processes.
    pub fn join(config: &MultiHostConfig) -> Result<Session, Error> {
        let store: Arc<dyn Member> = match &config.coordinator {
            Coordinator::Own(address) => {
                let server = match config.process_id {
                    0 => Some(Server::start(address, config)?),
                    _ => None,
                };
                Arc::new(Connected::connect(address, config, server)?)
            }
            Coordinator::Etcd(etcd) => Arc::new(Etcd::join(etcd, config)?),
        };
        let (clients, agreements, findings, works) = Default::default();
        let inner = Inner { config: config.clone(), store, clients, agreements, findings, works };
        let session = Session { inner: Arc::new(inner) };
        session.meet("joined", config.join_timeout)?;
        let run = session.run_id();
        tracing::info!(process = config.process_id, processes = config.processes, run, "joined");
        Ok(session)
    }

    /// What it was made with.
    pub fn config(&self) -> &MultiHostConfig {
        &self.inner.config
    }

    /// The name of this run, the same in all of its processes and in no other run: [`MultiHostConfig::run_id`], or a fresh one.
    pub fn run_id(&self) -> &str {
        self.inner.store.run_id()
    }

    /// An error where this process is no member of the run any more, or the others may think so: one of them is gone, or this
    /// one was paused or cut off for longer than the heartbeat timeout. Asks nobody, so it is cheap. To be called right before
    /// anything that must not be done by two runs, such as the commit of a checkpoint.
    pub fn still_member(&self) -> Result<(), Error> {
        Ok(self.inner.store.still_member()?)
    }

    /// What keeps the links of a client between its processes from strangers.
    pub(crate) fn link_secret(&self) -> Secret {
        self.inner.config.secret.derive(&format!("links of run {}", self.run_id()))
    }

    /// The store all processes share. A key has one value: that of its first writer. Another one is an error
    /// ([`Code::AlreadyExists`]), the same one is none.
    pub fn store(&self) -> Arc<dyn KeyValueStore> {
        Arc::new(Prefixed { prefix: "user".into(), store: self.inner.store.clone() })
    }

    /// Where the other processes reach this one.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.inner.config.host_address.or_else(|| self.inner.store.local_address())
    }

    /// Options for the next client of this process: all processes make their clients in the same order.
    pub(crate) fn client_options(&self, options: ClientOptions) -> ClientOptions {
        let number = self.inner.clients.fetch_add(1, Ordering::Relaxed);
        let store = Prefixed { prefix: format!("client/{number}"), store: self.inner.store.clone() };
        ClientOptions { key_value_store: Some(Arc::new(store)), ..options }
    }

    /// Waits until all processes are here. Each name is used once.
    pub fn barrier(&self, name: &str, timeout: Duration) -> Result<(), Error> {
        self.meet(&format!("barrier/{name}"), timeout)
    }

    /// Checks that all processes say the same of something that they must agree on. They ask in the same order.
    pub fn must_agree(&self, name: &str, value: &str, remedy: &str) -> Result<(), Error> {
        let MultiHostConfig { process_id, join_timeout, .. } = self.inner.config;
        let key = format!("agree/{}", self.inner.agreements.fetch_add(1, Ordering::Relaxed));
        if process_id == 0 {
            return Ok(self.inner.store.put(&key, value.as_bytes())?);
        }
        let first = self.inner.store.get(&key, join_timeout)?;
        if first == value.as_bytes() {
            return Ok(());
        }
        let first = String::from_utf8_lossy(&first);
        Err(Error::Distributed(format!("{name} is {first} in process 0 and {value} in process {process_id}: {remedy}")))
    }

    /// What process 0 finds, told to all; they ask in the same order. The others wait as long as process 0 is there.
    pub fn found_by_first(&self, find: impl FnOnce() -> Result<String, Error>) -> Result<String, Error> {
        let name = format!("found/{}", self.inner.findings.fetch_add(1, Ordering::Relaxed));
        if self.inner.config.process_id == 0 {
            let found = find()?;
            self.tell(&name, found.as_bytes())?;
            return Ok(found);
        }
        Ok(String::from_utf8_lossy(&self.hear(&name)?).into_owned())
    }

    /// A name for the next piece of work, under which its processes tell each other things: all begin them in the same order.
    pub fn next_work(&self) -> String {
        format!("work/{}", self.inner.works.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells all processes something, under a name that is used once.
    pub fn tell(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        Ok(self.inner.store.put(&format!("told/{name}"), value)?)
    }

    /// What a process told under a name. Waits for it as long as all processes are there.
    pub fn hear(&self, name: &str) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(value) = self.hear_within(name, self.inner.config.join_timeout)? {
                return Ok(value);
            }
        }
    }

    /// What a process told under a name, if one does so within this time.
    pub fn hear_within(&self, name: &str, timeout: Duration) -> Result<Option<Vec<u8>>, Error> {
        match self.inner.store.get(&format!("told/{name}"), timeout) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.code == Code::DeadlineExceeded => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// To be called before this process ends with an error: where another process is gone, waits a moment until all know which,
    /// so that none takes this one for it.
    pub fn abandon(&self) {
        self.inner.store.abandon();
    }

    /// Waits until all processes are done, and leaves.
    pub fn finish(self) -> Result<(), Error> {
        self.meet("done", FINISH_TIMEOUT)?;
        self.inner.store.leave()
    }

    fn meet(&self, what: &str, timeout: Duration) -> Result<(), Error> {
        let MultiHostConfig { processes, process_id, .. } = self.inner.config;
        let key = |process: usize| format!("{what}/{process}");
        let store = &self.inner.store;
        store.put(&key(process_id), b"1")?;
        let deadline = Instant::now() + timeout;
        for process in (0..processes).filter(|&process| process != process_id) {
            match store.get(&key(process), deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(error) if error.code == Code::DeadlineExceeded => {
                    let is_missing = |process: &usize| !matches!(store.try_get(&key(*process)), Ok(Some(_)));
                    let missing = (0..processes).filter(is_missing).map(|process| process.to_string());
                    let missing: Vec<String> = missing.collect();
                    return Err(Error::Distributed(format!(
                        "process {} of {processes} did not come ({what}) within {:.0} s",
                        missing.join(", "),
                        timeout.as_secs_f64()
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A part of a store.
struct Prefixed {
    prefix: String,
    store: Arc<dyn Member>,
}

impl KeyValueStore for Prefixed {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError> {
        self.store.get(&format!("{}/{key}", self.prefix), timeout)
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        self.store.try_get(&format!("{}/{key}", self.prefix))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError> {
        self.store.put(&format!("{}/{key}", self.prefix), value)
    }
}
