//! Shape buckets: which sizes vary, the few sizes they are padded to, and the program for each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use compile::Program;
use hlo::{DYNAMIC, TensorType, Type};
use tensor::Spec;

use crate::error::{Error, ValidationError};
use crate::signature::Signature;

/// The sizes that a dimension is padded to, smallest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    sizes: Vec<usize>,
}

impl Buckets {
    /// These sizes, in any order; 0 is none.
    pub fn of(sizes: impl IntoIterator<Item = usize>) -> Buckets {
        let sizes: BTreeSet<usize> = sizes.into_iter().filter(|&size| size > 0).collect();
        Buckets { sizes: sizes.into_iter().collect() }
    }

    /// Powers of two, from the first that holds the start of the range to the first that holds its end. Padding is less than
    /// half of a bucket, and there are as many buckets as the end has binary digits.
    pub fn powers_of_two(range: RangeInclusive<usize>) -> Buckets {
        let (start, end) = (range.start().max(&1), range.end());
        let first = start.checked_next_power_of_two();
        let mut sizes: Vec<usize> = Vec::new();
        let mut next = first.filter(|_| end >= start);
        while let Some(size) = next {
            sizes.push(size);
            next = size.checked_mul(2).filter(|_| size < *end);
        }
        Buckets { sizes }
    }

    /// The sizes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The smallest bucket that holds a size.
    pub fn holding(&self, size: usize) -> Option<usize> {
        self.sizes.iter().copied().find(|&bucket| bucket >= size)
    }
}

/// A size that varies between calls: where it is in arguments and results, and its buckets.
#[derive(Clone, Debug)]
pub struct Dimension {
    pub(super) name: String,
    pub(super) buckets: Buckets,
    pub(super) arguments: Vec<(usize, usize)>,
    pub(super) results: Vec<(usize, usize)>,
    pub(super) length: Option<usize>,
}

impl Dimension {
    /// A dimension of that name, which messages use.
    pub fn new(name: impl Into<String>, buckets: Buckets) -> Dimension {
        Dimension { name: name.into(), buckets, arguments: Vec::new(), results: Vec::new(), length: None }
    }

    /// It is dimension `dim` of argument `index` of the program.
    #[must_use]
    pub fn argument(mut self, index: usize, dim: usize) -> Dimension {
        self.arguments.push((index, dim));
        self
    }

    /// Dimension `dim` of result `index` is cut back to its size. Results that change with this dimension alone, and are
    /// as long as it, are found without being named.
    #[must_use]
    pub fn result(mut self, index: usize, dim: usize) -> Dimension {
        self.results.push((index, dim));
        self
    }

    /// Argument `index`, a scalar `i32`, is given the size before padding; callers leave it out.
    #[must_use]
    pub fn length_argument(mut self, index: usize) -> Dimension {
        self.length = Some(index);
        self
    }
}

/// How a program is run with changing sizes.
#[derive(Clone, Debug)]
pub struct Bucketing {
    pub(super) dimensions: Vec<Dimension>,
    pub(super) fill: BTreeMap<usize, f64>,
    pub(super) left_padded: BTreeSet<usize>,
}

impl Bucketing {
    /// These dimensions vary; arguments are padded with zeros.
    pub fn new(dimensions: impl IntoIterator<Item = Dimension>) -> Bucketing {
        Bucketing { dimensions: dimensions.into_iter().collect(), fill: BTreeMap::new(), left_padded: BTreeSet::new() }
    }

    /// Argument `index` is padded with this number.
    #[must_use]
    pub fn pad_with(mut self, index: usize, number: f64) -> Bucketing {
        self.fill.insert(index, number);
        self
    }

    /// Result `index` is given as the program made it, padding included.
    #[must_use]
    pub fn leave_padded(mut self, index: usize) -> Bucketing {
        self.left_padded.insert(index);
        self
    }

    /// What is wrong with the dimensions themselves.
    pub(super) fn check(&self) -> Result<(), ValidationError> {
        let wrong = |message: String| Err(ValidationError::Buckets(message));
        let mut taken = BTreeMap::new();
        for dimension in &self.dimensions {
            let name = &dimension.name;
            if dimension.buckets.sizes.is_empty() {
                return wrong(format!("`{name}` has no buckets"));
            }
            if dimension.arguments.is_empty() {
                return wrong(format!("`{name}` is the size of no argument"));
            }
            for &(index, dim) in &dimension.arguments {
                if let Some(other) = taken.insert((index, dim), name) {
                    return wrong(format!("dimension {dim} of argument {index} is both `{other}` and `{name}`"));
                }
            }
            if let Some(index) = dimension.length.filter(|index| self.is_sized(*index)) {
                return wrong(format!("argument {index} is a length of `{name}`, and is padded itself"));
            }
        }
        Ok(())
    }

