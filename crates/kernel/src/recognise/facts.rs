//! What values of an attention are: scores, polynomials of the softmax and its gradient, and what guards queries that see no key.

use hlo::Value;

use super::layout::Layout;
use super::mask::MaskForm;
use super::polynomial::Polynomial;

/// A mask as it is applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Applied {
    pub(super) value: Value,
    pub(super) form: MaskForm,
    pub(super) layout: Layout,
    /// What masked scores become, where the mask selects.
    pub(super) low: Option<f64>,
}

/// What a value of an attention is.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Score(Score),
    /// The largest score of a query.
    Largest(Value),
    /// Whether the largest score of a query is finite.
    IsFinite(Value),
    Shifted,
    Sum(Polynomial),
    /// Whether the sum of a query's exponentials is zero.
    IsEmpty,
}

/// Scores: a matmul of queries and keys, scaled, capped and masked.
#[derive(Clone, Debug)]
pub(super) struct Score {
    pub(super) scale: f64,
    /// Where it went through a `tanh`, what it had been multiplied by before.
    pub(super) before_tanh: Option<f64>,
    pub(super) masks: Vec<Applied>,
    /// The value that last changed it.
    pub(super) of: Value,
}

/// A value that is understood.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) fact: Fact,
    pub(super) layout: Layout,
}

impl Score {
    /// Scores times a number; after a mask that would scale the mask too.
    pub(super) fn scaled(self, factor: f64, of: Value) -> Option<Score> {
        (self.masks.is_empty() && factor.is_finite()).then_some(Score { scale: self.scale * factor, of, ..self })
    }

    /// Scores through a `tanh`, once.
    pub(super) fn through_tanh(self, of: Value) -> Option<Score> {
        let is_plain = self.masks.is_empty() && self.before_tanh.is_none();
        is_plain.then_some(Score { scale: 1.0, before_tanh: Some(self.scale), of, ..self })
    }

    /// Whether it is what a `tanh` gave, as it was.
    pub(super) fn is_tanh(&self) -> bool {
        self.before_tanh.is_some() && self.scale == 1.0 && self.masks.is_empty()
    }

    /// The factor of small scores.
    pub(super) fn whole_scale(&self) -> f64 {
        self.scale * self.before_tanh.unwrap_or(1.0)
    }
}

impl Fact {
    /// Whether an op of both is of the gradient of a `tanh`: the `tanh` of scores scaled by a number alone is a score again.
    pub(super) fn is_in_gradient_of_tanh(&self, other: &Fact) -> bool {
        let is_tanh = |fact: &Fact| matches!(fact, Fact::Score(score) if score.is_tanh());
        let has_more = |fact: &Fact| matches!(fact, Fact::Sum(sum) if sum.as_constant().is_none());
        let is_one = |fact: &Fact| matches!(fact, Fact::Sum(sum) if sum.as_constant() == Some(1.0));
        let fits = |fact: &Fact| is_tanh(fact) || has_more(fact) || is_one(fact);
        (is_tanh(self) && fits(other)) || (is_tanh(other) && fits(self))
    }

    pub(super) fn of_tanh(self) -> Option<Polynomial> {
        match self {
            Fact::Sum(sum) => Some(sum),
            Fact::Score(score) => score.is_tanh().then(Polynomial::tanh),
            _ => None,
        }
    }
}
