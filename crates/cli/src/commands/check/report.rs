//! What `tpu check` says: each failure with its reason, why cases were skipped, and the counts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::output::{Align, Table};

/// Lines shown of a reason; the JSON record has all of it.
const SHOWN_LINES: usize = 12;

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One case, as it is reported.
#[derive(Debug, Serialize)]
pub(crate) struct CaseRecord {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) seconds: f64,
}

/// The whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) version: u32,
    /// `compiled`, `interpreter` or `plugin`.
    pub(crate) mode: &'static str,
    /// What the cases ran on.
    pub(crate) device: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) seconds: f64,
    /// Entries of the list of expected failures that no case met.
    pub(crate) unmatched_expected_failures: Vec<String>,
    pub(crate) cases: Vec<CaseRecord>,
}

impl Record {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for case in self.cases.iter().filter(|c| c.outcome == Outcome::Failed) {
            text.push_str(&format!("FAILED {}::{}\n", case.file, case.function));
            let reason = case.reason.as_deref().unwrap_or_default();
            for line in reason.lines().take(SHOWN_LINES) {
                text.push_str(&format!("  {line}\n"));
            }
            if let hidden @ 1.. = reason.lines().count().saturating_sub(SHOWN_LINES) {
                text.push_str(&format!("  … and {hidden} more lines\n"));
            }
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for case in self.cases.iter().filter(|c| c.outcome == Outcome::Skipped) {
            *reasons.entry(case.reason.as_deref().unwrap_or_default()).or_default() += 1;
        }
        if !reasons.is_empty() {
            text.push_str("skipped:\n");
            let mut table = Table::new(&[Align::Right, Align::Left]);
            for (reason, count) in reasons {
                table.row([count.to_string(), reason.to_string()]);
            }
            text.push_str(&table.render());
        }
        text.push_str(&format!("{} passed, {} failed, {} skipped\n", self.passed, self.failed, self.skipped));
        text
    }
}
