//! The program of an archive: graph, signature, sizes.

mod expression;
mod json;

use std::collections::BTreeMap;

pub use expression::SymExpr;
pub(crate) use expression::apply;
use tensor::DType;

pub(crate) use json::{program, size, tensor_meta};

/// An exported program.
#[derive(Clone, Debug)]
pub struct ExportedProgram {
    /// What it computes.
    pub graph: Graph,
    /// What its inputs are, in the order of the graph's.
    pub inputs: Vec<InputRole>,
    /// What its outputs are, in the order of the graph's.
    pub outputs: Vec<OutputRole>,
    /// Bounds of symbols: least and most.
    pub ranges: BTreeMap<String, (Option<i64>, Option<i64>)>,
    /// Values that symbols had in the example that was exported.
    pub examples: BTreeMap<String, i64>,
    /// The PyTorch that wrote it, where it says so.
    pub torch_version: String,
    /// Buffers that are no part of the `state_dict`.
    pub non_persistent: std::collections::BTreeSet<String>,
    /// What the user's results are called in Python, such as `logits`; those of a tuple have numbers.
    pub result_names: Vec<String>,
}

impl ExportedProgram {
    /// Whether a buffer is part of the `state_dict`.
    pub fn is_persistent(&self, buffer: &str) -> bool {
        !self.non_persistent.contains(buffer)
    }
}

/// What an input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// A parameter, by its name in the module.
    Parameter(String),
    /// A buffer.
    Buffer(String),
    /// A tensor that is part of the program.
    Constant(String),
    /// An argument of the user's.
    User,
    /// Something without a value: an argument that was baked in, a token.
    Nothing,
}

/// What an output is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputRole {
    /// A result for the user.
    User,
    /// The new value of a buffer or parameter.
    Mutation(String),
    /// The new value of an argument, by the input's name.
    UserMutation(String),
    /// The loss.
    Loss,
    /// A token.
    Nothing,
}

/// Nodes in order, and what is known of their values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Names of the inputs, in order.
    pub inputs: Vec<NodeArgument>,
    /// Results.
    pub outputs: Vec<NodeArgument>,
    /// Ops in order.
    pub nodes: Vec<Node>,
    /// Type and shape of each tensor.
    pub tensors: BTreeMap<String, TensorMeta>,
    /// Whether the one result is not in a tuple.
    pub is_single: bool,
}

/// An op.
#[derive(Clone, Debug)]
pub struct Node {
    /// Such as `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// Arguments by name; those of higher-order ops have none.
    pub inputs: Vec<(String, NodeArgument)>,
    /// Results.
    pub outputs: Vec<NodeArgument>,
    /// Its line in the Python source.
    pub line: String,
    /// The module it belongs to, such as `layers.0.attention`.
    pub scope: String,
}

/// Type, shape and place in memory of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMeta {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Vec<SymExpr>,
    /// Distance of neighbours on each axis, in elements.
    pub strides: Vec<SymExpr>,
    /// Whether PyTorch would compute its gradient; parameters that are frozen are without.
    pub requires_grad: bool,
}

/// A number that may be computed from sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymInt {
    /// A number.
    Value(i64),
    /// A result of a node.
    Name(String),
}

/// An argument or result.
#[derive(Clone, Debug)]
pub enum NodeArgument {
    /// Nothing.
    None,
    /// A tensor by name.
    Tensor(String),
    /// Tensors by name, some of them absent.
    Tensors(Vec<Option<String>>),
    /// An integer.
    Int(SymInt),
    /// Integers.
    Ints(Vec<SymInt>),
    /// A float.
    Float(f64),
    /// Floats.
    Floats(Vec<f64>),
    /// A boolean.
    Bool(bool),
    /// Booleans.
    Bools(Vec<bool>),
    /// A boolean or float computed from sizes, by name.
    Named(String),
    /// Text.
    Text(String),
    /// An element type.
    Type(DType),
    /// A layout, device or memory format: where data lies, not what it is.
    Placement,
    /// A function.
    Graph(String, Box<Graph>),
    /// Something that has no translation, by its tag.
    Other(String),
}
