//! `tpu diagnose`: what makes a run slow, how much that is, and what to do.

use operate::diagnose::{DiagnoseSource, diagnose};

use crate::args::DiagnoseArgs;
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;

pub(crate) fn run(args: &DiagnoseArgs, output: &Output) -> Result<Answer, Failure> {
    let source = DiagnoseSource::new(&args.run)?;
    let progress = Progress::start();
    progress.step("looking at the run");
    let diagnosis = diagnose(&source);
    drop(progress);
    let diagnosis = diagnosis?;
    output.record(&diagnosis, || diagnosis.text())?;
    Ok(if diagnosis.issues.is_empty() { Answer::Yes } else { Answer::No })
}
