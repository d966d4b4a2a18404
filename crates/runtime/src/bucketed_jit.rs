//! Traced functions on inputs of changing lengths: axes are padded to a few sizes, so that few programs are compiled.

use std::collections::BTreeMap;

use tensor::{DType, Literal, Spec};
use trace::{Donate, Tensor, Tree};

use crate::backend::Backend;
use crate::buckets::{Buckets, padding};
use crate::error::{Error, ValidationError};
use crate::jit::Jit;
use crate::values::TreeArrays;

/// The lengths of a call before padding, by the names of their axes: `i32` scalars.
pub type Lengths = BTreeMap<String, Tensor>;

/// Which of `size` positions are no padding: `bool [size]`.
#[track_caller]
pub fn not_padding(length: &Tensor, size: usize) -> Tensor {
    Tensor::iota(DType::I32, &[size], 0).less(length)
}

/// An axis whose length changes from call to call: where it is in inputs and results, and the sizes it is padded to.
#[derive(Clone, Debug)]
pub struct BucketedAxis {
    name: String,
    buckets: Buckets,
    inputs: Vec<(String, usize)>,
    results: Vec<(String, usize)>,
}

impl BucketedAxis {
    /// An axis of that name, by which the function finds its length.
    pub fn new(name: impl Into<String>, buckets: Buckets) -> BucketedAxis {
        BucketedAxis { name: name.into(), buckets, inputs: Vec::new(), results: Vec::new() }
    }

    /// It is dimension `dim` of the input leaf at that path.
    #[must_use]
    pub fn input(mut self, path: impl Into<String>, dim: usize) -> BucketedAxis {
        self.inputs.push((path.into(), dim));
        self
    }

    /// Dimension `dim` of the result leaf at that path is cut back to the length.
    #[must_use]
    pub fn result(mut self, path: impl Into<String>, dim: usize) -> BucketedAxis {
        self.results.push((path.into(), dim));
        self
    }
}

/// A function over tensors whose inputs change their lengths, compiled once for each set of buckets.
///
/// The function sees padded inputs and the [`Lengths`] they had; [`not_padding`] makes a mask. Padding is zeros.
pub struct BucketedJit<I, O> {
    jit: Jit<(I, Lengths), O>,
    axes: Vec<BucketedAxis>,
}

/// Results of a call, on the device and with their padding.
#[derive(Clone, Debug)]
pub struct BucketedResults<O> {
    /// As the program gave them.
    pub padded: O,
    /// Sizes of each leaf without its padding.
    dims: Vec<Vec<usize>>,
}

impl<O: Tree> BucketedResults<O> {
    /// Copies everything to the host, without the padding of axes that were named.
    pub fn to_host(&self) -> Result<Vec<(String, Literal)>, Error> {
        let leaves = self.padded.to_literals()?.into_iter().zip(&self.dims);
        let cut = leaves.map(|((path, whole), dims)| match padding::cut(&whole, dims) {
            Some(literal) => Ok((path, literal)),
            None => Err(ValidationError::Buckets(format!("result `{path}` has no part of sizes {dims:?}")).into()),
        });
        cut.collect()
    }
}

impl<I: Tree + Clone, O: Tree> BucketedJit<I, O> {
    /// A function by that name; `donate` says which leaves of `I`, from the first, give their memory to results.
    pub fn new(
        backend: &Backend,
        name: &str,
        donate: Donate,
        axes: impl IntoIterator<Item = BucketedAxis>,
        f: impl Fn(&I, &Lengths) -> O + 'static,
    ) -> Result<BucketedJit<I, O>, Error> {
        let axes: Vec<BucketedAxis> = axes.into_iter().collect();
        for (n, axis) in axes.iter().enumerate() {
            let wrong = |what: &str| Err(ValidationError::Buckets(format!("`{}` {what}", axis.name)).into());
            if axis.buckets.sizes().is_empty() {
                return wrong("has no buckets");
            }
            if axis.inputs.is_empty() {
                return wrong("is the size of no input");
            }
            if axes.iter().take(n).any(|other| other.name == axis.name) {
                return wrong("is named twice");
            }
        }
        let jit = Jit::new(backend, name, donate, move |(inputs, lengths): &(I, Lengths)| f(inputs, lengths));
        Ok(BucketedJit { jit, axes })
    }