    fn is_sized(&self, argument: usize) -> bool {
        self.dimensions.iter().any(|dimension| dimension.arguments.iter().any(|&(index, _)| index == argument))
    }

    /// Each argument's dimension as far as it varies.
    fn varying(&self) -> BTreeMap<(usize, usize), usize> {
        let places = self.dimensions.iter().enumerate();
        places.flat_map(|(n, dimension)| dimension.arguments.iter().map(move |&place| (place, n))).collect()
    }
}

/// Where the program for a bucket comes from.
#[derive(Clone)]
pub struct BucketSource(Origin);

#[derive(Clone)]
enum Origin {
    Symbolic(Arc<Program>),
    Made(Arc<Maker>),
}

type Maker = dyn Fn(&[usize]) -> Result<Arc<Program>, Error> + Send + Sync;

impl From<Arc<Program>> for BucketSource {
    fn from(program: Arc<Program>) -> BucketSource {
        BucketSource::symbolic(program)
    }
}

impl fmt::Debug for BucketSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::Symbolic(program) => write!(f, "Source({})", program.name()),
            Origin::Made(_) => f.write_str("Source(made)"),
        }
    }
}

impl BucketSource {
    /// A program exported with symbolic sizes: `?` in its argument types.
    pub fn symbolic(program: Arc<Program>) -> BucketSource {
        BucketSource(Origin::Symbolic(program))
    }

    /// A program made for sizes, one for each dimension in order.
    pub fn made_by(make: impl Fn(&[usize]) -> Result<Arc<Program>, Error> + Send + Sync + 'static) -> BucketSource {
        BucketSource(Origin::Made(Arc::new(make)))
    }

    /// The program for a bucket.
    pub(super) fn program(&self, bucketing: &Bucketing, sizes: &[usize]) -> Result<Arc<Program>, Error> {
        match &self.0 {
            Origin::Made(make) => make(sizes),
            Origin::Symbolic(program) => {
                let types = argument_types(program, bucketing, sizes)?;
                let module = hlo::passes::specialize(program.verified(), &types, None)?;
                Ok(Arc::new(Program::from_module(module)))
            }
        }
    }
}

/// The argument types of a program with symbolic sizes for these sizes.
fn argument_types(program: &Program, bucketing: &Bucketing, sizes: &[usize]) -> Result<Vec<Type>, ValidationError> {
    let entry = program.module().entry();
    let entry = entry.ok_or_else(|| ValidationError::Buckets("the program has no entry function".into()))?;
    let varying = bucketing.varying();
    for (index, dim) in varying.keys() {
        let rank = entry.inputs.get(*index).and_then(Type::as_tensor).map(TensorType::rank);
        if rank.is_none_or(|rank| *dim >= rank) {
            return Err(ValidationError::Buckets(format!("argument {index} has no dimension {dim}")));
        }
    }
    let argument = |(index, ty): (usize, &Type)| {
        let Some(tensor) = ty.as_tensor() else { return Ok(ty.clone()) };
        let mut tensor = tensor.clone();
        for (dim, size) in tensor.dims.iter_mut().enumerate() {
            match varying.get(&(index, dim)) {
                Some(&n) => *size = i64::try_from(sizes[n]).unwrap_or(i64::MAX),
                None if *size == DYNAMIC => {
                    let message = format!("dimension {dim} of argument {index} is symbolic, and no dimension names it");
                    return Err(ValidationError::Buckets(message));
                }
                None => {}
            }
        }
        Ok(Type::from(tensor))
    };
    entry.inputs.iter().enumerate().map(argument).collect()
}

/// Which dimension each result's dimension is cut back to.
pub(super) type Cuts = Vec<((usize, usize), usize)>;

/// What is the same for every bucket: the program's signature at the smallest one, and how results follow sizes.
pub(super) struct Form {
    pub(super) smallest: Arc<Program>,
    pub(super) signature: Signature,
    pub(super) cuts: Cuts,
}

