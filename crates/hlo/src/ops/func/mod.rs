//! Function calls and returns.

pub(super) mod call;
pub(super) mod return_;
