//! What a rewrite did.

use serde::Serialize;

/// What one rewrite did to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The rewrite.
    pub rewrite: &'static str,
    /// Places it changed.
    pub changes: u64,
    /// What it changed, or why it did not.
    pub detail: String,
}

impl Step {
    pub(super) fn new(rewrite: &'static str, changes: u64, detail: impl Into<String>) -> Step {
        Step { rewrite, changes, detail: detail.into() }
    }
}
