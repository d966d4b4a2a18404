//! Which of the values that are made of rows are what a norm gives: its result, and gradients of rows, weight and bias.

use std::collections::HashMap;

use hlo::Value;

use super::algebra::{Atom, Polynomial, Spread, Term};
use super::walk::{Source, Walk};
use crate::kernels::norm::FusedNormKind;

/// A number times arrays of features.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weight {
    pub(super) factor: f64,
    pub(super) columns: Vec<(usize, i8)>,
}

impl Weight {
    pub(super) const ONE: Weight = Weight { factor: 1.0, columns: Vec::new() };

    fn polynomial(&self) -> Option<Polynomial> {
        let product = self.columns.iter().map(|&(column, power)| (Atom::Column(column), power)).collect();
        Some(Polynomial::of_term(Term { factor: self.factor, product }))
    }

    /// Of a product without some of its atoms; `None` where others than arrays of features are left.
    fn of(term: &Term, by: f64, without: &[Atom]) -> Option<Weight> {
        let rest = term.product.iter().filter(|(atom, _)| !without.contains(atom));
        let columns: Option<Vec<(usize, i8)>> = rest
            .map(|&(atom, power)| match atom {
                Atom::Column(column) => Some((column, power)),
                _ => None,
            })
            .collect();
        Some(Weight { factor: term.factor / by, columns: columns? })
    }
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// The rows themselves.
    Rows,
    /// Normalised rows times a weight, plus a bias.
    Result { root: usize, weight: Weight, bias: Vec<Weight> },
    /// The gradient of the rows, of array `of` as gradient of the result, with a weight; plus another array.
    OfRows { root: usize, of: usize, weight: Weight, residual: Option<Source> },
    /// The gradient of the weight, scaled.
    OfWeight { root: usize, of: usize, scale: Weight },
    /// The gradient of the bias, scaled.
    OfBias { of: usize, scale: Weight },
}

/// A norm: what a root is taken of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Norm {
    pub(super) kind: FusedNormKind,
    pub(super) epsilon: f32,
    spread: Spread,
}

/// The root that a product is divided by, once.
fn root_of(term: &Term) -> Option<usize> {
    let mut roots = term.product.iter().filter_map(|&(atom, power)| match atom {
        Atom::Root(root) => Some((root, power)),
        _ => None,
    });
    match (roots.next(), roots.next()) {
        (Some((root, -1)), None) => Some(root),
        _ => None,
    }
}

fn full_of(term: &Term) -> Option<usize> {
    let mut fulls = term.product.iter().filter_map(|&(atom, power)| match atom {
        Atom::Full(full) => Some((full, power)),
        _ => None,
    });
    match (fulls.next(), fulls.next()) {
        (Some((full, 1)), None) => Some(full),
        _ => None,
    }
}

