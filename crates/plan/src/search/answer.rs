//! What a search found: plans with their time, cost and room, the recommended one, and how far it is from the goal.

use chips::Slice;
use serde::Serialize;

use super::candidate::{Candidate, FlagSet, PrecisionChoice, ShardingChoice, Variant, WindowedEinsum};
use super::facts::Facts;
use super::goal::{Goal, PlanCost, Trade, pareto};
use super::load::Load;
use crate::estimate::StepTime;

/// How sure a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The compiler's first phase: memory and schedule.
    Quick,
    /// The whole compiler.
    Full,
}

/// A plan: a candidate that the compiler accepts, with what it takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Slice, in canonical form.
    pub slice: String,
    /// Chips.
    pub chips: u32,
    /// How the program is sharded over the slice.
    pub sharding: ShardingChoice,
    /// Samples in a step.
    pub batch: u64,
    /// Tokens in a step.
    pub tokens_per_step: f64,
    /// Precision of matmuls.
    pub precision: PrecisionChoice,
    /// How the model is written, where the search chose it.
    #[serde(flatten)]
    pub variant: Option<Variant>,
    /// Compiler flags beside the caller's.
    pub flags: FlagSet,
    /// Whether the partitioner may cut matmuls into windows.
    pub windowed_einsum: WindowedEinsum,
    /// How sure.
    pub confidence: Confidence,
    /// Time of a step.
    pub step: StepTime,
    /// The closed form's seconds, before the compiler was asked.
    pub rough_step_s: f64,
    /// Share of the peak rate that the model's operations reach.
    pub mfu: f64,
    /// Share that the operations of the program reach, rematerialized ones included.
    pub hfu: f64,
    /// Tokens per second on all chips.
    pub tokens_per_s: f64,
    /// Tokens per second on one chip.
    pub tokens_per_s_per_chip: f64,
    /// HBM of one device that the program takes.
    pub hbm_bytes: u64,
    /// HBM that it may take.
    pub hbm_limit_bytes: u64,
    /// US dollars for one chip for an hour, where known.
    pub usd_per_chip_hour: Option<f64>,
    /// What the goal, or a million tokens, takes.
    pub outcome: PlanCost,
    /// Whether that is what the caller wants.
    pub is_met: bool,
    /// Whether no other plan is better in everything.
    pub is_on_frontier: bool,
    /// The candidate.
    #[serde(skip)]
    pub candidate: Candidate,
}

impl Plan {
    /// HBM that is left.
    pub fn headroom_bytes(&self) -> i64 {
        self.hbm_limit_bytes as i64 - self.hbm_bytes as i64
    }

    /// The slice.
    pub fn slice(&self) -> Slice {
        self.candidate.slice
    }
}

/// A candidate that came to nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// The candidate.
    pub candidate: String,
    /// Why.
    pub why: String,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// What was asked for.
    pub goal: Goal,
    /// What the program says.
    pub facts: Facts,
    /// Candidates the closed form looked at.
    pub considered: usize,
    /// Candidates the compiler was asked about.
    pub compiled: usize,
    /// Plans, best first.
    pub plans: Vec<Plan>,
    /// Of an inference step, the recommended plan against concurrency, fewest sequences first.
    pub loads: Vec<Load>,
    /// Candidates that do not fit or do not compile.
    pub refused: Vec<Refused>,
    /// Seconds the search took.
    pub wall_s: f64,
    /// What was assumed or left out.
    pub notes: Vec<String>,
}

impl Answer {
    /// The recommended plan: the best, whether or not it meets the goal.
    pub fn best(&self) -> Option<&Plan> {
        self.plans.first()
    }

    /// Whether a plan meets the goal.
    pub fn is_met(&self) -> bool {
        self.best().is_some_and(|plan| plan.is_met)
    }

    /// What it would take to meet the goal with the nearest plan; empty when it is met.
    pub fn shortfall(&self) -> Vec<String> {
        let Some(plan) = self.best().filter(|plan| !plan.is_met) else { return Vec::new() };
        let mut lines = Vec::new();
        if let Some(deadline) = self.goal.deadline_s.filter(|deadline| plan.outcome.seconds > *deadline) {
            let factor = plan.outcome.seconds / deadline;
            lines.push(format!(
                "a deadline {factor:.1} times as long ({:.1} days), or {factor:.1} times the chips at the same efficiency",
                plan.outcome.seconds / 86400.0
            ));
        }
        if let Some(budget) = self.goal.budget_usd {
            match plan.outcome.usd {
                Some(usd) if usd > budget => {
                    lines.push(format!("a budget of ${usd:.0}: {:.1} times as much", usd / budget));
                }
                Some(_) => {}
                None => lines.push(format!("a price for {}: --set GENERATION_price=USD", plan.slice)),
            }
        }
        if let (false, Some(tokens)) = (lines.is_empty(), self.goal.tokens) {
            let fraction = 1.0 / self.goal.excess(&plan.outcome);
            lines.push(format!("fewer tokens: {:.3e} instead of {tokens:.3e}", tokens * fraction));
        }
        lines
    }

    /// Orders plans by the goal and marks the frontier.
    pub(crate) fn arrange(&mut self) {
        let goal = self.goal;
        self.plans.sort_by(|a, b| goal.score(&a.outcome).total_cmp(&goal.score(&b.outcome)));
        let trades: Vec<Trade> = self
            .plans
            .iter()
            .map(|plan| Trade {
                seconds: plan.outcome.seconds,
                usd: plan.outcome.usd.unwrap_or(f64::INFINITY),
                headroom_bytes: plan.headroom_bytes() as f64,
            })
            .collect();
        for (plan, is_on_frontier) in self.plans.iter_mut().zip(pareto(&trades)) {
            plan.is_on_frontier = is_on_frontier;
        }
        self.loads = self.best().map_or_else(Vec::new, |best| Load::all(best, &self.plans, &self.facts));
    }
}
