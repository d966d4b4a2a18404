//! Writes the nodes of a graph into the function being traced, with other inputs.

use crate::Spec;
use crate::graph::{Graph, Node};
use crate::stack;
use crate::tensor::{Ref, Tensor};

/// The same node with other inputs of the same types.
pub(crate) fn again(graph: &Graph, node: &Node, ins: &[Tensor]) -> Vec<Tensor> {
    let specs: Vec<Spec> = node.results().map(|result| graph.spec(result).clone()).collect();
    stack::on_behalf_of(node, || stack::push(node.prim.clone(), &ins.iter().collect::<Vec<_>>(), specs, node.at))
}

/// Runs a graph; gives its outputs.
pub(crate) fn replay(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    replay_with(graph, inputs, &mut |_, _| {})
}

/// Runs a graph and shows every node with its results.
pub(crate) fn replay_with(graph: &Graph, inputs: &[Tensor], seen: &mut dyn FnMut(&Node, &[Tensor])) -> Vec<Tensor> {
    let mut values = Values::new(graph, inputs);
    for node in &graph.nodes {
        let results = again(graph, node, &values.inputs_of(node));
        seen(node, &results);
        values.set(node, results);
    }
    values.outputs(graph)
}

/// Tensors of a graph's values, as far as they are known.
pub(crate) struct Values(Vec<Option<Tensor>>);

impl Values {
    pub(crate) fn new(graph: &Graph, inputs: &[Tensor]) -> Values {
        let mut values = vec![None; graph.specs.len()];
        for (&input, tensor) in graph.inputs.iter().zip(inputs) {
            values[input.0 as usize] = Some(tensor.clone());
        }
        Values(values)
    }

    pub(crate) fn get(&self, value: Ref) -> Tensor {
        match &self.0[value.0 as usize] {
            Some(tensor) => tensor.clone(),
            None => unreachable!("nodes come after what they read"),
        }
    }

    pub(crate) fn inputs_of(&self, node: &Node) -> Vec<Tensor> {
        node.inputs.iter().map(|&input| self.get(input)).collect()
    }

    pub(crate) fn set(&mut self, node: &Node, results: Vec<Tensor>) {
        for (value, tensor) in node.results().zip(results) {
            self.0[value.0 as usize] = Some(tensor);
        }
    }

    pub(crate) fn outputs(&self, graph: &Graph) -> Vec<Tensor> {
        graph.outputs.iter().map(|&output| self.get(output)).collect()
    }
}
