//! Tests only: what several crates' tests share.

mod golden;
mod mutate;
mod present;

pub use golden::{Golden, golden_files};
pub use mutate::{Mutator, Random};
pub use present::{Needed, repository, require, skip};
