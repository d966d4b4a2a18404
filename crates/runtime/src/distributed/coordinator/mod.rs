//! Our own coordinator: process 0 serves a key-value store over TCP and listens for signs of life of all processes.
//!
//! Every connection is a [`channel::Channel`]: both sides prove that they know the secret of the run, and what they say is
//! encrypted. What remains to be decided here:
//!
//! - **Without a secret** nothing is proved. So the coordinator listens on the loopback interface only, and no process connects
//!   to another address.
//! - **The run.** Process 0 draws a name for its run, or has it from `TPUBRIDGE_RUN_ID`, and tells it to each process that joins.
//!   Every later connection names it. So a process of an earlier run, paused or forgotten, is refused with that reason.
//! - **Strangers** have the budget of [`channel::Gate`]. Members have a number of connections each.
//! - **Memory** counts keys, values, messages under way and connections, each with what holding it costs.
//! - **A key has one value**: that of its first writer. Writing the same value again is no error.

mod client;
mod server;

pub use client::Connected;
pub use server::Server;

use std::net::SocketAddr;

/// Why an address is refused without a secret.
fn needs_secret(address: SocketAddr) -> String {
    format!(
        "{address} is not on the loopback interface, and there is no secret: `tpu config secret > FILE` makes one, \
         {}=FILE gives it to a process",
        channel::SECRET_FILE
    )
}
