//! Who holds a training up: all processes are asked where they are, twice, and the culprit is named.

mod judge;
mod report;
mod watch;

pub use judge::{CoreState, Culprit, HangCause};
pub use report::{HANG_VERSION, HangReport, ProcessAnswer};
pub use watch::{HangWatch, HangWatched, HearHang};

use std::time::Duration;

use crate::processes::ProcessTarget;

/// How the processes are asked.
#[derive(Clone, Copy, Debug)]
pub struct HangOptions {
    /// How long each may take to answer.
    pub patience: Duration,
    /// The time between the two questions.
    pub apart: Duration,
}

impl Default for HangOptions {
    fn default() -> HangOptions {
        HangOptions { patience: Duration::from_millis(2500), apart: Duration::from_secs(3) }
    }
}

/// Asks all processes twice, and says who holds the others up.
pub fn examine(targets: &[ProcessTarget], options: &HangOptions) -> HangReport {
    let ask = || crate::ask::all(targets, |target| target.status(options.patience));
    let first = ask();
    std::thread::sleep(options.apart);
    let second = ask();
    let processes = targets.iter().zip(first).zip(second);
    let processes = processes.map(|((target, first), second)| ProcessAnswer::new(target, first, second)).collect();
    HangReport::new(processes, options.apart)
}
