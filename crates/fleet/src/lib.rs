//! Operate: look at a machine and say what is wrong with it, and put plugins in place.
//!
//! - [`doctor::examine`] runs an ordered list of checks and gives a [`doctor::DoctorReport`], each line with its remedy.
//! - [`setup::SetupPlan`] gets a PJRT plugin through the user's own pip or uv into the managed folder, pinned and
//!   hash-checked.
//! - [`job::JobFile`] is what to run, on which slices, for how much: `job.toml`, checked offline.
//! - [`provider::Provider`] is what a cloud does for a job: create, list and delete slices.
//! - [`launch::launch`] runs many processes of one program, here or over ssh, and stops all when one dies.
//! - [`supervisor::Supervisor`] takes a job from a request for slices to its end, through faults and its own death.
//! - [`cost::CostReport`] is what jobs cost, and what of it was wasted.
//! - [`managed::Home`] is that folder: where it lies, how it is laid out, what is in it.
//!
//! Nothing here is process-wide: the file-system root and the environment come in through a [`System`] value.
//!
//! ```
//! use fleet::System;
//! use fleet::managed::Home;
//!
//! let system = System::new("/machine", []).with_var("TPUBRIDGE_HOME", "/opt/tpubridge");
//! let home = Home::of(&system)?;
//! assert!(home.plugin_dir("libtpu").starts_with(home.path()));
//! # Ok::<(), fleet::Error>(())
//! ```

pub mod cost;
pub mod doctor;
mod error;
mod glibc;
pub mod job;
pub mod launch;
pub mod managed;
pub mod preemption;
pub mod provider;
pub mod restart;
pub mod setup;
pub mod supervisor;
mod system;
pub mod workers;

pub use error::Error;
pub use pjrt::ErrorFamily;
pub use system::System;