impl Walk<'_> {
    /// What a root makes of rows, if it is that of a norm.
    pub(super) fn norm(&mut self, root: usize) -> Option<Norm> {
        let spread = self.algebra.spread_of_root(root)?;
        let epsilon = spread.epsilon as f32;
        let kind = if spread.is_centred { FusedNormKind::Layer } else { FusedNormKind::Rms };
        // Rows of one number have no direction without it.
        (epsilon > 0.0 && epsilon.is_finite()).then_some(Norm { kind, epsilon, spread })
    }

    /// What a value is that has a number for every row and feature.
    pub(super) fn form(&mut self, of: &Polynomial) -> Option<Form> {
        if of.is_near(&Polynomial::of(Atom::X)) {
            return Some(Form::Rows);
        }
        if of.has(|atom| matches!(atom, Atom::Full(_))) { self.gradient_form(of) } else { self.result_form(of) }
    }

    fn result_form(&mut self, of: &Polynomial) -> Option<Form> {
        let mut terms = of.terms.iter().filter(|term| term.product.contains(&(Atom::X, 1)));
        let (Some(term), None) = (terms.next(), terms.next()) else { return None };
        let root = root_of(term)?;
        let norm = self.norm(root)?;
        let weight = Weight::of(term, norm.spread.factor.sqrt(), &[Atom::X, Atom::Root(root)])?;
        let expected = self.algebra.normal(root, &norm.spread)?.times(&weight.polynomial()?)?;
        let rest = of.minus(&expected)?;
        let bias: Option<Vec<Weight>> = rest.terms.iter().map(|term| Weight::of(term, 1.0, &[])).collect();
        Some(Form::Result { root, weight, bias: bias? })
    }

    fn gradient_form(&mut self, of: &Polynomial) -> Option<Form> {
        // The one part that is the gradient of the result itself.
        let is_direct = |term: &&Term| {
            let others = |atom: &Atom| matches!(atom, Atom::X | Atom::Sum(_) | Atom::Row(_));
            root_of(term).is_some() && full_of(term).is_some() && !term.product.iter().any(|(atom, _)| others(atom))
        };
        let mut terms = of.terms.iter().filter(is_direct);
        let (Some(term), None) = (terms.next(), terms.next()) else { return None };
        let (root, full) = (root_of(term)?, full_of(term)?);
        let norm = self.norm(root)?;
        let weight = Weight::of(term, norm.spread.factor.sqrt(), &[Atom::Full(full), Atom::Root(root)])?;
        let given = Polynomial::of(Atom::Full(full)).times(&weight.polynomial()?)?;
        let expected = self.algebra.gradient(root, &norm.spread, &given)?;
        let rest = of.minus(&expected)?;
        let residual = if rest.terms.is_empty() { None } else { Some(self.other(&rest)?) };
        Some(Form::OfRows { root, of: full, weight, residual })
    }

    /// What a sum of all rows is.
    fn total_form(&mut self, of: &Polynomial) -> Option<Form> {
        if let [term] = &of.terms[..]
            && let Some(full) = full_of(term)
            && let Some(scale) = Weight::of(term, 1.0, &[Atom::Full(full)])
        {
            return Some(Form::OfBias { of: full, scale });
        }
        let mut terms = of.terms.iter().filter(|term| term.product.contains(&(Atom::X, 1)));
        let (Some(term), None) = (terms.next(), terms.next()) else { return None };
        let (root, full) = (root_of(term)?, full_of(term)?);
        let norm = self.norm(root)?;
        let without = [Atom::X, Atom::Full(full), Atom::Root(root)];
        let scale = Weight::of(term, norm.spread.factor.sqrt(), &without)?;
        let normal = self.algebra.normal(root, &norm.spread)?;
        let expected = Polynomial::of(Atom::Full(full)).times(&normal)?.times(&scale.polynomial()?)?;
        expected.is_near(of).then_some(Form::OfWeight { root, of: full, scale })
    }

    /// The values that leave what is made of the rows, and what they are: a kernel gives these. The reason where others leave it
    /// that are made of means or deviations.
    pub(super) fn leaving(&mut self) -> Result<HashMap<Value, Form>, Option<String>> {
        let mut pending: Vec<(Value, String)> = Vec::new();
        for (&value, known) in self.known.iter().filter(|(_, known)| known.is_derived) {
            debug_assert!(known.is_derived);
            for reader in self.ops.readers(value) {
                let by = match reader {
                    None => "a loop or branch".to_owned(),
                    Some(reader) => {
                        let op = self.ops.op(*reader);
                        let is_known = |value: Value| self.known.get(&value).is_some_and(|known| known.is_derived);
                        let is_understood = |value: Value| is_known(value) || self.totals.contains_key(&value);
                        if op.results().len() > 0 && op.results().all(is_understood) {
                            continue;
                        }
                        op.name.as_str().to_owned()
                    }
                };
                pending.push((value, by));
                break;
            }
        }
        let mut found = HashMap::new();
        let totals: Vec<(Value, Polynomial, bool)> =
            self.totals.iter().map(|(&value, total)| (value, total.of.clone(), total.is_derived)).collect();
        for (value, of, is_derived) in totals {
            match self.total_form(&of) {
                Some(form) => {
                    found.insert(value, form);
                }
                None if is_derived => pending.extend(self.operands(value).map(|value| (value, "a sum".to_owned()))),
                None => {}
            }
        }
        let mut reason = None;
        let mut seen = std::collections::HashSet::new();
        pending.sort();
        while let Some((value, by)) = pending.pop() {
            if !seen.insert(value) {
                continue;
            }
            let of = self.polynomial(value).map(|(of, _)| of.clone());
            let form = of.filter(|of| !of.is_of_rows()).and_then(|of| self.form(&of));
            match form {
                Some(Form::Rows) => {}
                Some(form) => {
                    found.insert(value, form);
                }
                None if self.ops.defined(value).is_some_and(|position| self.sums.contains(&position)) => {
                    reason = Some(format!("its mean or deviation is also read by {by}"));
                }
                None => {
                    let operands: Vec<Value> = self.operands(value).collect();
                    pending.extend(operands.into_iter().map(|value| (value, by.clone())));
                }
            }
        }
        let is_norm = found.values().any(|form| !matches!(form, Form::OfBias { .. }));
        match reason {
            _ if !is_norm => Err(None),
            Some(reason) => Err(Some(reason)),
            None => Ok(found),
        }
    }

    /// Operands of the op that gives a value, those that are made of the rows.
    fn operands(&self, value: Value) -> impl Iterator<Item = Value> + use<> {
        let operands = self.ops.defined(value).map(|position| self.ops.op(position).operands.clone());
        let is_derived = |value: &Value| self.known.get(value).is_some_and(|known| known.is_derived);
        let all: Vec<Value> = operands.unwrap_or_default().into_iter().filter(is_derived).collect();
        all.into_iter()
    }
}
