//! Sums of products of what norms and their gradients are made of, so that all ways to write them compare equal.
//!
//! With rows `x`: sums along the features are taken apart into sums of products, and what is the same along the features comes out in
//! front. So the mean of `(x − mean)²` is the mean of `x²` less the mean's square, however it is written. Square roots are kept as
//! they are, by what they are taken of.

/// What products are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Atom {
    /// The rows that a norm is of.
    X,
    /// Another array with a number for every row and feature, by number.
    Full(usize),
    /// An array with a number for every feature, by number.
    Column(usize),
    /// An array with a number for every row, by number.
    Row(usize),
    /// The sum along the features of a product, by number.
    Sum(usize),
    /// A square root, by number.
    Root(usize),
}

impl Atom {
    /// Whether it is the same for all features of a row.
    pub(super) fn is_of_rows(self) -> bool {
        matches!(self, Atom::Row(_) | Atom::Sum(_) | Atom::Root(_))
    }
}

/// Atoms in order, each once, with their powers.
pub(super) type Product = Vec<(Atom, i8)>;

/// A factor times a product.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) factor: f64,
    pub(super) product: Product,
}

/// Terms a sum may have.
const MAX_TERMS: usize = 32;
/// Atoms a product may have.
const MAX_ATOMS: usize = 10;
/// Powers that occur at most.
const MAX_POWER: i8 = 8;
/// How far factors may be from what they stand for: less than one feature more or less makes.
const ROUNDING: f64 = 3e-6;

/// A sum of terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Polynomial {
    pub(super) terms: Vec<Term>,
}

fn product_of(a: &Product, b: &Product) -> Option<Product> {
    let mut product = a.clone();
    for &(atom, power) in b {
        match product.iter_mut().find(|(other, _)| *other == atom) {
            Some((_, have)) => *have = have.checked_add(power)?,
            None => product.push((atom, power)),
        }
    }
    product.retain(|&(_, power)| power != 0);
    product.sort_unstable();
    let is_small = product.len() <= MAX_ATOMS && product.iter().all(|&(_, power)| power.abs() <= MAX_POWER);
    is_small.then_some(product)
}

pub(super) fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

impl Polynomial {
    pub(super) fn number(factor: f64) -> Polynomial {
        Polynomial { terms: vec![Term { factor, product: Vec::new() }] }
    }

    pub(super) fn of(atom: Atom) -> Polynomial {
        Polynomial::power_of(atom, 1)
    }

    pub(super) fn power_of(atom: Atom, power: i8) -> Polynomial {
        Polynomial { terms: vec![Term { factor: 1.0, product: vec![(atom, power)] }] }
    }

    pub(super) fn of_term(term: Term) -> Polynomial {
        Polynomial { terms: vec![term] }
    }

    /// Equal products in one term; what cancels but for rounding is nothing.
    fn collected(terms: impl IntoIterator<Item = Term>) -> Option<Polynomial> {
        let mut all: Vec<(Term, f64)> = Vec::new();
        for term in terms {
            let size = term.factor.abs();
            match all.iter_mut().find(|(other, _)| other.product == term.product) {
                Some((other, sizes)) => {
                    other.factor += term.factor;
                    *sizes += size;
                }
                None => all.push((term, size)),
            }
        }
        all.retain(|(term, sizes)| term.factor.abs() > ROUNDING * sizes);
        let is_sound = all.len() <= MAX_TERMS && all.iter().all(|(term, _)| term.factor.is_finite());
        is_sound.then(|| Polynomial { terms: all.into_iter().map(|(term, _)| term).collect() })
    }

    pub(super) fn plus(&self, other: &Polynomial) -> Option<Polynomial> {
        Polynomial::collected(self.terms.iter().chain(&other.terms).cloned())
    }

    pub(super) fn minus(&self, other: &Polynomial) -> Option<Polynomial> {
        self.plus(&other.scaled(-1.0))
    }

    pub(super) fn scaled(&self, by: f64) -> Polynomial {
        let terms = self.terms.iter().map(|term| Term { factor: term.factor * by, ..term.clone() });
        Polynomial { terms: terms.filter(|term| term.factor != 0.0).collect() }
    }

