//! Values of a loss as sums of terms: numbers of a row times logits, exponentials of logits, or one-hot vectors of labels.
//!
//! A softmax may be shifted by any number of its row. Programs shift by the largest logit, kernels by the logsumexp; what comes out is
//! the same where all powers of the sum of exponentials cancel. [`RowFact`] keeps count of them.

use hlo::Value;

use super::super::layout::{Label, Labels, Layout};

/// Terms that one value may have.
const MAX_TERMS: usize = 8;
/// Factors that one term may have.
const MAX_FACTORS: usize = 16;

/// What a number of a row is, as far as the shift decides it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowFact {
    /// So many times the largest logit, plus so many times the logarithm of the sum; `is_plain`: and nothing else.
    Linear { largest: f64, log_sum: f64, is_plain: bool },
    /// This power of the sum of exponentials, times something unless `is_plain`.
    Power { power: i32, is_plain: bool },
    /// Nothing, for every shift.
    Zero,
    /// True for every shift: that the largest logit is finite, that the sum is not negative.
    True,
}

impl RowFact {
    /// A number that does not depend on the shift.
    pub(super) const OPAQUE: RowFact = RowFact::Linear { largest: 0.0, log_sum: 0.0, is_plain: false };
    pub(super) const LARGEST: RowFact = RowFact::Linear { largest: 1.0, log_sum: 0.0, is_plain: true };

    /// Whether it is the same number for every shift: the logsumexp is the largest logit and the logarithm together.
    pub(super) fn is_invariant(self) -> bool {
        match self {
            RowFact::Linear { largest, log_sum, .. } => largest == log_sum,
            RowFact::Power { power, .. } => power == 0,
            RowFact::Zero => true,
            RowFact::True => false,
        }
    }

    fn power(self) -> Option<(i32, bool)> {
        match self {
            RowFact::Power { power, is_plain } => Some((power, is_plain)),
            fact if fact.is_invariant() => Some((0, false)),
            _ => None,
        }
    }

    pub(super) fn plus(self, other: RowFact) -> Option<RowFact> {
        use RowFact::{Linear, Zero};
        match (self, other) {
            (fact, Zero) | (Zero, fact) if fact != RowFact::True => Some(fact),
            (
                Linear { largest, log_sum, is_plain },
                Linear { largest: more, log_sum: more_sums, is_plain: both_plain },
            ) => {
                Some(Linear { largest: largest + more, log_sum: log_sum + more_sums, is_plain: is_plain && both_plain })
            }
            (a, b) if a.is_invariant() && b.is_invariant() => Some(RowFact::OPAQUE),
            _ => None,
        }
    }

    pub(super) fn scaled(self, by: f64) -> RowFact {
        match self {
            RowFact::Linear { largest, log_sum, is_plain } => {
                RowFact::Linear { largest: largest * by, log_sum: log_sum * by, is_plain }
            }
            RowFact::Power { power, is_plain } => RowFact::Power { power, is_plain: is_plain && by == 1.0 },
            RowFact::Zero | RowFact::True => self,
        }
    }

    pub(super) fn times(self, other: RowFact) -> Option<RowFact> {
        if self == RowFact::Zero || other == RowFact::Zero {
            return Some(RowFact::Zero);
        }
        let ((a, is_plain), (b, both_plain)) = (self.power()?, other.power()?);
        Some(RowFact::of_power(a.checked_add(b)?, is_plain && both_plain))
    }

    pub(super) fn over(self, other: RowFact) -> Option<RowFact> {
        if self == RowFact::Zero {
            return Some(RowFact::Zero);
        }
        let ((a, is_plain), (b, both_plain)) = (self.power()?, other.power()?);
        Some(RowFact::of_power(a.checked_sub(b)?, is_plain && both_plain))
    }

    fn of_power(power: i32, is_plain: bool) -> RowFact {
        if power == 0 { RowFact::OPAQUE } else { RowFact::Power { power, is_plain } }
    }
}

/// Numbers of rows: an array whose dimensions are rows, not all of them perhaps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) value: Value,
    pub(super) layout: Layout,
}

/// A number of a row that multiplies or divides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Factor {
    pub(super) source: Source,
    pub(super) fact: RowFact,
    pub(super) is_inverse: bool,
}

