//! Sums of products of what a softmax and its gradient are made of, so that all ways to write them compare equal.
//!
//! With scores shifted by their maximum: `e` is their exponential, `z` the sum of `e` over the keys, `d` the gradient of the weights, `w`
//! the sum of `e · d` over the keys. The weights are `e / z`, and the gradient of the scores is `e / z · (d − w / z)`. Where scores have a
//! soft cap, `t` is the `tanh` of it, and the gradient is that times `1 − t²`.

/// A factor times powers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Term {
    factor: f64,
    e: i8,
    z: i8,
    d: i8,
    w: i8,
    t: i8,
}

/// Terms a sum may have.
const MAX_TERMS: usize = 8;
/// Powers that occur at most.
const MAX_POWER: i8 = 6;
/// How far constants of narrow types may be from what they stand for.
const ROUNDING: f64 = 0.01;

impl Term {
    fn powers(&self) -> [i8; 5] {
        [self.e, self.z, self.d, self.w, self.t]
    }

    fn times(&self, other: &Term) -> Option<Term> {
        let sum = |a: i8, b: i8| a.checked_add(b).filter(|power| power.abs() <= MAX_POWER);
        Some(Term {
            factor: self.factor * other.factor,
            e: sum(self.e, other.e)?,
            z: sum(self.z, other.z)?,
            d: sum(self.d, other.d)?,
            w: sum(self.w, other.w)?,
            t: sum(self.t, other.t)?,
        })
    }
}

/// A sum of terms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Polynomial {
    terms: Vec<Term>,
}

impl Polynomial {
    pub(super) fn constant(factor: f64) -> Polynomial {
        Polynomial { terms: vec![Term { factor, e: 0, z: 0, d: 0, w: 0, t: 0 }] }
    }

    /// The exponential of the shifted scores.
    pub(super) fn exponential() -> Polynomial {
        Polynomial { terms: vec![Term { factor: 1.0, e: 1, z: 0, d: 0, w: 0, t: 0 }] }
    }

    /// The gradient of the weights.
    pub(super) fn gradient() -> Polynomial {
        Polynomial { terms: vec![Term { factor: 1.0, e: 0, z: 0, d: 1, w: 0, t: 0 }] }
    }

    /// The `tanh` of a soft cap.
    pub(super) fn tanh() -> Polynomial {
        Polynomial { terms: vec![Term { factor: 1.0, e: 0, z: 0, d: 0, w: 0, t: 1 }] }
    }

    fn collected(terms: impl IntoIterator<Item = Term>) -> Option<Polynomial> {
        let mut all: Vec<Term> = Vec::new();
        for term in terms {
            match all.iter_mut().find(|other| other.powers() == term.powers()) {
                Some(other) => other.factor += term.factor,
                None => all.push(term),
            }
        }
        // `(g + g·t) · (1 − t)` has no `g·t`.
        all.retain(|term| term.t == 0 || term.factor != 0.0);
        let sound = all.len() <= MAX_TERMS && all.iter().all(|term| term.factor.is_finite());
        sound.then_some(Polynomial { terms: all })
    }

    pub(super) fn plus(&self, other: &Polynomial) -> Option<Polynomial> {
        Polynomial::collected(self.terms.iter().chain(&other.terms).copied())
    }

    pub(super) fn negated(&self) -> Polynomial {
        Polynomial { terms: self.terms.iter().map(|term| Term { factor: -term.factor, ..*term }).collect() }
    }