    pub(super) fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        if self.terms.len().saturating_mul(other.terms.len()) > 4 * MAX_TERMS {
            return None;
        }
        let mut products = Vec::new();
        for a in &self.terms {
            for b in &other.terms {
                let product = product_of(&a.product, &b.product)?;
                products.push(Term { factor: a.factor * b.factor, product });
            }
        }
        Polynomial::collected(products)
    }

    /// A whole power.
    pub(super) fn to_power(&self, power: i8) -> Option<Polynomial> {
        if power < 0 {
            return Polynomial::number(1.0).over(&self.to_power(power.checked_neg()?)?);
        }
        (0..power).try_fold(Polynomial::number(1.0), |so_far, _| so_far.times(self))
    }

    /// A quotient by one term.
    pub(super) fn over(&self, divisor: &Polynomial) -> Option<Polynomial> {
        let [only] = &divisor.terms[..] else { return None };
        let product = only.product.iter().map(|&(atom, power)| (atom, -power)).collect();
        self.times(&Polynomial { terms: vec![Term { factor: 1.0 / only.factor, product }] })
    }

    /// Whether two sums are the same but for rounding.
    pub(super) fn is_near(&self, other: &Polynomial) -> bool {
        let has = |term: &Term| {
            other.terms.iter().any(|have| have.product == term.product && is_near(have.factor, term.factor))
        };
        self.terms.len() == other.terms.len() && self.terms.iter().all(has)
    }

    pub(super) fn is_of_rows(&self) -> bool {
        self.terms.iter().all(|term| term.product.iter().all(|(atom, _)| atom.is_of_rows()))
    }

    pub(super) fn has(&self, wanted: impl Fn(Atom) -> bool) -> bool {
        self.terms.iter().any(|term| term.product.iter().any(|&(atom, _)| wanted(atom)))
    }

    /// The number, if it is one.
    pub(super) fn as_number(&self) -> Option<f64> {
        match &self.terms[..] {
            [] => Some(0.0),
            [term] if term.product.is_empty() => Some(term.factor),
            _ => None,
        }
    }
}

/// What the mean of squares is taken of, how often it is there, and what is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// Whether squares are of what is left after the mean is taken away.
    pub(super) is_centred: bool,
    pub(super) factor: f64,
    /// Added to one mean of squares.
    pub(super) epsilon: f64,
}

/// Sums and roots by number, for rows of so many features.
#[derive(Debug)]
pub(super) struct Algebra {
    pub(super) size: f64,
    sums: Vec<Product>,
    roots: Vec<Polynomial>,
}

impl Algebra {
    pub(super) fn new(size: usize) -> Algebra {
        Algebra { size: size as f64, sums: Vec::new(), roots: Vec::new() }
    }

    fn sum(&mut self, product: Product) -> Atom {
        let found = self.sums.iter().position(|have| *have == product);
        Atom::Sum(found.unwrap_or_else(|| {
            self.sums.push(product);
            self.sums.len() - 1
        }))
    }

    /// The sum along the features.
    pub(super) fn over_features(&mut self, of: &Polynomial) -> Option<Polynomial> {
        let mut terms = Vec::with_capacity(of.terms.len());
        for term in &of.terms {
            let (mut outer, inner): (Product, Product) =
                term.product.iter().copied().partition(|(atom, _)| atom.is_of_rows());
            let mut factor = term.factor;
            if inner.is_empty() {
                factor *= self.size;
            } else {
                outer = product_of(&outer, &vec![(self.sum(inner), 1)])?;
            }
            terms.push(Term { factor, product: outer });
        }
        Polynomial::collected(terms)
    }

    /// The mean along the features.
    pub(super) fn mean(&mut self, of: &Polynomial) -> Option<Polynomial> {
        Some(self.over_features(of)?.scaled(1.0 / self.size))
    }

    /// The square root of numbers of rows, to a power.
    pub(super) fn root(&mut self, of: &Polynomial, power: i8) -> Option<Polynomial> {
        of.is_of_rows().then_some(())?;
        let found = self.roots.iter().position(|have| have.is_near(of));
        let number = found.unwrap_or_else(|| {
            self.roots.push(of.clone());
            self.roots.len() - 1
        });
        Some(Polynomial::power_of(Atom::Root(number), power))
    }

    /// A quotient: by one term, or by what a root was taken of.
    pub(super) fn over(&self, dividend: &Polynomial, divisor: &Polynomial) -> Option<Polynomial> {
        match self.roots.iter().position(|root| divisor.terms.len() > 1 && root.is_near(divisor)) {
            Some(number) => dividend.times(&Polynomial::power_of(Atom::Root(number), -2)),
            None => dividend.over(divisor),
        }
    }

    /// What a root was taken of, if that is the mean of squares of the rows.
    pub(super) fn spread_of_root(&mut self, root: usize) -> Option<Spread> {
        let of = self.roots.get(root)?.clone();
        self.spread(&of)
    }

