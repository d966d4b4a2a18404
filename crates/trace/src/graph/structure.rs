//! Nodes that own graphs: loops, branches, rematerialized parts, functions with a derivative of their own, parts of one device.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use hlo::Attrs;

use crate::Spec;
use crate::graph::{Graph, RematPolicy};
use crate::sharding::{LogicalAxisRules, Mesh, PartitionSpec};
use crate::tensor::Tensor;

/// Which slice comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The first.
    Forward,
    /// The last; results stay at the place of their slice.
    Backward,
}

impl Direction {
    /// The other.
    pub(crate) fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

/// A loop. The body takes constants, carried values and slices; it gives carried values and results.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) body: Graph,
    pub(crate) consts: usize,
    pub(crate) carries: usize,
    pub(crate) length: usize,
    pub(crate) direction: Direction,
}

impl Scan {
    /// Types of the node's results.
    pub(crate) fn results(&self) -> Vec<Spec> {
        let outputs = self.body.output_specs();
        let stacked = |spec: &Spec| stacked(spec, self.length);
        outputs[..self.carries].iter().cloned().chain(outputs[self.carries..].iter().map(stacked)).collect()
    }
}

/// A slice's type with the axis it was cut along.
fn stacked(spec: &Spec, length: usize) -> Spec {
    let mut dims = vec![length];
    dims.extend(&spec.dims);
    Spec::new(spec.dtype, dims)
}

/// A loop: while the condition of what is carried holds, the body runs. Both take constants first.
#[derive(Clone, Debug)]
pub(crate) struct While {
    pub(crate) condition: Graph,
    pub(crate) condition_consts: usize,
    pub(crate) body: Graph,
    pub(crate) body_consts: usize,
}

/// Graphs of the same inputs and outputs, one of which runs.
#[derive(Clone, Debug)]
pub(crate) struct Cond {
    pub(crate) branches: Vec<Graph>,
}

/// A checkpointed function and its policy.
#[derive(Clone, Debug)]
pub(crate) struct Remat {
    pub(crate) body: Graph,
    pub(crate) policy: RematPolicy,
    /// How often it went through vmap.
    pub(crate) batches: usize,
}

/// Which function of exponentials along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exponentials {
    /// Scaled to a sum of 1.
    Softmax,
    /// The logarithm of that.
    LogSoftmax,
    /// The logarithm of their sum; the axis is dropped.
    LogSum,
}

/// Cotangents of the inputs from inputs, outputs and cotangents of the outputs.
pub(crate) type Backward = dyn Fn(&[Tensor], &[Tensor], &[Tensor]) -> Vec<Tensor>;

/// Where a derivative comes from.
pub(crate) enum Derivative {
    /// The user, for the backward pass only.
    Given(Box<Backward>),
    /// The rule of a function of one tensor along an axis, in both directions.
    Exponentials(Exponentials, usize),
}

/// A graph with a derivative of its own.
pub(crate) struct Custom {
    pub(crate) body: Graph,
    pub(crate) derivative: Derivative,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("body", &self.body).finish_non_exhaustive()
    }
}

/// A graph under a name.
#[derive(Clone, Debug)]
pub(crate) struct Composite {
    pub(crate) name: Rc<str>,
    pub(crate) attributes: Attrs,
    pub(crate) body: Graph,
}

/// A graph over one device's parts.
#[derive(Clone, Debug)]
pub(crate) struct Manual {
    pub(crate) body: Graph,
    pub(crate) rules: Rc<LogicalAxisRules>,
    pub(crate) inputs: Vec<PartitionSpec>,
    pub(crate) outputs: Vec<PartitionSpec>,
}

impl Manual {
    /// Types of the node's results: whole, as all devices have them together.
    pub(crate) fn results(&self) -> Vec<Spec> {
        let outputs = self.body.output_specs();
        outputs.iter().zip(&self.outputs).map(|(part, sharding)| whole(&self.rules.mesh, part, sharding)).collect()
    }
}

/// The type of a value of which each device has a part of this type.
fn whole(mesh: &Mesh, spec: &Spec, sharding: &PartitionSpec) -> Spec {
    let parts = |axes: &Option<Vec<Arc<str>>>| mesh.size_along(axes.iter().flatten().map(|name| &**name)).unwrap_or(1);
    let dims = spec.dims.iter().zip(&sharding.dims).map(|(&size, axes)| size * parts(axes));
    Spec::new(spec.dtype, dims.collect::<Vec<_>>())
}
