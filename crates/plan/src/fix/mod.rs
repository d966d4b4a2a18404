//! Ways to make a program fit, each tried with the real compiler before it is proposed.

mod bf16_state;
pub(crate) mod donation;
mod effort;
mod entry;
mod larger_slice;
pub(crate) mod offload;
mod quantize;
pub(crate) mod recompute;
mod shard;
pub(crate) mod shard_gspmd;
mod smaller_batch;

use chips::Slice;
use compile::{CompileMode, CompileRequest, Program};
use serde::Serialize;

use crate::compiled::{Driver, Outcome};
use crate::error::Error;
use crate::estimate::Estimate;
use crate::fit::{Fit, FitRequest, device_numbers};
use crate::memory::{ProgramArgument, arguments};

/// What kind of change a fix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FixKind {
    /// Results take the memory of the state they replace.
    Donation,
    /// The compiler works harder to save memory.
    CompilerEffort,
    /// A compiler flag.
    Flag,
    /// Activations are rematerialized in the backward pass.
    Recompute,
    /// Arguments that every device holds whole are split.
    Sharding,
    /// Optimizer state or saved activations wait in host memory.
    Offload,
    /// State is kept in bf16.
    Bf16State,
    /// Weights are codes of few bits with scales.
    Quantization,
    /// A smaller batch.
    Batch,
    /// Several of the above together.
    Combination,
    /// The mesh spans more chips.
    LargerMesh,
    /// Another slice.
    Slice,
}

/// A change to a program or to how it is compiled.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) kind: FixKind,
    pub(crate) title: String,
    pub(crate) detail: String,
    /// The changed program; `None` where it stays as it is.
    pub(crate) program: Option<Program>,
    /// How it is compiled.
    pub(crate) request: CompileRequest,
    /// What to add to the command line.
    pub(crate) options: Vec<String>,
    /// Whether the changed program only tells memory and time, and is none to run.
    pub(crate) is_measurement: bool,
}

/// What proposals are made from.
pub(crate) struct Situation<'a> {
    pub(crate) program: &'a Program,
    pub(crate) request: &'a CompileRequest,
    pub(crate) arguments: Vec<ProgramArgument>,
    /// The program before its batch was fixed, and the batch.
    pub(crate) symbolic: Option<(&'a Program, u64)>,
    /// Bytes needed on one device, where known.
    pub(crate) needed_bytes: u64,
}

impl<'a> Situation<'a> {
    fn of(program: &'a Program, request: &'a CompileRequest, needed_bytes: u64) -> Situation<'a> {
        Situation { program, request, arguments: arguments(program.module()), symbolic: None, needed_bytes }
    }

    fn proposal(&self, kind: FixKind, title: impl Into<String>, detail: impl Into<String>) -> Proposal {
        Proposal {
            kind,
            title: title.into(),
            detail: detail.into(),
            program: None,
            request: self.request.clone(),
            options: Vec::new(),
            is_measurement: false,
        }
    }
}

/// Makes one proposal, if there is something to propose.
type Propose = fn(&Situation<'_>) -> Result<Option<Proposal>, Error>;

/// Least cost first: donation is free, effort and flags cost step time, recomputation too, sharding and offload cost
/// transfers, bf16 costs precision, and fewer bits quality.
const PROPOSALS: &[Propose] = &[
    donation::propose,
    effort::memory_fitting,
    effort::schedule_for_memory,
    recompute::cheap,
    recompute::everything,
    shard::propose,
    shard_gspmd::propose,
    offload::propose_activations,
    offload::propose,
    bf16_state::optimizer,
    bf16_state::all_state,
    quantize::int8,
    quantize::int4,
];

/// A fix as it was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Fix {
    /// What kind of change.
    pub kind: FixKind,
    /// In one line.
    pub title: String,
    /// What changes, and what it costs.
    pub detail: String,
    /// Whether the compiler says that it fits then.
    pub fits: bool,
    /// Slice it was compiled for.
    pub slice: String,
    /// Bytes of device memory then, where the compiler says so.
    pub hbm_bytes: Option<u64>,
    /// Bytes there are.
    pub limit_bytes: Option<u64>,
    /// Seconds of a step then.
    pub step_s: Option<f64>,
    /// Options of `tpu compile` and `tpu fit` that belong to it.
    pub options: Vec<String>,
    /// Whether the program changes.
    pub changes_program: bool,
    /// The changed program; `None` where it was compiled only to know its memory and time.
    #[serde(skip)]
    pub program: Option<Program>,
}

impl Fix {
    /// Whether it makes the program fit and can be applied: its program is one to run, or only options change.
    pub fn is_applicable(&self) -> bool {
        self.fits && (self.program.is_some() || !self.changes_program)
    }
}

/// Fixes that make it fit, after which no more are tried.
const ENOUGH: usize = 3;