    /// Runs on a structure of values. Those on the host are padded where they must be, then sent; those on the device already
    /// (parameters, state) cannot be padded.
    pub fn call(&mut self, inputs: &I) -> Result<BucketedResults<O>, Error> {
        let (paths, specs) = (inputs.paths(), inputs.specs());
        let mut padded = specs.clone();
        let mut sizes = Vec::with_capacity(self.axes.len());
        for axis in &self.axes {
            let (size, bucket) = axis.sizes(&paths, &specs)?;
            for (path, dim) in &axis.inputs {
                let at = paths.iter().position(|known| known == path);
                if let Some(slot) = at.and_then(|at| padded.get_mut(at)).and_then(|spec| spec.dims.get_mut(*dim)) {
                    *slot = bucket;
                }
            }
            sizes.push(size);
        }
        let given = inputs.leaves().into_iter().zip(paths.iter().zip(&padded));
        let leaves =
            given.map(|(leaf, (path, spec))| padded_to(path, spec, leaf)).collect::<Result<Vec<_>, Error>>()?;
        let lengths = self.axes.iter().zip(&sizes).map(|(axis, &size)| {
            let length =
                i32::try_from(size).map_err(|_| ValidationError::Buckets(format!("`{}` is {size} long", axis.name)))?;
            Ok((axis.name.clone(), Tensor::from(length)))
        });
        let lengths = lengths.collect::<Result<Lengths, Error>>()?;
        let results = self.jit.call((inputs.with_leaves(leaves), lengths))?;
        let dims = self.cuts(&results, &sizes)?;
        Ok(BucketedResults { padded: results, dims })
    }

    /// Sets of buckets it was compiled for.
    pub fn num_compiled(&self) -> usize {
        self.jit.num_compiled()
    }

    fn cuts(&self, results: &O, sizes: &[usize]) -> Result<Vec<Vec<usize>>, Error> {
        let paths = results.paths();
        let mut dims: Vec<Vec<usize>> = results.specs().into_iter().map(|spec| spec.dims).collect();
        for (axis, size) in self.axes.iter().zip(sizes) {
            for (path, dim) in &axis.results {
                let at = paths.iter().position(|known| known == path);
                let slot = at.and_then(|at| dims.get_mut(at)).and_then(|dims| dims.get_mut(*dim));
                let slot = slot.filter(|slot| axis.buckets.sizes().contains(slot));
                let missing = || format!("dimension {dim} of result `{path}` is not as long as `{}`", axis.name);
                *slot.ok_or_else(|| ValidationError::Buckets(missing()))? = *size;
            }
        }
        Ok(dims)
    }
}

/// An input with zeros after it, up to the sizes of its bucket.
fn padded_to(path: &str, spec: &Spec, given: Tensor) -> Result<Tensor, Error> {
    if given.spec() == spec {
        return Ok(given);
    }
    let Some(literal) = given.host_value() else {
        let given = given.spec();
        let message = format!("`{path}` is {given} on the device and must be padded to {spec}: give it on the host");
        return Err(ValidationError::Buckets(message).into());
    };
    let grown = padding::pad(literal, &spec.dims, &vec![0; spec.dtype.size_bytes()]);
    let grown = grown.ok_or_else(|| ValidationError::Buckets(format!("`{path}` cannot be padded to {spec}")))?;
    Ok(Tensor::from(grown))
}

impl BucketedAxis {
    /// The length that all inputs agree on, and the bucket that holds it.
    fn sizes(&self, paths: &[String], specs: &[Spec]) -> Result<(usize, usize), Error> {
        let mut found: Option<(usize, &str)> = None;
        for (path, dim) in &self.inputs {
            let at = paths.iter().position(|known| known == path);
            let size = at.and_then(|at| specs.get(at)).and_then(|spec| spec.dims.get(*dim));
            let missing = || format!("`{}` is dimension {dim} of input `{path}`, which is not there", self.name);
            let size = *size.ok_or_else(|| ValidationError::Buckets(missing()))?;
            match found {
                Some((other, first)) if other != size => {
                    let message = format!("`{}` is {other} in `{first}` and {size} in `{path}`", self.name);
                    return Err(ValidationError::Buckets(message).into());
                }
                _ => found = Some((size, path)),
            }
        }
        let size = found.map_or(0, |(size, _)| size);
        let largest = self.buckets.sizes().last().copied().unwrap_or(0);
        let beyond = || ValidationError::BeyondBuckets { dimension: self.name.clone(), size, largest };
        Ok((size, self.buckets.holding(size).ok_or_else(beyond)?))
    }
}
