//! The optimizer: rewrites in order, and the measure of what they did.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use hlo::Verified;
use tensor::Literal;

use super::deviation::{Tried, deviations, sensitivities};
use super::level::Level;
use super::metrics::Metrics;
use super::step::Step;
use super::target::Target;
use super::{bf16_chains, bf16_parameters, bf16_products, clean_up, donate, pad_products};
use crate::backend::Backend;
use crate::compile::{CompileRequest, SliceCompiler};
use crate::config::Precision;
use crate::error::Error;
use crate::program::Program;

/// What every rewrite may look at.
pub(super) struct Context<'a> {
    pub(super) target: &'a Target,
    /// Arguments the caller does not need after a run.
    pub(super) donated: &'a [usize],
    /// Arguments that may be taken in bf16.
    pub(super) parameters: &'a [usize],
    /// Arguments that are in bf16.
    pub(super) narrow_parameters: &'a [usize],
    /// Whether the program is going to be split over devices.
    pub(super) is_partitioned: bool,
}

/// A rewrite's work.
type Run = fn(Verified, &Context<'_>) -> Result<(Verified, Step), Error>;

/// A rewrite, and from where on it is applied.
struct Rewrite {
    level: Level,
    /// Whether it lowers precision, which must be allowed.
    lowers_precision: bool,
    run: Run,
}

const fn keeps(level: Level, run: Run) -> Rewrite {
    Rewrite { level, lowers_precision: false, run }
}

const fn lowers(level: Level, run: Run) -> Rewrite {
    Rewrite { level, lowers_precision: true, run }
}

/// The order of rewrites. Parameters that are in bf16 come first: it says what the program is given. Then clean-up, so
/// that the others see no calls and nothing that is dropped anyway. Products take bf16 next: they are what asks for narrow values. Conversions then move up towards where values come from, through
/// moves before arithmetic, since the first is free. Padding looks at products as they will be. Clean-up again merges the
/// conversions that met and drops what they left unread, after which it shows who reads a parameter. Donation is last: it
/// speaks of arguments and results as they will be.
const REWRITES: &[Rewrite] = &[
    lowers(Level::Balanced, bf16_parameters::always),
    keeps(Level::Conservative, clean_up::run),
    lowers(Level::Balanced, bf16_products::run),
    lowers(Level::Balanced, bf16_chains::through_moves),
    lowers(Level::Aggressive, bf16_chains::through_arithmetic),
    keeps(Level::Aggressive, pad_products::run),
    keeps(Level::Balanced, clean_up::run),
    lowers(Level::Balanced, bf16_parameters::where_read),
    keeps(Level::Conservative, donate::run),
];

/// Rewrites programs for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    level: Level,
    target: Target,
    precision: Precision,
    donated: Vec<usize>,
    parameters: Vec<usize>,
    narrow_parameters: Vec<usize>,
}

/// What a program is tried with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial<'a> {
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
    pub before: Metrics,
    /// Costs of the program as it is.
    pub after: Metrics,
    /// How far results moved on the sample inputs, where they were given; see [`deviation`].
    pub deviation: Option<f64>,
    /// How far results of the program as it was move when its f32 samples move by half a unit of bf16, where the level
    /// lowers precision: what no program in bf16 can be better than.
    pub sensitivity: Option<f64>,
    /// What each rewrite did, in order.
    pub steps: Vec<Step>,
}

impl Optimizer {
    /// Rewrites up to a level for a device. With [`Precision::F32`] nothing loses precision at any level.
    pub fn new(level: Level, target: Target, precision: Precision) -> Optimizer {
        Optimizer {
            level,
            target,
            precision,
            donated: Vec::new(),
            parameters: Vec::new(),
            narrow_parameters: Vec::new(),
        }
    }

    /// For programs that run many times with the same parameters: everything that pays.
    pub fn for_inference(target: Target) -> Optimizer {
        Optimizer::new(Level::Aggressive, target, Precision::Bf16)
    }

    /// For training steps: gradients keep f32 between products, and the state that a step replaces gives its memory to the
    /// new one.
    pub fn for_training(target: Target, state: impl Into<Vec<usize>>) -> Optimizer {
        Optimizer::new(Level::Balanced, target, Precision::Mixed).donate(state)
    }

    /// Lets programs take the memory of these arguments, by position: nobody reads them after a run.
    #[must_use]
    pub fn donate(mut self, arguments: impl Into<Vec<usize>>) -> Optimizer {
        self.donated = arguments.into();
        self
    }

    /// Says which arguments are parameters, by position: with [`Precision::Bf16`] those that are read in bf16 alone are
    /// taken in bf16, so the caller has to round them.
    #[must_use]
    pub fn parameters(mut self, arguments: impl Into<Vec<usize>>) -> Optimizer {
        self.parameters = arguments.into();
        self
    }

    /// Says which arguments are in bf16 already, though the program as exported takes f32.
    #[must_use]
    pub(crate) fn narrow_parameters(mut self, arguments: impl Into<Vec<usize>>) -> Optimizer {
        self.narrow_parameters = arguments.into();
        self
    }

