//! A model as a function of traced tensors: nodes in order, values by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use tensor::Spec;
use trace::{Donate, Function, Tensor, Tree};

use crate::call::{Attributes, Call};
use crate::error::Error;
use crate::fold::folded;
use crate::model::{OnnxModel, is_parameter};
use crate::ops;
use crate::proto::{GraphProto, NodeProto};

/// Tensors that a model is given.
#[derive(Clone, Debug, Tree)]
pub struct ModelInputs {
    /// Weights, by name.
    pub params: BTreeMap<String, Tensor>,
    /// The inputs, by name.
    pub inputs: BTreeMap<String, Tensor>,
}

/// What a model gives.
#[derive(Clone, Debug, Tree)]
pub struct ModelOutputs {
    /// The results, in order.
    pub outputs: Vec<Tensor>,
}

/// Nesting of graphs in nodes at most.
const DEPTH: usize = 16;

impl OnnxModel {
    /// Types and shapes of everything the model is given, for inputs of these shapes ([`OnnxModel::shapes`]).
    pub fn specs(&self, shapes: &BTreeMap<String, Vec<usize>>) -> Result<ModelInputs, Error> {
        let mut all = ModelInputs { params: BTreeMap::new(), inputs: BTreeMap::new() };
        for tensor in self.graph.initializer.iter().filter(|tensor| is_parameter(tensor)) {
            let (dtype, dims) = crate::data::shape(tensor)?;
            all.params.insert(tensor.name.clone(), Tensor::of(Spec::new(dtype, dims)));
        }
        for input in &self.inputs {
            let dims = shapes.get(&input.name);
            let dims =
                dims.ok_or_else(|| Error::new(format!("input `{}` has no shape", input.name), "give its shape"))?;
            if dims.iter().try_fold(input.dtype.size_bytes(), |bytes, dim| bytes.checked_mul(*dim)).is_none() {
                return Err(Error::damaged(format!("input `{}` of sizes {dims:?} is too large", input.name)));
            }
            all.inputs.insert(input.name.clone(), Tensor::of(Spec::new(input.dtype, dims.clone())));
        }
        Ok(all)
    }

    /// Runs the model over traced tensors. Call it inside [`trace::trace`] or a jitted function.
    pub fn apply(&self, given: &ModelInputs) -> Result<ModelOutputs, Error> {
        let mut values: BTreeMap<&str, Tensor> = BTreeMap::new();
        for tensor in &self.graph.initializer {
            let value = match given.params.get(&tensor.name) {
                Some(value) => value.clone(),
                None => Tensor::on_host(Arc::new(self.literal(tensor)?)),
            };
            values.insert(&tensor.name, value);
        }
        for (name, value) in &self.constants {
            values.insert(name, Tensor::on_host(Arc::clone(value)));
        }
        for input in &self.inputs {
            let value = given.inputs.get(&input.name);
            let value = value.ok_or_else(|| Error::damaged(format!("input `{}` has no value", input.name)))?;
            values.insert(&input.name, value.clone());
        }
        let outputs = Scope { model: self, depth: 0 }.run(&self.graph, values)?;
        Ok(ModelOutputs { outputs })
    }

