//! Why a program does not fit or is slow, and what to change: fixes and advice, tried with the real compiler.

use std::sync::atomic::AtomicBool;

use chips::Slice;
use compile::optimize::{ComputePrecision, Level, ProgramOptimizer, TargetInfo};
use compile::{CompileMode, CompileRequest, Program, SliceCompiler};
use serde::Serialize;

use crate::advice::{Advice, AdviceKind, Roofline};
use crate::compiled::{Driver, Outcome};
use crate::donors::Donors;
use crate::error::Error;
use crate::estimate::Estimate;
use crate::fit::{Fit, FitRequest, device_numbers, fit_program, fixed, read};
use crate::fix::{self, Fix, donation};
use crate::memory::arguments;

/// Everything there is to say of a program on a slice.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Verdict, memory, step time, cost, advice.
    pub fit: Fit,
    /// Where it lies under the machine's roof.
    pub roofline: Option<Roofline>,
    /// What makes it fit, where it does not: those that do first, least cost first.
    pub fixes: Vec<Fix>,
    /// The program with the first change applied that is a rewrite, and what that is.
    #[serde(skip)]
    pub applied: Option<(String, Program)>,
}

/// Whether rewrites are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trials {
    /// Compile every fix and every advice that is a rewrite, to see what it is good for.
    Run,
    /// Only what one compilation says.
    Skip,
}

/// Explains a program.
pub fn explain(
    compiler: &SliceCompiler,
    program: &[u8],
    request: &FitRequest,
    trials: Trials,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Explanation, Error> {
    request.check()?;
    let read = read(program)?;
    let made = fixed(&read, request.batch)?;
    let symbolic = made.as_ref().and(request.batch).map(|batch| (&read, batch));
    let program = made.as_ref().unwrap_or(&read);
    let mut driver = Driver { compiler, stop, progress };
    let mut fit = fit_program(&mut driver, program, request)?;
    let slice = request.compile.slice;
    let roofline = fit.estimate.as_ref().map(|estimate| Roofline::of(estimate, &slice));
    let (mut fixes, mut applied) = (Vec::new(), None);
    if trials == Trials::Run {
        if fit.verdict.fits {
            applied = try_advice(&mut driver, program, request, &mut fit)?;
        } else {
            fixes = fix::fixes(&mut driver, program, symbolic, request, &fit)?;
            let first = fixes.iter().find(|fix| fix.is_applicable());
            applied = first.and_then(|fix| Some((fix.title.clone(), fix.program.clone()?)));
        }
    }
    Ok(Explanation { fit, roofline, fixes, applied })
}

/// Compiles each advice that is a rewrite, and writes its real gain into it. The first that gains is the one to apply.
fn try_advice(
    driver: &mut Driver<'_>,
    program: &Program,
    request: &FitRequest,
    fit: &mut Fit,
) -> Result<Option<(String, Program)>, Error> {
    let slice = request.compile.slice;
    let compile = request.compile.clone();
    let rewritten: Vec<(usize, Program)> = (fit.advice.iter().enumerate())
        .filter(|(_, advice)| advice.can_apply)
        .filter_map(|(index, advice)| Some((index, rewrite(program, &slice, advice.kind)?)))
        .collect();
    if rewritten.is_empty() {
        return Ok(None);
    }
    let Some(before) = measure(driver, program, &compile, request)? else { return Ok(None) };
    let mut candidates = Vec::new();
    for (index, rewritten) in rewritten {
        (driver.progress)(&format!("trying: {}", fit.advice[index].remedy));
        let Some(after) = measure(driver, &rewritten, &compile, request)? else { continue };
        let advice: &mut Advice = &mut fit.advice[index];
        if advice.kind == AdviceKind::Bf16Matmuls && compile.mode == CompileMode::Quick && after.0 >= before.0 {
            // Before code generation matmuls of both types have the same price.
            advice.remedy.push_str("; the whole compiler (--full) prices it");
            continue;
        }
        advice.gain_s = (before.0 - after.0).max(0.0);
        advice.gain_bytes = before.1.saturating_sub(after.1);
        advice.verified = true;
        if advice.gain_s > 0.0 || advice.gain_bytes > 0 {
            candidates.push((advice.gain_s, advice.gain_bytes, advice.title.clone(), rewritten));
        }
    }
    fit.advice.sort_by(|a, b| b.gain_s.total_cmp(&a.gain_s).then(b.gain_bytes.cmp(&a.gain_bytes)));
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    Ok(candidates.into_iter().next().map(|(_, _, title, program)| (title, program)))
}

/// Seconds of a step and bytes of device memory; `None` where the compiler refuses it.
fn measure(
    driver: &mut Driver<'_>,
    program: &Program,
    compile: &CompileRequest,
    request: &FitRequest,
) -> Result<Option<(f64, u64)>, Error> {
    match driver.compile(program, compile) {
        Ok(Outcome::Fits(compiled)) => {
            let devices = device_numbers(&compile.slice, compile.device_ids.as_deref());
            let estimate = Estimate::of(compiled.module(), &compile.slice, &devices, &request.workload);
            Ok(Some((estimate.step.seconds, compiled.report.memory.total)))
        }
        Err(error @ Error::Compile(compile::CompileError::Interrupted)) => Err(error),
        Ok(Outcome::TooLarge(_)) | Err(Error::Compile(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn rewrite(program: &Program, slice: &Slice, kind: AdviceKind) -> Option<Program> {
    match kind {
        AdviceKind::Donation => donation::donate(program, &arguments(program.module()), Donors::State).ok().flatten(),
        AdviceKind::Bf16Matmuls => {
            let target = TargetInfo::tpu(slice.generation());
            let optimizer = ProgramOptimizer::new(Level::Balanced, target, ComputePrecision::Mixed);
            let (rewritten, steps) = optimizer.rewrite(program).ok()?;
            let has_changed = steps.iter().any(|step| step.rewrite == "bf16_matmuls" && step.changes > 0);
            has_changed.then_some(rewritten)
        }
        _ => None,
    }
}