/// What a term is, along the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// The same everywhere.
    One,
    Logit,
    /// The exponential of the shifted logit, which has this power of the sum in it: 1, or 0 where the shift is the logsumexp.
    Exponential(i32),
    /// 1 at a label, by its number.
    Hot(usize),
    /// The logit at a label.
    LogitHot(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) along: Along,
    pub(super) number: f64,
    pub(super) factors: Vec<Factor>,
}

impl Term {
    pub(super) fn new(along: Along) -> Term {
        Term { along, number: 1.0, factors: Vec::new() }
    }

    /// What the numbers of rows are together; the constant counts only for sums.
    pub(super) fn fact(&self) -> Option<RowFact> {
        if let [Factor { fact, is_inverse: false, .. }] = self.factors[..] {
            return Some(fact.scaled(self.number));
        }
        let mut all = RowFact::OPAQUE;
        for (n, factor) in self.factors.iter().enumerate() {
            let start = RowFact::Power { power: 0, is_plain: true };
            let so_far = if n == 0 { start } else { all };
            all = if factor.is_inverse { so_far.over(factor.fact)? } else { so_far.times(factor.fact)? };
        }
        Some(all.scaled(self.number))
    }

    /// Whether the term is the same for every shift.
    pub(super) fn is_invariant(&self) -> bool {
        let Some(fact) = self.fact() else { return false };
        match (self.along, fact) {
            (Along::Exponential(own), RowFact::Power { power, .. }) => own + power == 0,
            (Along::Exponential(own), fact) => own == 0 && fact.is_invariant(),
            (_, fact) => fact.is_invariant(),
        }
    }

    fn times(&self, other: &Term) -> Option<Term> {
        let along = match (self.along, other.along) {
            (Along::One, along) | (along, Along::One) => along,
            (Along::Hot(a), Along::Logit) | (Along::Logit, Along::Hot(a)) => Along::LogitHot(a),
            (Along::Hot(a), Along::Hot(b)) if a == b => Along::Hot(a),
            (Along::Hot(a), Along::LogitHot(b)) | (Along::LogitHot(a), Along::Hot(b)) if a == b => Along::LogitHot(a),
            _ => return None,
        };
        let factors: Vec<Factor> = self.factors.iter().chain(&other.factors).cloned().collect();
        (factors.len() <= MAX_FACTORS).then_some(Term { along, number: self.number * other.number, factors })
    }
}

/// A sum of terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Combination {
    pub(super) terms: Vec<Term>,
}

impl Combination {
    pub(super) fn of(along: Along) -> Combination {
        Combination { terms: vec![Term::new(along)] }
    }

    pub(super) fn number(number: f64) -> Combination {
        let terms = if number == 0.0 { Vec::new() } else { vec![Term { number, ..Term::new(Along::One) }] };
        Combination { terms }
    }

    /// A number for each row.
    pub(super) fn row(source: Source, fact: RowFact) -> Combination {
        let factors = vec![Factor { source, fact, is_inverse: false }];
        Combination { terms: vec![Term { factors, ..Term::new(Along::One) }] }
    }

    pub(super) fn plus(&self, other: &Combination) -> Option<Combination> {
        let mut terms = self.terms.clone();
        for term in &other.terms {
            let same = |have: &&mut Term| have.along == term.along && have.factors == term.factors;
            match terms.iter_mut().find(same) {
                Some(have) => have.number += term.number,
                None => terms.push(term.clone()),
            }
        }
        terms.retain(|term| term.number != 0.0);
        (terms.len() <= MAX_TERMS).then_some(Combination { terms })
    }

    pub(super) fn scaled(&self, by: f64) -> Combination {
        let terms = self.terms.iter().map(|term| Term { number: term.number * by, ..term.clone() });
        Combination { terms: terms.filter(|term| term.number != 0.0).collect() }
    }

    pub(super) fn minus(&self, other: &Combination) -> Option<Combination> {
        self.plus(&other.scaled(-1.0))
    }

    pub(super) fn times(&self, other: &Combination) -> Option<Combination> {
        let mut sum = Combination::default();
        for a in &self.terms {
            for b in &other.terms {
                sum = sum.plus(&Combination { terms: vec![a.times(b)?] })?;
            }
        }
        Some(sum)
    }