/// Tries everything that might make a program fit. What does comes first, in order of its cost.
pub(crate) fn fixes(
    driver: &mut Driver<'_>,
    program: &Program,
    symbolic: Option<(&Program, u64)>,
    request: &FitRequest,
    fit: &Fit,
) -> Result<Vec<Fix>, Error> {
    let needed = fit.memory.as_ref().map(|memory| memory.total_bytes).or(fit.verdict.needed_bytes).unwrap_or(0);
    let compile = CompileRequest { mode: CompileMode::Quick, ..request.compile.clone() };
    let situation = Situation { symbolic, ..Situation::of(program, &compile, needed) };
    let mut tried: Vec<Fix> = Vec::new();
    let enough = |tried: &[Fix]| tried.iter().filter(|fix| fix.fits).count() >= ENOUGH;
    if fit.verdict.space != "HBM" {
        for proposal in effort::vector_memory(&situation, &fit.verdict) {
            if tried.iter().any(|fix| fix.fits) {
                break;
            }
            tried.extend(try_out(driver, program, proposal, request)?);
        }
        tried.sort_by_key(|fix| !fix.fits);
        return Ok(tried);
    }
    let mut helpful: Vec<Propose> = Vec::new();
    for &propose in PROPOSALS {
        if enough(&tried) {
            break;
        }
        let Some(proposal) = propose(&situation)? else { continue };
        let Some(fix) = try_out(driver, program, proposal, request)? else { continue };
        if fix.fits || fix.hbm_bytes.is_some_and(|bytes| bytes < needed) {
            helpful.push(propose);
        }
        tried.push(fix);
    }
    if !tried.iter().any(|fix| fix.fits) {
        tried.extend(combination(driver, program, request, &compile, needed, &helpful)?);
    }
    let costly = [smaller_batch::proposals(&situation)?, larger_slice::proposals(&situation)?].concat();
    for proposal in costly {
        if enough(&tried) {
            break;
        }
        tried.extend(try_out(driver, program, proposal, request)?);
    }
    tried.sort_by_key(|fix| !fix.fits);
    Ok(tried)
}

/// Applies what helps one after the other until it fits.
fn combination(
    driver: &mut Driver<'_>,
    program: &Program,
    request: &FitRequest,
    compile: &CompileRequest,
    needed: u64,
    helpful: &[Propose],
) -> Result<Option<Fix>, Error> {
    if helpful.len() < 2 {
        return Ok(None);
    }
    let mut together: Option<Proposal> = None;
    let mut last = None;
    for propose in helpful {
        let next = {
            let program = together.as_ref().and_then(|done| done.program.as_ref()).unwrap_or(program);
            let compile = together.as_ref().map_or(compile, |done| &done.request);
            propose(&Situation::of(program, compile, needed))?
        };
        let Some(next) = next else { continue };
        together = Some(match together {
            None => next,
            Some(before) => Proposal {
                kind: FixKind::Combination,
                title: format!("{}, and {}", before.title, next.title),
                detail: format!("{}; {}", before.detail, next.detail),
                program: next.program.or(before.program),
                request: next.request,
                options: [before.options, next.options].concat(),
                is_measurement: before.is_measurement || next.is_measurement,
            },
        });
        let Some(proposal) = together.clone().filter(|proposal| proposal.kind == FixKind::Combination) else {
            continue;
        };
        let fix = try_out(driver, program, proposal, request)?;
        let fits = fix.as_ref().is_some_and(|fix| fix.fits);
        last = fix.or(last);
        if fits {
            break;
        }
    }
    Ok(last)
}

/// Compiles a proposal. One that the compiler refuses for other reasons than memory is none.
pub(crate) fn try_out(
    driver: &mut Driver<'_>,
    program: &Program,
    proposal: Proposal,
    request: &FitRequest,
) -> Result<Option<Fix>, Error> {
    (driver.progress)(&format!("trying: {}", proposal.title));
    let changed = proposal.program.as_ref().unwrap_or(program);
    let slice: Slice = proposal.request.slice;
    let (fits, hbm_bytes, limit_bytes, step_s) = match driver.compile(changed, &proposal.request) {
        Ok(Outcome::Fits(compiled)) => {
            let devices = device_numbers(&slice, proposal.request.device_ids.as_deref());
            let estimate = Estimate::of(compiled.module(), &slice, &devices, &request.workload);
            let memory = &compiled.report.memory;
            (true, Some(memory.total), Some(memory.limit), Some(estimate.step.seconds))
        }
        Ok(Outcome::TooLarge(oom)) => (false, oom.needed_bytes, oom.available_bytes, None),
        Err(error @ Error::Compile(compile::CompileError::Interrupted)) => return Err(error),
        Err(Error::Compile(error)) => {
            tracing::debug!(%error, proposal = proposal.title, "a proposal was refused");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    Ok(Some(Fix {
        kind: proposal.kind,
        title: proposal.title,
        detail: proposal.detail,
        fits,
        slice: slice.to_string(),
        hbm_bytes,
        limit_bytes,
        step_s,
        options: proposal.options,
        changes_program: proposal.program.is_some(),
        program: proposal.program.filter(|_| !proposal.is_measurement),
    }))
}
