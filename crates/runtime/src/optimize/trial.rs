//! A rewritten program tried against the program as it was: results on sample inputs, costs, device memory.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use compile::optimize::{ProgramMetrics, ProgramOptimizer, RewriteStep};
use compile::{CompileRequest, Program, SliceCompiler};
use tensor::Literal;

use super::deviation::{Tried, deviations, is_finite, sensitivities};
use crate::backend::Backend;
use crate::error::Error;

/// What a program is tried with.
#[derive(Clone, Copy, Debug, Default)]
pub struct OptimizationTrial<'a> {
    /// One array for each argument.
    pub samples: &'a [Arc<Literal>],
    /// Where the program runs before and after, to compare results; without it nothing is run.
    pub backend: Option<&'a Backend>,
    /// A compiler that says how much device memory the program takes before and after.
    pub compiler: Option<(&'a SliceCompiler, &'a CompileRequest)>,
}

/// A rewritten program, and what that was good for.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The program.
    pub program: Program,
    /// Time spent on rewriting.
    pub seconds: f64,
    /// Costs of the program as it was.
    pub before: ProgramMetrics,
    /// Costs of the program as it is.
    pub after: ProgramMetrics,
    /// How far results moved on the sample inputs, where they were given; see [`deviation`](super::deviation()).
    pub deviation: Option<f64>,
    /// How far results of the program as it was move when its f32 samples move by half a unit of bf16, where the level
    /// lowers precision: what no program in bf16 can be better than.
    pub sensitivity: Option<f64>,
    /// What each rewrite did, in order.
    pub steps: Vec<RewriteStep>,
}

/// Rewrites a program. With samples and a backend it runs before and after; results that moved beyond the level's
/// [tolerance](compile::optimize::Level::tolerance_at) are an error.
pub fn optimize(
    optimizer: &ProgramOptimizer,
    program: &Program,
    trial: &OptimizationTrial<'_>,
) -> Result<Optimized, Error> {
    let started = Instant::now();
    let (rewritten, steps) = optimizer.rewrite(program)?;
    let seconds = started.elapsed().as_secs_f64();
    let (deviation, sensitivity) = match trial.backend {
        Some(backend) => compare(optimizer, backend, program, &rewritten, trial.samples)?,
        None => (None, None),
    };
    let (before, after) = (measure(program, trial)?, measure(&rewritten, trial)?);
    Ok(Optimized { program: rewritten, seconds, before, after, deviation, sensitivity, steps })
}

/// The deviation of a rewritten program on the samples, and the sensitivity of the program as it was.
fn compare(
    optimizer: &ProgramOptimizer,
    backend: &Backend,
    before: &Program,
    after: &Program,
    samples: &[Arc<Literal>],
) -> Result<(Option<f64>, Option<f64>), Error> {
    let before = Tried::new(backend, before)?;
    let expected = before.run(samples)?;
    let moved = deviations(&expected, &Tried::new(backend, after)?.run(samples)?);
    let sensitivity = match optimizer.lowers_precision() {
        true => Some(sensitivities(&before, samples, &expected)?),
        false => None,
    };
    for (result, &moved) in moved.iter().enumerate() {
        let sensitivity = sensitivity.as_ref().and_then(|results| results.get(result)).copied();
        let tolerance = optimizer.level().tolerance_at(sensitivity.unwrap_or(0.0));
        // A NaN deviation is within no tolerance.
        if moved <= tolerance {
            continue;
        }
        let level = optimizer.level().name();
        let mut message = format!("result {result} moves by {moved:.2e}, {level} may move it by {tolerance:.0e}");
        if let Some(sensitivity) = sensitivity {
            message += &format!("; inputs moved by half a unit of bf16 move it by {sensitivity:.2e}");
        }
        return Err(Error::Optimization(message));
    }
    let most = |results: Vec<f64>| results.into_iter().fold(0.0, f64::max);
    Ok((Some(most(moved)), sensitivity.map(most)))
}

/// How far one result moved between two programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultMove {
    /// How far, see [`deviation`](super::deviation()).
    pub deviation: f64,
    /// How far it moves when the f32 samples move by half a unit of bf16.
    pub sensitivity: f64,
    /// Whether all its numbers are finite.
    pub is_finite: bool,
}

/// Runs two programs on the same samples, as they are written, and says how far each result moved.
pub fn compare_programs(
    backend: &Backend,
    before: &Program,
    after: &Program,
    samples: &[Arc<Literal>],
) -> Result<Vec<ResultMove>, Error> {
    let tried = Tried::new(backend, before)?;
    let expected = tried.run(samples)?;
    let moved = deviations(&expected, &Tried::new(backend, after)?.run(samples)?);
    if moved.len() != expected.len() {
        return Err(Error::Optimization("the programs differ in the number of their results".into()));
    }
    let sensitivity = sensitivities(&tried, samples, &expected)?;
    let one = |((deviation, sensitivity), literal): ((f64, f64), &Literal)| ResultMove {
        deviation,
        sensitivity,
        is_finite: is_finite(literal),
    };
    Ok(moved.into_iter().zip(sensitivity).zip(&expected).map(one).collect())
}

fn measure(program: &Program, trial: &OptimizationTrial<'_>) -> Result<ProgramMetrics, Error> {
    let mut metrics = ProgramMetrics::of(program.module());
    if let Some((compiler, request)) = trial.compiler {
        let compilation = compiler.compile(program.bytes(), request, &AtomicBool::new(false), &mut |_| {})?;
        metrics.hbm_bytes = Some(compilation.entry.report.memory.total);
        metrics.accessed_bytes = compilation.entry.report.bytes_accessed;
    }
    Ok(metrics)
}
