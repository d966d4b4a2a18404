//! Many processes of one program, on this machine or over ssh: numbers, coordinator and secret given, logs told apart, one
//! exit code, and all of them stopped when one dies.
//!
//! Every process is started by a small worker ([`work`]) beside it, here or on its host. The worker reads orders from its
//! standard input. When that ends, because the launcher or the connection is gone, it ends the process.

mod lines;
mod order;
mod place;
mod run;
mod worker;

pub use lines::LaunchOutput;
pub use order::StopOrder;
pub use place::{LaunchPlace, Launcher};
pub use run::{LaunchEnd, LaunchedEnd, launch};
pub use worker::work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Exit code of a process that saved everything and stopped because it was asked to.
pub const SAVED: i32 = 75;

/// Processes at most.
pub const MAX_PROCESSES: usize = 4096;

/// What is to be launched.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// The program and its arguments, the same for all.
    pub command: Vec<OsString>,
    /// One for each process, by number.
    pub places: Vec<LaunchPlace>,
    /// Where process 0 is to be reached by the others, `HOST:PORT`.
    pub coordinator: String,
    /// More variables for every process.
    pub environment: Vec<(String, String)>,
    /// Folder for a file of each process's output.
    pub logs: Option<PathBuf>,
    /// Time between the request to stop and the kill, once one of the processes is dead.
    pub kill_after: Duration,
    /// The same after a signal or a preemption notice; `None` waits until all have saved.
    pub grace: Option<Duration>,
    /// How workers are started.
    pub launcher: Launcher,
}

impl LaunchPlan {
    /// The default of [`kill_after`](Self::kill_after): with it all are gone within 5 seconds.
    pub const KILL_AFTER: Duration = Duration::from_secs(3);

    /// Variables of a process: its number, how many there are, where they meet, and what proves that they belong together.
    fn variables(&self, process: usize, secret: &str, run_id: &str) -> Vec<(String, String)> {
        let (count, id) = (self.places.len().to_string(), process.to_string());
        let own = [
            ("TPUBRIDGE_PROCESSES", count.as_str()),
            ("TPUBRIDGE_PROCESS_ID", &id),
            ("TPUBRIDGE_COORDINATOR", &self.coordinator),
            ("TPUBRIDGE_SECRET", secret),
            ("TPUBRIDGE_RUN_ID", run_id),
            // The same for programs of JAX, whose `jax.distributed.initialize()` reads them.
            ("JAX_NUM_PROCESSES", &count),
            ("JAX_PROCESS_ID", &id),
            ("JAX_COORDINATOR_ADDRESS", &self.coordinator),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_string(), value.to_string()));
        own.chain(self.environment.iter().cloned()).collect()
    }
}
