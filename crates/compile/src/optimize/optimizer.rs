//! The optimizer: rewrites in order.

use hlo::Verified;

use super::level::Level;
use super::precision::ComputePrecision;
use super::rematerialize::{self, GradientCheckpointing};
use super::step::RewriteStep;
use super::target::TargetInfo;
use super::{bf16_chains, bf16_matmuls, bf16_parameters, clean_up, donate, pad_matmuls};
use crate::error::CompileError;
use crate::program::Program;

/// What every rewrite may look at.
pub(super) struct Context<'a> {
    pub(super) target: &'a TargetInfo,
    /// Arguments the caller does not need after a run.
    pub(super) donated: &'a [usize],
    /// Arguments that may be taken in bf16.
    pub(super) parameters: &'a [usize],
    /// Arguments that are in bf16.
    pub(super) narrow_parameters: &'a [usize],
    /// Whether the program is going to be split over devices.
    pub(super) is_partitioned: bool,
    /// Which activations are computed again.
    pub(super) gradient_checkpointing: GradientCheckpointing,
}

/// A rewrite's work.
type Run = fn(Verified, &Context<'_>) -> Result<(Verified, RewriteStep), CompileError>;

/// A rewrite, and from where on it is applied.
struct Rewrite {
    level: Level,
    /// Whether it lowers precision, which must be allowed.
    lowers_precision: bool,
    /// Whether it computes activations again, which may be asked for at every level.
    is_checkpointing: bool,
    run: Run,
}

const fn keeps(level: Level, run: Run) -> Rewrite {
    Rewrite { level, lowers_precision: false, is_checkpointing: false, run }
}

const fn lowers(level: Level, run: Run) -> Rewrite {
    Rewrite { lowers_precision: true, ..keeps(level, run) }
}

const fn checkpoints(level: Level, run: Run) -> Rewrite {
    Rewrite { is_checkpointing: true, ..keeps(level, run) }
}

/// The order of rewrites. Parameters that are in bf16 come first: it says what the program is given. Activations that loops save are
/// dropped next, while loops have the form in which they were written. Then clean-up, so that the others see no calls and nothing
/// that is dropped anyway. Matmuls take bf16 next: they are what asks for narrow values. Conversions then move up towards where
/// values come from, through moves before arithmetic, since the first is free. Padding looks at matmuls as they will be. Clean-up
/// again merges the conversions that met and drops what they left unread, after which it shows who reads a parameter. Donation is
/// last: it speaks of arguments and results as they will be.
const REWRITES: &[Rewrite] = &[
    lowers(Level::Balanced, bf16_parameters::always),
    checkpoints(Level::Balanced, rematerialize::run),
    keeps(Level::Conservative, clean_up::run),
    lowers(Level::Balanced, bf16_matmuls::run),
    lowers(Level::Balanced, bf16_chains::through_moves),
    lowers(Level::Aggressive, bf16_chains::through_arithmetic),
    keeps(Level::Aggressive, pad_matmuls::run),
    keeps(Level::Balanced, clean_up::run),
    lowers(Level::Balanced, bf16_parameters::where_read),
    keeps(Level::Conservative, donate::run),
];

/// Rewrites programs for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramOptimizer {
    level: Level,
    target: TargetInfo,
    precision: ComputePrecision,
    donated: Vec<usize>,
    parameters: Vec<usize>,
    narrow_parameters: Vec<usize>,
    gradient_checkpointing: GradientCheckpointing,
}

impl ProgramOptimizer {
    /// Rewrites up to a level for a device. With [`ComputePrecision::F32`] nothing loses precision at any level.
    pub fn new(level: Level, target: TargetInfo, precision: ComputePrecision) -> ProgramOptimizer {
        ProgramOptimizer {
            level,
            target,
            precision,
            donated: Vec::new(),
            parameters: Vec::new(),
            narrow_parameters: Vec::new(),
            gradient_checkpointing: GradientCheckpointing::default(),
        }
    }

    /// For programs that run many times with the same parameters: everything that pays.
    pub fn for_inference(target: TargetInfo) -> ProgramOptimizer {
        ProgramOptimizer::new(Level::Aggressive, target, ComputePrecision::Bf16)
    }

    /// For training steps: gradients keep f32 between matmuls, and the state that a step replaces gives its memory to the
    /// new one.
    pub fn for_training(target: TargetInfo, state: impl Into<Vec<usize>>) -> ProgramOptimizer {
        ProgramOptimizer::new(Level::Balanced, target, ComputePrecision::Mixed).donate(state)
    }

    /// Lets programs take the memory of these arguments, by position: nobody reads them after a run.
    #[must_use]
    pub fn donate(mut self, arguments: impl Into<Vec<usize>>) -> ProgramOptimizer {
        self.donated = arguments.into();
        self
    }

    /// Says which arguments are parameters, by position: with [`ComputePrecision::Bf16`] those that are read in bf16 alone are
    /// taken in bf16, so the caller has to round them.
    #[must_use]
    pub fn parameters(mut self, arguments: impl Into<Vec<usize>>) -> ProgramOptimizer {
        self.parameters = arguments.into();
        self
    }

    /// Says which arguments are in bf16 already, though the program as exported takes f32.
    #[must_use]
    pub fn narrow_parameters(mut self, arguments: impl Into<Vec<usize>>) -> ProgramOptimizer {
        self.narrow_parameters = arguments.into();
        self
    }

    /// Says which activations the backward pass computes again instead of reading them: at every level, if asked for.
    #[must_use]
    pub fn gradient_checkpointing(mut self, choice: GradientCheckpointing) -> ProgramOptimizer {
        self.gradient_checkpointing = choice;
        self
    }

    /// Rewrites a program; what each rewrite did, in order.
    pub fn rewrite(&self, program: &Program) -> Result<(Program, Vec<RewriteStep>), CompileError> {
        let context = Context {
            target: &self.target,
            donated: &self.donated,
            parameters: if self.precision == ComputePrecision::Bf16 { &self.parameters } else { &[] },
            narrow_parameters: &self.narrow_parameters,
            is_partitioned: program.partitions().is_some_and(|count| count > 1) || program.uses_shardy(),
            gradient_checkpointing: self.gradient_checkpointing,
        };
        let mut module = program.verified().clone();
        let mut steps = Vec::new();
        for rewrite in REWRITES {
            let is_allowed = !rewrite.lowers_precision || self.precision != ComputePrecision::F32;
            let is_asked_for = rewrite.is_checkpointing && self.gradient_checkpointing.is_asked_for();
            if (self.level < rewrite.level && !is_asked_for) || !is_allowed {
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

    /// How far programs are rewritten.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether some rewrite rounds to bf16.
    pub fn lowers_precision(&self) -> bool {
        self.precision != ComputePrecision::F32 && self.level >= Level::Balanced
    }
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
        let optimizer =
            ProgramOptimizer::new(Level::Balanced, TargetInfo::UNKNOWN, ComputePrecision::Bf16).narrow_parameters([1]);
        let (rewritten, _) = optimizer.rewrite(&program).unwrap();
        let text = hlo::text::print(rewritten.module());
        assert!(text.contains("%arg1: tensor<2x2xbf16>"), "{text}");
        assert_eq!(text.matches("stablehlo.convert").count(), 1, "{text}");
        assert_eq!(rewritten.module().entry().unwrap().outputs, program.module().entry().unwrap().outputs);
    }
}
