//! Workers of a job by ssh: they are prepared, their processes started, looked at and stopped.
//!
//! Nothing runs on a worker beside the program: each question is one short shell script over a kept ssh connection. The
//! worker remembers the highest epoch that asked, and refuses a supervisor that was replaced.

mod bundle;
mod command;
mod host_keys;
mod job_workers;
mod ssh;

pub use command::{ProcessCommand, elastic_mesh};
pub use host_keys::HostKeySource;
pub use job_workers::{OnLine, SshWorkers, ask_to_stop};
pub use ssh::{HostTrust, Ssh, SshError, SshHost, shell_quoted};