impl Form {
    /// Compares the program at its smallest bucket with the program at another size of each dimension.
    pub(super) fn read(source: &BucketSource, bucketing: &Bucketing) -> Result<Form, Error> {
        bucketing.check()?;
        let base: Vec<usize> = bucketing.dimensions.iter().map(|dimension| dimension.buckets.sizes[0]).collect();
        let smallest = source.program(bucketing, &base)?;
        let signature = Signature::read(smallest.module())?;
        check_arguments(bucketing, &signature, &base)?;
        let mut cuts: Cuts = Vec::new();
        for (n, dimension) in bucketing.dimensions.iter().enumerate() {
            for &(index, dim) in &dimension.results {
                let size = signature.results.get(index).and_then(|port| port.spec.dims.get(dim));
                if size.is_none() {
                    let message =
                        format!("there is no dimension {dim} of result {index} to cut to `{}`", dimension.name);
                    return Err(ValidationError::Buckets(message).into());
                }
                cuts.push(((index, dim), n));
            }
            let Some((other, probed)) = probe(source, bucketing, &base, n) else { continue };
            follow(bucketing, (&signature, base[n]), (&probed, other), n, &mut cuts)?;
        }
        cuts.sort_unstable();
        cuts.dedup();
        Ok(Form { smallest, signature, cuts })
    }
}

/// The signature at another size of dimension `n`: its next bucket, or one less where it has a single one, which a program
/// may refuse.
fn probe(source: &BucketSource, bucketing: &Bucketing, base: &[usize], n: usize) -> Option<(usize, Signature)> {
    let other = match bucketing.dimensions[n].buckets.sizes.get(1) {
        Some(&size) => size,
        None => base[n].checked_sub(1).filter(|&size| size > 0)?,
    };
    let mut sizes = base.to_vec();
    sizes[n] = other;
    let program = source.program(bucketing, &sizes).ok()?;
    Some((other, Signature::read(program.module()).ok()?))
}

/// Finds the results that are as long as dimension `n`; others that change with it must have been spoken of.
fn follow(
    bucketing: &Bucketing,
    (signature, size): (&Signature, usize),
    (probed, other): (&Signature, usize),
    n: usize,
    cuts: &mut Cuts,
) -> Result<(), ValidationError> {
    let name = &bucketing.dimensions[n].name;
    for (index, (one, two)) in signature.results.iter().zip(&probed.results).enumerate() {
        if bucketing.left_padded.contains(&index) {
            continue;
        }
        for (dim, (&had, &has)) in one.spec.dims.iter().zip(&two.spec.dims).enumerate() {
            if (had, has) == (size, other) {
                cuts.push(((index, dim), n));
            } else if had != has && !cuts.contains(&((index, dim), n)) {
                return Err(ValidationError::Buckets(format!(
                    "dimension {dim} of result {index} is {had} where `{name}` is {size} and {has} where it is {other}: \
                     where padding ends up is not known; name it with `result`, or leave it with `leave_padded`"
                )));
            }
        }
    }
    Ok(())
}

fn check_arguments(bucketing: &Bucketing, signature: &Signature, base: &[usize]) -> Result<(), ValidationError> {
    let wrong = |message: String| Err(ValidationError::Buckets(message));
    for (dimension, &size) in bucketing.dimensions.iter().zip(base) {
        for &(index, dim) in &dimension.arguments {
            let have = signature.arguments.get(index).and_then(|port| port.spec.dims.get(dim));
            if have != Some(&size) {
                let have = have.map_or("missing".to_string(), usize::to_string);
                let name = &dimension.name;
                return wrong(format!("dimension {dim} of argument {index} is {have}, and `{name}` is {size}"));
            }
        }
        if let Some(index) = dimension.length {
            let spec = signature.arguments.get(index).map(|port| &port.spec);
            if spec != Some(&Spec::new(tensor::DType::I32, [])) {
                return wrong(format!("argument {index} takes the length of `{}`, and is not i32[]", dimension.name));
            }
        }
    }
    if let Some(index) = bucketing.fill.keys().find(|&&index| index >= signature.arguments.len()) {
        return wrong(format!("there is no argument {index} to pad"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_cover_the_range() {
        assert_eq!(Buckets::powers_of_two(5..=100).sizes(), [8, 16, 32, 64, 128]);
        assert_eq!(Buckets::powers_of_two(0..=3).sizes(), [1, 2, 4]);
        assert_eq!(Buckets::powers_of_two(8..=8).sizes(), [8]);
        assert!(Buckets::powers_of_two(RangeInclusive::new(9, 8)).sizes().is_empty());
        assert!(Buckets::powers_of_two(usize::MAX..=usize::MAX).sizes().is_empty());
        for size in 1..=100 {
            let bucket = Buckets::powers_of_two(1..=100).holding(size).unwrap();
            assert!(bucket >= size && bucket < 2 * size);
        }
    }

    #[test]
    fn the_smallest_bucket_that_holds_a_size() {
        let buckets = Buckets::of([256, 64, 128, 64, 0]);
        assert_eq!(buckets.sizes(), [64, 128, 256]);
        assert_eq!(
            [0, 64, 65, 256, 257].map(|size| buckets.holding(size)),
            [Some(64), Some(64), Some(128), Some(256), None]
        );
    }
}
