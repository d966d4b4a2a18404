//! The traced program: nodes in order over dense values, with loops and branches as nodes that own graphs.

mod remat_policy;
mod structure;

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use hlo::{Attr, Attrs, Dense, OpKind, TensorType};
use tensor::Literal;

use crate::Spec;
use crate::sharding::PartitionSpec;
use crate::tensor::Ref;

pub use remat_policy::RematPolicy;
pub use structure::Direction;
pub(crate) use structure::{Composite, Cond, Custom, Derivative, Exponentials, Manual, Remat, Scan, While};

/// How an op with a region combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combine {
    /// Sum.
    Add,
    /// Product.
    Multiply,
    /// Larger.
    Maximum,
    /// Smaller.
    Minimum,
    /// Both.
    And,
    /// Either.
    Or,
    /// The second.
    Replace,
    /// For `sort`: ascending by the first operand; the others go along.
    Ascending,
    /// For `sort`: descending by the first operand.
    Descending,
    /// For `reduce` of a value and its index: the larger value, at equal values the smaller index.
    ArgMaximum,
    /// As above, the smaller value.
    ArgMinimum,
}

/// A memory that a value of a program can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The device's own.
    Device,
    /// The host's, which the device reaches by itself.
    Host,
}

/// What a node computes.
#[derive(Clone, Debug)]
pub(crate) enum Prim {
    /// A StableHLO op; `combine` stands for its region.
    Op { kind: OpKind, attrs: Attrs, combine: Option<Combine> },
    /// A loop of known length.
    Scan(Rc<Scan>),
    /// A loop until a condition fails.
    While(Rc<While>),
    /// One of several graphs, by an index.
    Cond(Rc<Cond>),
    /// A graph whose values are rematerialized in the backward pass.
    Remat(Rc<Remat>),
    /// A graph with a derivative of its own.
    Custom(Rc<Custom>),
    /// The value itself, through which no derivative passes.
    Stop,
    /// The value itself, under a name that policies know.
    Named(Rc<str>),
    /// The value itself, in another memory.
    Moved(MemoryKind),
    /// The value itself, its axes in memory in the order they are written in.
    Ordered,
    /// The value itself, laid out so on the mesh.
    Shard(Rc<PartitionSpec>),
    /// A graph under a name.
    Composite(Rc<Composite>),
    /// A graph over the parts that one device has.
    Manual(Rc<Manual>),
}

impl Prim {
    /// A literal as a constant, with its type; else why it cannot be one.
    pub(crate) fn constant(literal: &Literal) -> Result<(Prim, Spec), String> {
        let spec = literal.spec();
        let dims: Vec<i64> = spec.dims.iter().map(|&size| size as i64).collect();
        let dense = Dense::from_elements(TensorType::new(dims, spec.dtype), literal.bytes().to_vec())
            .ok_or_else(|| format!("{} bytes are not {spec}", literal.bytes().len()))?;
        let mut attrs = Attrs::new();
        attrs.set("value", Attr::Dense(Arc::new(dense)));
        Ok((Prim::Op { kind: OpKind::Constant, attrs, combine: None }, spec))
    }
}

/// One step of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) prim: Prim,
    pub(crate) inputs: Vec<Ref>,
    /// First result; results are consecutive.
    pub(crate) first: Ref,
    pub(crate) num_results: u32,
    /// The user's line.
    pub(crate) at: &'static Location<'static>,
    /// Names of the scopes it was written in, outermost first, joined by `/`.
    pub(crate) scope: Rc<str>,
}

impl Node {
    pub(crate) fn results(&self) -> impl ExactSizeIterator<Item = Ref> + use<> {
        let first = self.first.0;
        (0..self.num_results).map(move |n| Ref(first + n))
    }
}

/// A traced function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) inputs: Vec<Ref>,
    pub(crate) specs: Vec<Spec>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Ref>,
}

impl Graph {
    pub(crate) fn spec(&self, value: Ref) -> &Spec {
        &self.specs[value.0 as usize]
    }

    /// A new value.
    pub(crate) fn value(&mut self, spec: Spec) -> Ref {
        self.specs.push(spec);
        Ref(self.specs.len() as u32 - 1)
    }

    /// A new input.
    pub(crate) fn input(&mut self, spec: Spec) -> Ref {
        let value = self.value(spec);
        self.inputs.push(value);
        value
    }

    /// Types of the outputs.
    pub(crate) fn output_specs(&self) -> Vec<Spec> {
        self.outputs.iter().map(|&value| self.spec(value).clone()).collect()
    }

    /// Drops the nodes whose results nobody reads. Effects do not exist in traced programs.
    pub(crate) fn prune(&mut self) {
        let mut is_read = vec![false; self.specs.len()];
        for output in &self.outputs {
            is_read[output.0 as usize] = true;
        }
        let mut kept = Vec::with_capacity(self.nodes.len());
        for node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.results().any(|result| is_read[result.0 as usize]) {
                for input in &node.inputs {
                    is_read[input.0 as usize] = true;
                }
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
    }

    /// For each value, whether it depends on an input marked so.
    pub(crate) fn reached_from(&self, marked: &[bool]) -> Vec<bool> {
        let mut reached = vec![false; self.specs.len()];
        for (&input, &mark) in self.inputs.iter().zip(marked) {
            reached[input.0 as usize] = mark;
        }
        for node in &self.nodes {
            if node.inputs.iter().any(|input| reached[input.0 as usize]) {
                for result in node.results() {
                    reached[result.0 as usize] = true;
                }
            }
        }
        reached
    }
}
