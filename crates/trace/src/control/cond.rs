//! `cond` and `switch`: one of several functions, chosen by a computed value.

use std::panic::Location;
use std::rc::Rc;

use tensor::DType;

use crate::control::same_leaves;
use crate::error::misuse;
use crate::graph::{Cond, Graph, Prim};
use crate::stack::{self, Closed};
use crate::tensor::{Ref, Tensor};
use crate::tree::Tree;

/// One of the functions [`switch`] chooses from.
pub type Branch<'a, I, O> = Box<dyn FnOnce(&I) -> O + 'a>;

/// Runs `on_true` or `on_false`; only the chosen one runs.
#[track_caller]
pub fn cond<I: Tree, O: Tree>(
    predicate: &Tensor,
    inputs: &I,
    on_true: impl FnOnce(&I) -> O,
    on_false: impl FnOnce(&I) -> O,
) -> O {
    if predicate.dtype() != DType::Bool || predicate.rank() != 0 {
        misuse(Location::caller(), format!("a condition is a boolean scalar, not {}", predicate.spec()));
    }
    let (on_false, on_true) = (Box::new(on_false), Box::new(on_true));
    let branches: Vec<Branch<'_, I, O>> = vec![on_false, on_true];
    choose(&predicate.cast(DType::I32), inputs, branches)
}

/// Runs the branch a computed `i32` names; a number outside runs the last.
#[track_caller]
pub fn switch<I: Tree, O: Tree>(index: &Tensor, inputs: &I, branches: Vec<Branch<'_, I, O>>) -> O {
    if index.dtype() != DType::I32 || index.rank() != 0 {
        misuse(Location::caller(), format!("a branch is chosen by an i32 scalar, not {}", index.spec()));
    }
    choose(index, inputs, branches)
}

#[track_caller]
fn choose<I: Tree, O: Tree>(index: &Tensor, inputs: &I, branches: Vec<Branch<'_, I, O>>) -> O {
    let at = Location::caller();
    let mut result: Option<O> = None;
    let specs = inputs.specs();
    let mut closed: Vec<Closed> = Vec::new();
    for branch in branches {
        closed.push(stack::closed(&specs, |args| {
            let output = branch(&inputs.with_leaves(args));
            let leaves = output.leaves();
            match &result {
                Some(first) => same_leaves(at, "the result of a branch", first, &output),
                None => result = Some(output.shapes()),
            }
            leaves
        }));
    }
    let Some(result) = result else { misuse(at, "switch over no branches") };
    let (tensors, branches) = united(inputs.leaves(), closed);
    let outputs = push(Cond { branches }, index, &tensors, at);
    result.with_leaves(outputs)
}

/// Branches that all take the inputs and everything one of them captured.
pub(crate) fn united(mut tensors: Vec<Tensor>, closed: Vec<Closed>) -> (Vec<Tensor>, Vec<Graph>) {
    let explicit = tensors.len();
    let total: usize = closed.iter().map(|branch| branch.captured.len()).sum();
    let mut graphs = Vec::new();
    let mut first = explicit;
    for mut branch in closed {
        let captured = branch.graph.inputs.split_off(explicit);
        let own = first..first + captured.len();
        let mut captured = captured.into_iter();
        let all: Vec<Tensor> = branch.captured;
        // Inputs of the other branches are taken and not read.
        for n in explicit..explicit + total {
            let input = if own.contains(&n) { captured.next() } else { None };
            branch.graph.inputs.push(input.unwrap_or(Ref(u32::MAX)));
        }
        first = own.end;
        tensors.extend(all);
        graphs.push(branch.graph);
    }
    for graph in &mut graphs {
        for (n, tensor) in tensors.iter().enumerate().skip(explicit) {
            if graph.inputs[n].0 == u32::MAX {
                graph.inputs[n] = graph.value(tensor.spec().clone());
            }
        }
    }
    (tensors, graphs)
}

/// Writes the choice; the node's inputs are the index, then those of the branches.
pub(crate) fn push(cond: Cond, index: &Tensor, tensors: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let specs = cond.branches.first().map(Graph::output_specs).unwrap_or_default();
    let inputs: Vec<&Tensor> = std::iter::once(index).chain(tensors).collect();
    stack::push(Prim::Cond(Rc::new(cond)), &inputs, specs, at)
}