    /// The model as StableHLO, for inputs of these shapes.
    pub fn trace(&self, name: &str, shapes: &BTreeMap<String, Vec<usize>>) -> Result<(Function, ModelOutputs), Error> {
        let specs = self.specs(shapes)?;
        let mut failed = None;
        let traced = trace::trace(name, &specs, Donate::Nothing, |given| match self.apply(given) {
            Ok(outputs) => outputs,
            Err(error) => {
                failed = Some(error);
                ModelOutputs { outputs: Vec::new() }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(traced?),
        }
    }

    /// Ops that have no translation, by name.
    pub fn missing_ops(&self) -> Vec<String> {
        let mut missing = Vec::new();
        ops::missing(&self.graph, DEPTH, &mut missing);
        missing
    }
}

/// Graphs of a model, and how deep this one lies.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'m> {
    pub(crate) model: &'m OnnxModel,
    depth: usize,
}

impl<'m> Scope<'m> {
    /// Runs a graph; values are those of its inputs, its initializers, and of graphs around it.
    fn run(self, graph: &'m GraphProto, mut values: BTreeMap<&'m str, Tensor>) -> Result<Vec<Tensor>, Error> {
        for node in &graph.node {
            let results = self.node(node, &values).map_err(|error| error.at(place(node)))?;
            for (name, value) in node.output.iter().zip(results) {
                if !name.is_empty() {
                    values.insert(name, value);
                }
            }
        }
        let output =
            |name: &str| values.get(name).cloned().ok_or_else(|| Error::damaged(format!("`{name}` has no value")));
        graph.output.iter().map(|info| output(&info.name)).collect()
    }

    fn node(self, node: &'m NodeProto, values: &BTreeMap<&'m str, Tensor>) -> Result<Vec<Tensor>, Error> {
        let value = |name: &String| match name.is_empty() {
            true => Ok(None),
            false => values
                .get(name.as_str())
                .cloned()
                .map(Some)
                .ok_or_else(|| Error::damaged(format!("`{name}` has no value"))),
        };
        let inputs = node.input.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let call = Call {
            op: &node.op_type,
            inputs,
            attributes: Attributes { list: &node.attribute, model: self.model },
            opset: self.model.opset,
            num_outputs: node.output.len(),
        };
        if node.op_type == "If" && ops::is_standard(&node.domain) {
            return self.branch(&call, values);
        }
        let rule = ops::find(node).ok_or_else(|| ops::no_rule(self.model, node))?;
        folded(rule, &call)
    }

    /// One of two graphs. A condition that is known chooses while translating.
    fn branch(self, call: &Call<'m>, values: &BTreeMap<&'m str, Tensor>) -> Result<Vec<Tensor>, Error> {
        if self.depth >= DEPTH {
            return Err(Error::damaged("graphs lie too deep in each other"));
        }
        let inner = Scope { depth: self.depth + 1, ..self };
        let (on_true, on_false) = (call.attributes.graph("then_branch")?, call.attributes.graph("else_branch")?);
        let run = |graph: &'m GraphProto| {
            let mut values = values.clone();
            for tensor in &graph.initializer {
                values.insert(&tensor.name, Tensor::on_host(Arc::new(self.model.literal(tensor)?)));
            }
            inner.run(graph, values)
        };
        let condition = call.input(0)?;
        if let Some(known) = condition.host_value().and_then(|literal| crate::data::integers(literal)) {
            return run(if known.first().is_some_and(|value| *value != 0) { on_true } else { on_false });
        }
        let mut failed = None;
        let mut both = Vec::new();
        // Whichever fails, both must give the same number of results for the trace to go on.
        for graph in [on_true, on_false] {
            both.push(trace::shapes_of(&Vec::<Tensor>::new(), |_| {
                run(graph).unwrap_or_else(|error| {
                    failed = Some(error);
                    Vec::new()
                })
            })?);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let specs = |tensors: &Vec<Tensor>| tensors.iter().map(|tensor| tensor.spec().clone()).collect::<Vec<_>>();
        if specs(&both[0]) != specs(&both[1]) {
            return Err(Error::unsupported("a branch whose results have other shapes than those of the other branch"));
        }
        let empty = Vec::<Tensor>::new();
        let chosen = condition.reshape(&[]);
        Ok(trace::cond(&chosen, &empty, |_| run(on_true).unwrap_or_default(), |_| run(on_false).unwrap_or_default()))
    }
}

/// A node, for errors.
pub(crate) fn place(node: &NodeProto) -> String {
    let name = if node.name.is_empty() { node.output.first().map_or("", String::as_str) } else { &node.name };
    format!("{} `{name}`", node.op_type)
}
