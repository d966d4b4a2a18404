//! `tpu profile RUN|HOST:PORT`: records a profile of a program that runs: a training of ours, or any that serves JAX's profiler service.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use operate::processes::ProcessTarget;
use serde::Serialize;
use train::profiler::{self, CaptureLength};

use crate::args::CaptureArgs;
use crate::failure::{Answer, Failure};
use crate::human;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    address: String,
    path: String,
    size_bytes: u64,
    /// Steps whose markers are in the profile.
    steps: Vec<u64>,
}

pub(crate) fn run(args: &CaptureArgs, output: &Output) -> Result<Answer, Failure> {
    let length = length(args)?;
    let folder = Path::new(&args.target);
    let (address, own_folder) = match folder.is_dir() {
        true => (profiler_of(folder, args.process)?, folder.join("metrics")),
        false if args.target.contains(':') => (args.target.clone(), PathBuf::from("profiles")),
        false => {
            return Err(Failure::new(format!("`{}` is no folder of a run and no HOST:PORT", args.target))
                .hint("give the folder of a training that was started with --profiler, or the address it printed"));
        }
    };
    let profile = profiler::capture(&address, length)?;
    let name = match (profile.steps.first(), profile.steps.last()) {
        (Some(first), Some(last)) if args.steps.is_some() => format!("steps-{first}-{last}"),
        _ => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string(),
    };
    let path = profile.write(args.out.as_deref().unwrap_or(&own_folder), &name)?;
    let record = Record {
        version: 1,
        address,
        path: path.display().to_string(),
        size_bytes: profile.bytes.len() as u64,
        steps: profile.steps,
    };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

/// Where a process of a run answers requests for profiles.
fn profiler_of(run: &Path, process: usize) -> Result<String, Failure> {
    let targets = ProcessTarget::all(run).unwrap_or_default();
    let found = targets.into_iter().find(|target| target.process == Some(process));
    let silent = |what: &str| {
        Failure::new(format!("{}: {what}", run.display()))
            .hint("start the training with --profiler PORT, or give HOST:PORT of a profiler")
    };
    let found = found.ok_or_else(|| silent(&format!("no process {process} of it trains")))?;
    found.profiler.ok_or_else(|| silent(&format!("process {process} has no profiler")))
}

fn length(args: &CaptureArgs) -> Result<CaptureLength, Failure> {
    match (args.steps, args.seconds) {
        (Some(0), _) => Err(Failure::new("--steps 0 records nothing").hint("give at least one step")),
        (Some(steps), _) => Ok(CaptureLength::Steps(steps)),
        (None, seconds) => {
            let seconds = seconds.unwrap_or(2.0);
            let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
            let wrong =
                || Failure::new(format!("--seconds {seconds} is no time")).hint("give a number above 0, as in 2.5");
            time.map(CaptureLength::Time).ok_or_else(wrong)
        }
    }
}

fn text(record: &Record) -> String {
    let steps = match record.steps[..] {
        [] => "no step began and ended in it".to_string(),
        [one] => format!("step {one}"),
        [first, .., last] => format!("steps {first} to {last}"),
    };
    format!("{steps}, {}\n{}\n", human::bytes(record.size_bytes), record.path)
}
