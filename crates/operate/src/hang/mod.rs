//! Who holds a training up: all processes are asked where they are, all hosts of TPUs what their cores do, twice, and the culprit
//! is named.

mod cores;
mod hosts;
mod judge;
mod report;
mod watch;

pub use hosts::HostAnswer;
pub use judge::{Culprit, HangCause};
pub use report::{HANG_VERSION, HangReport, ProcessAnswer};
pub use watch::{HangWatch, HangWatched, HearHang};

use std::time::Duration;

use crate::ask::AskError;
use crate::monitor::MonitorTarget;
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

/// Asks all processes, and all hosts of TPUs, twice, and says who holds the others up.
pub fn examine(processes: &[ProcessTarget], hosts: &[MonitorTarget], options: &HangOptions) -> HangReport {
    let ask = || {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| hosts::ask(hosts, options.patience));
            let statuses = crate::ask::all(processes, |target| target.status(options.patience));
            let unknown = || Err(AskError::Unknown("the thread that asks failed".into()));
            (statuses, asked.join().unwrap_or_else(|_| vec![unknown(); hosts.len()]))
        })
    };
    let (first, cores_first) = ask();
    std::thread::sleep(options.apart);
    let (second, cores_second) = ask();
    let processes = processes.iter().zip(first).zip(second);
    let processes = processes.map(|((target, first), second)| ProcessAnswer::new(target, first, second)).collect();
    let hosts = hosts.iter().zip(cores_first).zip(cores_second);
    let hosts = hosts.map(|((target, first), second)| HostAnswer::new(target, first, second)).collect();
    HangReport::new(processes, hosts, options.apart)
}
