//! `tpu hang`: who holds a training up.

use std::path::Path;
use std::time::Duration;

use operate::hang::{HangOptions, HangReport, examine};
use operate::monitor::{MonitorTarget, Selector, hosts, hosts_of, slice_or_local};
use operate::processes::ProcessTarget;
use telemetry::TrainingRecord;

use crate::args::HangArgs;
use crate::failure::{self, Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;

/// Longest wait that can be asked for.
const MAX_SECONDS: f64 = 600.0;

pub(crate) fn run(args: &HangArgs, output: &Output) -> Result<Answer, Failure> {
    let seconds = |name: &str, value: f64| match (0.0..=MAX_SECONDS).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(Failure::new(format!("--{name} {value} is not from 0 to {MAX_SECONDS} seconds"))),
    };
    let options = HangOptions { patience: seconds("patience", args.patience)?, apart: seconds("apart", args.apart)? };
    let processes = match &args.run {
        None => {
            args.metrics.iter().filter(|host| !host.trim().is_empty()).map(|host| ProcessTarget::at(host)).collect()
        }
        Some(run) => processes_of(run)?,
    };
    let hosts = hosts_asked(args)?;
    let progress = Progress::start();
    progress.step("asking all processes and hosts");
    let report = examine(&processes, &hosts, &options);
    drop(progress);
    if report.is_blind() {
        return Err(blind(&report));
    }
    output.record(&report, || report.text())?;
    Ok(if report.hangs { Answer::No } else { Answer::Yes })
}

fn processes_of(run: &Path) -> Result<Vec<ProcessTarget>, Failure> {
    let processes = ProcessTarget::all(run).map_err(|error| {
        let hint = "give the folder of a training that runs, or --metrics with the addresses of its processes";
        failure::file("reading", &run.join("processes"), error).hint(hint)
    })?;
    match processes.is_empty() {
        true => Err(Failure::new("there is no process to ask: the training has ended, or runs elsewhere")
            .hint("give --metrics with the addresses of its processes, or --hosts with those of its TPUs")),
        false => Ok(processes),
    }
}

/// The hosts that are named, or those that the training runs on.
fn hosts_asked(args: &HangArgs) -> Result<Vec<MonitorTarget>, Failure> {
    Ok(match (&args.hosts, &args.selector, &args.run) {
        (Some(list), ..) => hosts(list)?,
        (None, Some(labels), _) => Selector::new(labels, args.namespace.as_deref()).targets()?,
        (None, None, Some(run)) => hosts_of(&TrainingRecord::read(run).unwrap_or_default())?,
        (None, None, None) if args.metrics.is_empty() => own_hosts()?,
        (None, None, None) => Vec::new(),
    })
}

/// The hosts of this slice, or this machine if it has TPUs.
fn own_hosts() -> Result<Vec<MonitorTarget>, Failure> {
    let hosts = slice_or_local()?;
    let is_alone = hosts.iter().all(MonitorTarget::is_local);
    match is_alone && runtime::chips_on_bus(Path::new("/")).is_empty() {
        true => Err(Failure::new("there is nobody to ask: this machine has no TPU, and belongs to no slice").hint(
            "give the folder of a run, --metrics with addresses of its processes, or --hosts with hosts of TPUs",
        )),
        false => Ok(hosts),
    }
}

/// Nobody said anything that could be judged.
fn blind(report: &HangReport) -> Failure {
    Failure::new(format!("nothing is known of who hangs\n{}", report.text().trim_end()))
        .hint("start trainings with --metrics ADDRESS; name hosts of TPUs whose chips are in use: --hosts t-0,t-1")
}
