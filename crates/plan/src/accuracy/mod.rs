//! Published measurements against what is predicted for the same runs.

mod fitted;
mod held_out;
mod micro;
mod page;
mod profile;
mod record;
mod results;
mod sections;
mod served;
mod summary;
mod timed_matmuls;

pub use fitted::is_fitted;
pub use held_out::{FitSample, HeldOut, HeldOutRow, family, leave_one_out, p10_to_p90};
pub use micro::{MicroRow, MicroRows, micro_rows};
pub use page::page;
pub use profile::{ClassError, LONG_OP_S, PricedOp, ProfileClasses, ProfileErrors, ProfiledOp};
pub use record::{Run, RunRecord, Table};
pub use results::{Details, InferenceRow, Predicted, PredictedPrefill, ResultRow, Results};
pub use served::{ServedRequest, ServedRow, ServedRows, Serving, ServingSettings, served_rows};
pub use summary::Summary;
pub use timed_matmuls::timed_matmuls;

use std::sync::atomic::AtomicBool;

use compile::{CompileMode, CompileRequest, SliceCompiler, with_causes};

use crate::compiled::{Compiled, Driver, Outcome};
use crate::error::Error;
use crate::estimate::{Estimate, Workload};
use crate::fit::device_numbers;

/// A measured run beside its prediction.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The run.
    pub record: RunRecord,
    /// What is predicted, or why nothing is.
    pub prediction: Result<Prediction, String>,
}

/// What is predicted for a run.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The step.
    pub estimate: Estimate,
    /// Device memory by the compiler's own figure, bytes.
    pub hbm_bytes: u64,
    /// Device memory there is, bytes.
    pub hbm_limit_bytes: u64,
    /// How much of the compiler ran.
    pub mode: CompileMode,
    /// Seconds it took, now or when the result was kept.
    pub compile_seconds: f64,
}

impl Comparison {
    /// How far the prediction is from the measurement, as a share of the measurement.
    pub fn error(&self) -> Option<f64> {
        let prediction = self.prediction.as_ref().ok()?;
        Some(prediction.estimate.step.seconds / self.record.measured_step_s? - 1.0)
    }
}

/// Compiles an exported run for its slice and predicts its step.
pub fn compare(
    compiler: &SliceCompiler,
    record: RunRecord,
    program: &[u8],
    mode: CompileMode,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Comparison {
    let prediction = predict(compiler, &record, program, mode, stop, progress).map_err(|error| with_causes(&error));
    Comparison { record, prediction }
}

/// A run with its compiled program, for a fit of constants; most often the compile cache has it.
pub fn sample(
    compiler: &SliceCompiler,
    record: &RunRecord,
    program: &[u8],
    mode: CompileMode,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<FitSample, Error> {
    let compiled = compiled(compiler, record, program, mode, stop, progress)?;
    let slice = record.slice()?;
    let measured_s = record.measured_step_s.ok_or_else(|| Error::Record(format!("{} has no step time", record.id)))?;
    let module = compiled.module().clone();
    Ok(FitSample {
        id: record.id.clone(),
        measured_s,
        slice,
        devices: device_numbers(&slice, Some(&record.device_ids)),
        executions: module.executions(),
        module,
    })
}

fn compiled(
    compiler: &SliceCompiler,
    record: &RunRecord,
    program: &[u8],
    mode: CompileMode,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Compiled, Error> {
    let mut request = CompileRequest::new(record.slice()?);
    request.mode = mode;
    request.device_ids = Some(record.device_ids.clone());
    request.flags = record.flags();
    let mut driver = Driver { compiler, stop, progress };
    match driver.once_unread(program, &request)? {
        Outcome::Fits(compiled) => Ok(*compiled),
        Outcome::TooLarge(oom) => Err(Error::TooLarge(oom)),
    }
}

fn predict(
    compiler: &SliceCompiler,
    record: &RunRecord,
    program: &[u8],
    mode: CompileMode,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Prediction, Error> {
    let slice = record.slice()?;
    let compiled = compiled(compiler, record, program, mode, stop, progress)?;
    let workload = Workload {
        tokens_per_step: record.tokens_per_step,
        model_flops_per_step: record.model_flops_per_chip.map(|flops| flops * f64::from(slice.chips())),
        ..Workload::default()
    };
    let estimate =
        Estimate::of(compiled.module(), &slice, &device_numbers(&slice, Some(&record.device_ids)), &workload);
    Ok(Prediction {
        estimate,
        hbm_bytes: compiled.report.memory.total,
        hbm_limit_bytes: compiled.report.memory.limit,
        mode: compiled.report.mode,
        compile_seconds: compiled.report.compile_seconds,
    })
}
