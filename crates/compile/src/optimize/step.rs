//! What a rewrite did.

use serde::Serialize;

/// What one rewrite did to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RewriteStep {
    /// The rewrite.
    pub rewrite: &'static str,
    /// Places it changed.
    pub changes: u64,
    /// What it changed, or why it did not.
    pub detail: String,
}

impl RewriteStep {
    pub(super) fn new(rewrite: &'static str, changes: u64, detail: impl Into<String>) -> RewriteStep {
        RewriteStep { rewrite, changes, detail: detail.into() }
    }
}
