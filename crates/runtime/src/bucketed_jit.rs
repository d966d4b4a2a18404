//! Traced functions on inputs of changing lengths: axes are padded to a few sizes, so that few programs are compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tensor::{DType, Literal, Spec};
use trace::{Donate, Tensor, Tree};

use crate::backend::{Backend, DeviceArray};
use crate::buckets::{Buckets, padding};
use crate::error::{Error, ValidationError};
use crate::jit::{Jit, OnDevice};

/// The lengths of a call before padding, by the names of their axes: `i32` scalars.
pub type Lengths = BTreeMap<String, Tensor>;

/// Which of `size` positions are no padding: `bool [size]`.
#[track_caller]
pub fn not_padding(length: &Tensor, size: usize) -> Tensor {
    Tensor::iota(DType::I32, &[size], 0).less(length)
}

/// An axis whose length changes from call to call: where it is in inputs and results, and the sizes it is padded to.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    buckets: Buckets,
    inputs: Vec<(String, usize)>,
    results: Vec<(String, usize)>,
}

impl Axis {
    /// An axis of that name, by which the function finds its length.
    pub fn new(name: impl Into<String>, buckets: Buckets) -> Axis {
        Axis { name: name.into(), buckets, inputs: Vec::new(), results: Vec::new() }
    }

    /// It is dimension `dim` of the input leaf at that path.
    #[must_use]
    pub fn input(mut self, path: impl Into<String>, dim: usize) -> Axis {
        self.inputs.push((path.into(), dim));
        self
    }

    /// Dimension `dim` of the result leaf at that path is cut back to the length.
    #[must_use]
    pub fn result(mut self, path: impl Into<String>, dim: usize) -> Axis {
        self.results.push((path.into(), dim));
        self
    }
}

/// An input of a call.
#[derive(Clone, Debug)]
pub enum Given {
    /// On the device already: parameters, state. Cannot be padded.
    Device(DeviceArray),
    /// On the host: padded where it must be, then sent.
    Host(Arc<Literal>),
}

impl Given {
    fn spec(&self) -> Spec {
        match self {
            Given::Device(array) => array.spec().clone(),
            Given::Host(literal) => Spec::new(literal.dtype(), literal.dims()),
        }
    }
}

/// A function over tensors whose inputs change their lengths, compiled once for each set of buckets.
///
/// The function sees padded inputs and the [`Lengths`] they had; [`not_padding`] makes a mask. Padding is zeros.
pub struct BucketedJit<I, O> {
    jit: Jit<(I, Lengths), O>,
    backend: Backend,
    axes: Vec<Axis>,
}

/// Results of a call, on the device and with their padding.
#[derive(Clone, Debug)]
pub struct BucketedResults<O> {
    /// As the program gave them.
    pub padded: OnDevice<O>,
    /// Sizes of each leaf without its padding.
    dims: Vec<Vec<usize>>,
}

impl<O: Tree> BucketedResults<O> {
    /// Copies everything to the host, without the padding of axes that were named.
    pub fn to_host(&self) -> Result<Vec<(String, Literal)>, Error> {
        let leaves = self.padded.to_host()?.into_iter().zip(&self.dims);
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
        axes: impl IntoIterator<Item = Axis>,
        f: impl Fn(&I, &Lengths) -> O + 'static,
    ) -> Result<BucketedJit<I, O>, Error> {
        let axes: Vec<Axis> = axes.into_iter().collect();
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
        Ok(BucketedJit { jit, backend: backend.clone(), axes })
    }

    /// Runs on these inputs, one for each leaf of `inputs`, which has their types and shapes before padding.
    pub fn call(&mut self, inputs: &I, given: &[Given]) -> Result<BucketedResults<O>, Error> {
        let (paths, specs) = (inputs.paths(), inputs.specs());
        if given.len() != specs.len() {
            return Err(ValidationError::InputCount { expected: specs.len(), given: given.len() }.into());
        }
        for ((path, spec), given) in paths.iter().zip(&specs).zip(given) {
            if given.spec() != *spec {
                let (expected, given) = (spec.to_string(), given.spec().to_string());
                return Err(ValidationError::Input { name: path.clone(), expected, given }.into());
            }
        }
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
        let mut arrays = Vec::with_capacity(given.len() + sizes.len());
        for ((path, spec), given) in paths.iter().zip(&padded).zip(given) {
            arrays.push(self.placed(path, spec, given)?);
        }
        // Lengths are leaves in the order of their names.
        let mut named: Vec<(&str, usize)> =
            self.axes.iter().map(|axis| axis.name.as_str()).zip(sizes.clone()).collect();
        named.sort();
        for (name, size) in &named {
            let length = i32::try_from(*size)
                .ok()
                .and_then(|size| Literal::new(DType::I32, [], size.to_le_bytes().to_vec()))
                .ok_or_else(|| ValidationError::Buckets(format!("`{name}` is {size} long")))?;
            arrays.push(self.backend.send(&Arc::new(length))?);
        }
        let scalar = Tensor::of(Spec::new(DType::I32, []));
        let lengths: Lengths = named.into_iter().map(|(name, _)| (name.to_string(), scalar.clone())).collect();
        let leaves: Vec<Tensor> = padded.into_iter().map(Tensor::of).collect();
        let structure = (inputs.shapes().with_leaves(leaves), lengths);
        self.jit.prepare(&structure, &AtomicBool::new(false))?;
        let results = self.jit.call(&structure, &arrays)?;
        let dims = self.cuts(&results, &sizes)?;
        Ok(BucketedResults { padded: results, dims })
    }

    /// Sets of buckets it was compiled for.
    pub fn num_compiled(&self) -> usize {
        self.jit.num_compiled()
    }

    fn placed(&self, path: &str, spec: &Spec, given: &Given) -> Result<DeviceArray, Error> {
        match given {
            Given::Device(array) if array.spec() == spec => Ok(array.clone()),
            Given::Device(array) => {
                let message = format!(
                    "`{path}` is {} on the device and must be padded to {spec}: give it on the host",
                    array.spec()
                );
                Err(ValidationError::Buckets(message).into())
            }
            Given::Host(literal) if literal.dims() == spec.dims => self.backend.send(literal),
            Given::Host(literal) => {
                let zero = vec![0; spec.dtype.size_bytes()];
                let grown = padding::pad(literal, &spec.dims, &zero);
                let grown =
                    grown.ok_or_else(|| ValidationError::Buckets(format!("`{path}` cannot be padded to {spec}")))?;
                self.backend.send(&Arc::new(grown))
            }
        }
    }

    fn cuts(&self, results: &OnDevice<O>, sizes: &[usize]) -> Result<Vec<Vec<usize>>, Error> {
        let paths = results.structure().paths();
        let mut dims: Vec<Vec<usize>> = results.structure().specs().into_iter().map(|spec| spec.dims).collect();
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

impl Axis {
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
