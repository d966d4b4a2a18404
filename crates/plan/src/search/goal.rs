//! What the caller wants: tokens by a day, for so much. And what a plan takes of both.

use serde::Serialize;

/// What the caller wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Goal {
    /// Tokens to work through.
    pub tokens: Option<f64>,
    /// Seconds it may take.
    pub deadline_s: Option<f64>,
    /// US dollars it may cost.
    pub budget_usd: Option<f64>,
}

/// What a plan takes: for all tokens of the goal, or for a million where it names none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlanCost {
    /// Seconds.
    pub seconds: f64,
    /// US dollars, where a price is known.
    pub usd: Option<f64>,
}

/// Tokens that stand for a workload without a number.
const MILLION: f64 = 1e6;
/// A plan that misses the goal comes after every plan that does not.
const MISSED: f64 = 1e30;

impl Goal {
    /// Tokens that [`PlanCost`] is about.
    pub fn measured_tokens(&self) -> f64 {
        self.tokens.unwrap_or(MILLION)
    }

    /// What so many steps take. Steps are whole.
    pub fn outcome(&self, tokens_per_step: f64, step_s: f64, chips: f64, usd_per_chip_hour: Option<f64>) -> PlanCost {
        let steps = self.measured_tokens() / tokens_per_step.max(1.0);
        let steps = if self.tokens.is_some() { steps.ceil() } else { steps };
        let seconds = steps * step_s;
        PlanCost { seconds, usd: usd_per_chip_hour.map(|usd| usd * chips * seconds / 3600.0) }
    }

    /// By what factor an outcome misses the goal; 1 or less meets it. Without a price a budget is missed.
    pub fn excess(&self, outcome: &PlanCost) -> f64 {
        let late = self.deadline_s.map_or(0.0, |deadline| outcome.seconds / deadline);
        let dear = self.budget_usd.map_or(0.0, |budget| outcome.usd.map_or(f64::INFINITY, |usd| usd / budget));
        late.max(dear)
    }

    /// Whether an outcome is what the caller wants.
    pub fn is_met(&self, outcome: &PlanCost) -> bool {
        self.excess(outcome) <= 1.0
    }

    /// Orders plans, less first. With a deadline the cheapest that meets it, with a budget alone the fastest, without
    /// either a balance: half the time may cost twice as much.
    pub fn score(&self, outcome: &PlanCost) -> f64 {
        let excess = self.excess(outcome);
        if excess > 1.0 {
            return MISSED * excess;
        }
        // Without prices all chips of one generation cost the same; time stands for it.
        let usd = outcome.usd.unwrap_or(outcome.seconds);
        match (self.deadline_s, self.budget_usd) {
            // Of plans that cost the same, the earlier.
            (Some(deadline), _) => usd * (1.0 + 1e-3 * outcome.seconds / deadline),
            (None, Some(_)) => outcome.seconds,
            (None, None) => (usd * outcome.seconds).sqrt(),
        }
    }
}

/// One plan in three figures: less time and cost, more room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trade {
    pub(crate) seconds: f64,
    pub(crate) usd: f64,
    pub(crate) headroom_bytes: f64,
}

/// For each plan whether no other is at least as good in everything and better in something.
pub(crate) fn pareto(trades: &[Trade]) -> Vec<bool> {
    let beats = |a: &Trade, b: &Trade| {
        let no_worse = a.seconds <= b.seconds && a.usd <= b.usd && a.headroom_bytes >= b.headroom_bytes;
        no_worse && a != b
    };
    trades.iter().map(|trade| !trades.iter().any(|other| beats(other, trade))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86400.0;

    #[test]
    fn a_run_takes_whole_steps_and_chip_hours() {
        let goal = Goal { tokens: Some(1e12), ..Goal::default() };
        let outcome = goal.outcome(4e6, 3.6, 256.0, Some(2.0));
        // 250,000 steps of 3.6 s are 250 hours of 256 chips.
        assert!((outcome.seconds - 900_000.0).abs() < 1e-6, "{outcome:?}");
        assert!((outcome.usd.unwrap() - 250.0 * 256.0 * 2.0).abs() < 1e-6, "{outcome:?}");
        assert_eq!(Goal { tokens: Some(5.0), ..goal }.outcome(4.0, 1.0, 1.0, None).seconds, 2.0);
        assert_eq!(Goal::default().outcome(1e3, 1.0, 1.0, None).seconds, 1e3);
    }

    #[test]
    fn deadlines_and_budgets_decide_what_is_best() {
        let outcome = |days: f64, usd: f64| PlanCost { seconds: days * DAY, usd: Some(usd) };
        let (slow, fast) = (outcome(40.0, 1e5), outcome(10.0, 3e5));
        let goal = |days: Option<f64>, usd: Option<f64>| Goal {
            tokens: Some(1e12),
            deadline_s: days.map(|days| days * DAY),
            budget_usd: usd,
        };
        let best = |goal: Goal| if goal.score(&slow) < goal.score(&fast) { "slow" } else { "fast" };
        assert_eq!(best(goal(Some(30.0), None)), "fast");
        assert_eq!(best(goal(Some(60.0), None)), "slow");
        assert_eq!(best(goal(None, Some(2e5))), "slow");
        assert_eq!(best(goal(None, Some(4e5))), "fast");
        assert_eq!(best(goal(Some(60.0), Some(4e5))), "slow");
        // Four times as fast for three times the price.
        assert_eq!(best(goal(None, None)), "fast");
        // Impossible: the nearest comes first.
        let impossible = goal(Some(1.0), None);
        assert!(!impossible.is_met(&fast) && best(impossible) == "fast");
        assert!((impossible.excess(&fast) - 10.0).abs() < 1e-9);
        assert!(goal(None, Some(1.0)).excess(&PlanCost { seconds: 1.0, usd: None }).is_infinite());
    }

    #[test]
    fn a_plan_beaten_in_everything_is_not_on_the_frontier() {
        let trade = |seconds: f64, usd: f64, headroom_bytes: f64| Trade { seconds, usd, headroom_bytes };
        let trades = [trade(1.0, 4.0, 1.0), trade(2.0, 2.0, 1.0), trade(3.0, 3.0, 1.0), trade(3.0, 3.0, 9.0)];
        assert_eq!(pareto(&trades), [true, true, false, true]);
        assert_eq!(pareto(&[trade(1.0, 1.0, 1.0); 2]), [true, true]);
        assert!(pareto(&[]).is_empty());
    }
}