    /// How numbers of rows are made of the mean of squares.
    pub(super) fn spread(&mut self, of: &Polynomial) -> Option<Spread> {
        let square = self.sum(vec![(Atom::X, 2)]);
        let total = self.sum(vec![(Atom::X, 1)]);
        let factor = |product: &Product| of.terms.iter().find(|term| term.product == *product).map(|term| term.factor);
        let squares = factor(&vec![(square, 1)])? * self.size;
        let means = factor(&vec![(total, 2)]).map(|factor| factor * self.size * self.size);
        let added = factor(&Vec::new());
        let count = 1 + usize::from(means.is_some()) + usize::from(added.is_some());
        let is_centred = match means {
            None => false,
            Some(means) if is_near(means, -squares) => true,
            Some(_) => return None,
        };
        let epsilon = added.unwrap_or(0.0) / squares;
        let is_sound = squares > 0.0 && squares.is_finite() && epsilon >= 0.0 && of.terms.len() == count;
        is_sound.then_some(Spread { is_centred, factor: squares, epsilon })
    }

    /// The normalised rows.
    pub(super) fn normal(&mut self, root: usize, spread: &Spread) -> Option<Polynomial> {
        let x = Polynomial::of(Atom::X);
        let centred = if spread.is_centred { x.minus(&self.mean(&x)?)? } else { x };
        let inverse = Polynomial::power_of(Atom::Root(root), -1).scaled(spread.factor.sqrt());
        centred.times(&inverse)
    }

    /// The gradient of the rows, of a gradient of the normalised rows.
    pub(super) fn gradient(&mut self, root: usize, spread: &Spread, of: &Polynomial) -> Option<Polynomial> {
        let normal = self.normal(root, spread)?;
        let along = self.mean(&of.times(&normal)?)?;
        let mut across = of.minus(&normal.times(&along)?)?;
        if spread.is_centred {
            across = across.minus(&self.mean(of)?)?;
        }
        across.times(&Polynomial::power_of(Atom::Root(root), -1).scaled(spread.factor.sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minus(a: &Polynomial, b: &Polynomial) -> Polynomial {
        a.minus(b).unwrap()
    }

    #[test]
    fn variances_are_equal_however_they_are_written() {
        let mut algebra = Algebra::new(256);
        let x = Polynomial::of(Atom::X);
        let mean = algebra.mean(&x).unwrap();
        let centred = minus(&x, &mean);
        let two_passes = algebra.mean(&centred.times(&centred).unwrap()).unwrap();
        let squares = algebra.mean(&x.times(&x).unwrap()).unwrap();
        let one_pass = minus(&squares, &mean.times(&mean).unwrap());
        assert!(two_passes.is_near(&one_pass), "{two_passes:?} {one_pass:?}");
        let with_epsilon = one_pass.plus(&Polynomial::number(1e-5)).unwrap();
        let spread = algebra.spread(&with_epsilon).unwrap();
        assert!(spread.is_centred && is_near(spread.epsilon, 1e-5) && is_near(spread.factor, 1.0));
        assert!(!algebra.spread(&squares).unwrap().is_centred);
        // One feature less is another variance, and so is a mean that is added.
        let unbiased = algebra.over_features(&centred.times(&centred).unwrap()).unwrap().scaled(1.0 / 255.0);
        let spread = algebra.spread(&unbiased).unwrap();
        assert!(!is_near(spread.factor, 1.0));
        assert!(algebra.spread(&squares.plus(&mean.times(&mean).unwrap()).unwrap()).is_none());
        assert!(algebra.spread(&mean).is_none());
    }

    #[test]
    fn gradients_are_equal_however_they_are_written() {
        let mut algebra = Algebra::new(64);
        let (x, d) = (Polynomial::of(Atom::X), Polynomial::of(Atom::Full(0)));
        let mean = algebra.mean(&x).unwrap();
        let centred = minus(&x, &mean);
        let variance = algebra.mean(&centred.times(&centred).unwrap()).unwrap();
        let root = algebra.root(&variance, -1).unwrap();
        let Atom::Root(number) = root.terms[0].product[0].0 else { panic!("{root:?}") };
        let spread = algebra.spread_of_root(number).unwrap();
        let expected = algebra.gradient(number, &spread, &d).unwrap();
        // As differentiation of each op writes it.
        let of_root = algebra.over_features(&d.times(&centred).unwrap()).unwrap();
        let of_variance = of_root.times(&algebra.over(&root.scaled(-0.5), &variance).unwrap()).unwrap();
        let of_squares = of_variance.scaled(1.0 / 64.0).times(&centred.scaled(2.0)).unwrap();
        let of_centred = d.times(&root).unwrap().plus(&of_squares).unwrap();
        let of_mean = algebra.over_features(&of_centred).unwrap().scaled(-1.0 / 64.0);
        let written = of_centred.plus(&of_mean).unwrap();
        assert!(written.is_near(&expected), "{written:?}\n{expected:?}");
        assert!(!of_centred.is_near(&expected), "the mean's part is missing");
    }
}
