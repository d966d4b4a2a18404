//! Tests only: what several crates' tests share.
//!
//! ```
//! // The same damaged inputs in every run: a parser must refuse them, and not panic.
//! let seeds = vec![b"func.func @main() { return }".to_vec()];
//! let (mut first, mut second) = (testkit::Mutator::new(1, seeds.clone()), testkit::Mutator::new(1, seeds));
//! for _ in 0..100 {
//!     assert_eq!(first.next_input(), second.next_input());
//! }
//! ```

mod certificates;
mod cloud_tpu;
mod golden;
mod libtpu_server;
mod mutate;
mod present;
mod ssh_machines;
mod stores;
mod web;

pub use certificates::make_certificates;
pub use cloud_tpu::CloudTpuServer;
pub use golden::{Golden, golden_files};
pub use libtpu_server::LibtpuServers;
pub use mutate::{Mutator, Random};
pub use present::{Needed, repository, require, skip};
pub use ssh_machines::SshMachines;
pub use stores::{StoreKind, StoreServer};
pub use web::{WebFault, WebServer};
