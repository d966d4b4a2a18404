//! Several processes that run one program: who they are, the store through which they find each other, and hearing within
//! seconds that one of them is gone.
//!
//! A [`MultiHostConfig`] comes from arguments, the environment or the metadata server. [`Session::join`] waits for all processes; a
//! [`Backend`](crate::Backend) made [in a session](crate::Backend::in_session) has the devices of all of them. The store is our
//! own [`coordinator`], which process 0 runs, or [`etcd`]. [`Distributed`](crate::Distributed) is what a program asks: its rank, sums of what all have,
//! a model on all devices.

mod config;
pub mod coordinator;
pub mod etcd;
mod etcd_config;
mod metadata;
mod session;
mod tpu;
mod wire;

pub use channel::{SECRET, SECRET_FILE, Secret};
pub use config::{Coordinator, DEFAULT_PORT, Given, MultiHostConfig, slice_hosts};
pub use etcd_config::{Credentials, Encryption, EtcdConfig, Identity};
pub use metadata::machine_zone;
pub use session::Session;

use std::net::IpAddr;

use pjrt::{Code, KeyValueError, KeyValueStore};

use crate::error::Error;

/// A process's place in a store that watches all of them.
pub(crate) trait Member: KeyValueStore {
    /// Where other processes reach this one.
    fn local_address(&self) -> Option<IpAddr>;

    /// The name of the run, the same in all of its processes and in no other run.
    fn run_id(&self) -> &str;

    /// An error where another process may think already that this one is gone. Asks nobody.
    fn still_member(&self) -> Result<(), Gone>;

    /// This process ends because another is gone: returns when all know which.
    fn abandon(&self) {}

    /// Leaves, after all processes said that they are done.
    fn leave(&self) -> Result<(), Error>;
}

/// A process that is gone, and how that was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) process: usize,
    pub(crate) why: String,
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} is gone: {}", self.process, self.why)
    }
}

/// A key that somebody else has set already.
fn exists(key: &str) -> KeyValueError {
    KeyValueError::new(
        Code::AlreadyExists,
        format!("`{key}` has another value already: that of its first writer stays"),
    )
}

impl From<Gone> for KeyValueError {
    fn from(gone: Gone) -> KeyValueError {
        KeyValueError::new(Code::Unavailable, gone.to_string())
    }
}

impl From<Gone> for Error {
    fn from(gone: Gone) -> Error {
        Error::Distributed(gone.to_string())
    }
}

impl From<KeyValueError> for Error {
    fn from(error: KeyValueError) -> Error {
        Error::Distributed(error.message)
    }
}