    pub(super) fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        let products = self.terms.iter().flat_map(|a| other.terms.iter().map(move |b| a.times(b)));
        Polynomial::collected(products.collect::<Option<Vec<Term>>>()?)
    }

    /// A quotient; only by one term that does not differ along the keys.
    pub(super) fn over(&self, divisor: &Polynomial) -> Option<Polynomial> {
        let [only] = divisor.terms[..] else { return None };
        if only.e != 0 || only.d != 0 || only.t != 0 || only.factor == 0.0 {
            return None;
        }
        let inverse = Term { factor: 1.0 / only.factor, e: 0, z: -only.z, d: 0, w: -only.w, t: 0 };
        self.times(&Polynomial { terms: vec![inverse] })
    }

    /// The sum over all keys; what is the same for all of them is a factor.
    pub(super) fn over_keys(&self) -> Option<Polynomial> {
        let terms = self.terms.iter().map(|term| match (term.e, term.d) {
            _ if term.t != 0 => None,
            (1, 0) => Some(Term { e: 0, z: term.z.checked_add(1)?, ..*term }),
            (1, 1) => Some(Term { e: 0, d: 0, w: term.w.checked_add(1)?, ..*term }),
            _ => None,
        });
        Polynomial::collected(terms.collect::<Option<Vec<Term>>>()?)
    }

    /// Whether it is the same for all keys of a query.
    pub(super) fn is_of_rows(&self) -> bool {
        self.terms.iter().all(|term| term.e == 0 && term.d == 0 && term.t == 0)
    }

    /// The number, if it is one.
    pub(super) fn as_constant(&self) -> Option<f64> {
        match self.terms[..] {
            [term] if term.powers() == [0; 5] => Some(term.factor),
            _ => None,
        }
    }

    /// Whether it is the sum of a query's exponentials.
    pub(super) fn is_sum_of_exponentials(&self) -> bool {
        matches!(self.terms[..], [term] if term.powers() == [0, 1, 0, 0, 0] && (term.factor - 1.0).abs() < 1e-9)
    }

    /// Whether it is the softmax.
    pub(super) fn is_weights(&self) -> bool {
        matches!(self.terms[..], [term] if term.powers() == [1, -1, 0, 0, 0] && (term.factor - 1.0).abs() < 1e-9)
    }

    /// Where it is the gradient of the scores times a number, that number.
    pub(super) fn gradient_of_scores(&self) -> Option<f64> {
        let [a, b] = self.terms[..] else { return None };
        let (direct, row) = if a.d == 1 { (a, b) } else { (b, a) };
        let fits = direct.powers() == [1, -1, 1, 0, 0] && row.powers() == [1, -2, 0, 1, 0];
        let opposite = (direct.factor + row.factor).abs() <= ROUNDING * direct.factor.abs();
        (fits && opposite).then_some(direct.factor)
    }

    /// Where it is the gradient of the scores before a soft cap times a number, that number.
    pub(super) fn gradient_before_tanh(&self) -> Option<f64> {
        let of = |power: i8| {
            let terms = self.terms.iter().filter(|term| term.t == power);
            Polynomial { terms: terms.map(|term| Term { t: 0, ..*term }).collect() }
        };
        let (plain, squared) = (of(0).gradient_of_scores()?, of(2).gradient_of_scores()?);
        (self.terms.len() == 4 && same_factor(plain, -squared)).then_some(plain)
    }
}

/// Whether two factors of scores are the same number, as far as narrow types can tell.
pub(super) fn same_factor(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_equal_however_they_are_written() {
        let (e, d) = (Polynomial::exponential(), Polynomial::gradient());
        let z = e.over_keys().unwrap();
        let weights = e.over(&z).unwrap();
        assert!(weights.is_weights() && !weights.is_of_rows() && z.is_of_rows());
        // p * (d - sum(p * d))
        let row = weights.times(&d).unwrap().over_keys().unwrap();
        let short = weights.times(&d.plus(&row.negated()).unwrap()).unwrap();
        assert_eq!(short.gradient_of_scores(), Some(1.0));
        // (d / z - sum(d * e / z²)) * e / 4
        let square = Polynomial::constant(1.0).over(&z.times(&z).unwrap()).unwrap();
        let row = d.times(&square).unwrap().times(&e).unwrap().over_keys().unwrap().negated();
        let long = d.over(&z).unwrap().plus(&row).unwrap().times(&e).unwrap();
        assert_eq!(long.times(&Polynomial::constant(0.25)).unwrap().gradient_of_scores(), Some(0.25));
        // The sign, the row sum or a power wrong.
        let wrong = weights.times(&d.plus(&row).unwrap()).unwrap();
        assert_eq!(wrong.gradient_of_scores(), None);
        assert_eq!(weights.times(&d).unwrap().gradient_of_scores(), None);
        assert_eq!(short.times(&weights).unwrap().gradient_of_scores(), None);
        assert!(e.over(&e).is_none() && d.over_keys().is_none());
        // Through a soft cap: g * (1 - t * t), and (g + g * t) * (1 - t).
        let (t, one) = (Polynomial::tanh(), Polynomial::constant(1.0));
        let square = t.times(&t).unwrap();
        let by_square = short.times(&one.plus(&square.negated()).unwrap()).unwrap();
        let by_parts = short.plus(&short.times(&t).unwrap()).unwrap().times(&one.plus(&t.negated()).unwrap()).unwrap();
        for capped in [by_square, by_parts] {
            assert_eq!(capped.gradient_before_tanh(), Some(1.0));
            assert_eq!(capped.gradient_of_scores(), None);
        }
        assert_eq!(short.gradient_before_tanh(), None);
        assert_eq!(short.times(&one.plus(&square).unwrap()).unwrap().gradient_before_tanh(), None);
        assert!(t.over_keys().is_none() && !t.is_of_rows());
    }
}
