//! `tpu hang`: who holds a training up.

use std::time::Duration;

use operate::hang::{HangOptions, examine};
use operate::processes::ProcessTarget;

use crate::args::HangArgs;
use crate::failure::{self, Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;

/// Longest wait that can be asked for.
const MAX_SECONDS: f64 = 600.0;

pub(crate) fn run(args: &HangArgs, output: &Output) -> Result<Answer, Failure> {
    let targets = match &args.run {
        None => args.hosts.iter().filter(|host| !host.trim().is_empty()).map(|host| ProcessTarget::at(host)).collect(),
        Some(run) => ProcessTarget::all(run).map_err(|error| {
            let hint = "give the folder of a training that runs, or --hosts with the addresses of its --metrics";
            failure::file("reading", &run.join("processes"), error).hint(hint)
        })?,
    };
    if targets.is_empty() {
        return Err(Failure::new("there is no process to ask: the training has ended, or runs elsewhere")
            .hint("give --hosts with the addresses of its --metrics"));
    }
    let seconds = |name: &str, value: f64| match (0.0..=MAX_SECONDS).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(Failure::new(format!("--{name} {value} is not from 0 to {MAX_SECONDS} seconds"))),
    };
    let options = HangOptions { patience: seconds("patience", args.patience)?, apart: seconds("apart", args.apart)? };
    let progress = Progress::start();
    progress.step("asking all processes");
    let report = examine(&targets, &options);
    drop(progress);
    output.record(&report, || report.text())?;
    Ok(if report.hangs { Answer::No } else { Answer::Yes })
}
