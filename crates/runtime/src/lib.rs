//! Compile for a slice in a child process, and the compile cache.

pub mod blob;
pub mod cache;
mod error;
mod report;
pub mod worker;

pub use error::{Error, OutOfMemory};
pub use report::{Buffer, Collective, Memory, Mode, REPORT_VERSION, Report};