    /// Rewrites a program. With samples and a backend it runs before and after; results that moved beyond the level's
    /// [tolerance](Level::tolerance_at) are an error.
    pub fn optimize(&self, program: &Program, trial: &Trial<'_>) -> Result<Optimized, Error> {
        let started = Instant::now();
        let (rewritten, steps) = self.rewrite(program)?;
        let seconds = started.elapsed().as_secs_f64();
        let (deviation, sensitivity) = match trial.backend {
            Some(backend) => self.compare(backend, program, &rewritten, trial.samples)?,
            None => (None, None),
        };
        let (before, after) = (measure(program, trial)?, measure(&rewritten, trial)?);
        Ok(Optimized { program: rewritten, seconds, before, after, deviation, sensitivity, steps })
    }

    /// Rewrites a program without measuring anything.
    pub(crate) fn rewrite(&self, program: &Program) -> Result<(Program, Vec<Step>), Error> {
        let context = Context {
            target: &self.target,
            donated: &self.donated,
            parameters: if self.precision == Precision::Bf16 { &self.parameters } else { &[] },
            narrow_parameters: &self.narrow_parameters,
            is_partitioned: program.partitions().is_some_and(|count| count > 1) || program.uses_shardy(),
        };
        let mut module = program.verified().clone();
        let mut steps = Vec::new();
        for rewrite in REWRITES {
            let is_allowed = !rewrite.lowers_precision || self.precision != Precision::F32;
            if self.level < rewrite.level || !is_allowed {
                continue;
            }
            let (next, step) = (rewrite.run)(module, &context)?;
            tracing::debug!(rewrite = step.rewrite, changes = step.changes, detail = step.detail, "rewritten");
            module = next;
            steps.push(step);
        }
        // The bytes as they were given are what compile caches know.
        if steps.iter().all(|step| step.changes == 0) {
            return Ok((program.clone(), steps));
        }
        Ok((Program::from_module(module), steps))
    }

    /// The deviation of a rewritten program on the samples, and the sensitivity of the program as it was.
    fn compare(
        &self,
        backend: &Backend,
        before: &Program,
        after: &Program,
        samples: &[Arc<Literal>],
    ) -> Result<(Option<f64>, Option<f64>), Error> {
        let before = Tried::new(backend, before)?;
        let expected = before.run(samples)?;
        let moved = deviations(&expected, &Tried::new(backend, after)?.run(samples)?);
        let sensitivity = match self.lowers_precision() {
            true => Some(sensitivities(&before, samples, &expected)?),
            false => None,
        };
        for (result, &moved) in moved.iter().enumerate() {
            let sensitivity = sensitivity.as_ref().and_then(|results| results.get(result)).copied();
            let tolerance = self.level.tolerance_at(sensitivity.unwrap_or(0.0));
            // A deviation that is no number is within no tolerance.
            if moved <= tolerance {
                continue;
            }
            let level = self.level.name();
            let mut message = format!("result {result} moves by {moved:.2e}, {level} may move it by {tolerance:.0e}");
            if let Some(sensitivity) = sensitivity {
                message += &format!("; inputs moved by half a unit of bf16 move it by {sensitivity:.2e}");
            }
            return Err(Error::Optimization(message));
        }
        let most = |results: Vec<f64>| results.into_iter().fold(0.0, f64::max);
        Ok((Some(most(moved)), sensitivity.map(most)))
    }

    fn lowers_precision(&self) -> bool {
        self.precision != Precision::F32 && self.level >= Level::Balanced
    }
}

fn measure(program: &Program, trial: &Trial<'_>) -> Result<Metrics, Error> {
    let mut metrics = Metrics::of(program.module());
    if let Some((compiler, request)) = trial.compiler {
        let compilation = compiler.compile(program.bytes(), request, &AtomicBool::new(false), &mut |_| {})?;
        metrics.hbm_bytes = Some(compilation.entry.report.memory.total);
        metrics.accessed_bytes = compilation.entry.report.bytes_accessed;
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_device_in_bf16_is_taken_so() {
        let text = "func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
          return %0, %w : tensor<2x2xf32>, tensor<2x2xf32>
        }";
        let program = Program::read(text.as_bytes().to_vec()).unwrap();
        // This device never gains, and the parameter is also a result: it is widened where it comes in.
        let optimizer = Optimizer::new(Level::Balanced, Target::UNKNOWN, Precision::Bf16).narrow_parameters([1]);
        let (rewritten, _) = optimizer.rewrite(&program).unwrap();
        let text = hlo::text::print(rewritten.module());
        assert!(text.contains("%arg1: tensor<2x2xbf16>"), "{text}");
        assert_eq!(text.matches("stablehlo.convert").count(), 1, "{text}");
        assert_eq!(rewritten.module().entry().unwrap().outputs, program.module().entry().unwrap().outputs);
    }
}