    /// Divided by one number for each row.
    pub(super) fn over(&self, other: &Combination) -> Option<Combination> {
        let [by] = &other.terms[..] else { return None };
        (by.along == Along::One && by.number != 0.0).then_some(())?;
        let turned = |factor: &Factor| Factor { is_inverse: !factor.is_inverse, ..factor.clone() };
        let inverse =
            Term { along: Along::One, number: 1.0 / by.number, factors: by.factors.iter().map(turned).collect() };
        self.times(&Combination { terms: vec![inverse] })
    }

    /// Where a mask of zeros and ones is one, this, elsewhere the other.
    pub(super) fn chosen(mask: &Combination, yes: &Combination, no: &Combination) -> Option<Combination> {
        mask.times(yes)?.plus(no)?.minus(&mask.times(no)?)
    }

    /// Whether it is the logits themselves.
    pub(super) fn is_logits(&self) -> bool {
        *self == Combination::of(Along::Logit)
    }

    /// What the exponential has: the logits shifted by the largest, or by the logsumexp.
    pub(super) fn exponential(&self) -> Option<Combination> {
        let is_logit = |term: &&Term| **term == Term::new(Along::Logit);
        let shifts = self.terms.iter().filter(|term| !is_logit(term));
        let mut shift = RowFact::Linear { largest: 0.0, log_sum: 0.0, is_plain: true };
        for term in shifts {
            (term.along == Along::One).then_some(())?;
            shift = shift.plus(term.fact()?)?;
        }
        let RowFact::Linear { largest: -1.0, log_sum, is_plain: true } = shift else { return None };
        self.terms.iter().any(|term| is_logit(&term)).then_some(())?;
        match log_sum {
            0.0 => Some(Combination::of(Along::Exponential(1))),
            -1.0 => Some(Combination::of(Along::Exponential(0))),
            _ => None,
        }
    }

    /// Whether nothing of it comes from logits or their shift.
    pub(super) fn is_free(&self) -> bool {
        self.terms.iter().all(|term| matches!(term.along, Along::One | Along::Hot(_)) && term.is_invariant())
    }

    /// Whether it is a gradient of logits: probabilities and one-hot vectors, for every shift the same.
    pub(super) fn is_gradient(&self) -> bool {
        let is_part = |term: &Term| matches!(term.along, Along::Exponential(_) | Along::Hot(_)) && term.is_invariant();
        let has_probabilities = self.terms.iter().any(|term| matches!(term.along, Along::Exponential(_)));
        has_probabilities && self.terms.iter().all(is_part)
    }

    /// What its sum along the vocabulary is to its row.
    pub(super) fn summed(&self) -> Option<RowFact> {
        let mut all: Option<RowFact> = None;
        for term in &self.terms {
            let fact = match (term.along, term.fact()?) {
                (Along::Logit, _) => return None,
                (Along::LogitHot(_), fact) => fact.is_invariant().then_some(RowFact::OPAQUE)?,
                (Along::Exponential(own), fact) => {
                    let has_factors = !term.factors.is_empty() || term.number != 1.0;
                    let own = RowFact::Power { power: own, is_plain: !has_factors };
                    if has_factors { own.times(fact)? } else { own }
                }
                (Along::One, fact) => fact.is_invariant().then_some(RowFact::OPAQUE)?,
                (Along::Hot(_), fact) => fact,
            };
            all = Some(match all {
                None => fact,
                Some(RowFact::Power { power, .. }) => match fact {
                    RowFact::Power { power: other, .. } if other == power => RowFact::Power { power, is_plain: false },
                    _ => return None,
                },
                Some(so_far) => so_far.plus(fact)?,
            });
        }
        let all = all.unwrap_or(RowFact::OPAQUE);
        // With other terms beside it, nothing is only the largest logit any more.
        Some(match all {
            RowFact::Linear { largest, log_sum, .. } => RowFact::Linear { largest, log_sum, is_plain: false },
            fact => fact,
        })
    }

    /// The labels that it has one-hot vectors of.
    pub(super) fn labels(&self) -> impl Iterator<Item = usize> + '_ {
        self.terms.iter().filter_map(|term| match term.along {
            Along::Hot(label) | Along::LogitHot(label) => Some(label),
            _ => None,
        })
    }
}

/// The labels of a layout that are none of these.
pub(super) fn others(labels: &Labels, layout: &Layout, these: &[Label]) -> Vec<Label> {
    let these = labels.leaves(these);
    labels.flat(layout).into_iter().filter(|label| !these.contains(label)).collect()
}
