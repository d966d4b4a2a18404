//! What makes a run slow: issues with their impact and what to do, from its folder, its endpoints, its profile, what the hosts of its
//! TPUs tell, and its prediction together.

mod checks;
mod chips;
mod evidence;
mod measured;
mod report;

pub use evidence::{DiagnoseError, DiagnoseSource};
pub use report::{DIAGNOSIS_VERSION, Diagnosis, Issue, IssueKind};

use evidence::Evidence;

/// Looks at a run. A live one is asked twice, a few seconds apart.
pub fn diagnose(source: &DiagnoseSource) -> Result<Diagnosis, DiagnoseError> {
    let evidence = Evidence::gather(source)?;
    Ok(Diagnosis::new(&evidence, checks::all(&evidence)))
}
