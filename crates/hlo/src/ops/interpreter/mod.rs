//! Ops of the reference interpreter that self-testing programs use.

pub(super) mod print;
pub(super) mod probe;
pub(super) mod run_parallel;
